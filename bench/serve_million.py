"""A million requests, hostile ones among them: python3 bench/serve_million.py BUILD [COUNT]. 127.0.0.1 alone, two processes at a time.

Each answer is held against the command's for the same question; each report that was acknowledged is looked for in the history; the daemon's
resident memory is looked at after each tenth of the requests. An honest 503 of a machine that is too busy is no wrong answer, and is counted. Answers are kept in so little room that most
have to be computed anew now and then.
"""
import http.client
import json
import multiprocessing
import os
import random
import re
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(sys.argv[1])
COUNT = int(float(sys.argv[2])) if len(sys.argv) > 2 else 1000000
MODEL = os.path.join(ROOT, "examples", "resnet18.pt2")
PROCESSES, THREADS, BATCH = 2, 4, 50
ELAPSED = re.compile(rb'"elapsed_us":\d+')
LENGTH = re.compile(rb"Content-Length: (\d+)")


def post(path, body):
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


def get(path):
    return b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode()


def command(*arguments):
    return json.loads(subprocess.run([os.path.join(BUILD, "plimsoll"), *arguments, "--json"], capture_output=True, text=True, check=True).stdout)


def settled(report):
    return {k: v for k, v in report.items() if k != "elapsed_us"}


def ask(port, data):
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(data)
        got = b""
        while b"\r\n\r\n" not in got:
            got += s.recv(65536)
        head, body = got.split(b"\r\n\r\n", 1)
        while len(body) < int(LENGTH.search(head).group(1)):
            body += s.recv(65536)
        return int(head[9:12]), body


def questions(digest):
    """(request, the command's answer or None, whose part) of those that have one."""
    rows = []
    for batch in (1, 2, 3, 5, 8, 16, 32, 64, 100, 128):
        for gpu in ("h200", "a100-40gb", "t4"):
            for precision in ("fp32", "amp-bf16"):
                body = json.dumps({"model": digest, "batch": batch, "gpu": gpu, "precision": precision}).encode()
                rows.append((post("/v1/estimate", body), command("estimate", MODEL, "--batch", str(batch), "--gpu", gpu, "--precision", precision), None))
    rows.append((post("/v1/fit", json.dumps({"model": digest, "gpu": "t4"}).encode()), command("fit", MODEL, "--gpu", "t4"), "largest"))
    return rows


BAD = [(post("/v1/estimate", body), status) for body, status in (
    (b"", 400), (b"[]", 400), (b'{"model":', 400), (b'{"model":{"model_type":"gpt2"},"batch":1e999}', 400), (b'{"model":{"model_type":"nothing"}}', 422),
    (b'{"model":"sha256:' + b"0" * 64 + b'"}', 404), (b'{"model":' + b"[" * 3000, 400), (b'{"model":"\xff\xfe"}', 400), (b'{"btach":1}', 400))]
BAD += [(get("/nothing"), 404), (get("/v1/jobs?limit=-1"), 400), (post("/v1/jobs", b'{"job":"x"}'), 400), (post("/v1/models", b"\0" * 500), 422)]


def hostile(port, shuffled):
    """One that does not wait for an answer: it leaves."""
    s = socket.create_connection(("127.0.0.1", port))
    try:
        kind = shuffled.randrange(6)
        if kind == 0:
            s.sendall(os.urandom(300))
        elif kind == 1:
            s.sendall(b"POST /v1/estimate HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n{")
        elif kind == 2:  # gone with a reset while the answer comes
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.sendall(get("/v1/cards") * 20)
        elif kind == 3:
            s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 40000)
        elif kind == 4:
            s.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nzz\r\n" + get("/v1/cards"))
        else:
            s.sendall(post("/v1/explain", b'{"model":{"model_type":"gpt2","n_layer":4,"n_embd":128,"n_head":4},"batch":%d}' % shuffled.randrange(1, 10**6)))
    except OSError:
        pass
    s.close()


