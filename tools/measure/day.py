"""A cluster's day for real, on one card: the same jobs one by one, packed by what users ask for, and packed by plimsoll's estimates.

    plimsoll evaluate ../shared/ground-truth/memory.jsonl.xz --graphs g --estimator hybrid --split model --sizes sizes.jsonl
    PLIMSOLL=build/plimsoll day.py --sizes sizes.jsonl --budget 560 --out $OUT/day.jsonl [--leave-gb 40] [--jobs 40] [--seconds 3] [--modes serial,requested,plimsoll]
    PLIMSOLL=build/plimsoll day.py --sizes sizes.jsonl --out day.jsonl --cpu-dry-run     # jobs cut down, on the CPU; memory is reckoned, not taken

Jobs: of utilization_jobs.jsonl.xz, those that the sizes have measured and estimated, drawn by the seed; each runs as many steps as take --seconds alone, by what was measured
of it or is said of it.  All wait at the start, in one order.  serial: one after the other.  requested: as many as fit by a model of users' guesses (whole=0.3, low=0.1, spare=1.2 as in
`plimsoll simulate`).  plimsoll: as many as `plimsoll place --policy pack --risk 1` lets there be.  Both pass over what does not fit now.  A job that runs out of memory starts again at the end of
the queue, after two times alone.  --leave-gb: a process holds the rest of the card, so that memory is short.

Lines of the result: {"mode", "id", "attempt", "start_s", "end_s", "steps", "ended": "done" | "out of memory" | ...}, and per mode {"mode", "summary": makespan_s, crashes, done, jobs_per_min, work_s (sum of
the seconds that jobs were to take), beside (the most at a time), ...}.  In 600 s on an H200 there is room for 40 jobs of 3 s in three modes; it stops a mode that would not end in time and
says so.  It has not been run on a card yet: `dry` is true in rows that prove nothing of times."""
import argparse
import json
import lzma
import math
import os
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import utilization  # noqa: E402
import utilization_jobs  # noqa: E402
from common import Budget  # noqa: E402
from utilization import Child, context, imports, prepare, say  # noqa: E402

GIB = 1 << 30
GUESS = dict(whole=0.3, low=0.1, spare=1.2)
MOST_CRASHES = 2


# ---- jobs ----

def sizes_of(path):
    with (lzma.open(path, "rt") if path.endswith(".xz") else open(path)) as f:
        rows = [json.loads(line) for line in f if line.strip()]
    return {r["name"]: r for r in rows if r.get("measured_bytes") and (r.get("estimates", {}).get("hybrid") or {}).get("peak_bytes") and r.get("step_ms")}


def guess_of(truth, usable, rng):
    """Bytes that its user asks for; as guess_of in src/decide/day_jobs.c, with other numbers."""
    whole, low = rng.random() < GUESS["whole"], rng.random() * (1 - GUESS["whole"]) < GUESS["low"]
    power = math.log2(truth * (1 if low else GUESS["spare"]) / GIB)
    return usable if whole else min(usable, GIB * 2.0 ** (math.floor(power) if low else math.ceil(power)))


def drawn(a, sizes, usable):
    """The jobs of the day, each with its size, its user's guess and its steps."""
    rng = random.Random(a.seed)
    some = [j for j in utilization_jobs.load() if j["id"] in sizes and sizes[j["id"]]["measured_bytes"] <= usable and sizes[j["id"]]["step_ms"] <= 1e3 * a.seconds]
    if a.cpu_dry_run:
        some = sorted((j for j in some if j["source"] == "synthetic" and j["family"] == "mlp"), key=lambda j: sizes[j["id"]]["measured_bytes"])[:2 * a.jobs]
    some = [some[k] for k in sorted(rng.sample(range(len(some)), min(a.jobs, len(some))))]
    rng.shuffle(some)
    for n, j in enumerate(some):
        size = sizes[j["id"]]
        j["day"] = dict(number=n, truth=size["measured_bytes"], guess=guess_of(size["measured_bytes"], usable, rng), estimate=estimate_of(size),
                        steps=1 if a.cpu_dry_run else max(3, round(1e3 * a.seconds / size["step_ms"])))
    return some


