"""Exports the forward pass of utilization_jobs.py's jobs, at each job's batch and length, for those that plimsoll can neither build
from their record nor find a graph of: OUT/ID.json, in the form of jobs.py --export (models/model.json of torch.export's archive,
from tensors without values, stack traces taken out).  No card is needed.

    utilization_graphs.py --out OUT ID ...
    utilization_graphs.py --out OUT --ids FILE      # one id per line, with or without ": why" behind it, as usage_features prints them

Models are built as utilization.py builds them, in training mode, adapters included; a model that returns its loss gets the labels.
Graphs that are in OUT already are kept.  What export refuses is named at the end (ID.json.error says more), and the exit status is 1.

A graph is one path through the model.  Where a model throws dice for each layer (layerdrop), it is the step that keeps them all; with
layerdrop 0 that is every step.  Where it reads a value of a tensor (whether any of a mask is set, a distance), the answers are those of a
forward pass with values, on the CPU at batch 2; they must not depend on the batch."""
import argparse
import contextlib
import io
import itertools
import json
import os
import signal
import sys
import time
import traceback
import zipfile

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


@contextlib.contextmanager
def all_layers():
    """A die thrown on the host (torch.rand of no dimensions) falls on 1: no layer is dropped."""
    import torch
    rand = torch.rand

    def die(*size, **kw):
        none = not size or (len(size) == 1 and not isinstance(size[0], int) and len(size[0]) == 0)
        return 1.0 if none and "size" not in kw else rand(*size, **kw)

    torch.rand = die
    try:
        yield
    finally:
        torch.rand = rand


@contextlib.contextmanager
def reading(answers, known):
    """Tensor.item(), and torch.arange of tensors, which reads them so too: known false adds what is read to answers, true gives
    what is there.  The call is made all the same: export keeps the node where it would without this, but not all of them."""
    import torch
    item, arange = torch.Tensor.item, torch.arange
    left = itertools.cycle(list(answers))  # export runs a model more than once
    inside = False

    def read(t):
        nonlocal inside
        if inside:  # export's modes hand the call on by its name
            return item(t)
        inside = True
        try:
            got = item(t)
        finally:
            inside = False
        if known:
            return next(left)
        answers.append(got)
        return got

    torch.Tensor.item = read
    torch.arange = lambda *a, **kw: arange(*(x.item() if isinstance(x, torch.Tensor) else x for x in a), **kw)
    try:
        yield
    finally:
        torch.Tensor.item, torch.arange = item, arange


def answers_of(job):
    """What the model reads while it runs, in order."""
    import torch
    import training
    small, answers = dict(job, batch=2), []
    model, inputs = training.plain(small)
    args, kwargs = arguments(small, inputs, values=True)
    with torch.no_grad(), reading(answers, False):
        model(*args, **kwargs)
    return answers


def to_meta(model):
    """The model without values; parameters that were one stay one."""
    places = {}
    for m in model.modules():
        for name, p in m._parameters.items():
            if p is not None:
                places.setdefault(id(p), []).append((m, name))
    model.to("meta")
    for (m, name), *more in places.values():
        for o, n in more:
            o._parameters[n] = m._parameters[name]
    return model


def built(job):
    """The model on meta tensors, and inputs(batch)."""
    import torch
    import training
    try:
        with torch.device("meta"):
            model, inputs = training.plain(job)
    except Exception:  # a model that reads values while it is built
        model, inputs = training.plain(job)
    return to_meta(model), inputs


def arguments(job, inputs, values=False):
    """What forward takes, on meta tensors unless with values: (args, kwargs)."""
    import torch
    from build import takes
    batch = {}
    for name, t, kind in inputs(job["batch"]):
        t = t if values else torch.empty_like(t, device="meta")
        if kind != "int" and job["precision"] == "bf16":
            t = t.to(torch.bfloat16)
        if job.get("channels_last") and t.dim() == 4:
            t = t.to(memory_format=torch.channels_last)
        batch[name] = t
    use = {n: batch[n] for n in takes(job, list(batch))}
    if job["model"]["kind"] != "transformers":
        return tuple(use.values()), {}
    if job["auto"] in ("CLIPModel", "SiglipModel"):
        use["return_loss"] = True
    return (), use


def named_tuples():
    """Outputs of GoogLeNet and Inception v3."""
    from torch.utils import _pytree
    from torchvision.models import GoogLeNetOutputs, InceptionOutputs
    for t in (GoogLeNetOutputs, InceptionOutputs):
        _pytree._register_namedtuple(t, serialized_type_name=t.__module__ + "." + t.__name__)


