"""The road of exported graphs against PyTorch itself, without a card: bytes allocated, of the jobs of measure/wide_jobs.jsonl.xz.

    road_check.py capture FOLDER [--only PART,..] [--ids FILE] [--held-out yes|no] [--precision P] [--seconds 240] [--budget 3600]
    road_check.py compare FOLDER [--out TABLE.tsv] [--held-out yes|no] [--only PART,..] [--held PART,..]
    road_check.py part FOLDER ID [--rows 40]

capture writes of every job FOLDER/ID.json (the job), ID.pt2 (what torch.export makes of its forward pass, without weights) and ID.trace
(training steps that PyTorch's own autograd and optimizer ran under fake tensors: what was kept then is what PyTorch keeps). What is
there already is not captured again. A process is forked for each job, so that one that fails or takes longer than --seconds stops
nothing; ID.ROAD.refused says why a road failed. --precision: all jobs in this one, exported in float32 whatever it is, as a graph that is
asked about in another precision than its own.

compare asks the simulation about both and writes a row per job: id, architecture, seen or held out, precision, optimizer, allocated by the export, by the
trace, their ratio, the ratio of what was asked for of it (blocks of the allocator that are left whole are larger by as much as a megabyte,
and which ones goes by the order of events), largest difference of a phase (of what is allocated at its most, in percent of the trace's peak:
its phase), operators the library does not know. Then median, 90th percentile and the share that the export is more than 5 % below the trace, by seen and held out.

part shows where a job's two roads part: blocks that are alive at the peak on the one and not on the other, by phase and size, with the
operators and modules that have blocks of this size (--module: of these modules alone).

A third of the architectures is set aside (held_out, as in measure/wide.py): of those no rule is to be written. Architectures that were looked
at all the same are named by --held, and counted as seen.
capture needs torch and the libraries whose models they are (PYTHONPATH=python); compare and part need the package with its library
(PLIMSOLL_LIBRARY) alone. The trace road takes what only kernels know (workspaces, temporaries) from the library's own rules: there the
two agree even where both are wrong.
"""
import argparse
import collections
import glob
import json
import os
import re
import signal
import statistics
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "measure")]

ROADS = ("pt2", "trace")


# ---- capture ----

def built(job):
    """The model, without values where it can be built so, and its example inputs and targets as the two roads take them."""
    import wide
    from training import without_values
    try:
        with without_values():
            model, inputs = wide.build(job)
    except Exception:  # it reads its parameters while it is built
        model, inputs = wide.build(job)
    rows = {name: tensor for name, tensor, _ in inputs(job["batch"])}
    exact = {name for name, _, kind in inputs(1) if kind in ("int", "exact")}
    own, kind = job["loss"] == "own", job["model"]["kind"]
    targets = None if own else rows.pop("target" if kind == "diffusers" else "y")
    if kind == "diffusers":
        rows["return_dict"] = False
    return model, rows if own or kind == "diffusers" else tuple(rows.values()), targets, exact


def export(job, path):
    """As measure/wide.py does it: in the job's type."""
    import torch
    from plimsoll import _export, _inputs
    model, given, _, exact = built(job)
    if job["precision"] == "bf16" and not job.get("as_float"):
        model = model.to(torch.bfloat16)

        def narrow(name, t):
            return t.to(torch.bfloat16) if isinstance(t, torch.Tensor) and name not in exact and t.is_floating_point() else t

        given = {n: narrow(n, t) for n, t in given.items()} if isinstance(given, dict) else tuple(narrow("x", t) for t in given)
    write(path, _export.export(model, _inputs.call_of(given), False, bool(job.get("channels_last"))))


def trace(job, path):
    from plimsoll import _export, capture
    model, given, targets, _ = built(job)
    with _export.quiet():
        write(path, capture.trace_step(model, given, loss=job["loss"], optimizer=job["optimizer"], precision=job["precision"], targets=targets,
                                       channels_last=bool(job.get("channels_last"))))


