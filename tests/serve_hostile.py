"""The daemon and those who mean it ill, or a machine that fails it: python3 serve_hostile.py DAEMON PLIMSOLL ROOT, in an empty folder."""
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time

from serve_daemon import DAEMON, GPT2, Daemon, run, until

REPORT = b'{"job":"q","state":"submitted"}'
NEXT = b"GET /v1/cards HTTP/1.1\r\nHost: smuggled\r\n\r\n"
LONG = {"model_type": "gpt2", "n_layer": 48, "n_embd": 1600, "n_head": 25}


def said(d, data, seconds=20):
    """All that is answered until the other side closes, or is silent."""
    got = b""
    with socket.create_connection(("127.0.0.1", d.port)) as s:
        s.settimeout(seconds)
        try:
            s.sendall(data)
            while piece := s.recv(65536):
                got += piece
        except OSError:
            pass
    return got


def status_of(answer):
    return int(answer[9:12] or 0)


def post(path, body, headers=b"Host: x\r\n"):
    return b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (path.encode(), headers, len(body), body)


def long_question(i):
    return {"model": LONG, "batch": 1 + i, "gpu": "t4"}


class Asker:
    """A long request that somebody waits for."""

    def __init__(self, d, i=0):
        body = json.dumps(long_question(i)).encode()
        self.socket = socket.create_connection(("127.0.0.1", d.port), timeout=120)
        self.socket.sendall(post("/v1/explain", body))

    def answered(self):
        self.socket.setblocking(False)
        try:
            return len(self.socket.recv(1, socket.MSG_PEEK)) > 0
        except BlockingIOError:
            return False
        finally:
            self.socket.settimeout(120)


def sanitized():
    with open(DAEMON, "rb") as file:
        return re.search(rb"__[at]san_init", file.read())


def gauge(d, name):
    text = d.ask("/metrics")[1]
    return float(next(line for line in text.splitlines() if line.startswith("plimsoll_%s " % name)).split()[1])


# ---- framing ----

