"""Fits how two jobs slow each other on one card (src/decide/collocate_tables.c) to pairs that were measured, and says how far off
predictions for models that were kept apart are.

    pairs.py --pairs pairs.jsonl pairs_mps.jsonl --build BUILD --graphs GRAPHS ... [--jobs utilization.jsonl.xz ...] [--write SOURCES]

BUILD: a folder of meson's with `plimsoll` and `usage_features` built, by which each job of the pairs is predicted.  --jobs: measured jobs, by which
step time and counters are learnt anew, models kept apart; without it as the library's weights have it, which may have seen these very jobs.  Needs numpy and a C compiler: the simulation of src/decide/queues.c is the library's own.  Two kinds of inputs: what was measured of each job alone,
by which the weights are fitted, and what plimsoll predicts of it, by which intervals are taken, since that is what the weights are used with.  A fold keeps
models apart: a pair is predicted by a fit that saw neither of its models.  --write puts the table and tests/data/pairs.txt into SOURCES."""
import argparse
import csv
import ctypes
import json
import lzma
import math
import os
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
MODES = ("slices", "mps")
NAMES = ("log_simulated", "busy_self", "busy_other", "busy_both", "wait", "over", "host_self", "host_other", "active_self", "active_other", "dram_both",
         "active_both", "blocked")  # pl_pair_feature
USED = {"slices": range(11), "mps": (0, 5, 10, 11, 12)}  # by trial, with models kept apart
RULES = {"slices": dict(slice=2.0, turn=0.2, trips=1), "mps": dict(slice=2.0, turn=0.2, trips=1)}
LAUNCH_MS = 1.3e-3  # NVML counts a little more than the kernels' time as busy: for each launch (gpt2, vgg16: data/h200/utilization.jsonl.xz)
RIDGE, RIDGE_JOB, FOLDS, SEEDS, COVERAGE = 10.0, 1.0, 8, 5, 0.9
BINS = (0.35, 0.7)  # of busy_self: intervals are taken apart
LEAST = 0.05  # an interval's reach on either side


# ---- the library's simulation ----

class Queue(ctypes.Structure):
    _fields_ = [("copy", ctypes.c_double), ("gap", ctypes.c_double), ("kernel", ctypes.c_double), ("kernels", ctypes.c_int)]


class Rules(ctypes.Structure):
    _fields_ = [("at_once", ctypes.c_bool), ("slice", ctypes.c_double), ("turn", ctypes.c_double), ("trips", ctypes.c_int), ("pace", ctypes.c_double * 2)]


def library(folder):
    path = os.path.join(folder, "queues.so")
    subprocess.check_call(["cc", "-std=c11", "-O2", "-shared", "-fPIC", "-I", os.path.join(ROOT, "src"), "-o", path, os.path.join(ROOT, "src/decide/queues.c"), "-lm"])
    lib = ctypes.CDLL(path)
    lib.pl_queue_of.argtypes = [ctypes.c_void_p] + [ctypes.c_double] * 4
    return lib


def simulate(lib, mode, a, b):
    queues, out = (Queue * 2)(), (ctypes.c_double * 2)()
    for q, d in zip(queues, (a, b)):
        lib.pl_queue_of(ctypes.byref(q), d["step"], d["busy"], d["host"], d["launches"])
    rules = Rules(mode == "mps", pace=(pace(a, b), pace(b, a)), **RULES[mode])
    lib.pl_queues_run(out, queues, ctypes.byref(rules))
    return list(out)


def pace(a, b):
    """Of a's kernels while b's run: as pace in src/decide/collocate.c."""
    sms = a["active"] / max(a["busy"] / a["step"], 1e-3) + b["active"] / max(b["busy"] / b["step"], 1e-3)
    return 1 / max(1, sms)


# ---- jobs ----

def lines(path):
    with (lzma.open(path, "rt") if path.endswith(".xz") else open(path)) as f:
        return [json.loads(line) for line in f]