def write(path, data):
    with open(path + "~", "wb") as file:
        file.write(data)
    os.rename(path + "~", path)


def forked(seconds, work, refused):
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.alarm(seconds)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            work()
        except BaseException as problem:
            where = traceback.extract_tb(problem.__traceback__)[-1]
            write(refused, ("%s: %s (%s:%d)" % (type(problem).__name__, " ".join(str(problem).split())[:300], where.filename,
                                                where.lineno or 0)).encode())
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        write(refused, b"no answer within %d s" % seconds)


def chosen(given, jobs):
    if given.held_out:
        jobs = [j for j in jobs if j["held_out"] == (given.held_out == "yes")]
    return [j for j in jobs if not given.only or any(part in j["id"] for part in given.only.split(","))]


def capture_all(given):
    import torch  # noqa: F401  before the forks
    import torch.export  # noqa: F401
    import wide
    torch.set_num_threads(1)
    wide.preload()
    from plimsoll import _export, _inputs, capture  # noqa: F401
    jobs = chosen(given, wide.jobs(wide.JOBS))
    if given.ids:
        order = [line.split()[0] for line in open(given.ids) if line.strip()]
        of = {j["id"]: j for j in jobs}
        jobs = [of[i] for i in order if i in of]
    if given.precision:
        jobs = [dict(j, precision=given.precision, as_float=True) for j in jobs]
    os.makedirs(given.folder, exist_ok=True)
    began = time.monotonic()
    for job in jobs:
        base = os.path.join(given.folder, job["id"])
        if time.monotonic() - began > given.budget:
            break
        write(base + ".json", json.dumps(job).encode())
        for road, work in zip(ROADS, (export, trace)):
            path, refused = "%s.%s" % (base, road), "%s.%s.refused" % (base, road)
            if os.path.exists(path) or os.path.exists(refused):
                if os.path.exists(refused):
                    break
                continue
            since = time.monotonic()
            forked(given.seconds, lambda: work(dict(job), path), refused)
            print("%6.0f s  %-44s %-6s %5.1f s %s" % (time.monotonic() - began, job["id"], road, time.monotonic() - since,
                                                     open(refused).read()[:150] if os.path.exists(refused) else ""), flush=True)
            if os.path.exists(refused):
                break


# ---- compare ----

PHASES = ("load", "input", "forward", "backward", "optimizer")


def asked(base, road, job):
    """The simulation's report on one road."""
    from plimsoll._model import Model
    model = Model(open("%s.%s" % (base, road), "rb").read(), job["id"], "file" if road == "pt2" else "trace")
    said = dict(estimator="sim", gpu="h200")
    if road == "pt2":
        said.update(precision=job["precision"], optimizer=job["optimizer"], loss=job["loss"], checkpoint=bool(job.get("checkpoint")),
                    channels_last=bool(job.get("channels_last")))
    else:
        model._traced = dict(precision=job["precision"], optimizer=job["optimizer"], loss=job["loss"], checkpoint=False, accumulate=1,
                             channels_last=bool(job.get("channels_last")))
    return model.estimate(**said)


def phases(report):
    """Most that is allocated in each phase of the last step: {phase: bytes}."""
    moments, most = report.timeline, {}
    for moment in moments:
        if moment.step == moments[-1].step:
            most[moment.phase] = max(most.get(moment.phase, 0), moment.allocated)
    return most


def row_of(base, job):
    mine, truth = (asked(base, road, job) for road in ROADS)
    a, b = phases(mine), phases(truth)
    phase, off = max(((p, a[p] - b[p]) for p in a if p in b), key=lambda row: abs(row[1]))
    alive = [sum(block.bytes for block in report.alive) for report in (mine, truth)]
    return [mine.allocated_bytes, truth.allocated_bytes, mine.allocated_bytes / truth.allocated_bytes, alive[0] / alive[1],
            "%+.2f %s" % (100 * off / truth.allocated_bytes, phase), mine.unknown_operators]


