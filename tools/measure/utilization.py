"""Measures step time, performance counters and power of training jobs on one card: alone, and two, three and four at a time.

    utilization.py alone --budget 530 --out $OUT/utilization.jsonl [--start K] [--skip-done FILE ...]
    utilization.py pairs --budget 530 --out $OUT/pairs.jsonl [--mps]
    utilization.py sets --budget 530 --out $OUT/sets.jsonl [--mps] [--again]
    utilization.py traces --budget 530 --out $OUT/t.jsonl [--start K] [--skip-done FILE ...]
    utilization.py alone|pairs|sets|traces --cpu-dry-run 5           # the loop of that many jobs on the CPU at batch 2; no card
    utilization.py alone --meta-dry-run 30                 # the same on tensors without values, quickly

alone: a forked process per job, one after the other on the card (the next one builds its model, on the CPU, once the window of the one
before it is over; it uses the card when that one has ended).  pairs: a process for each job of the pool, alive throughout; each
alone first, then two together; sets: the same with three and four together.  traces: no window, one step of each job under the profiler (operators.py), as the tail `operators` of
alone takes it.  The loop is that of jobs.py.  Models have no values until they are on the card, so building takes little time.  Jobs: utilization_jobs.py; fields: README.md."""
import argparse
import ctypes
import gc
import gzip
import json
import math
import os
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # keeps CUDA out of the parent, which forks
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import Budget, process_bytes  # noqa: E402
from counters import Card  # noqa: E402
from training import WARM_S, WARM_STEPS, Training  # noqa: E402

WINDOW_S = 1.35
PAIR_WARM_S, PAIR_WINDOW_S, PAIR_ALONE_S = 0.3, 2.05, 1.4


def say(*a):
    print(*a, flush=True)


def kernels(training):
    """What one step launches."""
    import torch
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        training.step()
        torch.cuda.synchronize()
    return launched(prof)


def trace(training):
    """The same from a profile of the operators too; the trace's file."""
    import operators
    path = trace_path(os.getpid())
    prof = operators.profiled(training.step, path, training.device == "cuda")
    return dict(launched(prof), trace=path)


def trace_path(pid):
    return os.path.join("/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir(), "utilization-%d.json" % pid)


def launched(prof):
    """Counts, the kernels' time in ms, and the ten that take most."""
    from torch.autograd import DeviceType
    by, launches, copies = {}, 0, 0
    for e in prof.profiler.kineto_results.events():
        if e.device_type() != DeviceType.CUDA or e.is_user_annotation():
            continue
        name, us = e.name(), e.duration_ns() / 1e3
        if name.startswith(("Memcpy", "Memset")):
            copies += 1
            continue
        if name.startswith(("ProfilerStep", "Optimizer.", "gpu_", "Activity Buffer")):
            continue
        launches += 1
        cell = by.setdefault(name, [0, 0.0])
        cell[0] += 1
        cell[1] += us
    top = sorted(by.items(), key=lambda kv: -kv[1][1])[:10]
    short = lambda n: re.sub(r"^void |at::native::|\(anonymous namespace\)::|<unnamed>::|cutlass::", "", n)[:90]  # noqa: E731
    return dict(launches=launches, copies=copies, kernel_ms=round(sum(c[1] for c in by.values()) / 1e3, 4), top=[[short(n), c[0], round(c[1], 1)] for n, c in top])


def flops(training):
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) as mode:
        training.opt.zero_grad(set_to_none=True)
        for _ in range(training.turns):
            training.compute(training.copy())
    return mode.get_total_flops()


def rounded(d):
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in d.items()}