def requests_in_requests():
    """What two servers could read as different requests is refused, and nothing behind it is answered."""
    rows = [
        (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n", 400),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n", 400),
        (b"Content-Length: 31\r\nContent-Length: 5\r\n", REPORT, 400),
        (b"Content-Length: 31\r\nContent-Length: 31\r\n", REPORT, 400),
        (b"Content-Length: 31, 31\r\n", REPORT, 400),
        (b"Content-Length: +31\r\n", REPORT, 400),
        (b"Content-Length: 0x1f\r\n", REPORT, 400),
        (b"Content-Length: -31\r\n", REPORT, 400),
        (b"Content-Length: 31a\r\n", REPORT, 400),
        (b"Content-Length:\r\n", REPORT, 400),
        (b"Content-Length: 99999999999999999999\r\n", REPORT, 413),
        (b"Transfer-Encoding: xchunked\r\n", b"1f\r\n" + REPORT + b"\r\n0\r\n\r\n", 501),
        (b"Transfer-Encoding: gzip, chunked\r\n", b"1f\r\n" + REPORT + b"\r\n0\r\n\r\n", 501),
        (b"Transfer-Encoding: identity\r\n", b"1f\r\n" + REPORT + b"\r\n0\r\n\r\n", 501),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"1f\r\n" + REPORT + b"\r\n0\r\n\r\n", 501),
        (b"Transfer-Encoding : chunked\r\n", b"1f\r\n" + REPORT + b"\r\n0\r\n\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n", b"-1f\r\n" + REPORT + b"\r\n0\r\n\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n", b"0x1f\r\n" + REPORT + b"\r\n0\r\n\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n", b"ffffffffffffffffff\r\n" + REPORT + b"\r\n0\r\n\r\n", 413),
        (b"Host: y\r\nContent-Length: 31\r\n", REPORT, 400),
    ]
    with Daemon() as d:
        for headers, body, status in rows:
            got = said(d, b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n" + body + NEXT)
            assert status_of(got) == status, (headers, got[:300])
            assert b'"gpus"' not in got, (headers, got[:300])
        assert status_of(said(d, b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")) == 400  # no Host
        assert status_of(said(d, b"GET /healthz HTTP/1.0\r\n\r\n")) == 200
        assert status_of(said(d, b"POST /v1/jobs HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n1f\r\n" + REPORT + b"\r\n0\r\n\r\n")) == 400
        assert said(d, b"GET http://x/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").endswith(b'{"status":"ok"}\n')
        good = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\n" + REPORT[:5] + b"\r\n1a\r\n" + REPORT[5:] + b"\r\n0\r\n\r\n"
        assert status_of(said(d, good)) == 201
        pipelined = said(d, post("/v1/jobs", REPORT) * 5 + b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert pipelined.count(b"HTTP/1.1 201") == 5 and pipelined.endswith(b'{"status":"ok"}\n'), pipelined
        for path in (b"/healthz%00x", b"/v1/models/../../etc/passwd", b"/v1/models/..%2f..%2fetc%2fpasswd", b"/v1/models/%00", b"*", b"//healthz"):
            assert status_of(said(d, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")) in (400, 404), path
        large = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X%d: a\r\n" % i for i in range(5000)) + b"\r\n"
        assert status_of(said(d, large)) in (0, 431)  # 0: closed while it was still being sent
        said(d, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 10000000)
        assert d.ask("/healthz")[0] == 200


def methods():
    with Daemon() as d:
        kept = http.client.HTTPConnection("127.0.0.1", d.port)  # a mistake is no reason to close
        kept.connect()
        before = kept.sock.getsockname()
        for path, body, status in (("/nothing", None, 404), ("/v1/estimate", None, 405), ("/v1/estimate", b"{", 400), ("/v1/jobs?limit=0", None, 400)):
            assert d.ask(path, body, connection=kept)[0] == status and kept.sock and kept.sock.getsockname() == before, path
        for path, allowed in (("/v1/jobs", "GET, HEAD, POST, OPTIONS"), ("/v1/estimate", "POST, OPTIONS"), ("/healthz", "GET, HEAD, OPTIONS"),
                              ("/v1/models/sha256:0", "GET, HEAD, OPTIONS")):
            for method in ("OPTIONS", "DELETE", "PATCH", "BREW"):
                c = http.client.HTTPConnection("127.0.0.1", d.port)
                c.request(method, path)
                answer = c.getresponse()
                answer.read()
                assert answer.status == (204 if method == "OPTIONS" else 405) and answer.getheader("Allow") == allowed, (method, path, answer.status)
        c = http.client.HTTPConnection("127.0.0.1", d.port)
        for path in ("/healthz", "/v1/cards", "/openapi.json", "/metrics"):
            c.request("HEAD", path)
            head = c.getresponse()
            assert head.status == 200 and head.read() == b"" and int(head.getheader("Content-Length")) > 0, path
        for text in ("abc", "-1", "0", "10001", "1e3", " 5", "99999999999999999999"):
            assert d.ask("/v1/jobs?limit=" + text.replace(" ", "%20"))[0] == 400, text
        assert d.ask("/v1/jobs?job=%27%20OR%201%3D1%3B%20DROP%20TABLE%20jobs%3B--")[1]["jobs"] == []


def foreign_pages():
    """A page somewhere makes a browser on this machine ask."""
    with Daemon() as d:
        for origin, status in (("http://evil.example", 403), ("null", 403), ("http://localhost.evil.example", 403), ("http://127.0.0.1.evil.example:9477", 403),
                               ("http://localhost:%d" % d.port, 201), ("http://127.0.0.1:%d" % d.port, 201), ("http://[::1]", 201)):
            assert d.ask("/v1/jobs", REPORT, headers={"Origin": origin, "Content-Type": "text/plain"})[0] == status, origin


def logs_are_lines():
    """Whatever is asked, a line of the log is one JSON object."""
    with Daemon("--log", "json") as d:
        for method in (b'A"', b"A\x1b[", b"\\", b"}{", b"X\tY", b"G\xff"):
            said(d, method + b" /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        for path in (b'/v1/"\n', b"/%22%0a%1b", b"/v1/models/%0d%0a"):
            said(d, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        d.ask("/v1/jobs", b'{"job":"\\n\\"}{","state":"ended","gpu":"\\n"}')
        d.ask("/v1/estimate", b'{"model":"\\u001b","\\n":1}')
        until(lambda: d.said.count('"route"') >= 8)
        d.process.send_signal(signal.SIGHUP)
        until(lambda: "anew" in d.said)
        for line in d.said.splitlines():
            line = json.loads(line)
            assert line.get("method", "GET") in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "other"), line
        text = d.ask("/metrics")[1]  # and labels are routes of the daemon's
        assert all(line.startswith(("# ", "plimsoll_")) and "\x1b" not in line for line in text.splitlines()), text


# ---- slow ones ----

def trickles():
    """A byte now and then keeps no connection open, in a header or in a body."""
    with Daemon("--request-s", "1", "--idle-s", "2") as d:
        for first in (b"GE", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ", b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n",
                      b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n"):
            with socket.create_connection(("127.0.0.1", d.port)) as s:
                s.sendall(first)
                s.settimeout(0.05)
                end, closed = time.monotonic() + 60, False
                while not closed:
                    assert time.monotonic() < end, ("it went on for ever", first)
                    try:
                        s.sendall(b" ")
                        time.sleep(0.1)
                        closed = s.recv(4096) == b""
                    except socket.timeout:
                        continue
                    except OSError:
                        closed = True
        kept = http.client.HTTPConnection("127.0.0.1", d.port)  # one who is quick may go on
        for _ in range(40):
            assert d.ask("/healthz", connection=kept)[0] == 200
            time.sleep(0.1)


def short_before_long():
    """A long computation holds up neither estimates nor reports nor metrics, though there is one thread for each kind."""
    with Daemon("--workers", "1", "--timeout-ms", "60000") as d:
        waiting = [Asker(d, i) for i in range(4)]
        until(lambda: gauge(d, "waiting") >= 3)
        for batch in range(1, 6):
            assert d.ask("/v1/estimate", {"model": GPT2, "batch": batch, "seq": 32})[0] == 200
            assert d.ask("/v1/jobs", {"job": "j%d" % batch, "state": "submitted"})[0] == 201
            assert len(d.ask("/v1/jobs")[1]["jobs"]) == batch
        assert not waiting[-1].answered()
        for asker in waiting:
            asker.socket.close()


def the_gone():
    """Nobody waits for them any more: they are not computed."""
    with Daemon("--workers", "1", "--timeout-ms", "60000") as d:
        waiting = [Asker(d, i) for i in range(100)]
        until(lambda: gauge(d, "waiting") >= 90)
        for asker in waiting:
            asker.socket.close()
        until(lambda: gauge(d, "waiting") == 0, 30)
        text = d.ask("/metrics")[1]
        assert 'route="/v1/explain",status="2xx"} 100' not in text
        half = socket.create_connection(("127.0.0.1", d.port), timeout=60)  # who only closed his half is answered
        half.sendall(post("/v1/estimate", json.dumps({"model": GPT2, "batch": 77, "seq": 32}).encode()))
        half.shutdown(socket.SHUT_WR)
        assert half.recv(12) == b"HTTP/1.1 200"
        half.close()


def refused(d):
    try:
        socket.create_connection(("127.0.0.1", d.port)).close()
        return False
    except ConnectionRefusedError:
        return True


def ends_in_time():
    """What is not done when the time to drain is over is given up."""
    with Daemon("--workers", "1", "--timeout-ms", "60000", "--drain-s", "1") as d:
        waiting = [Asker(d, i) for i in range(100)]
        until(lambda: gauge(d, "waiting") >= 90)
        d.process.send_signal(signal.SIGTERM)
        until(lambda: refused(d))  # nobody is let in any more
        assert d.process.wait(timeout=30) == 0
        answers = [asker.socket.recv(12) for asker in waiting]
        assert answers.count(b"HTTP/1.1 503") > 50 and not answers.count(b""), answers


def reloading_under_load():
    """Tokens and cards are read anew while requests are computed and answers are still being sent."""
    card = "example-8gb\tExample\texample\t8192\t8.9\t142\t1536\t64\t864\t91.6\t183.2\t366.4\t366.4\tgeneral\tno\ta test\n"
    with open("cards.tsv", "w") as file:
        file.write(card)
    with open("tokens", "w") as file:
        file.write("a-token-that-may-do-all all\n")
    bearer = {"Authorization": "Bearer a-token-that-may-do-all"}
    with Daemon("--gpus", "cards.tsv", "--tokens", "tokens", "--timeout-ms", "120000") as d:
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", d.port))
        body = json.dumps({"model": {**GPT2, "n_layer": 48}, "gpu": "example", "batch": 64}).encode()
        headers = b"Host: x\r\nConnection: close\r\nAuthorization: Bearer a-token-that-may-do-all\r\n"
        slow.sendall(post("/v1/explain", body, headers))  # and does not read
        until(lambda: 'route="/v1/explain"' in d.ask("/metrics", headers=bearer)[1], 120)
        stop, wrong = threading.Event(), []

        def ask(who):
            connection, i = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60), 0
            while not stop.is_set():
                i += 1
                status, answer = d.ask("/v1/estimate", {"model": GPT2, "batch": 1 + i % 7, "seq": 16 + who, "gpu": "example"}, headers=bearer, connection=connection)
                if status != 200 or answer["gpu"]["name"] != "example-8gb":
                    wrong.append(answer)

        threads = [threading.Thread(target=ask, args=(who,)) for who in range(3)]
        for thread in threads:
            thread.start()
        for i in range(60):
            with open("tokens", "w") as file:  # every third is broken, and not taken
                file.write("short\n" if i % 3 == 0 else "a-token-that-may-do-all all\n")
            d.process.send_signal(signal.SIGHUP)
            time.sleep(0.03)
        until(lambda: d.said.count("anew") >= 3 and d.said.count("a token has") >= 3)
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong, wrong[:1]
        time.sleep(3.5)  # the service that the slow answer is of was replaced long ago
        got = b""
        slow.settimeout(60)
        while piece := slow.recv(65536):
            got += piece
        told = json.loads(got.split(b"\r\n\r\n", 1)[1])
        assert told["estimate"]["gpu"]["name"] == "example-8gb" and len(told["tensors"]) > 100


def small_requests_that_ask_much():
    """A few bytes that stand for a lot: past a request's memory or time they are refused, and the daemon stays small."""
    with Daemon("--events", "20000") as d:
        events = d.ask("/v1/estimate", {"model": {**GPT2, "n_layer": 200}, "batch": 2, "seq": 32})
        assert events[0] == 422 and "events" in events[1]["detail"], events
    with Daemon("--timeout-ms", "2000", "--memory-bytes", "256MiB") as d:
        placed = {"cluster": {"cards": [{"gpu": "h200", "count": 1000000}]}, "jobs": [{"model": GPT2, "batch": 2}]}
        assert d.ask("/v1/place", placed)[0] == 422
        placed["cluster"]["cards"] = [{"gpu": "h200", "count": 3000}]
        placed["jobs"] = [{"model": GPT2, "batch": 2, "seq": 32}] * 64
        assert d.ask("/v1/place", placed)[0] in (200, 422)
        busy = [{"gpu": "h200", "jobs": [{"name": "x", "seen_bytes": 1000}]} for _ in range(20000)]
        assert d.ask("/v1/place", {"cluster": {"cards": busy}, "jobs": [{"model": GPT2, "batch": 2, "seq": 32}]})[0] == 422
        assert d.ask("/v1/estimate", b'{"model":{"model_type":"gpt2","architectures":[' + b'"x",' * 3000000 + b'"y"]}}')[0] == 422
        with open("/proc/%d/status" % d.process.pid) as file:
            most = int(next(line for line in file if line.startswith("VmHWM:")).split()[1]) >> 10
        assert most < 900 or sanitized(), most  # MiB; two threads at 256 and what was posted
        assert d.ask("/v1/estimate", {"model": GPT2, "batch": 2, "seq": 32})[0] == 200


# ---- a machine that fails it ----

def full_disk():
    """A file that may not grow: what cannot be stored is not acknowledged, and the rest goes on."""
    limit = 400 << 10
    with Daemon("--data", "full", before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) as d:
        kept, refused = [], 0
        for i in range(400):
            status, answer = d.ask("/v1/jobs", {"job": "j%d" % i, "state": "submitted", "settings": {"note": "x" * 4000}})
            assert status in (201, 507), answer
            kept += ["j%d" % i] if status == 201 else []
            refused += status == 507
        assert kept and refused, (len(kept), refused)
        assert d.ask("/v1/models", json.dumps({**GPT2, "note": "y" * limit}).encode())[0] == 507
        assert d.ask("/v1/estimate", {"model": GPT2, "batch": 2, "seq": 32})[0] == 200
        assert d.ask("/healthz")[0] == 200 and gauge(d, "writes_failed_total") == refused + 1
        assert "cannot be written" in d.said
    with Daemon("--data", "full") as d:
        stored = {j["job"] for j in d.ask("/v1/jobs?limit=10000")[1]["jobs"]}
        assert stored >= set(kept) and d.ask("/v1/jobs", {"job": "after", "state": "submitted"})[0] == 201


def folder_taken_away():
    """What would go into a file that nobody finds again is not acknowledged."""
    with Daemon("--data", "gone") as d:
        assert d.ask("/v1/jobs", {"job": "a", "state": "submitted"})[0] == 201
        shutil.move("gone", "elsewhere")
        assert d.ask("/v1/jobs", {"job": "b", "state": "submitted"})[0] == 507
        assert "moved or removed" in d.said or not until(lambda: "moved or removed" in d.said)
        assert d.ask("/v1/estimate", {"model": GPT2, "batch": 2, "seq": 32})[0] == 200
        shutil.move("elsewhere", "gone")
        assert d.ask("/v1/jobs", {"job": "c", "state": "submitted"})[0] == 201
        shutil.rmtree("gone")
        assert d.ask("/v1/jobs", {"job": "d", "state": "submitted"})[0] == 507
        assert d.ask("/healthz")[0] == 200


def other_hands_on_it():
    """A history that is locked, broken, or of a later version."""
    with Daemon("--data", "locked") as d:
        assert d.ask("/v1/jobs", {"job": "a", "state": "submitted"})[0] == 201
        other = sqlite3.connect("locked/plimsoll.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        got = []
        threads = [threading.Thread(target=lambda i=i: got.append(d.ask("/v1/jobs", {"job": "b%d" % i, "state": "submitted"})[0])) for i in range(8)]
        for thread in threads:
            thread.start()
        for batch in range(1, 5):
            assert d.ask("/v1/estimate", {"model": GPT2, "batch": batch, "seq": 32})[0] == 200
        until(lambda: "locked" in d.said)
        other.execute("ROLLBACK")
        other.close()
        for thread in threads:
            thread.join()
        assert set(got) <= {201, 507} and 507 in got, got
        assert d.ask("/v1/jobs", {"job": "c", "state": "submitted"})[0] == 201
    for name, damage in (("noise", b"x" * 5000), ("head", b"SQLite format 3\0" + b"\xff" * 4000)):
        os.mkdir(name)
        with open(name + "/plimsoll.db", "wb") as file:
            file.write(damage)
        done = subprocess.run([DAEMON, "--listen", "127.0.0.1:0", "--data", name], capture_output=True, text=True, timeout=60)
        assert done.returncode == 4 and "plimsoll.db" in done.stderr, done.stderr
    later = sqlite3.connect("locked/plimsoll.db")
    later.execute("PRAGMA user_version = 2")
    later.close()
    done = subprocess.run([DAEMON, "--listen", "127.0.0.1:0", "--data", "locked"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 4 and "later" in done.stderr, done.stderr
    assert sqlite3.connect("locked/plimsoll.db").execute("PRAGMA user_version").fetchone()[0] == 2  # and left as it is


def few_files():
    """More connections than there are descriptors: who is in is served, and the others once there is room."""
    with Daemon("--data", "few", before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (90, 90))) as d:
        assert "at most" in d.said
        kept = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
        assert d.ask("/healthz", connection=kept)[0] == 200
        crowd = [socket.create_connection(("127.0.0.1", d.port)) for _ in range(200)]
        for i in range(20):
            assert d.ask("/v1/jobs", {"job": "j%d" % i, "state": "submitted"}, connection=kept)[0] == 201
        for s in crowd:
            s.close()
        assert d.ask("/v1/jobs?limit=50")[0] == 200


def little_memory():
    """Memory that runs out is an answer, and the next is served."""
    if sanitized():
        print("# a sanitizer's shadow is larger than any limit: little memory was not tried")
        return
    limit = 900 << 20
    with Daemon("--workers", "2", before=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))) as d:
        huge = {"model": {"model_type": "llama", "num_hidden_layers": 900, "hidden_size": 4096, "num_attention_heads": 32}, "seq": 4096}
        for i in range(3):
            assert d.ask("/v1/estimate", {**huge, "batch": 1 + i})[0] in (200, 422, 503)
        try:
            assert d.ask("/v1/models", b"\0" * (200 << 20))[0] in (413, 422, 503)
        except OSError:
            pass
        assert d.ask("/v1/estimate", {"model": GPT2, "batch": 2, "seq": 32})[0] == 200


def bounded_storage():
    with Daemon("--data", "bounded", "--stored-jobs", "1000", "--stored-bytes", "2000") as d:
        model = lambda i: json.dumps({**GPT2, "note": "%d" % i + "x" * 800}).encode()
        assert [d.ask("/v1/models", model(i))[0] for i in (1, 2, 3, 1)] == [201, 201, 507, 201]  # the last is there already

        def report(who):
            connection = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
            for i in range(400):
                assert d.ask("/v1/jobs", {"job": "%d-%d" % (who, i), "state": "submitted"}, connection=connection)[0] == 201

        threads = [threading.Thread(target=report, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        left = d.ask("/v1/jobs?limit=10000")[1]["jobs"]
        assert len(left) == 1000 and left[0]["job"].endswith("-399"), len(left)
        for i in range(3):  # a listing is cut before it is too long
            assert d.ask("/v1/jobs", {"job": "long%d" % i, "state": "submitted", "settings": {"a": "x" * 60000}})[0] == 201
    with Daemon() as d:
        for i in range(300):
            assert d.ask("/v1/jobs", {"job": "long%d" % i, "state": "submitted", "settings": {"a": "x" * 64000}})[0] == 201
        listed = d.ask("/v1/jobs?limit=10000")[1]
        assert listed["cut"] and 200 < len(listed["jobs"]) < 300, len(listed["jobs"])


# ---- TLS ----

def tls():
    if not shutil.which("openssl"):
        print("# no openssl: TLS was not tried")
        return
    for name in ("one", "two"):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", name + ".key", "-out", name + ".pem"], check=True, capture_output=True)
    wrong = subprocess.run([DAEMON, "--check", "--tls-cert", "one.pem", "--tls-key", "two.key"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 4 and "go together" in wrong.stderr, wrong.stderr
    assert subprocess.run([DAEMON, "--check", "--tls-cert", "one.pem", "--tls-key", "one.key"], capture_output=True, timeout=60).returncode == 0
    for cert, key in (("nowhere", "one.key"), ("one.pem", "nowhere")):
        assert subprocess.run([DAEMON, "--check", "--tls-cert", cert, "--tls-key", key], capture_output=True, timeout=60).returncode == 3
    with Daemon("--tls-cert", "one.pem", "--tls-key", "one.key", "--request-s", "1", "--idle-s", "1") as d:
        def ask(ca, body=None):
            c = http.client.HTTPSConnection("127.0.0.1", d.port, timeout=60, context=ssl.create_default_context(cafile=ca))
            c.request("POST" if body else "GET", "/v1/estimate" if body else "/healthz", body)
            answer = c.getresponse()
            return answer.status, json.loads(answer.read())

        assert ask("one.pem") == (200, {"status": "ok"})
        try:
            ask("two.pem")
            raise AssertionError("another's certificate was taken")
        except ssl.SSLCertVerificationError:
            pass
        silent = [socket.create_connection(("127.0.0.1", d.port)) for _ in range(50)]  # no handshake, or half of one
        for s in silent[:25]:
            s.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert b"200 OK" not in said(d, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")  # without TLS
        assert ask("one.pem", json.dumps({"model": GPT2, "batch": 3, "seq": 32}))[0] == 200
        for s in silent:
            s.settimeout(60)
            try:
                while s.recv(4096):
                    pass
            except ConnectionError:
                pass
            s.close()
        assert ask("one.pem")[0] == 200


CASES = [requests_in_requests, methods, foreign_pages, logs_are_lines, trickles, short_before_long, the_gone, ends_in_time, reloading_under_load, small_requests_that_ask_much, full_disk,
         folder_taken_away, other_hands_on_it, few_files, little_memory, bounded_storage, tls]

if __name__ == "__main__":
    sys.exit(run("hostile", CASES))
