"""Fits the constants of src/device/cost.c (src/device/cost_tables.c) to profiled steps.

    fit.py OPERATORS.jsonl.gz... --windows UTILIZATION.jsonl... [--folds 5] [--write]

OPERATORS are rows of tools/measure/operators.py, one per job: what each operator's kernels took; UTILIZATION the same jobs' measured
windows.  cost.c itself is the model: it is built with writable constants (-DPL_COST_FIT) and each group of constants is searched, one
at a time, for the least weighted |log(predicted / measured)| of the rows that it prices; a weak pull keeps constants that no row
tells apart where they were.  Jobs are split by model, never by row: with --folds every row is judged by constants fitted without its
model, and the report is of those.  --write puts constants fitted on everything into cost_tables.c.  Then the shares (active,
occupied, dram, tensor) are fitted so that jobs' sums over kernels give the windows' counters."""
import argparse
import ctypes
import os
import re
import zlib

import numpy

import calls
from calls import ROOT

TABLES = os.path.join(ROOT, "src/device/cost_tables.c")
HEADER = os.path.join(ROOT, "src/device/cost_tables.h")


def names(enum):
    """Members of an enum of cost_tables.h."""
    text = re.sub(r"/\*.*?\*/", "", open(HEADER).read(), flags=re.S)
    body = re.search(r"typedef enum %s \{(.*?)\}" % enum, text, re.S).group(1)
    return [x.strip() for x in body.split(",") if x.strip()]


CLASSES = names("pl_cost_class")[:-1]
MOVING = ("floor", "share", "cached", "work", "chain", "miss", "warps", "traffic")
TILES = 6
PRODUCT = ("floor", "step", "share", "cached", "split", "cuts", "warps", "traffic", "pipe") + tuple(f"{f}{i}" for i in range(TILES) for f in ("rows", "columns", "tile"))
UNITS = ("fp32", "tf32", "half", "tf32_even", "half_even", "tf32_odd", "half_odd")
ATTENTION = ("floor", "share", "block", "pair", "solo", "warps", "traffic", "pipe")
RNN = ("step", "each", "persist", "whole", "bias")
GENERAL = ("ramp", "tail", "spread", "held", "leak")
SYMBOLS = (("pl_cost_moving_of", len(CLASSES) * len(MOVING)), ("pl_cost_products", len(UNITS) * len(PRODUCT)), ("pl_cost_conv_factor", 3 * len(UNITS)),
           ("pl_cost_convs", len(UNITS) * len(PRODUCT)), ("pl_cost_attentions", 8 * len(ATTENTION)), ("pl_cost_rnns", 6 * len(RNN)), ("pl_cost_generals", len(GENERAL)))


class Model:
    """cost.c with its constants in reach."""

    def __init__(self):
        self.run = calls.shim()
        self.table = {n: numpy.ctypeslib.as_array((ctypes.c_double * k).in_dll(self.run.lib, n)) for n, k in SYMBOLS}

    def get(self):
        return {n: a.copy() for n, a in self.table.items()}

    def put(self, values):
        for n, a in values.items():
            self.table[n][:] = a


def groups():
    """[(name, the constant every row of the group depends on, [(symbol, index, low, high)])]"""
    out = []
    for c, name in enumerate(CLASSES):
        at = lambda f: ("pl_cost_moving_of", c * len(MOVING) + MOVING.index(f))  # noqa: E731
        out.append((name[8:].lower(), at("floor"), [at("floor") + (0.5, 200), at("share") + (0.05, 0.97), at("cached") + (0.05, 1.8), at("work") + (1, 1e5), at("chain") + (1e-3, 1e4), at("miss") + (1e-3, 4)]))
    for symbol in ("pl_cost_products", "pl_cost_convs"):
        for u, unit in enumerate(UNITS):
            at = lambda f: (symbol, u * len(PRODUCT) + PRODUCT.index(f))  # noqa: E731
            some = [at("floor") + (1, 12), at("step") + (1e-4, 0.1), at("share") + (0.2, 0.97), at("cached") + (0.2, 1.8), at("split") + (0.5, 10), at("cuts") + (1, 132)]
            some += [at(f"tile{i}") + (0.02, 0.95) for i in range(TILES)]
            if symbol == "pl_cost_convs":
                some += [("pl_cost_conv_factor", p * len(UNITS) + u, 0.4, 6) for p in range(3)]
            out.append((f"{'product' if symbol == 'pl_cost_products' else 'convolution'} {unit}", at("floor"), some))
    for b in range(4):
        for d in range(2):
            at = lambda f: ("pl_cost_attentions", (b * 2 + d) * len(ATTENTION) + ATTENTION.index(f))  # noqa: E731
            out.append((f"attention {('flash', 'efficient f32', 'efficient', 'cudnn')[b]} {('forward', 'backward')[d]}", at("floor"), [at("floor") + (1, 60), at("share") + (0.01, 0.95), at("pair") + (1, 1000), at("solo") + (1, 8)]))
    for m in range(3):
        for d in range(2):
            at = lambda f: ("pl_cost_rnns", (m * 2 + d) * len(RNN) + RNN.index(f))  # noqa: E731
            out.append((f"recurrent {('plain', 'lstm', 'gru')[m]} {('forward', 'backward')[d]}", at("whole"), [at(f) + (0.05 if f != "bias" else 1e-4, 100) for f in RNN]))
    return out


