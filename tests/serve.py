"""The daemon as its users and those who mean it ill meet it: python3 serve.py DAEMON PLIMSOLL ROOT, in an empty folder.

Each case starts a daemon of its own on a port that the system chooses. Lines: tests/check.h.
"""
import concurrent.futures
import hashlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time

from serve_daemon import DAEMON, GPT2, PLIMSOLL, ROOT, Daemon, run, until

KILLS = int(os.environ.get("PLIMSOLL_KILLS", "40"))
RESNET = os.path.join(ROOT, "examples", "resnet18.pt2")
TOKEN, READER = "a-token-that-may-do-all", "a-token-that-may-only-read"


def settled(report):
    """An estimate without what differs by run."""
    return {key: value for key, value in report.items() if key != "elapsed_us"}


def command(*arguments, code=0):
    done = subprocess.run([PLIMSOLL, *arguments], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def small_config():
    with open("gpt2.json", "w") as file:
        json.dump(GPT2, file)
    return "gpt2.json"


# ---- cases ----

def every_path_with_every_example():
    with open(os.path.join(ROOT, "serve", "openapi.json")) as file:
        written = json.load(file)
    schemas = written["components"]["schemas"]

    def holds(schema, value, where):
        if "$ref" in schema:
            schema = schemas[schema["$ref"].rsplit("/", 1)[1]]
        kinds = schema.get("type")
        if kinds:
            names = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}
            kinds = [kinds] if isinstance(kinds, str) else kinds
            assert any(isinstance(value, names[k]) and not (k in ("integer", "number") and isinstance(value, bool)) for k in kinds), (where, value)
        if "enum" in schema and value is not None:
            assert value in schema["enum"], (where, value)
        for name in schema.get("required", ()):
            assert name in value, (where, name)
        for name, inner in (schema.get("properties") or {}).items():
            if isinstance(value, dict) and name in value:
                holds(inner, value[name], where + "." + name)
        for inner in value if isinstance(value, list) and "items" in schema else ():
            holds(schema["items"], inner, where + "[]")

    asked = 0
    with Daemon("--data", "all") as d:
        assert d.ask("/openapi.json") == (200, written)
        model = json.dumps(GPT2).encode()
        digest = "sha256:" + hashlib.sha256(model).hexdigest()
        assert d.ask("/v1/models", model)[0] == 201
        for path, methods in written["paths"].items():
            for method, what in methods.items():
                examples = [None]
                for content in what.get("requestBody", {}).get("content", {}).values():
                    examples = [e["value"] for e in content["examples"].values()]
                for example in examples:
                    status, answer = d.ask(path.replace("{digest}", digest), example, method.upper())
                    good = next(code for code in what["responses"] if code != "default")
                    assert str(status) == good, (path, status, answer)
                    for kind, content in what["responses"][good]["content"].items():
                        if "json" in kind:
                            holds(content["schema"], answer, path)
                    asked += 1
        with open(os.path.join(ROOT, "src", "request", "asked.c")) as file:  # all that a request may say is described, and nothing else
            known = set(re.findall(r'^    {"(\w+)", [A-Z]+, ', file.read(), re.M))
        told = set()
        for name, schema in schemas.items():
            told |= set(schema.get("properties", {}))
        assert len(known) > 25 and not known - told, known - told
        for name in schemas["Settings"]["properties"]:  # each setting that is described is known
            status, answer = d.ask("/v1/estimate", {"model": GPT2, name: None} if name != "model" else {"model": GPT2})
            assert status == 200, (name, answer)
        with open(os.path.join(ROOT, "src", "request", "service.c")) as file:
            routes = re.findall(r'{"(GET|POST)", "(/[^"]+)", ', file.read())
        with open(os.path.join(ROOT, "serve", "exchange.c")) as file:
            routes += re.findall(r'{"(GET|POST)", "(/[^"]+)", ', file.read())
        assert {(m.lower(), p) for m, p in routes} == {(m, p) for p, methods in written["paths"].items() for m in methods}, routes
    print("# %d requests" % asked)


