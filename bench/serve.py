"""The daemon under load: python3 bench/serve.py BUILD [SECONDS]. Needs wrk (Debian: wrk) and a C compiler. 127.0.0.1 alone.

In one run, on the same cores: what the library does in a loop (GPT-2's graph, another batch each time, a thread a core), the daemon asked the
same, the daemon asked what it has answered before, the tail of both at half of their load, and the tail of others before and while 10,000
connections are idle and some send a byte a second. On a machine that others use too a rate says little: beside it stands the processor time
of a request, of the daemon and of wrk together, which is what a rate on idle cores comes from, and the load average.
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
    printf("%ld\n", sum); pl_model_close(&model); return 0;
}
"""


def spent(pid):
    """Processor seconds of a process that runs."""
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(command):
    """(what it printed, its processor seconds)"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return text, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Daemon:
    def __init__(self, *options):
        self.process = subprocess.Popen([os.path.join(BUILD, "plimsoll-serve"), "--listen", "127.0.0.1:0", "--log", "off", *options],
                                        stderr=subprocess.PIPE, text=True)
        found = None
        while not found:
            found = re.search(r"port (\d+)", self.process.stderr.readline())
        self.port = int(found.group(1))
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        with open(GPT2, "rb") as file:
            connection.request("POST", "/v1/models", file.read())
        self.digest = json.loads(connection.getresponse().read())["model"]

    def close(self):
        self.process.terminate()
        self.process.wait()

    def wrk(self, script, connections, rate=None, seconds=SECONDS):
        """Requests a second, p99 in ms, errors, microseconds of processor a request. rate: at most so many."""
        if rate:
            # Of any length up to twice the mean, or all connections would ask at the same moment, again and again.
            script += "\nfunction delay() return math.random(0, %d) end" % max(1, round(2 * connections * 1000 / rate))
        with tempfile.NamedTemporaryFile("w", suffix=".lua", delete=False) as file:
            file.write(script)
        before = spent(self.process.pid)
        text, own = timed(["wrk", "-t1", "-c%d" % connections, "-d%ds" % seconds, "--latency", "-s", file.name, "http://127.0.0.1:%d" % self.port])
        used = spent(self.process.pid) - before + own
        os.unlink(file.name)
        unit = {"us": 1e-3, "ms": 1, "s": 1e3}
        tail = re.search(r"99%\s+([\d.]+)(us|ms|s)", text)
        bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
        failed = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
        errors = (int(bad.group(1)) if bad else 0) + (sum(int(x) for x in failed.groups()) if failed else 0)
        count = int(re.search(r"(\d+) requests in", text).group(1))
        return float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1)), float(tail.group(1)) * unit[tail.group(2)], errors, 1e6 * used / max(count, 1)


def say(what, rate, tail, errors, each, more=""):
    print("%-34s %8.0f a second, p99 %6.2f ms, %d errors, %.0f us of processor each%s  [load %.1f]" % (what, rate, tail, errors, each, more, os.getloadavg()[0]),
          flush=True)


def windows(what, rows):
    """Of windows of a second: the quietest and the middle one, since others' work on the machine is in all of them."""
    rows.sort(key=lambda row: row[1])
    rate, middle, errors = sum(r[0] for r in rows) / len(rows), rows[len(rows) // 2][1], sum(r[2] for r in rows)
    print("%-34s %8.0f a second, p99 of %d windows of a second: least %.2f ms, middle %.2f ms, %d errors, %.0f us of processor each  [load %.1f]"
          % (what, rate, len(rows), rows[0][1], middle, errors, sum(r[3] for r in rows) / len(rows), os.getloadavg()[0]), flush=True)


def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "loop.c"), os.path.join(folder, "loop")
        with open(source, "w") as file:
            file.write(LOOP)
        subprocess.run(["cc", "-O2", "-I" + os.path.join(ROOT, "include"), source, "-o", program, os.path.join(BUILD, "libplimsoll.so"),
                        "-Wl,-rpath," + BUILD, "-lpthread"], check=True)
        d = Daemon("--answer-bytes", "0")
        each = """n = 0
request = function() n = n + 7
  return wrk.format("POST", "/v1/estimate", nil, '{"model":"%s","gpu":"a100-40gb","batch":' .. (1 + n %% 64) .. '}') end""" % d.digest
        for _ in range(3):  # side by side, since the machine changes meanwhile
            text, used = timed([program, GPT2, str(CORES), str(SECONDS)])
            library, cost = int(text) / SECONDS, 1e6 * used / int(text)
            print("%-34s %8.0f a second, %.0f us of processor each  [load %.1f]" % ("library, %d threads" % CORES, library, cost, os.getloadavg()[0]), flush=True)
            rate, tail, errors, own = d.wrk(each, 32)
            say("daemon, computed each time", rate, tail, errors, own, ", %.0f %% of the library's rate, %.0f %% by processor" % (100 * rate / library, 100 * cost / own))
        windows("computed, at half that load", [d.wrk(each, 32, rate / 2, 1) for _ in range(12)])
        d.close()
        d = Daemon()
        same = 'wrk.method = "POST"\nwrk.path = "/v1/estimate"\nwrk.body = \'{"model":"%s","gpu":"a100-40gb","batch":8}\'' % d.digest
        rate, tail, errors, own = d.wrk(same, 64)
        say("daemon, answered before", rate, tail, errors, own)
        windows("answered before, at half that load", [d.wrk(same, 64, rate / 2, 1) for _ in range(12)])
        # what others notice: the same load by turns without and with them
        without, beside, crowd = [], [], b"POST /v1/estimate HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n"
        for _ in range(8):
            without.append(d.wrk(same, 64, rate / 4, 1))
            idle = [socket.create_connection(("127.0.0.1", d.port)) for _ in range(10000)]
            slow = [socket.create_connection(("127.0.0.1", d.port)) for _ in range(50)]
            for s in slow:
                s.sendall(crowd)
            stop = threading.Event()

            def trickle(slow=slow, stop=stop):
                while not stop.wait(0.2):
                    for s in slow:
                        s.sendall(b" ")

            thread = threading.Thread(target=trickle)
            thread.start()
            beside.append(d.wrk(same, 64, rate / 4, 1))
            stop.set()
            thread.join()
            for s in idle + slow:
                s.close()
        windows("others, alone", without)
        windows("others, beside 10,000 idle, 50 slow", beside)
        d.close()


main()