def measure(training):
    """A placed job's window."""
    import torch
    res = dict(params=training.params, trainable=training.trainable, built=training.how)
    card = Card() if training.device == "cuda" else None
    guess = training.warm(*((1, 0) if training.device == "meta" else (WARM_STEPS, WARM_S)))
    if card:
        res.update(peak_allocated=torch.cuda.max_memory_allocated(), peak_reserved=torch.cuda.max_memory_reserved())
    res["copy_ms"], res["host_ms"] = training.host_times(4 if guess < 0.1 else 2)
    scale = training.scaler.get_scale() if training.scaler else None
    if not card:
        return dict(res, step_ms=1e3 * guess)
    training.step()
    torch.cuda.synchronize()
    card.begin()
    t, n = time.perf_counter(), 0
    while True:
        training.step()
        n += 1
        if time.perf_counter() - t >= WINDOW_S:
            break
    torch.cuda.synchronize()
    wall = time.perf_counter() - t
    res.update(step_ms=1e3 * wall / n, steps=n, **card.end())
    res.update(nvml=process_bytes(), retries=torch.cuda.memory_stats().get("num_alloc_retries", 0))
    if scale is not None:
        res["scale"] = [scale, training.scaler.get_scale()]  # unequal: steps of the window left out the optimizer
    return res


def after(training, tail):
    """What is taken once the window is over."""
    res = {}
    for name, f in (("operators", trace), ("launches", kernels), ("flops", flops)):
        if name in tail and not (name == "launches" and "launches" in res):
            t = time.perf_counter()
            try:
                got = f(training)
                res.update(got if isinstance(got, dict) else dict(flops_per_step=got))
            except Exception as e:
                res[name + "_error"] = repr(e)[:200]
            res[name + "_s"] = time.perf_counter() - t
    return res


def shrunk(job, device):
    """For the CPU: small, in fp32.  Without values not every optimizer runs."""
    job = dict(job, precision="fp32", channels_last=False)
    if device == "meta":
        job["optimizer"] = "sgd"
    if "seq" in job:
        job["seq"] = min(job["seq"], 32)
    if job.get("samples"):
        job["samples"] = 16000
    return job


def stored(job, training=None):
    out = {k: v for k, v in job.items() if k not in ("gb", "pool")}
    if training is not None and hasattr(training.model, "config") and "config" not in out:
        out["config"] = training.model.config.to_dict()
    return out