def weights(rows):
    """A row's share of its job's time, softened: small kernels count too."""
    total = {}
    for r in rows:
        total[r.job] = total.get(r.job, 0) + r.n * r.us
    return numpy.array([(r.n * r.us / total[r.job]) ** 0.5 + 0.01 for r in rows])


def affected(model, matrix, starts, key):
    symbol, i = key
    before = calls.price(matrix, starts, model.run)[:, 0].copy()
    old = model.table[symbol][i]
    model.table[symbol][i] = old * 1.5 + 0.1
    after = calls.price(matrix, starts, model.run)[:, 0]
    model.table[symbol][i] = old
    return numpy.flatnonzero(abs(after - before) > 1e-9 * before)


def pick(matrix, starts, which):
    at = numpy.concatenate([numpy.arange(starts[i], starts[i + 1]) for i in which])
    return matrix[at], numpy.concatenate([[0], numpy.cumsum(starts[which + 1] - starts[which])])


def search(model, rows, matrix, starts, w, use, pull=0.01, steps=(0.5, 0.2, 0.07, 0.025), only=None):
    """Fits every group on the rows in use (a mask)."""
    us = numpy.array([r.us for r in rows])
    for name, key, constants in groups():
        if only and not name.startswith(only):
            continue
        which = affected(model, matrix, starts, key)
        which = which[use[which]]
        if len(which) < 3:
            continue
        m, s = pick(matrix, starts, which)
        u, v = us[which], w[which] / w[which].sum()
        first = {(n, i): model.table[n][i] for n, i, *_ in constants}

        def loss():
            got = calls.price(m, s, model.run)[:, 0]
            far = sum(abs(numpy.log(model.table[n][i] / first[n, i])) for n, i, *_ in constants)
            return float((v * abs(numpy.log(got / u))).sum() + pull * far * (30 / (30 + len(which))))
        best = loss()
        for step in steps:
            for _ in range(3):
                moved = False
                for n, i, low, high in constants:
                    for f in (1 + step, 1 / (1 + step)):
                        old = model.table[n][i]
                        model.table[n][i] = min(max(old * f, low), high)
                        now = loss()
                        if now < best - 1e-7:
                            best, moved = now, True
                            break
                        model.table[n][i] = old
                if not moved:
                    break


# ---- shares ----

COUNTERS = ("smact", "smocc", "drama", "tensor")


def share_constants():
    """[(counter it changes, symbol, index, low, high)]"""
    out = [(0, "pl_cost_generals", 0, 0.1, 6), (0, "pl_cost_generals", 1, 0.85, 1), (1, "pl_cost_generals", 2, 0.5, 16), (2, "pl_cost_generals", 5, 0.02, 1)]
    for k, field, low, high in ((1, "warps", 0.02, 1), (2, "traffic", 0.4, 1.6), (3, "pipe", 0.5, 6)):
        for symbol, fields, count in (("pl_cost_moving_of", MOVING, len(CLASSES)), ("pl_cost_products", PRODUCT, len(UNITS)), ("pl_cost_convs", PRODUCT, len(UNITS)), ("pl_cost_attentions", ATTENTION, 8)):
            if field in fields:
                out += [(k, symbol, c * len(fields) + fields.index(field), low, high) for c in range(count)]
    return out


