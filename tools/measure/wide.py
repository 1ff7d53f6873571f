"""Training jobs over many libraries' architectures: timm, diffusers, segmentation_models_pytorch, torchvision and transformers' auto mappings.

    wide.py --make                              # writes wide_jobs.jsonl.xz: the jobs (needs the libraries, no card)
    wide.py memory --budget 580 [--export]      # OUT/wide.jsonl: peak memory, as jobs.py has it; OUT/wide-graphs.tar.xz: the forward passes
    wide.py time --budget 240 [--ids FILE]      # OUT/wide-time.jsonl: step time and counters, one job on the card at a time
    wide.py check [--only PART]                 # a step of every job's loop on the CPU
    wide.py export --export [--only PART]       # the graphs alone, without a card

A third of the architectures, by a hash of the name, is set aside (`held_out` in the job): of those no rule is to be written.
Libraries that the machine lacks are looked for in wheels under --wheels FOLDER. Children are forked, one per job."""
import argparse
import glob
import hashlib
import io
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
from common import Budget, events, log, process_bytes, record, trace  # noqa: E402

JOBS = os.path.join(HERE, "wide_jobs.jsonl.xz")
PRECISIONS = ("fp32", "amp-bf16", "bf16", "amp-bf16", "fp32", "tf32")
LIMIT_GB, MOST_GB = 7.0, 9.2  # a job's batch is made to fit the one; the other is what a process may reserve
OPTIMIZERS = ("adamw", "adamw", "sgd-momentum", "adam", "adamw-fused", "rmsprop")
# Architectures whose operators are written down too, one by one.
OPERATORS = ("nest", "twins", "vision_transformer_sam", "hiera", "efficientvit_mit", "efficientvit_msra", "convit", "dla", "qwen3_next",
             "qwen3_5_text", "qwen3_5", "olmo_hybrid", "ControlNetModel")


def held_out(name):
    return int(hashlib.sha1(name.encode()).hexdigest(), 16) % 3 == 0


# ---- models: kind -> (model, inputs(batch) -> [(name, tensor, kind)])

def build_timm(job):
    import timm
    import torch
    model = timm.create_model(job["model"]["name"], pretrained=False)
    size = job["model"]["shape"]

    def inputs(batch):
        return [("x", torch.zeros(batch, *size), "normal"), ("y", torch.randint(0, model.num_classes, (batch,)), "int")]

    return model, inputs


def build_smp(job):
    import segmentation_models_pytorch as smp
    import torch
    spec = job["model"]
    model = getattr(smp, spec["name"])(encoder_name=spec["encoder"], encoder_weights=None, classes=spec["classes"])
    side = spec["side"]

    def inputs(batch):
        return [("x", torch.zeros(batch, 3, side, side), "normal"), ("y", torch.randint(0, spec["classes"], (batch, side, side)), "int")]

    return model, inputs


def build_diffusers(job):
    import diffusers
    import torch
    spec = job["model"]
    model = getattr(diffusers, spec["name"])(**spec["settings"])

    def inputs(batch):
        rows = []
        for name, (shape, kind) in spec["inputs"].items():
            shape = [batch if n == "B" else n for n in shape]
            rows.append((name, torch.randint(0, 999, shape) if kind == "int" else torch.zeros(*shape), kind))
        return rows + [("target", torch.zeros(*[batch if n == "B" else n for n in spec["target"]]), "normal")]

    return model, inputs


def build_torchvision(job):
    """A segmenter, or a detector over a list of pictures with five boxes each: its losses' sum."""
    import torch
    import torchvision
    spec = job["model"]
    side, classes = spec["side"], 21
    model = getattr(getattr(torchvision.models, spec["part"]), spec["name"])(weights=None, weights_backbone=None, num_classes=classes)
    if spec["part"] == "segmentation":
        def inputs(batch):
            return [("x", torch.zeros(batch, 3, side, side), "normal"), ("y", torch.randint(0, classes, (batch, side, side)), "int")]
        return model, inputs

    class Detector(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, boxes, labels):
            targets = [dict(boxes=b, labels=n) for b, n in zip(boxes, labels)]
            return sum(self.model(list(x), targets).values())

    def inputs(batch):
        torch.manual_seed(1)
        corner = torch.rand(batch, 5, 2) * side / 2
        boxes = torch.cat([corner, corner + 16 + torch.rand(batch, 5, 2) * side / 3], 2)
        return [("x", torch.zeros(batch, 3, side, side), "normal"), ("boxes", boxes, "exact"), ("labels", torch.randint(1, classes, (batch, 5)), "int")]

    return Detector(), inputs