def versions(device):
    import torch
    import torchvision
    import transformers
    out = dict(date=time.strftime("%Y-%m-%d"), python=sys.version.split()[0], torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version() if device == "cuda" else None,
               torchvision=torchvision.__version__, transformers=transformers.__version__, cores=os.cpu_count())
    if device == "cuda":
        card = Card()
        out.update(card=card.text("nvmlDeviceGetName", card.dev), driver=card.text("nvmlSystemGetDriverVersion"), sm_max_mhz=card.read("nvmlDeviceGetMaxClockInfo", ctypes.c_uint, 1),
                   mem_max_mhz=card.read("nvmlDeviceGetMaxClockInfo", ctypes.c_uint, 2), power_limit_w=(card.read("nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint) or 0) / 1e3)
    with open("/proc/cpuinfo") as f:
        out["cpu"] = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), None)
    return out


# ---- processes ----

class Child:
    """A forked process that serves requests: JSON lines over two pipes."""
    ends = set()  # this side's ends of all of them, which no other child may keep open

    def __init__(self, job, main):
        self.job, self.started = job, time.time()
        down, up = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                for end in Child.ends | {down[1], up[0]}:
                    os.close(end)
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                if job.get("alloc_conf"):
                    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = job["alloc_conf"]
                out = os.fdopen(up[1], "w")

                def send(**what):
                    out.write(json.dumps(what, separators=(",", ":")) + "\n")
                    out.flush()

                try:
                    main(job, os.fdopen(down[0]), send)
                except Exception as e:
                    send(error="".join(traceback.format_exception_only(type(e), e)).strip()[-600:], where=traceback.format_exc()[-900:])
            finally:
                os._exit(0)
        os.close(down[0])
        os.close(up[1])
        self.down, self.up, self.rest, self.open = down[1], up[0], b"", True
        Child.ends |= {self.down, self.up}

    def tell(self, **what):
        try:
            os.write(self.down, (json.dumps(what) + "\n").encode())
        except (OSError, TypeError):  # it has ended; hear() says so
            pass

    def hear(self, seconds):
        """The next message; None when there is none in that time, {"gone": true} when the process has ended."""
        end = time.time() + seconds
        while b"\n" not in self.rest:
            left = max(0.0, end - time.time())
            if not select.select([self.up], [], [], left)[0]:
                return None
            got = os.read(self.up, 1 << 20)
            if not got:
                return dict(gone=True)
            self.rest += got
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def release(self):
        """Closes the way down: a child that waits for a request ends."""
        if self.down is not None:
            Child.ends.discard(self.down)
            os.close(self.down)
            self.down = None

    def end(self, seconds=0.0):
        """Waits for the process; ends it after that time."""
        if not self.open:
            return
        self.release()
        self.open, until = False, time.time() + seconds
        while True:
            pid, _ = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if time.time() > until:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                break
            time.sleep(0.002)
        Child.ends.discard(self.up)
        os.close(self.up)


def prepare(job, device):
    import torch
    torch.set_num_threads(2)
    return Training(job) if device == "cuda" else Training(shrunk(job, device), 2)


def alone_child(device):
    def main(job, requests, send):
        training = prepare(job, device)
        context(device)
        send(built=True)
        request = json.loads(requests.readline() or "{}")  # the card is free
        if not request:
            return
        t = time.perf_counter()
        training.place(device)
        training.sync()
        placed = time.perf_counter() - t
        res = dict(measure(training), place_s=placed)
        send(job=stored(job, training), result=rounded(dict(res, seconds=time.perf_counter() - t)))
        send(after=rounded(after(training, request["tail"] if device != "meta" else [])))
    return main


def trace_child(device):
    def main(job, requests, send):
        training = prepare(job, device)
        context(device)
        send(built=True)
        if not requests.readline():
            return
        t = time.perf_counter()
        training.place(device)
        training.warm(WARM_STEPS, 0)
        warm = time.perf_counter() - t
        send(trace=trace(training)["trace"], warm_s=warm, seconds=time.perf_counter() - t)
    return main


def context(device):
    """CUDA's context, before its turn on the card: takes no memory of the allocator and launches nothing."""
    if device == "cuda":
        import torch
        torch.cuda.synchronize()


class Parsers:
    """Processes that make rows of traces, beside the measurement (they have no card)."""

    def __init__(self, file):
        self.file, self.live, self.rows = file, [], []

    def add(self, child, path):
        """The trace of a process that has ended; a file of one that was stopped goes."""
        import operators
        if path:
            self.live.append(Child({}, lambda job, requests, send: send(rows=operators.add(path, self.file, child.job["id"]))))
        elif os.path.exists(trace_path(child.pid)):
            os.unlink(trace_path(child.pid))
        self.collect(0)

    def collect(self, seconds):
        end = time.time() + seconds
        for c in list(self.live):
            got = c.hear(max(0.0, end - time.time()))
            if got is not None or seconds:
                self.rows.append((got or {}).get("rows", 0))
                c.end(1)
                self.live.remove(c)

    def empty(self):
        """Whether traces have no kernels."""
        return len(self.rows) >= 4 and not any(self.rows)


def ops_file(out):
    return out if out.endswith(".gz") else re.sub(r"\.jsonl$", "", out) + ".ops.jsonl.gz"


def imports():
    """Once, before the forks."""
    import torch
    import torch.utils.checkpoint  # noqa: F401
    import torchvision  # noqa: F401
    import transformers  # noqa: F401
    import transformers.modeling_utils  # noqa: F401
    import build  # noqa: F401
    import synthetic  # noqa: F401
    import operators  # noqa: F401
    from torch.profiler import profile  # noqa: F401
    from torch.utils.flop_counter import FlopCounterMode  # noqa: F401
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # children leave these pages alone
    assert not torch.cuda.is_initialized()


def ask_versions(device, path):
    child = Child({}, lambda job, requests, send: send(versions=versions(device)))
    got = child.hear(60) or {}
    child.end(10)
    if "versions" in got:
        with open(path, "w") as f:
            json.dump(got["versions"], f, indent=1)
    say("machine:", json.dumps(got))
    return "versions" in got


def done_ids(files):
    """Jobs of files of results (job) and of operators (id)."""
    ids = set()
    for path in files:
        with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
            rows = [json.loads(line) for line in f]
        ids |= {row["job"]["id"] if "job" in row else row["id"] for row in rows if "job" in row or "id" in row}
    return ids


def chosen(a, device):
    """The jobs to take."""
    import utilization_jobs
    todo = utilization_jobs.load()[a.start:]
    skip = done_ids(a.skip_done)
    todo = [j for j in todo if j["id"] not in skip and (not a.only or any(o in j["id"] for o in a.only.split(",")))]
    return todo if device == "cuda" else todo[:a.cpu_dry_run or a.meta_dry_run]


def alone(a, device):
    todo = chosen(a, device)
    budget, tail = Budget(a.budget), [t for t in a.tail.split(",") if t]
    imports()
    if not ask_versions(device, a.out + ".versions.json"):
        return 1
    out, spent, taken, n, bad = open(a.out, "a"), {t: [] for t in tail}, [], 0, 0
    start, nxt, parsers = time.time(), None, Parsers(ops_file(a.out))
    for i, job in enumerate(todo):
        if budget.left() < 5 or (taken and budget.left() < 1.6 * statistics.median(taken) + 1):
            say("budget spent: %d jobs not started" % (len(todo) - i))
            break
        child, nxt, began = nxt or Child(job, alone_child(device)), None, time.time()
        child.tell(tail=tail)
        row, limit = None, min(a.timeout, max(3.0, budget.left() - 1.0))
        while row is None:
            got = child.hear(max(0.01, limit - (time.time() - began)))
            if got is None or got.get("gone"):
                row = dict(job=stored(job), error="timed out" if got is None else "the process ended early")
            elif "error" in got:
                row = dict(job=stored(job), **got)
            elif "result" in got:
                row = got
        if i + 1 < len(todo):
            nxt = Child(todo[i + 1], alone_child(device))
        if "result" in row:
            got = child.hear(8 if "operators" in tail else 4)
            row["result"].update(got["after"] if got and "after" in got else dict(after_error=str(got)[-200:]))
            if "after_error" in row["result"]:
                for t in tail:
                    row["result"][t + "_s"] = 4.0
        child.end(3 if "result" in row else 0.2)
        parsers.add(child, row.get("result", {}).pop("trace", None))
        out.write(json.dumps(row, separators=(",", ":")) + "\n")
        out.flush()
        taken.append(time.time() - began)
        n += 1
        res = row.get("result", {})
        since = time.time() - start
        if "operators" in tail and (parsers.empty() or (since > 100 and 60 * n / since < a.pace)) and device == "cuda":
            say("operators: %s, left out from here" % ("no kernels" if parsers.empty() else "%.1f jobs a minute" % (60 * n / since)))
            tail[tail.index("operators")] = "launches"
            spent.setdefault("launches", [])
        for t in list(tail):
            if t + "_s" in res and t != "operators":
                spent[t].append(res[t + "_s"])
                if len(spent[t]) == 8 and statistics.median(spent[t]) > 0.5 and not a.keep_tail:
                    tail.remove(t)
                    say("%s: %.2f s a job, left out from here" % (t, statistics.median(spent[t])))
        if "error" in row:
            bad += 1
            say("%d FAILED %s %s" % (a.start + i, job["id"], row["error"].strip()[-300:].replace("\n", " ")))
        else:
            say("%d %s %.2f s: step %.2f host %.2f copy %.2f ms, kernels %s in %s ms, smact %s smocc %s drama %s tensor %s, %s W %s MHz, tail %s, built %s"
                % (a.start + i, job["id"], taken[-1], res["step_ms"], res["host_ms"], res["copy_ms"], res.get("launches"), res.get("kernel_ms"), res.get("smact"), res.get("smocc"), res.get("drama"),
                   res.get("tensor"), res.get("power_w"), res.get("sm_mhz"), res.get("operators_s", res.get("launches_s")), res["built"]))
    if nxt:
        nxt.end(0.2)
    parsers.collect(max(2.0, min(15.0, budget.left())))
    say("%d jobs, %d failed, %.1f a minute" % (n, bad, 60 * n / max(1e-9, time.time() - start)))
    return 0


def traces(a, device):
    todo = chosen(a, device)
    budget, parsers, taken, bad, ahead = Budget(a.budget), Parsers(ops_file(a.out)), [], 0, []
    imports()
    if not ask_versions(device, parsers.file + ".versions.json"):
        return 1
    start = time.time()
    for i, job in enumerate(todo):
        if budget.left() < 4 or (taken and budget.left() < 2 * statistics.median(taken) + 2):
            say("budget spent: %d jobs not started" % (len(todo) - i))
            break
        while len(ahead) < 3 and i + len(ahead) < len(todo):  # this one and the next two, which are built meanwhile
            ahead.append(Child(todo[i + len(ahead)], trace_child(device)))
        child, began = ahead.pop(0), time.time()
        child.tell(go=True)
        got, until = {}, began + min(a.timeout, max(3.0, budget.left() - 1.0))
        while got is not None and not any(k in got for k in ("trace", "error", "gone")):
            got = child.hear(max(0.01, until - time.time()))
        child.end(3 if got and "trace" in got else 0.2)
        parsers.add(child, (got or {}).get("trace"))
        if not got or "trace" not in got:
            bad += 1
            operators_failed(parsers.file, job, got)
        taken.append(time.time() - began)
        say("%d %s %.2f s: %s" % (a.start + i, job["id"], taken[-1], "%.2f" % got["seconds"] if got and "seconds" in got else "FAILED " + str(got)[-300:]))
    for c in ahead:
        c.end(0)
    parsers.collect(max(2.0, min(15.0, budget.left())))
    say("%d traces, %d failed, %.1f a minute; rows %s" % (len(taken), bad, 60 * len(taken) / max(1e-9, time.time() - start), parsers.rows[-5:]))
    return 0


def operators_failed(file, job, got):
    import operators
    operators.append(file, dict(id=job["id"], error=str((got or {}).get("error", got))[-300:]))


# ---- pairs ----

def pool_child(device):
    """A job that runs on request: {"t0", "t1"} on the clock all processes share."""
    def main(job, requests, send):
        training = prepare(job, device)
        send(built=True)
        for line in requests:
            request = json.loads(line)
            if request.get("place"):
                training.place(device)
                training.warm(WARM_STEPS, 0.2)
                import torch
                memory = {} if device == "cpu" else dict(peak_allocated=torch.cuda.max_memory_allocated(), peak_reserved=torch.cuda.max_memory_reserved())
                send(ready=dict(memory, nvml=None if device == "cpu" else process_bytes(), params=training.params), job=stored(job, training))
                continue
            times = []
            while sum(t >= request["t0"] for t in times[-2:]) < 2 or times[-1] < request["t1"]:
                training.step(lambda: times.append(time.monotonic()))
            training.sync()
            times = [t for t in times if t >= request["t0"]]
            inside = [t for t in times if t <= request["t1"]]
            if len(inside) < 2:
                inside = times[:2]  # a step longer than half the window: the one that began in it
            n = len(inside) - 1
            send(steps=n, step_ms=round(1e3 * (inside[-1] - inside[0]) / n, 4) if n > 0 else None)
    return main


def start_mps(folder):
    """Whether MPS runs; children forked afterwards use it."""
    for name in ("PIPE", "LOG"):
        path = os.path.join(folder, name.lower())
        os.makedirs(path, exist_ok=True)
        os.environ["CUDA_MPS_%s_DIRECTORY" % name] = path
    try:
        r = subprocess.run(["nvidia-cuda-mps-control", "-d"], capture_output=True, text=True, timeout=20)
        say("nvidia-cuda-mps-control -d:", r.returncode, (r.stdout + r.stderr).strip()[-300:])
        if r.returncode:
            return False

        def probe(job, requests, send):
            import torch
            torch.zeros(1, device="cuda")
            send(servers=mps_control("get_server_list"))

        child = Child({}, probe)
        got = child.hear(30)
        child.end(2)
        say("MPS probe:", got)
        return bool(got and (got.get("servers") or "").strip())
    except (OSError, subprocess.SubprocessError) as e:
        say("MPS:", repr(e))
        return False


def mps_control(command):
    return subprocess.run(["nvidia-cuda-mps-control"], input=command + "\n", capture_output=True, text=True, timeout=20).stdout


def pairs(a, device):
    import utilization_jobs
    pool = sorted((j for j in utilization_jobs.load() if "pool" in j), key=lambda j: j["pool"])
    budget, window, warm = Budget(a.budget), PAIR_WINDOW_S, PAIR_WARM_S
    if device == "cpu":
        pool, window = sorted((j for j in pool if j["source"] == "synthetic"), key=lambda j: j["gb"])[:a.cpu_dry_run], 1.0
    twins = [dict(pool[i], id=pool[i]["id"] + "#2") for i in range(0, len(pool), 8)] if a.what == "pairs" else []
    imports()
    mode = "slices"
    with tempfile.TemporaryDirectory() as folder:
        if a.mps and device == "cuda":
            if not start_mps(folder):
                say("MPS does not run here")
                mps_stop()
                return 2
            mode = "mps"
        children = []
        try:
            children = [Child(j, pool_child(device)) for j in pool + twins]
            return run_pairs(a, device, mode, children, len(pool), budget, warm, window)
        finally:
            for c in children:
                c.release()
            for c in children:
                c.end(3)
            if mode == "mps":
                mps_stop()


def mps_stop():
    try:
        mps_control("quit")
    except (OSError, subprocess.SubprocessError):
        pass


def run_pairs(a, device, mode, children, n, budget, warm, window):
    import utilization_jobs
    if not ask_versions(device, a.out + ".versions.json"):
        return 1
    out = open(a.out, "a")
    ready = {}

    def listen(group, seconds):
        end = time.time() + seconds
        for i in group:
            got = children[i].hear(max(0.01, end - time.time()))
            if got and "built" in got:
                got = children[i].hear(max(0.01, end - time.time()))
            if got and "ready" in got:
                ready[i] = got
            else:
                say("FAILED", children[i].job["id"], str(got)[-400:])
                out.write(json.dumps(dict(job=stored(children[i].job), error=str(got)[-900:]), separators=(",", ":")) + "\n")
                children[i].end(0)

    used, limit = 0.0, a.gb
    todo = []
    for i, c in enumerate(children):
        if used + c.job["gb"] + 0.8 > limit:
            say("left out for memory:", c.job["id"])
            c.end(0)
            continue
        used += c.job["gb"] + 0.8
        todo.append(i)
    for k in range(0, len(todo), 6):  # a few at a time
        some = todo[k:k + 6]
        for i in some:
            children[i].tell(place=True)
        listen(some, 60 if device == "cuda" else 300)
    say("%d of %d processes ready, %.0f s left" % (len(ready), len(children), budget.left()))
    card = Card() if device == "cuda" else None  # after the forks

    def together(group, window):
        """Runs these processes in one window: (their answers, the card's counters) or None."""
        t0 = time.monotonic() + warm
        for i in group:
            children[i].tell(t0=t0, t1=t0 + window)
        time.sleep(max(0, t0 - time.monotonic()))
        if card:
            card.begin()
        time.sleep(max(0, t0 + window - time.monotonic()))
        counters = card.end() if card else {}
        answers = [children[i].hear(30 if card else 300) for i in group]
        bad = [i for i, r in zip(group, answers) if not r or not r.get("step_ms")]
        for i, r in zip(group, answers):
            if i in bad:
                say("FAILED", children[i].job["id"], str(r)[-400:])
                if not r or "error" in r or "gone" in r:
                    ready.pop(i, None)
                    children[i].end(0)
        return None if bad else (answers, counters)

    single = {}
    for i in sorted(ready):
        if budget.left() < 4:
            break
        if i >= n:
            base = i - n
            single[i] = single.get(base * 8)
            continue
        got = together([i], min(window, PAIR_ALONE_S))
        if not got:
            continue
        single[i] = got[0][0]["step_ms"]
        out.write(json.dumps(dict(job=ready[i]["job"], mode=mode, result=dict(ready[i]["ready"], **got[0][0], **got[1])), separators=(",", ":")) + "\n")
        out.flush()
        say("alone %d %s: step %.2f ms, smact %s drama %s, %s W" % (i, children[i].job["id"], single[i], got[1].get("smact"), got[1].get("drama"), got[1].get("power_w")))
    plan = (utilization_jobs.sets if a.what == "sets" else utilization_jobs.pairs)([c.job for c in children[:n]])
    for k in range(len(children) - n):  # a job beside itself, one after each dozen
        plan.insert(6 + 12 * k, (8 * k, n + k))
    count = 0
    for group in plan:
        if budget.left() < warm + window + 1.5 + (len(ready) * (warm + PAIR_ALONE_S + 0.1) if a.again else 0) or count >= a.most:
            break
        if any(x not in ready or not single.get(x) for x in group):
            continue
        got = together(group, window)
        if not got:
            continue
        answers, counters = got
        slow = [round(answer["step_ms"] / single[x], 4) for answer, x in zip(answers, group)]
        row = {"pair" if len(group) == 2 else "set": [children[x].job["id"].partition("#")[0] for x in group], "mode": mode,
               "result": dict(step_ms=[r["step_ms"] for r in answers], steps=[r["steps"] for r in answers], alone_ms=[single[x] for x in group], slowdown=slow,
                              nvml=[ready[x]["ready"]["nvml"] for x in group], peak_reserved=[ready[x]["ready"].get("peak_reserved") for x in group], **counters)}
        out.write(json.dumps(row, separators=(",", ":")) + "\n")
        out.flush()
        count += 1
        say("%d %s (%s): slower %s, smact %s drama %s, %s W, %.0f s left" % (count, " + ".join(row.get("pair") or row["set"]), mode, " ".join("%.2f" % s for s in slow), counters.get("smact"),
            counters.get("drama"), counters.get("power_w"), budget.left()))
    for i in sorted(ready) if a.again else []:
        if budget.left() < 3:
            break
        got = together([i], min(window, PAIR_ALONE_S)) if i < n else None
        if got:
            out.write(json.dumps(dict(again=children[i].job["id"], mode=mode, result=dict(**got[0][0], **got[1])), separators=(",", ":")) + "\n")
            out.flush()
            say("again %d %s: step %.2f ms, %.2f of before" % (i, children[i].job["id"], got[0][0]["step_ms"], got[0][0]["step_ms"] / single.get(i, math.nan)))
    say("%d %s" % (count, a.what))
    return 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=("alone", "pairs", "sets", "traces"))
    p.add_argument("--budget", type=float, default=300, help="seconds for everything")
    p.add_argument("--out", default=os.path.join(os.environ.get("OUT", "out"), "utilization.jsonl"))
    p.add_argument("--start", type=int, default=0, help="leave out that many jobs of the list")
    p.add_argument("--skip-done", nargs="*", default=[], help="files whose jobs are left out")
    p.add_argument("--only", default="", help="part of an id; several with commas")
    p.add_argument("--timeout", type=float, default=25, help="seconds a job may take")
    p.add_argument("--tail", default="launches", help="what is taken after the window: operators, launches, flops, several with commas, or nothing")
    p.add_argument("--pace", type=float, default=14, help="jobs a minute under which the tail operators becomes launches, after 100 s")
    p.add_argument("--keep-tail", action="store_true", help="even where it costs more than half a second a job")
    p.add_argument("--gb", type=float, default=128, help="pairs, sets: memory for all processes of the pool")
    p.add_argument("--most", type=int, default=10000, help="pairs, sets: how many")
    p.add_argument("--again", action="store_true", help="pairs, sets: each job alone once more at the end")
    p.add_argument("--mps", action="store_true", help="pairs, sets: under NVIDIA's multi-process service")
    p.add_argument("--cpu-dry-run", type=int, default=0)
    p.add_argument("--meta-dry-run", type=int, default=0)
    a = p.parse_args()
    os.makedirs(os.path.dirname(os.path.abspath(a.out)), exist_ok=True)
    device = "cpu" if a.cpu_dry_run else "meta" if a.meta_dry_run else "cuda"
    return dict(alone=alone, pairs=pairs, sets=pairs, traces=traces)[a.what](a, device)


if __name__ == "__main__":
    sys.exit(main())