def counters(rows, got, jobs, times):
    """Of each job (measured, predicted) counters in percent: sums over its kernels, times `times`, over the window's step."""
    at = {}
    for j, r in enumerate(rows):
        at.setdefault(r.job, []).append(j)
    at = {j: numpy.array(i) for j, i in at.items() if jobs[j][1].get("smact") is not None}
    n = numpy.array([r.n for r in rows])
    true = numpy.array([[jobs[j][1][c] for c in COUNTERS] for j in at])
    sums = numpy.array([(got[i, 1:] * (n[i] * times[i])[:, None]).sum(0) / (jobs[j][1]["step_ms"] * 10) for j, i in at.items()])
    return list(at), true, numpy.minimum(sums, 100)


def search_shares(model, rows, matrix, starts, jobs, use, pull=0.004, steps=(0.4, 0.15, 0.05)):
    """Fits the shares on the rows in use, the kernels' measured times being given."""
    which = numpy.flatnonzero(use)
    m, s = pick(matrix, starts, which)
    some = [rows[i] for i in which]
    us = numpy.array([r.us for r in some])
    constants = share_constants()
    first = {c: model.table[c[1]][c[2]] for c in constants}

    def loss(k):
        _, true, sums = counters(some, calls.price(m, s, model.run), jobs, us)
        far = sum(abs(numpy.log(model.table[c[1]][c[2]] / first[c])) for c in constants if c[0] == k)
        return float((abs(true - sums)[:, k] / (4 + true[:, k]) ** 0.5).mean() + pull * far)
    for k in range(len(COUNTERS)):
        best = loss(k)
        for step in steps:
            for _ in range(2):
                moved = False
                for c in constants:
                    if c[0] != k:
                        continue
                    for f in (1 + step, 1 / (1 + step)):
                        old = model.table[c[1]][c[2]]
                        model.table[c[1]][c[2]] = min(max(old * f, c[3]), c[4])
                        now = loss(k)
                        if now < best - 1e-6:
                            best, moved = now, True
                            break
                        model.table[c[1]][c[2]] = old
                if not moved:
                    break


def report_shares(rows, got, jobs, title):
    us = numpy.array([r.us for r in rows])
    for name, times in (("measured", us), ("predicted", got[:, 0])):
        _, true, sums = counters(rows, got, jobs, times)
        print(f"{title}, kernels' times {name}: mean absolute error " + ", ".join(f"{c} {e:.2f}" for c, e in zip(COUNTERS, abs(true - sums).mean(0))))


def fold_of(model, folds):
    return zlib.crc32(str(model).encode()) % folds


def report(rows, us, title):
    true = numpy.array([r.us for r in rows])
    n = numpy.array([r.n for r in rows])
    t = true * n
    print(f"{title}: {len(rows)} rows of {len({r.job for r in rows})} jobs, {len({r.model for r in rows})} models")
    print("| kind | rows | share of time | median error | p90 | by time, mean | sum predicted / measured |\n|---|---|---|---|---|---|---|")
    for kind in calls.KINDS:
        i = numpy.array([j for j, r in enumerate(rows) if r.kind == kind])
        if not len(i):
            continue
        e = abs(us[i] / true[i] - 1)
        print(f"| {kind} | {len(i)} | {t[i].sum() / t.sum():.3f} | {numpy.median(e):.3f} | {numpy.quantile(e, 0.9):.3f} | {(e * t[i]).sum() / t[i].sum():.3f} | {(us[i] * n[i]).sum() / t[i].sum():.3f} |")
    by = {}
    for j, r in enumerate(rows):
        by.setdefault(r.job, []).append(j)
    e = numpy.array([abs((us[i] * n[i]).sum() / t[i].sum() - 1) for i in map(numpy.array, by.values())])
    print(f"a job's kernels together: median error {numpy.median(e):.3f}, p90 {numpy.quantile(e, 0.9):.3f}")
    return dict(zip(by, e))


