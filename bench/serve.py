"""The daemon under load: python3 bench/serve.py BUILD [SECONDS]. Needs wrk (Debian: wrk) and a C compiler.

In one run, on the same cores: what the library does in a loop (GPT-2's graph, another batch each time, a thread a core), the daemon asked the
same, the daemon asked what it has answered before, its tail at half of that load, and others' tail while 10,000 connections are idle and some
send a byte a second. Figures are per second and milliseconds.
"""
import http.client
import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(sys.argv[1])
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
CORES = os.cpu_count() or 1
GPT2 = os.path.join(ROOT, "examples", "gpt2.pt2")

LOOP = r"""
#include <plimsoll/plimsoll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static pl_model *model;
static double seconds;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }
static void *loop(void *given) {
    long done = 0;
    for (double end = now() + seconds; now() < end; done++) {
        pl_job job; pl_job_default(&job); job.batch = 1 + (done * 7 + (long)given) % 64; job.gpu = "a100-40gb";
        pl_report *r = NULL;
        if (pl_estimate(&r, model, &job, NULL) != PL_OK) exit(1);
        pl_report_json(r, model); pl_report_close(&r);
    }
    return (void *)done;
}
int main(int argc, char **argv) {
    int threads = atoi(argv[2]); seconds = atof(argv[3]); pthread_t t[256]; long sum = 0; (void)argc;
    if (pl_model_open(&model, argv[1], NULL, NULL) != PL_OK) return 1;
    for (long i = 0; i < threads; i++) pthread_create(&t[i], NULL, loop, (void *)i);
    for (int i = 0; i < threads; i++) { void *n; pthread_join(t[i], &n); sum += (long)n; }
    printf("%.0f\n", (double)sum / seconds); pl_model_close(&model); return 0;
}
"""


def wrk(port, script, connections, seconds, rate=None):
    """(requests a second, p99 in ms, errors)"""
    with tempfile.NamedTemporaryFile("w", suffix=".lua", delete=False) as file:
        file.write(script)
    done = subprocess.run(["wrk", "-t1", "-c%d" % connections, "-d%ds" % seconds, "--latency", "-s", file.name, "http://127.0.0.1:%d" % port],
                          capture_output=True, text=True)
    os.unlink(file.name)
    unit = {"us": 1e-3, "ms": 1, "s": 1e3}
    tail = re.search(r"99%\s+([\d.]+)(us|ms|s)", done.stdout)
    errors = re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", done.stdout).group(1))
    return rate, float(tail.group(1)) * unit[tail.group(2)], int(errors.group(1)) if errors else 0


def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "loop.c")
        with open(source, "w") as file:
            file.write(LOOP)
        program = os.path.join(folder, "loop")
        subprocess.run(["cc", "-O2", "-I" + os.path.join(ROOT, "include"), source, "-o", program, os.path.join(BUILD, "libplimsoll.so"),
                        "-Wl,-rpath," + BUILD, "-lpthread"], check=True)
        library = float(subprocess.run([program, GPT2, str(CORES), str(SECONDS)], capture_output=True, text=True, check=True).stdout)
        print("library, %d threads: %.0f estimates a second" % (CORES, library), flush=True)
        daemon = subprocess.Popen([os.path.join(BUILD, "plimsoll-serve"), "--listen", "127.0.0.1:0", "--log", "off", "--answer-bytes", "0"],
                                  stderr=subprocess.PIPE, text=True)
        port = int(re.search(r"port (\d+)", daemon.stderr.readline()).group(1))

        def post(to):
            connection = http.client.HTTPConnection("127.0.0.1", to)
            with open(GPT2, "rb") as file:
                connection.request("POST", "/v1/models", file.read())
            return json.loads(connection.getresponse().read())["model"]

        digest = post(port)
        each = """n = 0
request = function() n = n + 7
  return wrk.format("POST", "/v1/estimate", nil, '{"model":"%s","gpu":"a100-40gb","batch":' .. (1 + n %% 64) .. '}') end""" % digest
        rate, tail, errors = wrk(port, each, 32, SECONDS)
        print("daemon, computed each time: %.0f a second (%.0f %% of the library's), p99 %.1f ms, %d errors"
              % (rate, 100 * rate / library, tail, errors), flush=True)
        daemon.terminate()
        daemon.wait()
        daemon = subprocess.Popen([os.path.join(BUILD, "plimsoll-serve"), "--listen", "127.0.0.1:0", "--log", "off", "--connections", "20000"],
                                  stderr=subprocess.PIPE, text=True)
        port = int(re.search(r"port (\d+)", daemon.stderr.readline()).group(1))
        digest = post(port)
        same = 'wrk.method = "POST"\nwrk.path = "/v1/estimate"\nwrk.body = \'{"model":"%s","gpu":"a100-40gb","batch":8}\'' % digest
        rate, tail, errors = wrk(port, same, 64, SECONDS)
        print("daemon, answered before: %.0f a second, p99 %.1f ms, %d errors" % (rate, tail, errors), flush=True)
        _, tail, errors = wrk(port, same, 1, SECONDS)
        print("daemon, one connection: p99 %.2f ms, %d errors" % (tail, errors), flush=True)
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(10000)]
        stop = threading.Event()

        def trickle():
            slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
            for s in slow:
                s.sendall(b"POST /v1/estimate HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n")
            while not stop.is_set():
                for s in slow:
                    try:
                        s.sendall(b" ")
                    except OSError:
                        pass
                time.sleep(1)

        thread = threading.Thread(target=trickle)
        thread.start()
        rate, with_idle, errors = wrk(port, same, 64, SECONDS)
        print("the same beside 10,000 idle and 50 slow ones: %.0f a second, p99 %.1f ms, %d errors" % (rate, with_idle, errors))
        stop.set()
        thread.join()
        for s in idle:
            s.close()
        daemon.terminate()
        daemon.wait()


main()
