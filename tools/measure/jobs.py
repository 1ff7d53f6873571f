"""Measures training jobs: peak memory phase by phase and the allocator's trace of three steps, one process
per job, several at a time.  Writes OUT/jobs.jsonl.xz (job and result), OUT/traces.jsonl.xz (job and events) and,
with --export, OUT/graphs.tar.xz (ID.json: the forward pass as torch.export wrote it).  README.md says what the
fields mean.  --cpu-dry-run and --meta-dry-run run every job's loop at batch 2 on the CPU, or on meta tensors (no
arithmetic: quick, but without autocast and process groups); these and --export need no card."""
import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # keeps CUDA out of the parent, which forks
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import Budget, compress, device_used, events, log, process_bytes, record, trace  # noqa: E402


def cast_model(job, model, device):
    import torch
    model = model.to(device=device, dtype=torch.bfloat16) if job["precision"] == "bf16" else model.to(device)
    if job.get("channels_last"):
        model = model.to(memory_format=torch.channels_last)
    return model


def leaves(model, batch):
    """[type, output elements per sample, parameters] of every leaf module, filled by hooks as forward runs."""
    import torch
    rows, handles = [], []

    def hook(m, args, out):
        t = out[0] if isinstance(out, (tuple, list)) and out else out
        n = t.numel() // batch if isinstance(t, torch.Tensor) else 0
        rows.append([type(m).__name__, n, sum(p.numel() for p in m.parameters(recurse=False))])

    for m in model.modules():
        if not list(m.children()):
            handles.append(m.register_forward_hook(hook))
    return rows, handles


def train(job, device, steps, mark, batch_size=None):
    """The loop.  mark(name) is called at the end of every phase; returns what is known before the first step."""
    import torch
    from build import build, call, optimizer, wrap
    size = batch_size or job["batch"]
    precision = job["precision"]
    torch.manual_seed(0)
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32 or job.get("cudnn_tf32", True)
    torch.backends.cudnn.benchmark = bool(job.get("cudnn_benchmark"))
    model, inputs = build(job, meta=device == "meta")
    info = dict(params=sum(p.numel() for p in model.parameters()))
    model = cast_model(job, model, device)
    info["param_bytes"] = sum(p.numel() * p.element_size() for p in model.parameters())
    info["buffer_bytes"] = sum(b.numel() * b.element_size() for b in model.buffers())
    info["trainable"] = sum(p.numel() for p in model.parameters() if p.requires_grad)
    model = wrap(job, model, device)
    mark("model")
    opt = optimizer(job["optimizer"], model.parameters())
    amp = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}.get(precision)
    scaler = torch.amp.GradScaler(device) if precision == "amp-fp16" and device != "meta" else None
    host = inputs(size)
    rows, handles = leaves(model, size)
    turns = job.get("accumulate", 1)

    def step(first):
        opt.zero_grad(set_to_none=True)
        for turn in range(turns):
            batch = {n: t.to(device, copy=device != "cuda") for n, t, _ in host}
            for n, _, kind in host:
                if kind == "normal":
                    batch[n].normal_()
            for n, _, kind in host:
                if kind != "int" and precision == "bf16":
                    batch[n] = batch[n].to(torch.bfloat16)
                if job.get("channels_last") and batch[n].dim() == 4:
                    batch[n] = batch[n].to(memory_format=torch.channels_last)
            mark("input")
            if amp and device != "meta":
                with torch.autocast(device, dtype=amp):
                    loss = call(job, model, batch)
            else:
                loss = call(job, model, batch)
            mark("forward")
            if first and turn == 0:
                for h in handles:
                    h.remove()
            (scaler.scale(loss) if scaler else loss).backward()
            mark("backward")
        if scaler:
            scaler.step(opt)
            scaler.update()
        else:
            opt.step()
        mark("optimizer")

    for i in range(steps):
        step(i == 0)
    info["layers"] = rows
    return info