def estimate_of(size):
    """A line of sizes as `plimsoll estimate --json` would have it, as far as place reads it."""
    said = size["estimates"]["hybrid"]
    return dict(schema=1, model=dict(name=size["name"]), gpu=dict(name="h200", calibrated=True), memory={k: said[k] for k in ("peak_bytes", "low_bytes", "high_bytes")},
                compute={k: size.get(k) for k in ("step_ms", "device_ms", "host_ms", "launches")}, utilization={k: size.get(k) for k in ("smact", "smocc", "drama", "tensor")})


# ---- who may start ----

class Serial:
    def may_start(self, job, running):
        return not running


class Requested:
    def __init__(self, usable):
        self.usable = usable

    def may_start(self, job, running):
        return sum(r["day"]["guess"] for r in running) + job["day"]["guess"] <= self.usable


class Plimsoll:
    """Asks the command: one card with what runs on it."""
    def __init__(self, usable, folder):
        self.usable, self.folder, self.asked = usable, folder, {}

    def may_start(self, job, running):
        key = (job["id"],) + tuple(sorted(r["id"] for r in running))
        if key not in self.asked:
            cluster, path = os.path.join(self.folder, "card.json"), os.path.join(self.folder, "job.json")
            reserve = h200_bytes() - int(self.usable)
            with open(cluster, "w") as f:
                json.dump(dict(cards=[dict(name="card", gpu="h200", reserve_bytes=max(0, reserve), jobs=[r["day"]["estimate"] for r in running])]), f)
            with open(path, "w") as f:
                json.dump(job["day"]["estimate"], f)
            done = subprocess.run([plimsoll(), "place", "--cluster", cluster, "--policy", "pack", "--risk", "1", "--json", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if done.returncode not in (0, 10):
                sys.exit("plimsoll place: " + done.stderr)
            self.asked[key] = json.loads(done.stdout)["jobs"][0]["card"] is not None
        return self.asked[key]


def plimsoll():
    return os.environ.get("PLIMSOLL", "plimsoll")


def h200_bytes():
    """What a process can have of an H200, by the command's catalogue."""
    if not hasattr(h200_bytes, "known"):
        model = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "mlp.yaml")
        h200_bytes.known = json.loads(subprocess.check_output([plimsoll(), "estimate", model, "--gpu", "h200", "--json"], text=True))["usable_bytes"]
    return h200_bytes.known


# ---- running ----

def day_child(device):
    def main(job, requests, send):
        training = prepare(job, device)
        send(built=True)
        if not requests.readline():
            return
        context(device)
        try:
            training.place(device)
            for _ in range(job["day"]["steps"]):
                training.step()
            training.sync()
            import torch
            send(done=True, peak_reserved=torch.cuda.max_memory_reserved() if device == "cuda" else None)
        except Exception as e:
            if "out of memory" not in str(e).lower() and type(e).__name__ != "OutOfMemoryError":
                raise
            send(out_of_memory=str(e)[:200])
    return main


def ballast_child(bytes_held):
    def main(job, requests, send):
        import torch
        held = torch.empty(int(bytes_held), dtype=torch.uint8, device="cuda")
        send(held=held.numel())
        requests.readline()
    return main


class Day:
    """One mode's run of the jobs."""
    def __init__(self, mode, policy, jobs, device, usable, budget, out):
        self.mode, self.policy, self.jobs, self.device, self.usable, self.budget, self.out = mode, policy, jobs, device, usable, budget, out
        self.queue, self.children, self.running, self.attempts = list(jobs), {}, {}, {}
        self.crashes = self.done = self.failed = self.most = 0

    def write(self, **row):
        if self.device == "cpu":
            row["dry"] = True
        self.out.write(json.dumps(dict(mode=self.mode, **row), separators=(",", ":")) + "\n")
        self.out.flush()

    def build(self):
        """The first ones, ahead of their turn: building touches no card."""
        for j in self.queue[:8]:
            if j["id"] not in self.children:
                self.children[j["id"]] = Child(j, day_child(self.device))

    def fits_for_real(self, job):
        """On the CPU nothing runs out: what was measured is added up in place of it."""
        return sum(j["day"]["truth"] for j, _ in self.running.values()) + job["day"]["truth"] <= self.usable

    def start(self):
        running = [j for j, _ in self.running.values()]
        for j in list(self.queue):
            alone = self.attempts.get(j["id"], 0) >= MOST_CRASHES or any(self.attempts.get(r["id"], 0) >= MOST_CRASHES for r in running)
            if (running and alone) or (running and not self.policy.may_start(j, running)):
                continue
            child = self.children.pop(j["id"], None) or Child(j, day_child(self.device))
            self.queue.remove(j)
            if self.device == "cpu" and not self.fits_for_real(j):
                child.end(0.1)
                self.ended(j, time.time(), "out of memory")
                continue
            child.tell(go=True)
            self.running[j["id"]] = (j, (child, time.time()))
            running.append(j)
            self.most = max(self.most, len(running))

    def ended(self, job, began, how, **more):
        attempt = self.attempts.get(job["id"], 0)
        self.write(id=job["id"], attempt=attempt, start_s=round(began - self.began, 3), end_s=round(time.time() - self.began, 3), steps=job["day"]["steps"], ended=how, **more)
        if how == "out of memory":
            self.crashes += 1
            self.attempts[job["id"]] = attempt + 1
            if attempt < MOST_CRASHES + 2:
                self.queue.append(job)
            else:
                self.failed += 1
        elif how == "done":
            self.done += 1
        else:
            self.failed += 1

    def look(self):
        for i, (job, (child, began)) in list(self.running.items()):
            got = child.hear(0.005)
            while got and "built" in got:
                got = child.hear(0.005)
            if got is None:
                continue
            del self.running[i]
            child.end(3)
            self.ended(job, began, "done" if "done" in got else "out of memory" if "out_of_memory" in got else "failed: " + str(got)[-200:], peak_reserved=got.get("peak_reserved"))

    def run(self):
        self.build()
        if self.device == "cuda":
            time.sleep(2)  # the first are built
        self.began = time.time()
        while (self.queue or self.running) and self.budget.left() > 3:
            self.start()
            self.build()
            self.look()
        makespan = time.time() - self.began
        over = bool(self.queue or self.running)
        for job, (child, _) in self.running.values():
            child.end(0)
        for child in self.children.values():
            child.end(0)
        self.write(summary=dict(makespan_s=None if over else round(makespan, 2), done=self.done, crashes=self.crashes, failed=self.failed, stopped=over, beside=self.most,
                                jobs_per_min=None if over else round(60 * self.done / makespan, 2), work_s=sum(j["day"]["steps"] * j["day"]["estimate"]["compute"]["step_ms"] / 1e3 for j in self.jobs)))
        say("%s: %d done, %d out of memory, %d failed, up to %d at a time, %s" % (self.mode, self.done, self.crashes, self.failed, self.most, "stopped: no time left" if over else "%.1f s" % makespan))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--sizes", required=True, help="of plimsoll evaluate --sizes, with --split model")
    p.add_argument("--out", default=os.path.join(os.environ.get("OUT", "out"), "day.jsonl"))
    p.add_argument("--budget", type=float, default=560, help="seconds for everything")
    p.add_argument("--jobs", type=int, default=40)
    p.add_argument("--seconds", type=float, default=3, help="that each job's steps take alone")
    p.add_argument("--leave-gb", type=float, default=0, help="GiB of the card for the jobs; 0: all")
    p.add_argument("--modes", default="serial,requested,plimsoll")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--cpu-dry-run", action="store_true")
    a = p.parse_args()
    os.makedirs(os.path.dirname(os.path.abspath(a.out)), exist_ok=True)
    device, budget = "cpu" if a.cpu_dry_run else "cuda", Budget(a.budget)
    whole = h200_bytes()
    usable = min(whole, a.leave_gb * GIB) if a.leave_gb else whole
    jobs = drawn(a, sizes_of(a.sizes), usable)
    say("%d jobs of %.0f GiB in all, %.1f GiB for them at a time" % (len(jobs), sum(j["day"]["truth"] for j in jobs) / GIB, usable / GIB))
    imports()
    if not utilization.ask_versions(device, a.out + ".versions.json"):
        return 1
    ballast = None
    with tempfile.TemporaryDirectory() as folder, open(a.out, "a") as out:
        if device == "cuda" and usable < whole:
            ballast = Child({}, ballast_child(whole - usable - 800e6))  # its context takes the rest
            say("held:", ballast.hear(60))
        policies = dict(serial=Serial(), requested=Requested(usable), plimsoll=Plimsoll(usable, folder))
        for mode in a.modes.split(","):
            Day(mode, policies[mode], jobs, device, usable, budget, out).run()
        if ballast:
            ballast.end(3)
    return 0


if __name__ == "__main__":
    sys.exit(main())