def work(port, seed, count, known, answered, out):
    shuffled = random.Random(seed)
    told = {"right": 0, "bad": 0, "busy": 0, "hostile": 0, "wrong": [], "lost": 0, "jobs": []}
    s, done = socket.create_connection(("127.0.0.1", port)), 0
    s.settimeout(120)
    while done < count:
        batch = []
        for _ in range(BATCH):
            r = shuffled.random()
            if r < 0.93:
                batch.append(shuffled.choice(known))
            elif r < 0.97:
                batch.append((*shuffled.choice(BAD), None))
            else:
                name = "job-%s-%d-%d" % (seed, done, len(batch))
                batch.append((post("/v1/jobs", b'{"job":"%s","state":"submitted","predicted_bytes":5}' % name.encode()), 201, name))
        s.sendall(b"".join(row[0] for row in batch))
        got, at = bytearray(), 0
        for row in batch:
            try:
                while (end := got.find(b"\r\n\r\n", at)) < 0:
                    got += s.recv(1 << 18) or 1 / 0
                length, status = int(LENGTH.search(got, at, end).group(1)), int(got[at + 9:at + 12])
                while len(got) < end + 4 + length:
                    got += s.recv(1 << 18) or 1 / 0
            except (OSError, ZeroDivisionError):
                told["lost"] += 1
                break
            body, at = bytes(got[end + 4:end + 4 + length]), end + 4 + length
            if status == 503:
                told["busy"] += 1
                continue
            if isinstance(row[1], bytes):
                good = status == 200 and ELAPSED.sub(b"", body) == row[1]
                told["right"] += good
            else:
                good = status == row[1]
                told["bad"] += row[2] is None and good
                if good and row[2]:
                    told["jobs"].append(row[2])
            if not good and len(told["wrong"]) < 5:
                told["wrong"].append((row[0][-200:], status, body[:300]))
        done += len(batch)
        with answered.get_lock():
            answered.value += len(batch)
        hostile(port, shuffled)
        told["hostile"] += 1
    s.close()
    out.append(told)


def process(port, which, count, known, answered, queue):
    out = []
    threads = [threading.Thread(target=work, args=(port, "%d%d" % (which, t), count // THREADS, known, answered, out)) for t in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.put(out)


def resident(pid):
    with open("/proc/%d/status" % pid) as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) / 1024


def main():
    with tempfile.TemporaryDirectory() as folder:
        daemon = subprocess.Popen([os.path.join(BUILD, "plimsoll-serve"), "--listen", "127.0.0.1:0", "--log", "off", "--data", folder, "--answer-bytes", "100KiB"],
                                  stderr=subprocess.PIPE, text=True)
        found = None
        while not found:
            found = re.search(r"port (\d+)", daemon.stderr.readline())
        port = int(found.group(1))
        connection = http.client.HTTPConnection("127.0.0.1", port)
        with open(MODEL, "rb") as file:
            connection.request("POST", "/v1/models?name=resnet18.pt2", file.read())
        known = []
        for request, want, part in questions(json.loads(connection.getresponse().read())["model"]):
            status, body = ask(port, request)
            got = json.loads(body)
            assert status == 200 and (got[part] == want[part] if part else settled(got) == settled(want)), (request, got, want)
            known.append((request, ELAPSED.sub(b"", body), None))
        print("%d questions answered as the command does" % len(known), flush=True)
        answered, queue, begin = multiprocessing.Value("q", 0), multiprocessing.Queue(), time.time()
        workers = [multiprocessing.Process(target=process, args=(port, i, COUNT // PROCESSES, known, answered, queue)) for i in range(PROCESSES)]
        for worker in workers:
            worker.start()
        memory = []
        while any(worker.is_alive() for worker in workers) and queue.qsize() < PROCESSES:
            time.sleep(0.2)
            if answered.value >= COUNT * (len(memory) + 1) / 10:
                memory.append(resident(daemon.pid))
        told = [one for _ in workers for one in queue.get()]
        for worker in workers:
            worker.join()
        took = time.time() - begin
        time.sleep(1)
        memory.append(resident(daemon.pid))
        daemon.terminate()
        code = daemon.wait()
        base = sqlite3.connect(os.path.join(folder, "plimsoll.db"))
        stored = {row[0] for row in base.execute("SELECT job FROM jobs")}
        jobs = {name for one in told for name in one["jobs"]}
        total = {key: sum(one[key] for one in told) for key in ("right", "bad", "busy", "hostile", "lost")}
        wrong = [w for one in told for w in one["wrong"]]
        print("%d requests in %.0f s (%.0f a second) and %d hostile ones: %d as the command answers, %d refused as they should be, %d reports acknowledged, %d of them"
              " lost; %d told to come again; %d requests lost, %d answers wrong [load %.1f]" % (answered.value, took, answered.value / took, total["hostile"], total["right"], total["bad"],
                                                                      len(jobs), len(jobs - stored), total["busy"], total["lost"], len(wrong), os.getloadavg()[0]))
        print("resident after each tenth, and a second later: %s MiB; it ended with %d" % (", ".join("%.0f" % m for m in memory), code))
        for w in wrong[:3]:
            print(w)
        return bool(wrong or total["lost"] or jobs - stored or code)


if __name__ == "__main__":
    sys.exit(main())
