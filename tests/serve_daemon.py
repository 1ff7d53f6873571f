"""A daemon for tests: what tests/serve.py and tests/serve_hostile.py share."""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback

DAEMON, PLIMSOLL, ROOT = (os.path.abspath(p) for p in sys.argv[1:4])
GPT2 = {"model_type": "gpt2", "n_layer": 2, "n_embd": 128, "n_head": 4, "vocab_size": 1000}


class Daemon:
    """A daemon while the block runs; what it wrote to standard error is in .said."""

    def __init__(self, *options, before=None):
        self.options, self.before = ["--listen", "127.0.0.1:0", "--log", "off", *options], before

    def __enter__(self):
        self.process = subprocess.Popen([DAEMON, *self.options], stderr=subprocess.PIPE, text=True, preexec_fn=self.before)
        self.said, self.port = "", 0
        while True:
            line = self.process.stderr.readline()
            if not line:
                raise AssertionError("the daemon did not start: %s" % self.said)
            self.said += line
            found = re.search(r"\(port (\d+)\)", line)
            if found:
                self.port = int(found.group(1))
            if found and "--socket" not in self.options or "listening on /" in line:
                break
        threading.Thread(target=self._drink, daemon=True).start()
        return self

    def _drink(self):
        for line in self.process.stderr:
            self.said += line

    def __exit__(self, *problem):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        if problem[0] is None and code not in (0, -signal.SIGKILL):
            raise AssertionError("it ended with %d: %s" % (code, self.said[-3000:]))

    def ask(self, path, body=None, method=None, headers=None, connection=None):
        """(status, body as JSON or text)."""
        own = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        own.request(method or ("GET" if data is None else "POST"), path, data, headers or {})
        answer = own.getresponse()
        text = answer.read()
        if connection is None:
            own.close()
        kind = answer.getheader("Content-Type", "")
        return answer.status, json.loads(text) if "json" in kind else text.decode()


def until(true, seconds=30):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def run(name, cases):
    """Those that are named behind the three arguments, else all. 1: one failed."""
    failed = 0
    for case in [c for c in cases if len(sys.argv) < 5 or c.__name__ in sys.argv[4:]]:
        try:
            case()
            print("ok %s_%s" % (name, case.__name__), flush=True)
        except Exception:
            print("  " + traceback.format_exc().replace("\n", "\n  "))
            print("not ok %s_%s" % (name, case.__name__), flush=True)
            failed += 1
    return int(failed > 0)