def write(values):
    """The constants into cost_tables.c."""
    text = open(TABLES).read()
    number = lambda x: "%.4g" % x  # noqa: E731
    for c, name in enumerate(CLASSES):
        row = ", ".join(map(number, values["pl_cost_moving_of"][c * len(MOVING):][:len(MOVING)]))
        text = re.sub(r"(\[%s\]\s*= )\{[^}]*\}" % name, lambda m: m.group(1) + "{" + row + "}", text)
    for symbol in ("pl_cost_products", "pl_cost_convs"):
        a, body = text.index(f"pl_cost_product {symbol}"), None
        end = text.index("};\n", a)
        body = text[a:text.index("\n", a) + 1]
        for u, unit in enumerate(x.upper() for x in UNITS):
            v = values[symbol][u * len(PRODUCT):][:len(PRODUCT)]
            tiles = ", ".join("{" + ", ".join(map(number, v[9 + 3 * i:12 + 3 * i])) + "}" for i in range(TILES))
            body += f"    [PL_COST_{unit}] = {{{', '.join(map(number, v[:9]))},\n        {{{tiles}}}}},\n"
        text = text[:a] + body + text[end:]
    groups3 = lambda v, k: ", ".join("{" + ", ".join(map(number, v[i:i + k])) + "}" for i in range(0, len(v), k))  # noqa: E731
    text = re.sub(r"(pl_cost_conv_factor\[3\]\[PL_COST_UNITS\] = ).*", lambda m: m.group(1) + "{" + groups3(values["pl_cost_conv_factor"], len(UNITS)) + "};", text)
    v = values["pl_cost_attentions"]
    body = "".join("    {" + groups3(v[i:i + 16], 8) + "},\n" for i in range(0, 64, 16))
    a = text.index("pl_cost_attentions[PL_COST_BACKENDS][2] = {")
    text = text[:text.index("\n", a) + 1] + body + text[text.index("};\n", a):]
    v = values["pl_cost_rnns"]
    body = "".join("    {" + groups3(v[i:i + 10], 5) + "},\n" for i in range(0, 30, 10))
    a = text.index("pl_cost_rnns[3][2] = {")
    text = text[:text.index("\n", a) + 1] + body + text[text.index("};\n", a):]
    text = re.sub(r"(pl_cost_generals = ).*", lambda m: m.group(1) + "{" + ", ".join(map(number, values["pl_cost_generals"])) + "};", text)
    with open(TABLES, "w") as f:
        f.write(text)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("operators", nargs="+")
    p.add_argument("--windows", nargs="+", required=True)
    p.add_argument("--folds", type=int, default=5)
    p.add_argument("--jitter", type=float, default=0.3, help="of the folds' first constants, so that they know nothing of what was fitted before")
    p.add_argument("--only")
    p.add_argument("--shares", action="store_true", help="fit the shares too (a minute or two a fold)")
    p.add_argument("--write", action="store_true")
    a = p.parse_args()
    rows, jobs = calls.load(a.operators, a.windows)
    rows = [r for r in rows if r.calls]
    matrix, starts = calls.stack(rows)
    w, model = weights(rows), Model()
    start = model.get()
    held = calls.price(matrix, starts, model.run).copy()
    report(rows, held[:, 0], "constants as they are")
    report_shares(rows, held, jobs, "constants as they are")
    fold = numpy.array([fold_of(r.model, max(a.folds, 1)) for r in rows])

    def fit(use, jitter=0.0):
        model.put(start)
        chance = numpy.random.default_rng(len(rows))
        for _, _, constants in groups():
            for n, i, low, high in constants:
                model.table[n][i] = min(max(model.table[n][i] * numpy.exp(chance.normal(0, jitter)), low), high)
        search(model, rows, matrix, starts, w, use, only=a.only)
        if a.shares:
            search_shares(model, rows, matrix, starts, jobs, use)
        return calls.price(matrix, starts, model.run)
    for f in range(a.folds):
        held[fold == f] = fit(fold != f, a.jitter)[fold == f]
    if a.folds:
        report(rows, held[:, 0], f"held-out models, {a.folds} folds")
        report_shares(rows, held, jobs, f"held-out models, {a.folds} folds")
    if a.write:
        got = fit(fold >= 0)
        report(rows, got[:, 0], "fitted on all")
        report_shares(rows, got, jobs, "fitted on all")
        write(model.get())


if __name__ == "__main__":
    main()