def exported(job, answers=None):
    import torch
    torch.manual_seed(0)
    model, inputs = built(job)
    if job.get("channels_last"):
        model = model.to(memory_format=torch.channels_last)
    args, kwargs = arguments(job, inputs)
    with reading(answers, True) if answers else contextlib.nullcontext():
        return torch.export.export(model, args, kwargs, strict=False)


def export(job):
    """models/model.json of the archive."""
    import torch
    named_tuples()
    with all_layers():
        try:
            program = exported(job)
        except Exception:
            answers = answers_of(job)
            if not answers:
                raise
            program = exported(job, answers)
    f = io.BytesIO()
    torch.export.save(program, f)
    z = zipfile.ZipFile(f)
    g = json.loads(z.read([n for n in z.namelist() if n.endswith("models/model.json")][0]))
    for n in g["graph_module"]["graph"]["nodes"]:
        n.get("metadata", {}).pop("stack_trace", None)
    return g


def child(job, path):
    """In a forked process: PATH, or PATH.error."""
    try:
        import torch
        torch.set_num_threads(1)
        g = export(job)
        with open(path + ".part", "w") as f:
            json.dump(g, f, separators=(",", ":"))
        os.replace(path + ".part", path)
    except Exception as e:
        with open(path + ".error", "w") as f:
            f.write("".join(traceback.format_exception_only(type(e), e)).strip()[:300] + "\n" + traceback.format_exc())


def fork(job, path):
    pid = os.fork()
    if pid:
        return pid
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        child(job, path)
    finally:
        os._exit(0)


def run(todo, out, workers, timeout):
    """Exports with that many processes at a time; what was refused: [(id, why)]."""
    queue, running, refused, done = list(todo), {}, [], 0
    while queue or running:
        while queue and len(running) < workers:
            job = queue.pop(0)
            path = os.path.join(out, job["id"] + ".json")
            if os.path.exists(path + ".error"):
                os.remove(path + ".error")
            running[fork(job, path)] = (job["id"], path, time.time())
        ended, _ = os.waitpid(-1, os.WNOHANG)
        for pid, (_, _, since) in running.items():
            if not ended and time.time() - since > timeout:
                os.kill(pid, signal.SIGKILL)
                ended, _ = os.waitpid(pid, 0)
        if not ended:
            time.sleep(0.02)
            continue
        name, path, since = running.pop(ended)
        done += 1
        if os.path.exists(path):
            print("%d of %d %s: %d bytes, %.1f s" % (done, len(todo), name, os.path.getsize(path), time.time() - since), flush=True)
            continue
        why = "timed out" if time.time() - since > timeout else "the process ended early"
        if os.path.exists(path + ".error"):
            with open(path + ".error") as f:
                why = f.readline().strip()
        refused.append((name, why))
        print("%d of %d %s: REFUSED %s" % (done, len(todo), name, why), flush=True)
    return refused


def main():
    p = argparse.ArgumentParser()
    p.add_argument("id", nargs="*")
    p.add_argument("--ids", help="a file of them")
    p.add_argument("--out", default=os.path.join(os.environ.get("OUT", "out"), "graphs"))
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--timeout", type=float, default=180, help="seconds a job may take")
    a = p.parse_args()
    ids = list(a.id)
    if a.ids:
        with open(a.ids) as f:
            ids += [line.partition(":")[0].strip() for line in f if line.strip()]
    import utilization_jobs
    jobs = {j["id"]: j for j in utilization_jobs.load()}
    unknown = [i for i in ids if i not in jobs]
    if unknown or not ids:
        p.error("no such job: " + ", ".join(unknown) if unknown else "no ids")
    os.makedirs(a.out, exist_ok=True)
    todo = [jobs[i] for i in dict.fromkeys(ids) if not os.path.exists(os.path.join(a.out, i + ".json"))]
    import torch  # noqa: F401  imported once, before the forks
    import torch._dynamo  # noqa: F401
    import torch.export._trace  # noqa: F401
    import torchvision  # noqa: F401
    import transformers.modeling_utils  # noqa: F401
    import build  # noqa: F401
    torch.set_num_threads(1)
    refused = run(todo, a.out, a.workers, a.timeout)
    print("%d exported, %d refused" % (len(todo) - len(refused), len(refused)))
    for name, why in refused:
        print("refused %s: %s" % (name, why))
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