def build_transformers(job):
    import torch
    import transformers
    from build import language_inputs
    spec = dict(job["model"]["config"])
    config = transformers.CONFIG_MAPPING[spec.pop("model_type")].from_dict(spec)
    config.use_cache = False
    for key, value in dict(apply_spec_augment=False, layerdrop=0.0).items():  # what numpy or Python's random decides is not in a graph
        if hasattr(config, key):
            setattr(config, key, value)
    if job["task"] == "seq2seq" and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0
    model = getattr(transformers, job["auto"]).from_config(config)
    for part in model.modules():  # a part of the configuration may say otherwise
        if getattr(getattr(part, "config", None), "use_cache", False):
            part.config.use_cache = False
    if job.get("checkpoint"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    job["config"] = dict(config.to_dict())
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    if not getattr(config, "vocab_size", None) and getattr(text, "vocab_size", None):
        config.vocab_size = text.vocab_size
    if job["task"] == "detect":
        return detector(model, config)
    if job["task"] == "audio" and model.main_input_name == "input_features":
        width = getattr(config, "feature_projection_input_dim", None) or getattr(config, "num_mel_bins", 80)

        def inputs(batch):
            shape = (width, 3000) if config.model_type == "whisper" else (400, width)
            return [("input_features", torch.zeros(batch, *shape), "normal"), ("labels", torch.randint(0, config.num_labels, (batch,)), "int")]

        return model, inputs
    return model, language_inputs(job, config)


def detector(model, config):
    """A detector of transformers without its matching of boxes: the mean squares of its logits and boxes."""
    import torch

    class Detector(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model, self.config = model, config

        def forward(self, pixel_values):
            out = self.model(pixel_values=pixel_values)
            return out.logits.square().mean() + out.pred_boxes.square().mean()

    def inputs(batch):
        return [("pixel_values", torch.zeros(batch, 3, 384, 384), "normal")]

    return Detector(), inputs


BUILD = {"timm": build_timm, "smp": build_smp, "diffusers": build_diffusers, "torchvision": build_torchvision,
         "transformers": build_transformers}


def build(job):
    model, inputs = BUILD[job["model"]["kind"]](job)
    return model.train(), inputs


def first(out):
    while not hasattr(out, "shape"):
        out = next(iter(out.values() if isinstance(out, dict) else out))
    return out


def call(job, model, batch):
    """The loss of a batch (name -> tensor)."""
    import torch.nn.functional as F
    kind = job["model"]["kind"]
    if job["loss"] == "own":
        out = model(**batch)
        return out.loss if hasattr(out, "loss") else out
    if kind == "diffusers":
        given = {n: t for n, t in batch.items() if n != "target"}
        return F.mse_loss(first(model(**given, return_dict=False)), batch["target"])
    return F.cross_entropy(first(model(batch["x"])), batch["y"])


# ---- one job

class Loop:
    """The training loop of training.py, over this file's models."""

    def __init__(self, job):
        import torch
        from training import without_values
        torch.manual_seed(0)
        self.job = job
        try:
            with without_values():
                self.model, inputs = build(job)
            self.how = "empty"
        except Exception as e:  # a model that reads its parameters while it is built
            self.how = "values: " + repr(e)[:120]
            self.model, inputs = build(job)
        if job["precision"] == "bf16":
            self.model = self.model.to(torch.bfloat16)
        self.host = inputs(job["batch"])

    def place(self, device):
        import torch
        from build import optimizer
        from training import materialise
        job, precision = self.job, self.job["precision"]
        self.device, tf32 = device, precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = True
        self.model = materialise(dict(job, source=job["model"]["kind"]), self.model, device)
        if job.get("channels_last"):
            self.model = self.model.to(memory_format=torch.channels_last)
        self.opt = optimizer(job["optimizer"], self.model.parameters())
        self.amp = torch.bfloat16 if precision == "amp-bf16" else None

    def step(self, mark=lambda name: None):
        import torch
        self.opt.zero_grad(set_to_none=True)
        batch = {n: t.to(self.device, copy=self.device != "cuda") for n, t, _ in self.host}
        for n, _, kind in self.host:
            if kind == "normal":
                batch[n].normal_()
        for n, _, kind in self.host:
            if kind not in ("int", "exact") and self.job["precision"] == "bf16":
                batch[n] = batch[n].to(torch.bfloat16)
            if self.job.get("channels_last") and batch[n].dim() == 4:
                batch[n] = batch[n].to(memory_format=torch.channels_last)
        mark("input")
        if self.amp and self.device != "meta":
            with torch.autocast(self.device, dtype=self.amp):
                loss = call(self.job, self.model, batch)
        else:
            loss = call(self.job, self.model, batch)
        mark("forward")
        loss.backward()
        mark("backward")
        self.opt.step()
        mark("optimizer")


def operators(loop):
    """One more step, operator by operator below autograd: [name, outputs' shapes, allocated before, after, most inside]."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    rows = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            out = func(*args, **(kwargs or {}))
            shapes = [[list(t.shape), str(t.dtype)[6:]] for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
            rows.append([str(func), shapes, before, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()])
            return out

    with Mode():
        loop.step(lambda name: rows.append([name]))
    return rows


def measure_memory(job, shared, with_events):
    import torch
    loop = Loop(job)
    with shared:
        record()
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        start = process_bytes()
        res = dict(ctx=None if start is None else start - torch.cuda.memory_reserved(), how=loop.how)
        phases = []

        def mark(name):
            torch.cuda.synchronize()
            phases.append([name, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()])
            res["peak_reserved"] = max(res.get("peak_reserved", 0), torch.cuda.max_memory_reserved())
            torch.cuda.reset_peak_memory_stats()

        t = time.time()
        loop.place("cuda")
        res["after_model"] = torch.cuda.memory_allocated()
        for _ in range(3):
            loop.step(mark)
        torch.cuda.synchronize()
        nvml = process_bytes()
        res.update(params=sum(p.numel() for p in loop.model.parameters()), trainable=sum(p.numel() for p in loop.model.parameters() if p.requires_grad),
                   param_bytes=sum(p.numel() * p.element_size() for p in loop.model.parameters()), phases=phases,
                   peak_allocated=max(p[2] for p in phases), nvml=nvml, overhead=None if nvml is None else nvml - torch.cuda.memory_reserved(),
                   retries=torch.cuda.memory_stats().get("num_alloc_retries", 0), seconds=round(time.time() - t, 2))
        evs, _ = events(trace())
        record(False)
        if with_events and not job["held_out"] or job["arch"] in OPERATORS:
            res["events"] = evs
        if job["arch"] in OPERATORS:
            res["operators"] = operators(loop)
    return res


def measure_time(job, alone):
    import torch
    import counters
    loop = Loop(job)
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    with alone:
        loop.place("cuda")
        loop.step()  # what is loaded when it is first used is no part of a step
        torch.cuda.synchronize()
        began, n = time.perf_counter(), 0
        while n < 3 or time.perf_counter() - began < 0.15:
            loop.step()
            n += 1
            if n <= 3 or n % 8 == 0:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        rough = (time.perf_counter() - began) / n
        steps = max(3, int(0.45 / rough) + 1)
        torch.cuda.synchronize()
        card = counters.Card()
        card.begin()
        t = time.perf_counter()
        for _ in range(steps):
            loop.step()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - t
        res = dict(step_ms=1e3 * seconds / steps, steps=steps, params=sum(p.numel() for p in loop.model.parameters()),
                   trainable=sum(p.numel() for p in loop.model.parameters() if p.requires_grad), peak_reserved=torch.cuda.max_memory_reserved(),
                   peak_allocated=torch.cuda.max_memory_allocated(), how=loop.how)
        res.update(card.end())
        issue = []  # the host's time for a step with the card idle, the batch's copy included
        for _ in range(3):
            torch.cuda.synchronize()
            t = time.perf_counter()
            loop.step()
            issue.append(time.perf_counter() - t)
        torch.cuda.synchronize()
        res["issue_ms"] = 1e3 * sorted(issue)[1]
    return res


def without_storage(job):
    """The model and a batch (name -> tensor) on the meta device, of the job's type."""
    import torch
    from training import without_values
    with without_values():
        model, inputs = build(job)
    dtype = torch.bfloat16 if job["precision"] == "bf16" else None
    model = model.to(device="meta", dtype=dtype)
    batch = {}
    for name, t, kind in inputs(job["batch"]):
        t = torch.empty_like(t, device="meta")
        batch[name] = t.to(dtype) if dtype and kind not in ("int", "exact") else t
    if job.get("channels_last"):
        model = model.to(memory_format=torch.channels_last)
        batch = {n: t.to(memory_format=torch.channels_last) if t.dim() == 4 else t for n, t in batch.items()}
    return model, batch


def export(job):
    """models/model.json of torch.export's archive of the forward pass, from tensors without values."""
    import torch
    model, batch = without_storage(job)
    batch = {n: t for n, t in batch.items() if n != "target" and (n != "y" or job["loss"] == "own")}
    if job["model"]["kind"] == "diffusers":
        batch["return_dict"] = False
    keyed = job["loss"] == "own" or job["model"]["kind"] == "diffusers"
    ep = torch.export.export(model, () if keyed else tuple(batch.values()), batch if keyed else {}, strict=False)
    f = io.BytesIO()
    torch.export.save(ep, f)
    z = zipfile.ZipFile(f)
    graph = json.loads(z.read([n for n in z.namelist() if n.endswith("models/model.json")][0]))
    for node in graph["graph_module"]["graph"]["nodes"]:  # half of the text
        node.get("metadata", {}).pop("stack_trace", None)
    return graph


def outputs_gb(job):
    """(parameters, GB of a job at batch size job["batch"]: what all operators of a forward pass put out and the parameters four times over)."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    total = [0]

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            total[0] += sum(t.numel() * t.element_size() for t in tree_leaves(out) if isinstance(t, torch.Tensor) and not t._is_view())
            return out

    model, batch = without_storage(job)
    params = sum(p.numel() for p in model.parameters())
    with Mode():
        call(job, model, batch)
    return params, (total[0] * 1.2 + params * 16) / 2**30 + 0.5


def fit_batch(job, limit):
    """Makes the batch smaller until outputs_gb is no more than limit, by the first measure of it; a job too large at batch 1 is refused."""
    if job.get("fitted"):
        return
    try:
        params, gb = outputs_gb(job)
    except Exception:  # it wants values: the card will say
        job["fitted"] = "not asked"
        return
    if gb > limit:
        fixed = params * 16 / 2**30 + 0.5
        job["batch"] = max(1, int(job["batch"] * max(0, limit - fixed) / (gb - fixed)))
        params, gb = outputs_gb(job)
    if gb > 1.6 * limit:
        raise ValueError("too large: %d parameters, %.1f GB at batch %d" % (params, gb, job["batch"]))
    job["fitted"] = round(gb, 2)


# ---- children

class Lock:
    """The card for oneself (whole) or together with others; a file's lock."""

    def __init__(self, path, whole):
        self.path, self.whole = path, whole

    def __enter__(self):
        import fcntl
        self.file = open(self.path, "w")
        fcntl.flock(self.file, fcntl.LOCK_EX if self.whole else fcntl.LOCK_SH)

    def __exit__(self, *a):
        self.file.close()


def child(job, folder, mode, lock, with_graph, with_events):
    base = os.path.join(folder, job["id"])
    out = dict(job=job)
    try:
        import torch
        torch.set_num_threads(1)
        if mode == "check":
            loop = Loop(dict(job, batch=min(job["batch"], 2), precision="fp32"))
            loop.place("cpu")
            seen = []
            loop.step(seen.append)
            out["result"] = dict(params=sum(p.numel() for p in loop.model.parameters()))
        elif mode == "export":
            fit_batch(job, LIMIT_GB)
            out["result"] = dict(params=0)
        elif mode == "memory":
            fit_batch(job, LIMIT_GB)
            torch.cuda.set_per_process_memory_fraction(MOST_GB / 139)
            out["result"] = measure_memory(job, Lock(lock, False), with_events)
        else:
            out["result"] = measure_time(job, Lock(lock, True))
    except BaseException as e:
        out["error"] = "".join(traceback.format_exception_only(type(e), e))[-600:]
        out["where"] = traceback.format_exc()[-900:]
    with open(base + ".json", "w") as f:
        json.dump(out, f, separators=(",", ":"))
    if with_graph and "error" not in out:
        try:
            import torch
            torch.cuda.empty_cache()
            text = json.dumps(export(dict(job)), separators=(",", ":"))
            with open(base + ".graph~", "w") as f:
                f.write(text)
            os.rename(base + ".graph~", base + ".graph")
        except BaseException as e:
            with open(base + ".refused", "w") as f:
                f.write("".join(traceback.format_exception_only(type(e), e))[:300])


def pack(path):
    """path.xz in place of path, by all processors where there is an xz."""
    if shutil.which("xz"):
        subprocess.run(["xz", "-f", "-3", "-T0", path], check=True)
        return
    with open(path, "rb") as f, lzma.open(path + ".xz", "wb", preset=1) as out:
        shutil.copyfileobj(f, out)
    os.remove(path)


def run(todo, a, mode):
    budget, running, queue, done, bad, refused = Budget(a.budget), {}, list(todo), 0, 0, 0
    os.makedirs(a.out, exist_ok=True)
    name = {"memory": "wide", "time": "wide-time", "check": "wide-check", "export": "wide-export"}[mode]
    folder = tempfile.mkdtemp()
    lines = open(os.path.join(a.out, name + ".jsonl"), "w")
    tar = tarfile.open(os.path.join(a.out, name + "-graphs.tar"), "w") if a.export else None

    def collect(job, why=None):
        nonlocal done, bad, refused
        path = os.path.join(folder, job["id"])
        text = open(path + ".json").read() if os.path.exists(path + ".json") else json.dumps(dict(job=job, error=why or "the process ended early"))
        rec = json.loads(text)
        if os.path.exists(path + ".refused"):
            rec["refused"] = open(path + ".refused").read()
            refused += 1
        if "OutOfMemory" in rec.get("error", "") and rec["job"]["batch"] > 1 and budget.left() > a.last:
            queue.insert(0, dict(rec["job"], batch=rec["job"]["batch"] // 2, fitted="halved"))
            os.remove(path + ".json")
            return
        if "error" in rec:
            bad += 1
            log("FAILED", job["id"], rec["error"].strip()[-200:])
        lines.write(json.dumps(rec, separators=(",", ":")) + "\n")
        lines.flush()
        if tar and os.path.exists(path + ".graph"):
            tar.add(path + ".graph", job["id"] + ".json")
        done += 1
        if done == 60 and bad > done // 2:
            log("most jobs fail: stopped")
            queue.clear()
        if done % 40 == 0:
            log("%d of %d done, %d failed, %d not exported, %.0f s left" % (done, len(todo), bad, refused, budget.left()))

    while queue or running:
        while queue and len(running) < a.workers and budget.left() > a.last:
            job = queue.pop(0)
            pid = os.fork()
            if not pid:
                os.setpgid(0, 0)
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                try:
                    child(job, folder, mode, os.path.join(folder, "lock"), a.export, a.events)
                finally:
                    os._exit(0)
            running[pid] = (job, time.time())
        if budget.left() <= a.last and queue:
            log("budget spent: %d jobs not started" % len(queue))
            queue = []
        ended, _ = os.waitpid(-1, os.WNOHANG) if running else (0, 0)
        if ended in running:
            collect(running.pop(ended)[0])
            continue
        for pid, (job, since) in list(running.items()):
            if time.time() - since > a.timeout or budget.left() < 0:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                running.pop(pid)
                collect(job, "timed out")
        time.sleep(0.01)
    lines.close()
    if tar:
        tar.close()
        pack(tar.name)
    if a.events:
        pack(lines.name)
    log("%d jobs, %d failed, %d not exported, %.0f s" % (done, bad, refused, a.budget - budget.left()))


def preload():
    import torch
    import torch.export  # noqa: F401
    import torch._dynamo  # noqa: F401
    for name in ("timm", "diffusers", "segmentation_models_pytorch", "transformers"):
        try:
            module = __import__(name)
            log(name, module.__version__)
        except Exception as e:
            log(name, "is not there:", repr(e)[:200])
    log("torch", torch.__version__)


def wheels(folder):
    """Wheels of the folder unpacked beside one another, at the head of the path."""
    place = tempfile.mkdtemp()
    for w in sorted(glob.glob(os.path.join(folder, "*.whl"))):
        zipfile.ZipFile(w).extractall(place)
    sys.path.insert(0, place)


def jobs(path):
    with (lzma.open if path.endswith(".xz") else open)(path, "rt") as f:
        return [json.loads(line) for line in f]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("mode", nargs="?", choices=("memory", "time", "check", "export"), default="check")
    p.add_argument("--make", action="store_true")
    p.add_argument("--budget", type=float, default=300)
    p.add_argument("--last", type=float, default=25, help="seconds before the end at which no job is started any more")
    p.add_argument("--timeout", type=float, default=100)
    p.add_argument("--workers", type=int, default=14)
    p.add_argument("--out", default=os.environ.get("OUT", "out"))
    p.add_argument("--only", default="")
    p.add_argument("--ids", default="", help="a file with one id per line: these jobs, in this order")
    p.add_argument("--export", action="store_true")
    p.add_argument("--jobs", default=JOBS, help="one job per line, plain or .xz")
    p.add_argument("--events", action="store_true", help="what the allocator did, of every job that is not set aside")
    p.add_argument("--wheels", default="")
    a = p.parse_args()
    if a.wheels:
        wheels(a.wheels)
    if a.make:
        import wide_catalog
        return wide_catalog.make(JOBS)
    todo = [j for j in jobs(a.jobs) if not a.only or any(o in j["id"] for o in a.only.split(","))]
    if a.ids:
        order = [line.split()[0] for line in open(a.ids) if line.strip()]
        of = {j["id"]: j for j in todo}
        todo = [of[i] for i in order if i in of]
    preload()
    run(todo, a, a.mode)


if __name__ == "__main__":
    main()