def summary(name, ratios):
    if not ratios:
        return "# %s: nothing to compare" % name
    errors = sorted(abs(x - 1) for x in ratios)
    return "# %s: %d jobs: equal %.1f %%, error median %.3f %%, p90 %.2f %%; export more than 5 %% below %.1f %%, above %.1f %%" % (
        name, len(ratios), 100 * sum(x == 0 for x in errors) / len(errors), 100 * statistics.median(errors), 100 * errors[min(len(errors) - 1, int(0.9 * len(errors)))],
        100 * sum(x < 0.95 for x in ratios) / len(ratios), 100 * sum(x > 1.05 for x in ratios) / len(ratios))


def captured(given):
    jobs = [json.load(open(path)) for path in sorted(glob.glob(os.path.join(given.folder, "*.json")))]
    return chosen(given, [j for j in jobs if all(os.path.exists(os.path.join(given.folder, "%s.%s" % (j["id"], road))) for road in ROADS)])


def compare(given):
    out = open(given.out, "w") if given.out else sys.stdout
    ratios, rows = collections.defaultdict(list), []
    looked = given.held.split(",") if given.held else []
    for job in captured(given):
        part = "held-out" if job["held_out"] and not any(word in job["arch"] for word in looked) else "seen"
        try:
            made = row_of(os.path.join(given.folder, job["id"]), job)
        except Exception as problem:
            print(job["id"], "failed:", " ".join(str(problem).split())[:200], file=sys.stderr)
            continue
        ratios[part].append(made[2])
        rows.append([job["id"], job["arch"], part, job["precision"], job["optimizer"], *made])
    for row in sorted(rows, key=lambda row: row[7]):
        print("\t".join("%.4f" % x if isinstance(x, float) else ",".join(map(str, x)) if isinstance(x, (list, tuple)) else str(x) for x in row), file=out)
    for part in ("seen", "held-out"):
        print(summary(part, ratios[part]), file=sys.stderr)


# ---- where two roads part ----

def told(counter):
    return ", ".join("%d %s" % (n, what) for what, n in counter.most_common(4))


def part(given):
    base = os.path.join(given.folder, given.id)
    job = json.load(open(base + ".json"))
    both = [asked(base, road, job) for road in ROADS]
    print(given.id, job["precision"], job["optimizer"], "batch", job["batch"])
    for road, report in zip(ROADS, both):
        print("%-6s %d allocated, %s; %s" % (road, report.allocated_bytes, report.peak_phase, phases(report)))
        for word in report.warnings:
            print("      ", word)
    # Operators have other names above autograd than below it: blocks are told apart by phase and size.
    groups = collections.defaultdict(lambda: ([], []))
    for which, report in enumerate(both):
        for block in report.alive:
            if not given.module or given.module in (block.module or ""):
                groups[block.born, block.bytes][which].append(block)
    rows = [(len(mine) - len(truth), key, mine, truth) for key, (mine, truth) in groups.items() if len(mine) != len(truth)]
    for count, (born, size), mine, truth in sorted(rows, key=lambda row: -abs(row[0] * row[1][1]))[:given.rows]:
        print("%+14d  %-9s %+4d of %11d  export: %s; trace: %s" % (count * size, born, count, size, *(
            told(collections.Counter("%s %s" % (b.operator, re.sub(r"[0-9]+", "N", b.module or "-")) for b in blocks)) for blocks in (mine, truth))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("capture", "compare", "part"))
    parser.add_argument("folder")
    parser.add_argument("id", nargs="?")
    parser.add_argument("--only", default="")
    parser.add_argument("--ids", help="a file with one id per line: these jobs, in this order")
    parser.add_argument("--held-out", choices=("yes", "no"))
    parser.add_argument("--held", help="architectures set aside that were looked at")
    parser.add_argument("--precision")
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--budget", type=float, default=3600)
    parser.add_argument("--out")
    parser.add_argument("--module", default="")
    parser.add_argument("--rows", type=int, default=40)
    given = parser.parse_args()
    {"capture": capture_all, "compare": compare, "part": part}[given.mode](given)


if __name__ == "__main__":
    main()