def ask(build, graphs, rows, files, folder):
    """What plimsoll predicts of the jobs: the walk's figures, and of targets their corrected ones."""
    pool, rest = os.path.join(folder, "pool.jsonl"), os.path.join(folder, "rest.jsonl")
    seen = {r["job"]["id"] for path in files for r in lines(path) if "result" in r}
    for path, some in ((pool, rows), (rest, [r for r in rows if r["job"]["id"] not in seen])):
        with open(path, "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in some)
    walk = subprocess.run([os.path.join(build, "usage_features"), pool] + graphs, check=True, stdout=subprocess.PIPE, text=True).stdout
    features, tables = [json.loads(line) for line in walk.splitlines()], {}
    for target in ("step_ms", "smact", "drama"):
        table = os.path.join(folder, target + ".csv")
        subprocess.run([os.path.join(build, "plimsoll"), "evaluate", *files, rest, "--described", *(["--split", "model"] if files else []), "--target", target, "--csv", table] + [x for g in graphs for x in ("--graphs", g)],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(table) as f:
            tables[target] = {r["id"]: float(r["predicted"]) for r in csv.DictReader(f) if r["predicted"]}
        print("%s: predicted of %d of %d jobs" % (target, sum(f["id"] in tables[target] for f in features), len(features)))
    return features, tables


def demand(step, device, host, launches, smact, drama):
    """As `side` in src/decide/collocate.c."""
    busy = min(step, device + LAUNCH_MS * launches)
    return dict(step=step, device=device, busy=busy, host=min(host, step), launches=launches, active=min(smact / 100, busy / step), dram=min(drama / 100, busy / step))


def predicted(features, tables):
    out = {}
    for f in features:
        step = f["step_us"] / 1e3
        row = dict(step_ms=step, smact=100 * f["active"], drama=100 * f["dram"])
        for target, table in tables.items():
            row[target] = table.get(f["id"], row[target])
        out[f["id"]] = demand(row["step_ms"], f["device_us"] / 1e3, f["host_us"] / 1e3, f["launches"], row["smact"], row["drama"])
    return out


def measured(alone, features):
    """The card's busy time is NVML's; the host's share of the step and the launches are known of the walk alone."""
    walk, out = {f["id"]: f for f in features}, {}
    for i, r in alone.items():
        f = walk.get(i)
        if f:
            step = r["step_ms"]
            out[i] = demand(step, max(0, step * r["gract"] / 100 - LAUNCH_MS * f["launches"]), f["host_us"] / f["step_us"] * step, f["launches"], r["smact"], r["drama"])
    return out


def means(alone, mode):
    """{id: a job's times and counters alone}, means of its runs.  The host's speed drifts by a tenth and more within minutes, so one run
    is a poor measure.  Of slices there was but one run each; those under MPS, on the same host, count too."""
    out = {}
    for i in alone[mode]:
        runs = alone[mode][i] + (alone["mps"].get(i, []) if mode == "slices" else [])
        step = math.exp(np.mean([math.log(r["step_ms"]) for r in runs]))
        out[i] = dict(step_ms=step, **{k: np.mean([r[k] * r["step_ms"] for r in runs]) / step for k in ("gract", "smact", "drama")})
    return out


def features_of(s, o, simulated, slice_ms):
    us, uo = s["busy"] / s["step"], o["busy"] / o["step"]
    return [math.log(simulated), us, uo, us * uo, math.log(1 + uo * slice_ms / s["step"]), max(0, us + uo - 1), s["host"] / s["step"], o["host"] / o["step"],
            s["active"], o["active"], s["dram"] * o["dram"], s["active"] * o["active"], us * o["active"] * math.log(1 + o["busy"] / o["launches"] / 0.05)]


# ---- fitting ----

def solve(Z, y, jobs, count):
    """Ridge, each job with an offset of its own, which is not kept: its time alone was taken once, and hosts' speeds drift."""
    A = np.c_[Z, np.eye(count)[jobs]]
    penalty = np.r_[1e-6, np.full(Z.shape[1] - 1, RIDGE), np.full(count, RIDGE_JOB)]
    return np.linalg.solve(A.T @ A + np.diag(penalty), A.T @ y)[:Z.shape[1]]


class Data:
    def __init__(self, lib, mode, pairs, demands):
        self.mode, self.rows = mode, []
        X, Y, S, O = [], [], [], []
        self.ids = sorted({i for p, _ in pairs for i in p if i in demands})
        for p, r in pairs:
            if p[0] not in demands or p[1] not in demands:
                continue
            a, b = demands[p[0]], demands[p[1]]
            sim = simulate(lib, mode, a, b)
            for k, (s, o) in enumerate(((a, b), (b, a))):
                X.append(features_of(s, o, sim[k], RULES[mode]["slice"]))
                Y.append(math.log(r[k]))
                S.append(self.ids.index(p[k]))
                O.append(self.ids.index(p[1 - k]))
            self.rows.append((p, r))
        self.X, self.Y, self.S, self.O = np.array(X), np.array(Y), np.array(S), np.array(O)
        self.used = list(USED[mode])
        self.center, self.scale = self.X.mean(0), self.X.std(0) + 1e-9

    def fit(self, keep):
        Z = np.c_[np.ones(keep.sum()), ((self.X - self.center) / self.scale)[keep][:, self.used]]
        w = solve(Z, (self.Y - self.X[:, 0])[keep], self.S[keep], len(self.ids))
        full = np.zeros(1 + len(NAMES))
        full[0] = w[0]
        full[1 + np.array(self.used)] = w[1:] / self.scale[self.used]
        return full, self.X[keep].min(0), self.X[keep].max(0)

    def say(self, fit, X):
        w, least, most = fit
        return np.maximum(0, X[:, 0] + w[0] + (np.clip(X, least, most) - self.center) @ w[1:])

    def folds(self, seed):
        fold = np.empty(len(self.ids), int)
        fold[np.random.RandomState(seed).permutation(len(self.ids))] = np.arange(len(self.ids)) % FOLDS
        return [(fold[self.S] == f) | (fold[self.O] == f) for f in range(FOLDS)]

    def apart(self, data):
        """log slowdowns of the same pairs with other inputs, by fits that saw neither model; means over several splits."""
        out = np.zeros((SEEDS, len(self.Y)))
        for seed in range(SEEDS):
            n = np.zeros(len(self.Y))
            for out_of in self.folds(seed):
                out[seed, out_of] += self.say(self.fit(~out_of), data.X[out_of])
                n += out_of
            out[seed] /= n
        return out.mean(0)


def bin_of(X):
    return (X[:, 1] >= BINS[0]).astype(int) + (X[:, 1] >= BINS[1])


def quantiles(residuals, bins):
    """Of log measured less log predicted, a list each; not nearer than LEAST."""
    low = [min(-LEAST, np.quantile(residuals[bins == b], (1 - COVERAGE) / 2)) for b in range(3)]
    high = [max(LEAST, np.quantile(residuals[bins == b], (1 + COVERAGE) / 2)) for b in range(3)]
    return low, high


def tell(name, data, P):
    e = np.abs(np.exp(P - data.Y) - 1)
    low, high = quantiles(data.Y - P, bin_of(data.X))
    b = bin_of(data.X)
    inside, true_log = [], np.maximum(0, data.Y)  # below 1 is noise of the time alone
    for out_of in data.folds(0):  # quantiles of others' misses
        l, h = quantiles((data.Y - P)[~out_of], b[~out_of])
        inside += [np.maximum(0, P[k] + l[b[k]]) <= true_log[k] <= P[k] + h[b[k]] for k in np.where(out_of)[0]]
    inside = np.mean(inside)
    raw = np.abs(np.exp(data.X[:, 0] - data.Y) - 1)
    gain, true = [np.exp(-v).reshape(-1, 2).sum(1) for v in (P, data.Y)]
    g = np.abs(gain / true - 1)
    print("%s %s: %d pairs of %d jobs; kept apart: median %.1f %%, p90 %.1f %%; simulation alone: %.1f %%, %.1f %%; gain: %.1f %%, %.1f %%; inside the interval %.0f %%"
          % (data.mode, name, len(data.rows), len(data.ids), 100 * np.median(e), 100 * np.quantile(e, .9), 100 * np.median(raw), 100 * np.quantile(raw, .9),
             100 * np.median(g), 100 * np.quantile(g, .9), 100 * inside))
    for k, label in enumerate(("busy below %g" % BINS[0], "to %g" % BINS[1], "above")):
        if (b == k).any():
            print("    %s: %d, median %.1f %%, p90 %.1f %%, interval %+.2f %+.2f" % (label, (b == k).sum(), 100 * np.median(e[b == k]), 100 * np.quantile(e[b == k], .9), low[k], high[k]))
    return low, high


# ---- what is written ----

def number(x):
    return "%.5g" % x


def table(fits):
    out = ["/* collocate_tables: written by tools/calibrate/pairs.py; see there for what was fitted to what. */", '#include "decide/collocate_tables.h"', "",
           "const pl_pair_rule pl_pair_rules[PL_SHARINGS] = {"]
    for mode in MODES:
        fit = fits[mode]
        out.append("    [PL_%s] = {" % mode.upper())
        out.append("        .slice = %s, .turn = %s, .trips = %d, .launch_ms = %s," % (number(RULES[mode]["slice"]), number(RULES[mode]["turn"]), RULES[mode]["trips"], number(LAUNCH_MS)))
        for key in ("center", "weight", "least", "most"):
            out.append("        .%s = {%s}," % (key, ", ".join(number(x) for x in fit[key])))
        out.append("        .constant = %s," % number(fit["constant"]))
        out.append("        .below = {%s}, .above = {%s}, .gain_below = %s, .gain_above = %s," % (", ".join(number(x) for x in fit["below"]), ", ".join(number(x) for x in fit["above"]),
                                                                                           number(fit["gain"][0]), number(fit["gain"][1])))
        out.append("        .pairs = %d, .jobs = %d}," % (fit["pairs"], fit["jobs"]))
    return "\n".join(out + ["};", ""])


def test_table(predictions, measurements, datas):
    out = ["# Pairs of training jobs on one H200 (data/h200/pairs.jsonl.xz), written by tools/calibrate/pairs.py.",
           "# job ID, then of what plimsoll predicts and of what was measured alone: step, kernels, host in ms, launches, smact, drama in percent",
           "# MODE ID ID SLOWDOWN SLOWDOWN, measured"]
    for i in sorted(predictions):
        if i in measurements:
            out.append("job %s %s" % (i, " ".join("%.5g %.5g %.5g %d %.4g %.4g" % (d["step"], d["device"], d["host"], d["launches"], 100 * d["active"], 100 * d["dram"])
                                                  for d in (predictions[i], measurements[i]))))
    for data in datas:
        for p, slow in data.rows:
            if all(i in measurements for i in p):
                out.append("%s %s %s %.4f %.4f" % (data.mode, *p, *slow))
    return "\n".join(out) + "\n"


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--pairs", nargs="+", required=True)
    a.add_argument("--build", required=True, help="folder of plimsoll and usage_features")
    a.add_argument("--graphs", nargs="*", default=[], help="folders of the jobs' graphs")
    a.add_argument("--jobs", nargs="*", default=[], help="measured jobs")
    a.add_argument("--write", help="the sources' root")
    a = a.parse_args()
    alone, pairs, jobs = {m: {} for m in MODES}, {m: [] for m in MODES}, {}
    for row in (r for path in a.pairs for r in lines(path)):
        if "result" not in row:
            continue
        if "pair" in row:
            pairs[row["mode"]].append((row["pair"], row["result"]))
        else:
            if "job" in row:
                jobs.setdefault(row["job"]["id"], row)
            alone[row["mode"]].setdefault(row["job"]["id"] if "job" in row else row["again"], []).append(row["result"])
    fits, datas, measurements = {}, [], {}
    with tempfile.TemporaryDirectory() as folder:
        lib = library(folder)
        features, tables = ask(a.build, a.graphs, list(jobs.values()), a.jobs, folder)
        predictions = predicted(features, tables)
        for mode in MODES:
            if not pairs[mode]:
                print("no pairs of", mode)
                continue
            single = means(alone, mode)
            as_run = [(p, r["slowdown"]) for p, r in pairs[mode]]
            pairs[mode] = [(p, [r["step_ms"][k] / single[p[k]]["step_ms"] for k in (0, 1)]) for p, r in pairs[mode]]
            of_mode = measured(single, features)
            measurements.update({i: d for i, d in of_mode.items() if i not in measurements})
            for rows, of, name in ((as_run, measured({i: r[0] for i, r in alone[mode].items()}, features), ", one time alone"), (pairs[mode], of_mode, "")):
                known, data = Data(lib, mode, rows, of), Data(lib, mode, rows, {i: d for i, d in predictions.items() if i in of})
                tell("measured inputs" + name, known, known.apart(known))
                P = known.apart(data)
                low, high = tell("predicted inputs" + name, data, P)
            every = np.ones(len(known.Y), bool)
            fit = known.fit(every)
            print("    seen: median %.1f %%;" % (100 * np.median(np.abs(np.exp(known.say(fit, known.X) - known.Y) - 1))), " ".join("%s %+.3f" % nw for nw in zip(NAMES, fit[0][1:])))
            gain = np.log(np.exp(-data.Y).reshape(-1, 2).sum(1)) - np.log(np.exp(-P).reshape(-1, 2).sum(1))
            fits[mode] = dict(center=known.center, weight=fit[0][1:], constant=fit[0][0], least=fit[1], most=fit[2], below=low, above=high,
                              gain=(np.quantile(gain, (1 - COVERAGE) / 2), np.quantile(gain, (1 + COVERAGE) / 2)), pairs=len(data.rows), jobs=len(data.ids))
            datas.append(data)
    if a.write and len(fits) == len(MODES):
        with open(os.path.join(a.write, "src/decide/collocate_tables.c"), "w") as f:
            f.write(table(fits))
        subprocess.call(["clang-format", "-i", f.name])
        with open(os.path.join(a.write, "tests/data/pairs.txt"), "w") as f:
            f.write(test_table(predictions, measurements, datas))
    return 0


if __name__ == "__main__":
    sys.exit(main())
