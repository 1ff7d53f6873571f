"""How long one client waits on the Unix socket, alone and beside heavy requests: python3 bench/serve_latency.py DAEMON [SECONDS].

What a scheduler asks while it holds its locks: an estimate and a fit that were answered before, an estimate that has to be computed (another batch
each time), a report of a job, each over one connection that is kept. Heavy: eight clients that ask over TCP for explanations and searches that nobody
has asked before. Figures are milliseconds; the load average stands beside them, since the machine may be shared.
"""
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DAEMON = os.path.abspath(sys.argv[1])
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 5
HEAVY = {"model_type": "gpt2", "n_layer": 36, "n_embd": 1280, "n_head": 20}


class Unix:
    """One kept connection."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)

    def ask(self, path, body):
        data = json.dumps(body).encode()
        self.socket.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(data), data))
        got = b""
        while b"\r\n\r\n" not in got:
            got += self.socket.recv(65536)
        head, rest = got.split(b"\r\n\r\n", 1)
        left = int(re.search(rb"Content-Length: (\d+)", head).group(1)) - len(rest)
        while left > 0:
            left -= len(self.socket.recv(65536))
        assert head[9:12] in (b"200", b"201"), head


def shares(waits):
    waits.sort()
    return "p50 %.2f, p99 %.2f, max %.1f (%d)" % (waits[len(waits) // 2] * 1e3, waits[len(waits) * 99 // 100] * 1e3, waits[-1] * 1e3, len(waits))


def measure(path, digest, title, count):
    client = Unix(path)
    questions = {
        "estimate, known": lambda: ("/v1/estimate", {"model": digest, "batch": 8, "gpu": "a100-40gb"}),
        "fit, known": lambda: ("/v1/fit", {"model": digest, "gpu": "t4"}),
        "estimate, computed": lambda: ("/v1/estimate", {"model": digest, "batch": 1 + count % 97, "gpu": "a100-40gb", "copy_gbps": 1 + count / 1e6 % 900}),
        "report": lambda: ("/v1/jobs", {"job": "j%d" % count, "state": "submitted"}),
    }
    for name, question in questions.items():
        waits, end = [], time.monotonic() + SECONDS
        client.ask(*question())
        while time.monotonic() < end:
            count += 1
            begin = time.perf_counter()
            client.ask(*question())
            waits.append(time.perf_counter() - begin)
            time.sleep(0.002)
        print("%-8s %-20s %s  [load %.1f]" % (title, name, shares(waits), os.getloadavg()[0]), flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "s")
        daemon = subprocess.Popen([DAEMON, "--listen", "127.0.0.1:0", "--log", "off", "--socket", path, "--data", os.path.join(folder, "d")],
                                  stderr=subprocess.PIPE, text=True)
        port, line = 0, ""
        while "listening on /" not in line:
            line = daemon.stderr.readline()
            found = re.search(r"port (\d+)", line)
            port = int(found.group(1)) if found else port
        connection = http.client.HTTPConnection("127.0.0.1", port)
        with open(os.path.join(ROOT, "examples", "gpt2.pt2"), "rb") as file:
            connection.request("POST", "/v1/models", file.read())
        digest = json.loads(connection.getresponse().read())["model"]
        measure(path, digest, "alone", 0)
        stop, done = threading.Event(), []

        def heavy(who):
            own, i = http.client.HTTPConnection("127.0.0.1", port, timeout=120), 0
            while not stop.is_set():
                i += 1
                what = ("/v1/explain", "/v1/fit")[i % 2]
                asked = {"model": HEAVY, "batch": 1 + (who * 1000 + i) % 4000, "gpu": "t4", "copy_gbps": 1 + i / 1e3 + who}
                own.request("POST", what, json.dumps(asked))
                own.getresponse().read()
                done.append(what)

        threads = [threading.Thread(target=heavy, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        measure(path, digest, "beside", 1000000)
        stop.set()
        for thread in threads:
            thread.join()
        print("heavy requests answered meanwhile: %d" % len(done))
        daemon.terminate()
        daemon.wait()


main()