def the_same_as_the_command():
    config = small_config()
    with open(RESNET, "rb") as file:
        resnet = file.read()
    with Daemon() as d:
        digest = d.ask("/v1/models?name=resnet18.pt2", resnet)[1]["model"]
        assert digest == "sha256:" + hashlib.sha256(resnet).hexdigest()
        for batch in (1, 8, 32, 100):
            for gpu in ("h200", "a100-40gb"):
                got = d.ask("/v1/estimate", {"model": digest, "batch": batch, "gpu": gpu, "precision": "amp-bf16"})
                want = command("estimate", RESNET, "--batch", str(batch), "--gpu", gpu, "--precision", "amp-bf16", "--json")
                assert got[0] == 200 and settled(got[1]) == settled(want), got
        settings = {"batch": 4, "seq": 64, "optimizer": "sgd", "checkpoint": True, "train": "lora-r4", "parallel": "fsdp2:4", "risk": 0.01}
        got = d.ask("/v1/estimate", {"model": GPT2, **settings})[1]
        want = command("estimate", config, "--batch", "4", "--seq", "64", "--optimizer", "sgd", "--checkpoint", "--train", "lora-r4",
                       "--parallel", "fsdp2:4", "--risk", "1%", "--json")
        got["model"]["name"] = want["model"]["name"]
        assert settled(got) == settled(want), (got, want)
        fit = d.ask("/v1/fit", {"model": digest, "gpu": "t4"})[1]
        assert fit["largest"] == command("fit", RESNET, "--gpu", "t4", "--json")["largest"], fit
        smallest = d.ask("/v1/fit", {"model": digest, "what": "gpu"})[1]["smallest_gpu"]
        assert smallest == command("fit", RESNET, "--gpu", "?", "--json")["smallest_gpu"], smallest
        told = d.ask("/v1/explain", {"model": digest, "gpu": "t4", "batch": 2048})[1]
        want = command("explain", RESNET, "--gpu", "t4", "--batch", "2048", "--json")
        assert told["tensors"] == want["tensors"] and settled(told["estimate"]) == settled(want["estimate"])
        assert [{k: v for k, v in r.items() if k != "with"} for r in want["remedies"]] == told["remedies"]
        for name, batch in (("a", 8), ("b", 64)):
            with open(name + ".json", "w") as file:
                json.dump(d.ask("/v1/estimate", {"model": digest, "batch": batch})[1], file)
        a, b = (json.load(open(name)) for name in ("a.json", "b.json"))
        pair = d.ask("/v1/collocate", {"jobs": [a, b], "sharing": "mps"})[1]
        done = subprocess.run([PLIMSOLL, "collocate", "a.json", "b.json", "--sharing", "mps", "--json"], capture_output=True, text=True)
        assert pair == json.loads(done.stdout), (pair, done.stdout)
        other = d.ask("/v1/collocate", {"jobs": [{"model": digest, "batch": 8}, b], "sharing": "mps"})[1]
        assert abs(other["gain"] - pair["gain"]) < 1e-4 and other["needed_bytes"] == pair["needed_bytes"], (other, pair)


def placing_as_the_command():
    config = small_config()
    cluster = {"cards": [{"name": "a", "gpu": "h200", "jobs": [{"name": "old", "seen_bytes": 140000000000}]}, {"name": "b", "gpu": "t4", "count": 2}]}
    with open("cluster.json", "w") as file:
        json.dump(cluster, file)
    with Daemon() as d:
        for policy in ("exclusive", "pack", "spread", "interference"):
            asked = {"cluster": cluster, "jobs": [{"model": GPT2, "batch": 2}] * 3, "policy": policy}
            status, got = d.ask("/v1/place", asked)
            want = command("place", "--cluster", "cluster.json", config, config, config, "--batch", "2", "--policy", policy, "--json",
                           code=10 if policy == "exclusive" else 0)  # two of the cards are empty
            for job in want["jobs"] + got["jobs"]:
                job.pop("name")
            assert status == 200 and got == want, (got, want)
        refused = d.ask("/v1/place", {"cluster": cluster, "jobs": [{"model": GPT2, "batch": 2000000}]})[1]["jobs"][0]
        assert refused["card"] is None and all("GiB more than" in o["reason"] for o in refused["options"]), refused


