"""Fits the decision tree that picks a convolution's engine class, and writes it as a C table.

    python tools/workspace/fit.py --traces DIR --measured FILE.jsonl.xz ... --out src/device/workspace_tree.c

DIR holds allocator-traces, operator-traces (.jsonl or .jsonl.xz) and graphs/; FILEs come from tools/measure/convs.py.
Validation keeps whole models (traces) or whole layer shapes whatever their batch and type (measured) on one side.
Needs numpy. The cost of an answer is its error relative to the tensors' bytes; too low costs twice."""
import argparse
import datetime
import json
import os
import sys

import numpy as np

from formulas import CLASSES, FEATURES, PASSES, Shape, native_depthwise
from rows import MIB, read_measured, read_traces

LOW = 2.0       # an underestimate costs this much more
EXACT = 1024    # bytes: closer than this is exact, the allocator rounds to 512


class Data:
    def __init__(self, rows, target="bytes"):
        self.rows = rows
        shapes = [Shape(r) for r in rows]
        self.shapes = shapes
        self.pass_ = np.array([d.pass_ for d in shapes])
        self.x = np.array([[float(f(d)) for _, f in FEATURES] for d in shapes])
        self.answers = np.array([[float(f(d)) for _, f in CLASSES] for d in shapes])
        self.bytes = np.array([float(r[target]) for r in rows])
        self.scale = np.array([float(d.e * (d.n * d.c * d.s + d.n * d.k * d.p + d.k * (d.c // d.g) * d.r)) for d in shapes])
        self.group = np.array([r["group"] for r in rows])
        error = self.answers - self.bytes[:, None]
        relative = np.abs(error) / (self.scale + MIB)[:, None]
        cost = np.minimum(relative * np.where(error < 0, LOW, 1.0), 3.0) + 0.03 * (np.abs(error) > EXACT)
        self.weight = 0.1 + np.minimum(1.0, np.sqrt(self.scale / (32 * MIB)))
        self.cost = cost * self.weight[:, None]


def grow(data, index, depth, least, penalty, rng, share):
    """A tree over the rows of index: ("split", feature, threshold, at most, above) or ("leaf", class)."""
    total = data.cost[index].sum(0)
    here = total.min()
    leaf = ("leaf", int(total.argmin()))
    if depth == 0 or len(index) < 2 * least or here <= penalty:
        return leaf, here + penalty
    best = None
    count = data.x.shape[1]
    for feature in rng.permutation(count)[:max(1, round(count * share))]:
        values = data.x[index, feature]
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        change = np.nonzero(np.diff(ordered) > 0)[0]
        change = change[(change + 1 >= least) & (change + 1 <= len(index) - least)]
        if len(change) == 0:
            continue
        left = np.cumsum(data.cost[index[order]], axis=0)[change]
        score = left.min(1) + (total[None, :] - left).min(1)
        at = int(score.argmin())
        if best is None or score[at] < best[0] - 1e-9:
            low, high = ordered[change[at]], ordered[change[at] + 1]
            best = (score[at], int(feature), float((low + high) / 2 if high - low < 2 else np.floor((low + high) / 2)))
    if best is None:
        return leaf, here + penalty
    _, feature, threshold = best
    below = data.x[index, feature] <= threshold
    left, left_cost = grow(data, index[below], depth - 1, least, penalty, rng, share)
    right, right_cost = grow(data, index[~below], depth - 1, least, penalty, rng, share)
    if left_cost + right_cost >= here + penalty - 1e-9:
        return leaf, here + penalty
    return ("split", feature, threshold, left, right), left_cost + right_cost


def apply(tree, x):
    """The class of each row of x."""
    result = np.zeros(len(x), int)

    def walk(node, index):
        if node[0] == "leaf":
            result[index] = node[1]
            return
        below = x[index, node[1]] <= node[2]
        walk(node[3], index[below])
        walk(node[4], index[~below])
    walk(tree, np.arange(len(x)))
    return result


def fit(data, index, how):
    """Trees by pass. One tree sees everything; more are each grown on a sample with some of the features a split."""
    rng = np.random.default_rng(how.seed)
    forests = []
    for which in range(3):
        own = index[data.pass_[index] == which]
        if how.trees == 1:
            forests.append([grow(data, own, how.depth, how.least, how.penalty, rng, 1.0)[0]])
        else:
            forests.append([grow(data, rng.choice(own, len(own)), how.depth, how.least, how.penalty, rng, how.share)[0]
                            for _ in range(how.trees)])
    return forests


def predict(data, forests, index):
    """(answer, spread): the votes' answer with the least expected cost, and the votes' mean distance from it."""
    answer, spread = np.zeros(len(index)), np.zeros(len(index))
    for which in range(3):
        own = np.nonzero(data.pass_[index] == which)[0]
        at = index[own]
        votes = np.stack([apply(tree, data.x[at]) for tree in forests[which]], axis=1)
        value = np.take_along_axis(data.answers[at], votes, 1) / (data.scale[at] + MIB)[:, None]
        error = value[:, :, None] - value[:, None, :]  # candidate, truth
        cost = np.minimum(np.abs(error) * np.where(error < 0, LOW, 1.0), 3.0).mean(2)
        pick = cost.argmin(1)
        rows = np.arange(len(own))
        answer[own] = data.answers[at, votes[rows, pick]]
        spread[own] = np.abs(error[rows, pick]).mean(1)
    return answer, spread


def folds(groups, count):
    names = sorted(set(groups))
    rng = np.random.default_rng(1)
    rng.shuffle(names)
    number = {name: i % count for i, name in enumerate(names)}
    return np.array([number[g] for g in groups])


def validated(data, how, count=5):
    fold = folds(data.group, count)
    answer, spread = np.zeros(len(data.rows)), np.zeros(len(data.rows))
    everything = np.arange(len(data.rows))
    for f in range(count):
        forests = fit(data, everything[fold != f], how)
        held = everything[fold == f]
        answer[held], spread[held] = predict(data, forests, held)
    return answer, spread


SPREADS = (0.001, 0.02, 0.06, 0.12, 0.25, 0.5, 1e9)


def doubts(data, answer, spread):
    """The 90th percentile of the relative error by the votes' spread, from validation; never falling."""
    error = np.abs(answer - data.bytes) / (data.scale + MIB)
    result, low = [], -1.0
    for high in SPREADS:
        own = (spread > low) & (spread <= high)
        value = float(np.quantile(error[own], .9)) if own.sum() >= 10 else 1.0
        result.append(max(value, result[-1] if result else 0))
        print(f"    spread up to {high:g}: {own.sum()} rows, p50 {np.median(error[own]) if own.any() else 0:.3f}, p90 {value:.3f}")
        low = high
    return result


def table(data, answer, out=sys.stdout):
    error = answer - data.bytes
    relative = error / (data.scale + MIB)
    big = data.scale >= 8 * MIB
    print(f"{'':24}{'rows':>7}{'within 1 KiB':>14}{'median':>9}{'p90':>9}{'bias':>9}{'low by >5%':>12}", file=out)
    lines = [("all", np.ones(len(error), bool)), ("8 MiB and more", big)]
    lines += [(PASSES[p], data.pass_ == p) for p in range(3)]
    lines += [(PASSES[p] + ", 8 MiB", (data.pass_ == p) & big) for p in range(3)]
    half = np.array([d.e == 2 for d in data.shapes])
    last = np.array([d.last for d in data.shapes])
    groups = np.array([d.g > 1 for d in data.shapes])
    tf32 = np.array([d.tf32 for d in data.shapes])
    bench = np.array([d.benchmark for d in data.shapes])
    lines += [("benchmark", bench), ("transposed", np.array([d.transposed for d in data.shapes]))]
    lines += [("fp32", ~half & ~tf32), ("tf32", ~half & tf32), ("half", half), ("channels last", last), ("grouped", groups)]
    for name, own in lines:
        if not own.any():
            continue
        r = relative[own]
        print(f"{name:24}{own.sum():7d}{(np.abs(error[own]) <= EXACT).mean():13.1%} {np.median(np.abs(r)):8.2%} "
              f"{np.quantile(np.abs(r), .9):8.1%} {r.mean():8.2%} {(r < -.05).mean():11.1%}", file=out)


def flatten(tree, nodes):
    at = len(nodes)
    nodes.append(None)
    if tree[0] == "leaf":
        nodes[at] = (-1, 0.0, tree[1], 0)
    else:
        left = flatten(tree[3], nodes)
        right = flatten(tree[4], nodes)
        nodes[at] = (tree[1], tree[2], left, right)
    return at


def write(path, forests, doubt, how, count, files):
    """forests: by pass, of the workspace used and then of the largest tried; doubt: a list for each of the two."""
    nodes, roots = [], []
    for forest in forests:
        roots.append([flatten(tree, nodes) for tree in forest])
    if len(nodes) > 32000:
        raise SystemExit(f"{len(nodes)} nodes: too many for 16 bits")
    with open(path, "w") as out:
        out.write("/* workspace_tree: which formula a convolution's workspace follows, as decision trees a pass.\n *\n"
                  f" * Written by tools/workspace/fit.py on {datetime.date.today()}; do not edit. Command:\n"
                  f" *     python tools/workspace/fit.py --traces DIR --measured FILES {how.text()}\n"
                  f" * Data: {files}; {count} convolution passes.\n"
                  " * Measured on an H200 with PyTorch 2.11, cuDNN 9.19, CUDA 13.0 on 2026-11-15.\n *\n"
                  " * A split: {threshold, at most, above, feature}; a leaf: {0, class, 0, -1}. */\n")
        out.write('#include "device/workspace_tree.h"\n\n')
        out.write("/* clang-format off */\n")
        out.write(f"const int pl_workspace_tree_count = {how.trees};\n\n")
        out.write("const pl_workspace_doubt pl_workspace_doubts[2][PL_WORKSPACE_DOUBTS] = {\n"
                  + "".join("    {" + ", ".join(f"{{{s:g}, {d:.4f}}}" for s, d in zip(SPREADS, one)) + "},\n" for one in doubt) + "};\n\n")
        out.write("const int16_t pl_workspace_tree_roots[6][PL_WORKSPACE_TREES] = {\n"
                  + "".join("    {" + ", ".join(map(str, r)) + "},\n" for r in roots) + "};\n\n")
        out.write(f"const pl_workspace_node pl_workspace_tree[{len(nodes)}] = {{\n")
        for at, node in enumerate(nodes):
            value = f"{node[1]:.1f}" if node[0] >= 0 else "0"
            note = CLASSES[node[2]][0] if node[0] < 0 else FEATURES[node[0]][0]
            out.write(f"    /* {at} */ {{{value}, {node[2]}, {node[3]}, {node[0]}}}, /* {note} */\n")
        out.write("};\n/* clang-format on */\n")
    return len(nodes)


PASS_NAMES = ("PL_CONV_FORWARD", "PL_CONV_BACKWARD_DATA", "PL_CONV_BACKWARD_WEIGHT")


def literal(row, engine):
    """A row of tests/workspace.c."""
    def braces(values):
        return "{" + ", ".join(map(str, values)) + "}"
    x, w, y = row["x"], row["w"], row["y"]
    kind = {"float16": "F16", "bfloat16": "BF16"}.get(row["dtype"], "TF32" if row["tf32"] else "F32")
    flags = "".join(f", .{name} = true" for name in ("transposed", "channels_last", "benchmark") if row[name])
    source = "convs" if row["source"].startswith("convs") else row["source"]
    return (f'    {{"{source}", "{engine}", {PASS_NAMES[PASSES.index(row["pass"])]}, {row["bytes"]},\n'
            f"     {{C({len(x) - 2}, {x[0]}, {x[1]}, {y[1]}, {row['groups']}), .in = {braces(x[2:])}, .kernel = {braces(w[2:])}, "
            f".stride = {braces(row['stride'])},\n      .padding = {braces(row['padding'])}, .dilation = {braces(row['dilation'])}, "
            f".out = {braces(y[2:])}, {kind}{flags}}}}},\n")


def write_tests(path, data, fitted, each=6):
    """Replaces the rows of the C test: up to `each` of every class and pass that are answered exactly."""
    rng = np.random.default_rng(3)
    chosen = []
    for which in range(3):
        for number, (name, _) in enumerate(CLASSES):
            fits = (data.pass_ == which) & (data.answers[:, number] == fitted) & (np.abs(fitted - data.bytes) <= EXACT)
            if name != "none":
                fits &= data.bytes > 0
            fits = np.nonzero(fits)[0]
            traced = [i for i in fits if not data.rows[i]["source"].startswith("convs")]
            other = [i for i in fits if data.rows[i]["source"].startswith("convs")]
            rng.shuffle(traced)
            rng.shuffle(other)
            chosen += [(i, name) for i in (traced[:each // 2] + other)[:each]]
    with open(path) as file:
        text = file.read()
    head, rest = text.split("/* rows */\n", 1)
    _, tail = rest.split("/* end */\n", 1)
    with open(path, "w") as file:
        file.write(head + "/* rows */\n" + "".join(literal(data.rows[i], name) for i, name in chosen) + "/* end */\n" + tail)
    return len(chosen)


class How:
    """How the trees are grown."""

    def __init__(self, trees, depth, least, penalty, share, seed=0):
        self.trees, self.depth, self.least, self.penalty, self.share, self.seed = trees, depth, least, penalty, share, seed

    def text(self):
        return f"--trees {self.trees} --depth {self.depth} --least {self.least} --penalty {self.penalty} --share {self.share}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces")
    parser.add_argument("--measured", nargs="*", default=[])
    parser.add_argument("--out")
    parser.add_argument("--tests", help="rewrite the rows of this C test")
    parser.add_argument("--cases", help="write rows with the answers of this program, to hold the C code against")
    parser.add_argument("--trees", type=int, default=7)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--least", type=int, default=2)
    parser.add_argument("--penalty", type=float, default=0.2)
    parser.add_argument("--share", type=float, default=0.4)
    parser.add_argument("--search", action="store_true", help="try several ways of growing first")
    args = parser.parse_args()
    rows = read_traces(args.traces) if args.traces else []
    for path in args.measured:
        rows += read_measured(path)
    wrong = [r for r in rows if native_depthwise(r) and r["bytes"]]
    print(len(rows), "rows;", sum(map(native_depthwise, rows)), "by PyTorch's own depthwise kernels, of them with bytes:", len(wrong))
    rows = [r for r in rows if not native_depthwise(r)]
    data = Data(rows)
    best = np.argmin(np.abs(data.answers - data.bytes[:, None]), axis=1)
    print("\nthe best class each (what a perfect choice would reach)")
    table(data, data.answers[np.arange(len(rows)), best])
    how = How(args.trees, args.depth, args.least, args.penalty, args.share)
    if args.search:
        for trees, penalty, share in ((1, 0.1, 1), (1, 0.4, 1), (1, 1, 1), (1, 2, 1), (5, 0.5, .4), (7, 0.2, .4), (7, 1, .4), (11, 1, .4), (15, 0.5, .4)):
            one = How(trees, args.depth, args.least, penalty, share)
            answer, _ = validated(data, one)
            error = answer - data.bytes
            cost = np.abs(error) / (data.scale + MIB) * np.where(error < 0, LOW, 1)
            nodes = []
            for forest in fit(data, np.arange(len(rows)), one):
                for tree in forest:
                    flatten(tree, nodes)
            big = data.scale >= 8 * MIB
            print(f"{one.text()}: {len(nodes)} nodes, cost {np.mean(cost):.4f}, 8 MiB and more {np.mean(cost[big]):.4f}, "
                  f"exact {(np.abs(error) <= EXACT).mean():.3f}", flush=True)
    answer, spread = validated(data, how)
    print("\nvalidation, whole models and shapes held out")
    table(data, answer)
    doubt = doubts(data, answer, spread)
    forests = fit(data, np.arange(len(rows)), how)
    fitted, _ = predict(data, forests, np.arange(len(rows)))
    print("\nfitted on everything")
    table(data, fitted)
    tried_rows = [r for r in rows if r["benchmark"] and r.get("tried")]
    tried = Data(tried_rows, "tried")
    print("\nthe largest workspace tried with cudnn.benchmark: the best class each, then validation")
    best = np.argmin(np.abs(tried.answers - tried.bytes[:, None]), axis=1)
    table(tried, tried.answers[np.arange(len(tried_rows)), best])
    answer, spread = validated(tried, how)
    table(tried, answer)
    tried_doubt = doubts(tried, answer, spread)
    tried_forests = fit(tried, np.arange(len(tried_rows)), how)
    if args.out:
        files = ", ".join((["allocator and operator traces"] if args.traces else []) + [os.path.basename(f) for f in args.measured])
        print("nodes:", write(args.out, forests + tried_forests, [doubt, tried_doubt], how, len(rows), files))
    if args.tests:
        print("test rows:", write_tests(args.tests, data, fitted))
    if args.cases:
        with open(args.cases, "w") as out:
            for row, value in zip(rows, fitted):
                out.write(json.dumps(dict(row, answer=int(value))) + "\n")


if __name__ == "__main__":
    main()