def measure(job):
    """One job on the card, in this process: (result, trace result)."""
    import torch
    record()
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    start = process_bytes()
    res = dict(ctx=None if start is None else start - torch.cuda.memory_reserved())
    phases, marks, state = [], [], {"nvml": None}

    def mark(name):
        torch.cuda.synchronize()
        marks.append([time.time_ns() // 1000, name])
        if name == "model":
            res["after_model"] = torch.cuda.memory_allocated()
            return
        phases.append([name, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()])
        res["peak_reserved"] = max(res.get("peak_reserved", 0), torch.cuda.max_memory_reserved())
        torch.cuda.reset_peak_memory_stats()

    t = time.time()
    info = train(job, "cuda", 3, mark)
    torch.cuda.synchronize()
    state["nvml"] = process_bytes()
    stats = torch.cuda.memory_stats()
    res.update(info)
    res.update(phases=phases, peak_allocated=max(p[2] for p in phases), nvml=state["nvml"],
               overhead=None if state["nvml"] is None else state["nvml"] - torch.cuda.memory_reserved(),
               retries=stats.get("num_alloc_retries", 0), segments=stats.get("segment.all.current", 0),
               device_used=device_used(), seconds=round(time.time() - t, 2))
    evs, times = events(trace())
    at, i = [], 0
    for when, name in marks:
        while i < len(times) and times[i] <= when:
            i += 1
        at.append([i, name])
    tr = dict(events=evs, marks=at, peak_allocated=res["peak_allocated"], peak_reserved=res["peak_reserved"], nvml=res["nvml"])
    return res, tr


def child(job, folder, mode):
    """Runs one job and leaves ID.json (and ID.trace, ID.graph) in folder."""
    base = os.path.join(folder, job["id"])
    out = dict(job={k: v for k, v in job.items() if k != "gb"})
    try:
        import torch
        torch.set_num_threads(2)
        if mode == "export":
            from build import export
            g = export(job)
            with open(base + ".graph", "w") as f:
                json.dump(g, f, separators=(",", ":"))
            out["result"] = dict(nodes=len(g["graph_module"]["graph"]["nodes"]))
        elif mode in ("cpu", "meta"):
            j, seen = dict(job), []
            if mode == "meta":  # what meta tensors cannot do
                j.pop("parallel", None)
                j["optimizer"] = "sgd"
            else:  # small and in fp32, or it takes minutes
                j["precision"] = "fp32"
                if "seq" in j:
                    j["seq"] = min(j["seq"], 32)
            info = train(j, mode, 2, seen.append, batch_size=2)
            out["result"] = dict(params=info["params"], layers=len(info["layers"]), marks=len(seen))
        else:
            res, tr = measure(job)
            out["job"] = {k: v for k, v in job.items() if k != "gb"}
            out["result"] = res
            with open(base + ".trace", "w") as f:
                json.dump(dict(job={k: v for k, v in out["job"].items() if k != "config"}, result=tr), f, separators=(",", ":"))
    except Exception as e:
        out["error"] = "".join(traceback.format_exception_only(type(e), e))[-600:]
        out["where"] = traceback.format_exc()[-900:]
    with open(base + ".json", "w") as f:
        json.dump(out, f, separators=(",", ":"))


def fork_works():
    """Whether a forked child can use the card."""
    pid = os.fork()
    if pid == 0:
        try:
            import torch
            torch.zeros(1, device="cuda")
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


FRESH = False  # a fresh interpreter per job, where forked children cannot use the card


def fork(job, folder, mode):
    env = job.get("alloc_conf")
    if FRESH:
        with open(os.path.join(folder, job["id"] + ".todo"), "w") as f:
            json.dump(job, f)
        return subprocess.Popen([sys.executable, os.path.abspath(__file__), "--one", f.name, "--mode", mode], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, env=dict(os.environ, **({"PYTORCH_CUDA_ALLOC_CONF": env} if env else {}))).pid
    pid = os.fork()
    if pid:
        return pid
    try:
        if env:
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = env
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        child(job, folder, mode)
    finally:
        os._exit(0)


def run(todo, a, mode, folder):
    """Keeps a.workers processes busy within the budget and the card's memory; collects as they end."""
    budget, running, queue, done, bad = Budget(a.budget - a.reserve), {}, list(todo), 0, 0
    os.makedirs(a.out, exist_ok=True)
    files = {k: open(os.path.join(a.out, n), "w") for k, n in (("json", "jobs.jsonl"), ("trace", "traces.jsonl"))}
    tar = tarfile.open(os.path.join(a.out, "graphs.tar"), "w") if mode == "export" else None

    def collect(job, why=None):
        nonlocal done, bad
        path = os.path.join(folder, job["id"])
        if os.path.exists(path + ".json"):
            line = open(path + ".json").read()
        else:
            line = json.dumps(dict(job={k: v for k, v in job.items() if k != "gb"}, error=why or "the process ended early"))
        rec = json.loads(line)
        if "error" in rec:
            bad += 1
            log("FAILED", job["id"], rec["error"].strip()[-220:])
        files["json"].write(line + "\n")
        files["json"].flush()
        if os.path.exists(path + ".trace"):
            files["trace"].write(open(path + ".trace").read() + "\n")
            files["trace"].flush()
        if tar and os.path.exists(path + ".graph"):
            tar.add(path + ".graph", "graphs/%s.json" % job["id"])
        for s in (".json", ".trace", ".graph"):
            if os.path.exists(path + s):
                os.remove(path + s)
        done += 1
        if done % 20 == 0:
            log("%d of %d done, %d failed, %.0f s left" % (done, len(todo), bad, budget.left()))

    while queue or running:
        while queue and len(running) < a.workers and budget.left() > 0:
            used = sum(j["gb"] for j, _ in running.values())
            i = next((i for i, j in enumerate(queue[:30]) if used + j["gb"] <= a.gb), None)
            if i is None:
                break
            job = queue.pop(i)
            running[fork(job, folder, mode)] = (job, time.time())
        if budget.left() <= 0 and queue:
            log("budget spent: %d jobs not started" % len(queue))
            queue = []
        ended, _ = os.waitpid(-1, os.WNOHANG) if running else (0, 0)
        if ended in running:
            collect(running.pop(ended)[0])
            continue
        for pid, (job, since) in list(running.items()):
            if time.time() - since > a.timeout or budget.left() < -a.grace:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                running.pop(pid)
                collect(job, "timed out")
        time.sleep(0.01)
    for f in files.values():
        f.close()
    if tar:
        tar.close()
    log("%d jobs, %d failed" % (done, bad))


def probe_tf32():
    """Whether convolutions of fp32 jobs ran with TF32 on in the first set (PyTorch's default): the first
    convolution of resnet18 there, batch 128, took a workspace of 488,149,776 B.  Prints 1 or 0."""
    import torch
    from common import sections, sentinel
    x, w = torch.zeros(128, 3, 224, 224, device="cuda"), torch.zeros(64, 3, 7, 7, device="cuda")
    got = {}
    for on in (True, False):
        torch.backends.cudnn.allow_tf32 = on
        record()
        skip = len(trace())
        sentinel()
        y = torch.nn.functional.conv2d(x, w, stride=2, padding=3)
        sentinel()
        del y
        got[on] = sections(trace()[skip:])[0][0]
        record(False)
    print(json.dumps([0 if 488149776 in got[False] and 488149776 not in got[True] else 1, got[True], got[False]]))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--budget", type=float, default=300, help="seconds for everything, compression included")
    p.add_argument("--reserve", type=float, default=25, help="of which kept for the last jobs and compression")
    p.add_argument("--grace", type=float, default=10, help="seconds that jobs already started get beyond that")
    p.add_argument("--timeout", type=float, default=75, help="seconds a job may take")
    p.add_argument("--workers", type=int, default=10)
    p.add_argument("--gb", type=float, default=100, help="sum of the running jobs' bounds")
    p.add_argument("--out", default=os.environ.get("OUT", "out"))
    p.add_argument("--only", default="", help="part of an id; several with commas")
    p.add_argument("--skip-done", default="", help="a jobs.jsonl whose jobs are left out")
    p.add_argument("--export", action="store_true", help="export the forward passes; needs no card")
    p.add_argument("--cpu-dry-run", action="store_true")
    p.add_argument("--meta-dry-run", action="store_true")
    p.add_argument("--probe-tf32", action="store_true")
    p.add_argument("--list", action="store_true")
    p.add_argument("--one", default="", help="a file that holds one job: measure it and leave its files beside it")
    p.add_argument("--mode", default="cuda")
    a = p.parse_args()
    if a.one:
        return child(json.load(open(a.one)), os.path.dirname(a.one), a.mode)
    if a.probe_tf32:
        return probe_tf32()
    import catalog
    todo = catalog.jobs()
    skip = set()
    drop = os.path.join(os.path.dirname(os.path.abspath(__file__)), "drop.txt")
    if os.path.exists(drop):
        skip |= {line.split()[0] for line in open(drop) if line.strip() and line[0] != "#"}
    if a.skip_done:
        skip |= {json.loads(line)["job"]["id"] for line in open(a.skip_done)}
    todo = [j for j in todo if j["id"] not in skip and (not a.only or any(o in j["id"] for o in a.only.split(",")))]
    if a.list:
        print("\n".join(j["id"] for j in todo))
        return
    mode = "export" if a.export else "cpu" if a.cpu_dry_run else "meta" if a.meta_dry_run else "cuda"
    if mode == "cuda":
        flag = 1
        try:
            out = subprocess.run([sys.executable, os.path.abspath(__file__), "--probe-tf32"], capture_output=True, text=True, timeout=60).stdout
            got = json.loads(out.strip().splitlines()[-1])
            flag = got[0]
            log("fp32 convolutions: TF32", "on" if flag else "off", got)
        except Exception as e:
            log("probe failed, TF32 left on for convolutions:", repr(e))
        for j in todo:
            j["cudnn_tf32"] = bool(flag)
    import torch  # noqa: F401  imported once, before the forks
    import torch.distributed.fsdp  # noqa: F401
    import torch.utils.checkpoint  # noqa: F401
    import torchvision  # noqa: F401
    import transformers  # noqa: F401
    import build  # noqa: F401
    if mode == "export":
        import torch._dynamo  # noqa: F401
        import torch.export._trace  # noqa: F401
    else:
        from torch.testing._internal.distributed import fake_pg  # noqa: F401
        for name in ("transformers.modeling_utils", "torch.optim"):
            __import__(name)
    torch.set_num_threads(1)
    if mode == "cuda" and (torch.cuda.is_initialized() or not fork_works()):
        global FRESH
        FRESH = True
        log("forked children cannot use the card: a fresh interpreter a job")
    with tempfile.TemporaryDirectory() as folder:
        run(todo, a, mode, folder)
    for n in ("jobs.jsonl", "traces.jsonl", "graphs.tar"):
        path = os.path.join(a.out, n)
        if os.path.exists(path):
            if os.path.getsize(path) or n == "jobs.jsonl":
                compress(path)
            else:
                os.remove(path)


if __name__ == "__main__":
    main()