def wrong_requests():
    rows = [
        ("POST", "/v1/place", b'{"jobs":[{"model":{"model_type":"gpt2"}}]}', 400, "usage"),
        ("POST", "/v1/place", b'{"cluster":{},"jobs":[{"model":{"model_type":"gpt2"}}]}', 422, "input"),
        ("POST", "/v1/place", b'{"cluster":{"cards":[{"gpu":"h200"}]},"jobs":[{"model":{"model_type":"gpt2"}}],"policy":"luck"}', 400, "usage"),
        ("POST", "/v1/estimate", b"", 400, "input"),
        ("POST", "/v1/estimate", b"[]", 400, "input"),
        ("POST", "/v1/estimate", b'{"model":', 400, "input"),
        ("POST", "/v1/estimate", b'{"model":"sha256:12"}', 400, "usage"),
        ("POST", "/v1/estimate", b'{"batch":2}', 400, "usage"),
        ("POST", "/v1/estimate", b'{"model":{"model_type":"gpt2"},"btach":2}', 400, "usage"),
        ("POST", "/v1/estimate", b'{"model":{"model_type":"gpt2"},"batch":0}', 400, "input"),
        ("POST", "/v1/estimate", b'{"model":{"model_type":"gpt2"},"batch":1e99}', 400, "input"),
        ("POST", "/v1/estimate", b'{"model":{"model_type":"gpt2"},"gpu":"nothing"}', 400, "usage"),
        ("POST", "/v1/estimate", b'{"model":{"model_type":"gpt2"},"risk":7}', 400, "usage"),
        ("POST", "/v1/estimate", b'{"model":{"model_type":"nothing"}}', 422, "input"),
        ("POST", "/v1/estimate", b'{"model":{"model_type":"llama","num_hidden_layers":4000,"hidden_size":1048576}}', 422, None),
        ("POST", "/v1/estimate", b'{"model":"sha256:' + b"0" * 64 + b'"}', 404, "input"),
        ("POST", "/v1/estimate", b'{"model":' + b"[" * 5000, 400, "input"),
        ("POST", "/v1/estimate", b'{"model":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}", 400, "input"),
        ("POST", "/v1/fit", b'{"model":{"model_type":"gpt2"},"what":"joy"}', 400, "usage"),
        ("POST", "/v1/collocate", b'{"jobs":[{"model":{"model_type":"gpt2"}}]}', 400, "usage"),
        ("POST", "/v1/collocate", b'{"jobs":[1,2]}', 400, "input"),
        ("POST", "/v1/models", b"", 422, "input"),
        ("POST", "/v1/models", os.urandom(1000), 422, "input"),
        ("GET", "/v1/models/sha256:0", None, 400, "usage"),
        ("GET", "/v1/estimate", None, 405, "usage"),
        ("DELETE", "/v1/models", None, 405, "usage"),
        ("GET", "/v1/nothing", None, 404, "usage"),
        ("GET", "/" + "x" * 3000, None, 404, "usage"),
        ("GET", "/v1/jobs?state=lost", None, 400, "usage"),
        ("POST", "/v1/jobs", b"{}", 400, "usage"),
        ("POST", "/v1/jobs", b'{"job":"a"}', 400, "usage"),
        ("POST", "/v1/jobs", b'{"job":"a","state":"gone"}', 400, "input"),
        ("POST", "/v1/jobs", b'{"job":"a","state":"ended","peak_bytes":-1}', 400, "input"),
        ("POST", "/v1/jobs", b'{"job":"%s","state":"ended"}' % (b"a" * 400), 400, "input"),
        ("POST", "/v1/jobs", b'{"job":"a","state":"ended","other":1}', 400, "input"),
    ]
    with Daemon("--memory-bytes", "256MiB", "--timeout-ms", "2000") as d:
        for method, path, body, status, code in rows:
            got, problem = d.ask(path, body, method)
            assert got == status, (path, body and body[:80], got, problem)
            assert problem["status"] == status and problem["detail"] and (code is None or problem["code"] == code), (body and body[:80], problem)
        assert d.ask("/healthz") == (200, {"status": "ok"})
        random.seed(5)
        good = json.dumps({"model": GPT2, "batch": 2, "seq": 32}).encode()
        for _ in range(300):  # damaged in a byte or two
            bad = bytearray(good)
            for _ in range(random.randrange(1, 3)):
                bad[random.randrange(len(bad))] = random.randrange(256)
            assert d.ask("/v1/estimate", bytes(bad))[0] in (200, 400, 404, 422), bytes(bad)
        assert d.ask("/v1/jobs", b'{"job":"\xff\xfe","state":"ended"}')[0] == 201
        assert d.ask("/v1/jobs")[1]["jobs"][0]["job"] == "\ufffd\ufffd"


def tokens_and_scopes():
    with open("tokens", "w") as file:
        file.write("# who may do what\n%s all\n%s read,metrics\n" % (TOKEN, READER))
    with Daemon("--tokens", "tokens") as d:
        bearer = lambda token: {"Authorization": "Bearer " + token}
        question = {"model": GPT2, "batch": 2, "seq": 32}
        assert d.ask("/healthz")[0] == 200
        assert d.ask("/v1/cards")[0] == 401
        assert d.ask("/v1/estimate", question)[0] == 401
        for wrong in (TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "", "x" * 5000, READER + "\xe9"):
            assert d.ask("/v1/estimate", question, headers=bearer(wrong))[0] in (400, 401, 431), wrong
        assert d.ask("/v1/estimate", question, headers=bearer(TOKEN))[0] == 200
        assert d.ask("/v1/estimate", question, headers=bearer(READER))[0] == 403
        assert d.ask("/v1/jobs", {"job": "a", "state": "ended"}, headers=bearer(READER))[0] == 403
        assert d.ask("/v1/cards", headers=bearer(READER))[0] == 200
        assert d.ask("/metrics", headers=bearer(READER))[0] == 200
        with open("tokens", "w") as file:
            file.write("%s all\n" % READER)
        d.process.send_signal(signal.SIGHUP)
        until(lambda: d.ask("/v1/estimate", question, headers=bearer(READER))[0] == 200)
        assert d.ask("/v1/cards", headers=bearer(TOKEN))[0] == 401
        with open("tokens", "w") as file:
            file.write("short all\n")
        d.process.send_signal(signal.SIGHUP)
        until(lambda: "a token has" in d.said)
        assert d.ask("/v1/estimate", question, headers=bearer(READER))[0] == 200  # those of before still hold


def configurations():
    rows = [
        (["--listen", "0.0.0.0:0"], 2, "tokens are needed"),
        (["--listen", ":0"], 2, "tokens are needed"),
        (["--listen", "[::]:0"], 2, "tokens are needed"),
        (["--socket", "/nowhere/at/all"], 4, "/nowhere/at/all"),
        (["--socket-users", "nobody-of-that-name"], 2, "no user"),
        (["--lisen", "x"], 2, "did you mean listen"),
        (["--queue", "0"], 2, "expected a whole number"),
        (["--queue", "many"], 2, "expected a whole number"),
        (["--log", "loud"], 2, "none of text, json, off"),
        (["--listen", "none"], 2, "neither"),
        (["--listen", "127.0.0.1:99999"], 2, "0 to 65535"),
        (["--listen", "127.0.0.1:http"], 2, "0 to 65535"),
        (["--listen", "192.0.2.1:0", "--tokens", "good"], 4, "192.0.2.1"),
        (["--tokens", "nowhere"], 3, "nowhere"),
        (["--gpus", "nowhere"], 3, "nowhere"),
        (["--tls-cert", "x"], 2, "go together"),
        (["--data", "/proc/nothing"], 4, "/proc/nothing"),
        (["--config", "broken.conf"], 2, "line 2"),
        (["stray"], 2, "not an option"),
    ]
    with open("good", "w") as file:
        file.write(TOKEN + " all\n")
    with open("broken.conf", "w") as file:
        file.write("# fine\nwhat is this\n")
    for options, code, word in rows:
        done = subprocess.run([DAEMON, "--check", *options], capture_output=True, text=True, timeout=60)
        assert done.returncode == code and word in done.stderr, (options, done.returncode, done.stderr)
    with open("fine.conf", "w") as file:
        file.write("listen = 127.0.0.1:0\nbody-bytes = 1 MiB   \n\n  workers = 1\nlog = json\n")
    done = subprocess.run([PLIMSOLL, "serve", "--check", "--config", "fine.conf"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "right" in done.stderr, done.stderr
    with Daemon("--config", "fine.conf", "--log", "json") as d:
        assert d.ask("/v1/models", b"x" * (1 << 20))[0] == 422
        try:
            assert d.ask("/v1/models", b"x" * ((1 << 20) + 1))[0] == 413
        except (BrokenPipeError, ConnectionResetError):  # it does not wait for the rest
            pass
        until(lambda: d.said.count('"route"') == 2)
        for line in d.said.splitlines():
            said = json.loads(line)
            assert said["time"] and said["level"] == "info" and said.get("route", "/v1/models") in ("/v1/models", "other"), line
        busy = ["--listen", "127.0.0.1:%d" % d.port]  # one that runs is not in the way of a check
        assert subprocess.run([DAEMON, "--check", *busy], capture_output=True, timeout=60).returncode == 0
        assert subprocess.run([DAEMON, *busy], capture_output=True, timeout=60).returncode == 4


def the_unit():
    """What systemd is to start is a configuration that is right, and the sandbox is as tight as it was."""
    unit = os.path.join(ROOT, "packaging", "plimsoll-serve.service")
    with open(unit) as file:
        told = [line.strip().split("=", 1) for line in file if "=" in line and not line.startswith("#")]
    start = next(value for name, value in told if name == "ExecStart").split()
    with open("unit.conf", "w") as file:
        file.write("listen = 127.0.0.1:0\n")
    places = {"/usr/bin/plimsoll": PLIMSOLL, "/etc/plimsoll.conf": "unit.conf", "/run/plimsoll/plimsoll.sock": "unit.sock", "/var/lib/plimsoll": "unit"}
    assert all(place in start for place in places), start
    done = subprocess.run([places.get(word, word) for word in start] + ["--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    settings = dict(told)
    for name, value in (("ProtectSystem", "strict"), ("NoNewPrivileges", "yes"), ("DynamicUser", "yes"), ("CapabilityBoundingSet", ""), ("UMask", "0077")):
        assert settings[name] == value, name
    assert "PrivateUsers" not in settings  # the socket's users would all be nobody
    if not shutil.which("systemd-analyze"):
        print("# no systemd-analyze: the sandbox was not rated")
        return
    rated = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", unit], capture_output=True, text=True)
    assert rated.returncode == 0, rated.stdout[-300:] + rated.stderr


def unix_socket():
    path = os.path.abspath("s.sock")
    with Daemon("--socket", path) as d:
        assert d.port and os.stat(path).st_mode & 0o777 == 0o660
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b"200 OK" in s.recv(4096)
    assert not os.path.exists(path)
    with Daemon("--socket", path, "--socket-users", "%d" % (os.getuid() + 1)):
        assert os.stat(path).st_mode & 0o777 == 0o666  # whoever comes is asked who he is
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            s.sendall(b"GET /v1/cards HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b"403" in s.recv(4096)


def what_was_stored_outlasts_it():
    model = json.dumps(GPT2).encode()
    with Daemon("--data", "kept") as d:
        digest = d.ask("/v1/models?name=small", model)[1]["model"]
        for state, more in (("submitted", {"predicted_bytes": 1000, "upper_bytes": 1100, "settings": {"batch": 2}}), ("started", {"gpu": "h200"}),
                            ("seen", {"peak_bytes": 900}), ("seen", {"peak_bytes": 1050}), ("seen", {"peak_bytes": 10}), ("ended", {"exit_code": 0})):
            assert d.ask("/v1/jobs", {"job": "one", "state": state, **more})[0] == 201
        first = d.ask("/v1/estimate", {"model": digest, "batch": 3})[1]
    with Daemon("--data", "kept") as d:
        again = d.ask("/v1/estimate", {"model": digest, "batch": 3})[1]
        assert settled(first) == settled(again) and again["model"]["name"] == "small"
        job = d.ask("/v1/jobs?job=one")[1]["jobs"][0]
        assert job["state"] == "ended" and job["peak_bytes"] == 1050 and job["gpu"] == "h200" and job["settings"] == {"batch": 2}, job
        assert job["submitted_ms"] <= job["started_ms"] <= job["seen_ms"] <= job["ended_ms"]
        text = d.ask("/metrics")[1]
        assert "plimsoll_jobs_compared 1\n" in text and "plimsoll_peak_error_median 0.05\n" in text, text
        assert len(d.ask("/v1/jobs?state=submitted")[1]["jobs"]) == 0


def a_socket_left_behind():
    """By one that was killed, it is taken over; by anything else it is not."""
    path = os.path.abspath("left.sock")
    with Daemon("--socket", path) as d:
        d.process.kill()
        d.process.wait()
        assert os.path.exists(path)
    with Daemon("--socket", path) as d:
        other = subprocess.run([DAEMON, "--listen", "none", "--socket", path], capture_output=True, text=True, timeout=60)
        assert other.returncode == 4 and "in use" in other.stderr, other.stderr
        assert d.ask("/healthz")[0] == 200 and os.path.exists(path)
    with open(path, "w") as file:
        file.write("a file of somebody's")
    other = subprocess.run([DAEMON, "--listen", "none", "--socket", path], capture_output=True, text=True, timeout=60)
    assert other.returncode == 4 and os.path.getsize(path) > 0


def the_same_model_at_once():
    """Many post it, and all get the same digest; it is there once."""
    with open(RESNET, "rb") as file:
        resnet = file.read()
    with Daemon("--data", "many", "--workers", "3") as d:
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda _: d.ask("/v1/models", resnet), range(24)))
        assert {status for status, _ in answers} == {201} and len({json.dumps(a) for _, a in answers}) == 1
        assert "plimsoll_models 1\n" in d.ask("/metrics")[1] and "plimsoll_kept_models 1\n" in d.ask("/metrics")[1]


def learns_from_what_happened():
    """A fleet whose context is 860 MiB larger than assumed."""
    mib = 1 << 20
    with Daemon("--data", "fleet") as d:
        asked = [{"model": {**GPT2, "n_embd": 64 * i, "n_layer": 8}, "batch": 16, "seq": 512, "gpu": "a100-40gb"} for i in range(4, 30)]
        errors, steps = [], []
        for i, question in enumerate(asked):
            report = d.ask("/v1/estimate", question)[1]
            real = report["memory"]["peak_bytes"] + 860 * mib
            corrected = report.get("fleet") or report["memory"]
            errors.append(abs(corrected["peak_bytes"] - real) / real)
            assert ("fleet" in report) == (i >= 5), (i, report.get("fleet"))
            if i >= 5:
                assert report["fleet"]["jobs"] == i and report["fleet"]["low_bytes"] <= report["fleet"]["peak_bytes"] <= report["fleet"]["high_bytes"]
            assert i < 5 or report["fleet"]["step_jobs"] == i
            step = report["compute"]["step_ms"]
            steps.append(abs(report.get("fleet", {}).get("step_ms", step) / (step * 1.5) - 1))
            card = "a100-40gb" if i % 2 else "NVIDIA A100-SXM4-40GB"  # one of its other names
            job = {"job": "j%d" % i, "gpu": card, "predicted_step_ms": step, "family": report["utilization"]["family"], "predicted_bytes": report["memory"]["peak_bytes"],
                   "upper_bytes": report["memory"]["upper_bytes"]}
            assert d.ask("/v1/jobs", {**job, "state": "submitted"})[0] == 201
            assert d.ask("/v1/jobs", {"job": job["job"], "state": "ended", "peak_bytes": real, "step_ms": 1.5 * step, "exit_code": 0})[0] == 201
            failed = {**job, "job": "f%d" % i, "state": "ended", "peak_bytes": 3 * mib, "exit_code": 1}
            assert d.ask("/v1/jobs", failed)[0] == 201  # says nothing of the peak
        assert max(errors[:5]) > 0.05 and max(errors[20:]) < 0.02, errors
        assert min(steps[:5]) > 0.3 and max(steps[20:]) < 0.02, steps
        other = d.ask("/v1/estimate", {**asked[0], "gpu": "h200"})[1]
        assert "fleet" not in other  # another kind of card
        first = d.ask("/v1/estimate", asked[3])[1]
        until(lambda: d.ask("/v1/estimate", asked[3])[1].get("fleet", {}).get("jobs") == 26)  # what was answered before is forgotten
        assert first["memory"] == d.ask("/v1/estimate", asked[3])[1]["memory"]
        cluster = {"cards": [{"gpu": "a100-40gb"}]}
        option = d.ask("/v1/place", {"cluster": cluster, "jobs": [asked[3]]})[1]["jobs"][0]["options"][0]
        assert abs(option["expected_bytes"] - first["memory"]["peak_bytes"] - 860 * mib) < 0.02 * first["memory"]["peak_bytes"]
    told = command("history", "--data", "fleet", "--json")["cards"][0]
    assert told["jobs"] == 26 and told["corrected_median"] < 0.02 < told["error_median"] and told["left_out"] == 0, told
    assert abs(told["offset_bytes"] - 860 * mib) < 60 * mib and len(told["worst"]) == 10, told
    assert abs(told["step_error_median"] - 0.5) < 0.01 and 1.45 < told["step_factor"] < 1.5, told
    done = subprocess.run([PLIMSOLL, "history", "--data", "fleet"], capture_output=True, text=True)
    assert done.returncode == 0 and "a100-40gb: 26 jobs ended" in done.stdout and "times as long, of 26 jobs" in done.stdout, done.stdout
    for options, code in (([], 2), (["--data", "nowhere"], 3), (["--what"], 2)):
        assert subprocess.run([PLIMSOLL, "history", *options], capture_output=True).returncode == code


def killed_under_load():
    """What was acknowledged is there after kill -9."""
    acknowledged, lock, number = set(), threading.Lock(), 0
    for turn in range(KILLS):
        d = Daemon("--data", "hit").__enter__()
        stop = threading.Event()

        def report(who, d=d, stop=stop, turn=turn):
            connection = http.client.HTTPConnection("127.0.0.1", d.port, timeout=10)
            i = 0
            try:
                while not stop.is_set():
                    name = "job-%d-%d-%d" % (turn, who, i)
                    if d.ask("/v1/jobs", {"job": name, "state": "submitted", "predicted_bytes": i}, connection=connection)[0] == 201:
                        with lock:
                            acknowledged.add(name)
                    i += 1
            except (OSError, http.client.HTTPException):
                pass

        threads = [threading.Thread(target=report, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        before = len(acknowledged)
        end = time.monotonic() + 20
        while len(acknowledged) < before + 5 and time.monotonic() < end:
            time.sleep(0.005)
        time.sleep(random.random() * 0.02)
        d.process.kill()
        d.process.wait()
        stop.set()
        for thread in threads:
            thread.join()
    base = sqlite3.connect("file:hit/plimsoll.db?mode=ro", uri=True)
    stored = {row[0] for row in base.execute("SELECT job FROM jobs")}
    assert base.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    base.close()
    assert len(acknowledged) >= KILLS and not acknowledged - stored, (len(acknowledged), len(acknowledged - stored))
    number = len(acknowledged)
    print("# killed %d times: %d acknowledged, none lost" % (KILLS, number))


def hostile_clients():
    """Slow, half-open and silent ones, and those who send garbage, hold nobody up."""
    with Daemon("--request-s", "2", "--idle-s", "3", "--body-bytes", "1MiB", "--bodies-bytes", "4MiB") as d:
        idle = []
        for _ in range(400):
            idle.append(socket.create_connection(("127.0.0.1", d.port)))
        slow = socket.create_connection(("127.0.0.1", d.port))
        slow.sendall(b"POST /v1/estimate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        for junk in (b"\x16\x03\x01\x00\xff" * 30, b"GET\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", b"A" * 70000, b"\x00" * 100,
                     b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
                     b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
                     b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            with socket.create_connection(("127.0.0.1", d.port)) as s:
                try:
                    s.sendall(junk)
                    s.shutdown(socket.SHUT_WR)
                    s.settimeout(10)
                    s.recv(4096)
                except OSError:
                    pass
        gone = socket.create_connection(("127.0.0.1", d.port))  # leaves while its answer is computed
        body = json.dumps({"model": {**GPT2, "n_layer": 48}, "batch": 7}).encode()
        gone.sendall(b"POST /v1/explain HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        gone.close()
        for batch in range(1, 20):
            assert d.ask("/v1/estimate", {"model": GPT2, "batch": batch, "seq": 32})[0] == 200
        closed = False
        for _ in range(400):  # a byte now and then does not keep it open
            try:
                slow.settimeout(0.05)
                slow.sendall(b" ")
                time.sleep(0.02)
                if slow.recv(4096):
                    closed = True
                    break
            except socket.timeout:
                continue
            except OSError:
                closed = True
                break
        assert closed, "a slow request went on for ever"
        for s in idle:
            s.close()
        slow.close()
        assert d.ask("/healthz")[0] == 200


def too_often():
    with Daemon("--rate", "5") as d:
        got = [d.ask("/v1/cards")[0] for _ in range(40)]
        assert got[:5] == [200] * 5 and 429 in got, got


def many_at_once():
    """Every answer under load is the one that the same question has alone."""
    questions = [{"model": GPT2, "batch": b, "seq": s} for b in range(1, 9) for s in (16, 48)]
    with Daemon("--model-bytes", "2MiB", "--answer-bytes", "20KiB", "--workers", "3") as d:  # so that both are dropped all the time
        want = [settled(d.ask("/v1/estimate", q)[1])["memory"] for q in questions]

        def work(seed):
            shuffled = random.Random(seed)
            connection = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60)
            wrong = 0
            for _ in range(60):
                i = shuffled.randrange(len(questions))
                status, answer = d.ask("/v1/estimate", questions[i], connection=connection)
                wrong += status != 200 or answer["memory"] != want[i]
            connection.close()
            return wrong

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(work, range(8))) == 0
        status, text = d.ask("/metrics")
        assert status == 200 and 'plimsoll_requests_total{route="/v1/estimate",status="2xx"} %d\n' % (16 + 480) in text, text[:600]


def ends_gently():
    with Daemon() as d:
        body = json.dumps({"model": {**GPT2, "n_layer": 24}, "gpu": "t4", "batch": 100000}).encode()
        s = socket.create_connection(("127.0.0.1", d.port), timeout=60)
        s.sendall(b"POST /v1/explain HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        until(lambda: "waiting" in d.ask("/metrics")[1])
        d.process.send_signal(signal.SIGTERM)
        got = b""
        while b"\r\n\r\n" not in got:
            piece = s.recv(4096)
            assert piece, "the answer that was under way was not given"
            got += piece
        assert b"HTTP/1.1 200" in got or b"HTTP/1.1 422" in got, got[:200]
        s.close()
        assert d.process.wait(timeout=60) == 0


CASES = [the_unit, every_path_with_every_example, the_same_as_the_command, placing_as_the_command, wrong_requests, tokens_and_scopes, configurations,
         unix_socket, a_socket_left_behind, the_same_model_at_once,
         what_was_stored_outlasts_it, learns_from_what_happened, killed_under_load, hostile_clients, too_often, many_at_once, ends_gently]


if __name__ == "__main__":
    sys.exit(run("serve", CASES))
