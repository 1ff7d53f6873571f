"""Fits the decision tree that picks a convolution's engine class, and writes it as a C table.

    python tools/workspace/fit.py --traces DIR --measured FILE.jsonl.xz ... --out src/device/workspace_tree.c

DIR holds allocator-traces, operator-traces (.jsonl or .jsonl.xz) and graphs/; FILEs come from tools/measure/convs.py.
Validation keeps whole jobs (traces) and whole layers whatever their batch and type (measured, and the layers of jobs held
out) on one side. Needs numpy and a C compiler (grow.c). The cost of an answer is its error relative to the tensors' bytes; too low costs twice."""
import argparse
import ctypes
import datetime
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from formulas import CLASSES, FEATURES, PASSES, Shape, native_depthwise
from rows import MIB, read_measured, read_traces, shape_of

LOW = 2.0       # an underestimate costs this much more
INEXACT = 0.1   # so much more where it is not exact
FLOOR = 0.02    # so much anyway: grow.c's smooth minimum needs costs above 0
KINDS = {"trace": 2.0, "torchvision": 1.0, "random": 0.8, "cnn": 0.5, "cnn-near": 0.5}
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
        self.shape = np.array([str(shape_of(r)) for r in rows])
        error = self.answers - self.bytes[:, None]
        relative = np.abs(error) / (self.scale + MIB)[:, None]
        cost = np.minimum(relative * np.where(error < 0, LOW, 1.0), 3.0) + INEXACT * (np.abs(error) > EXACT) + FLOOR
        # What jobs are made of counts most: convolutions of whole jobs, then known models' layers, then made-up ones, then
        # those of small networks, of which there are many, and least those with TF32 off, which nobody has by default.
        self.traced = np.array(["kind" not in r for r in rows])
        common = np.array([KINDS[r.get("kind", "trace")] for r in rows])
        common *= np.where([d.tf32 for d in shapes], 1.0, 0.7)
        self.weight = common * (0.1 + np.minimum(1.0, np.sqrt(self.scale / (32 * MIB))))
        self.cost = cost * self.weight[:, None]


NODE = np.dtype([("value", "f8"), ("low", "i4"), ("high", "i4"), ("feature", "i4"), ("best", "i4")], align=True)
WIDTH = 32      # of grow.c


def build():
    """grow.c as a library."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "grow.c")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "grow.so")
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-O3", "-march=native", "-ffast-math", "-fno-finite-math-only",
                        "-shared", "-fPIC", source, "-o", path, "-lm"], check=True)
        return ctypes.CDLL(path)


def grow(library, data, index, how):
    """A tree over the rows of index: ("split", feature, threshold, at most, above) or ("leaf", class, rows)."""
    x = np.ascontiguousarray(data.x[index].T)
    order = np.ascontiguousarray(np.argsort(x, axis=1, kind="stable").astype(np.int32))
    cost = np.zeros((len(index), WIDTH), np.float32)
    cost[:, :data.cost.shape[1]] = data.cost[index]
    nodes = np.zeros(2 * len(index), NODE)
    count = library.pl_grow(len(index), len(x), data.cost.shape[1], *(ctypes.c_void_p(a.ctypes.data) for a in (cost, x, order)),
                            how.depth, how.least, ctypes.c_double(how.penalty), ctypes.c_void_p(nodes.ctypes.data))
    if count < 1:
        raise SystemExit("grow.c: nothing grown")

    def nested(at, rows):
        node = nodes[at]
        if node["feature"] < 0:
            return ("leaf", int(node["best"]), rows)
        below = data.x[rows, node["feature"]] <= node["value"]
        return ("split", int(node["feature"]), float(node["value"]), nested(node["low"], rows[below]), nested(node["high"], rows[~below]))
    return nested(0, index)


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
    """One tree per pass."""
    if how.library is None:
        how.library = build()
    return [grow(how.library, data, index[data.pass_[index] == which], how) for which in range(3)]


def predict(data, trees, index):
    answer = np.zeros(len(index))
    for which in range(3):
        own = data.pass_[index] == which
        answer[own] = data.answers[index[own], apply(trees[which], data.x[index[own]])]
    return answer


def folds(names, count):
    names = sorted(names)
    np.random.default_rng(1).shuffle(names)
    return {name: i % count for i, name in enumerate(names)}


def validated(data, how, count=5):
    """Every row's answer from trees that saw nothing of its job and of no layer of it, at whatever batch and type."""
    number = folds(set(data.group) | set(data.shape), count)
    own = np.array([number[g] for g in data.group])
    shape = np.array([number[s] for s in data.shape])
    answer = np.zeros(len(data.rows))
    everything = np.arange(len(data.rows))
    for f in range(count):
        held = everything[own == f]
        layers = set(data.shape[held])
        seen = np.array([s not in layers for s in data.shape]) & (own != f) & (shape != f)
        answer[held] = predict(data, fit(data, everything[seen], how), held)
    return answer


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
    lines += [("whole jobs", data.traced), ("whole jobs, 8 MiB", data.traced & big)]
    lines += [("whole jobs, " + PASSES[p], data.traced & (data.pass_ == p)) for p in range(3)]
    lines += [("fp32", ~half & ~tf32), ("tf32", ~half & tf32), ("half", half), ("channels last", last), ("grouped", groups)]
    for name, own in lines:
        if not own.any():
            continue
        r = relative[own]
        print(f"{name:24}{own.sum():7d}{(np.abs(error[own]) <= EXACT).mean():13.1%} {np.median(np.abs(r)):8.2%} "
              f"{np.quantile(np.abs(r), .9):8.1%} {r.mean():8.2%} {(r < -.05).mean():11.1%}", file=out)


def flatten(tree, nodes, data, answer):
    """Appends the tree to nodes: (threshold, at most, above, feature); a leaf: (doubt, class, rows, -1). Doubt is the 90th
    percentile of the leaf's rows' relative error when they were not fitted on (answer: from validation)."""
    at = len(nodes)
    nodes.append(None)
    if tree[0] == "leaf":
        index = tree[2]
        error = np.abs(answer[index] - data.bytes[index]) / (data.scale[index] + MIB)
        nodes[at] = (min(float(np.quantile(error, .9)), 9.0), tree[1], min(len(index), 30000), -1)
    else:
        left = flatten(tree[3], nodes, data, answer)
        right = flatten(tree[4], nodes, data, answer)
        nodes[at] = (tree[2], left, right, tree[1])
    return at


def write(path, parts, how, count, files):
    """parts: (trees, data, validated answers) of the workspace used, and of the largest tried."""
    nodes, roots = [], []
    for trees, data, answer in parts:
        roots += [flatten(tree, nodes, data, answer) for tree in trees]
    if len(nodes) > 32000:
        raise SystemExit(f"{len(nodes)} nodes: too many for 16 bits")
    with open(path, "w") as out:
        out.write("/* workspace_tree: which formula a convolution's workspace follows, as a decision tree per pass.\n *\n"
                  f" * Written by tools/workspace/fit.py on {datetime.date.today()}; do not edit. Command:\n"
                  f" *     python tools/workspace/fit.py --traces DIR --measured FILES {how.text()}\n"
                  f" * Data: {files}; {count} convolution passes.\n"
                  " * Measured on an H200 with PyTorch 2.11, cuDNN 9.19, CUDA 13.0 on 2026-11-15.\n *\n"
                  " * A split: {threshold, at most, above, feature}; a leaf: {doubt, class, rows fitted on, -1}. */\n")
        out.write('#include "device/workspace_tree.h"\n\n')
        out.write("/* clang-format off */\n")
        out.write(f"const int16_t pl_workspace_tree_roots[6] = {{{', '.join(map(str, roots))}}};\n\n")
        out.write(f"const pl_workspace_node pl_workspace_tree[{len(nodes)}] = {{\n")
        for at, node in enumerate(nodes):
            leaf = node[3] < 0
            value = f"{node[0]:.4f}" if leaf else f"{node[0]:.12g}"
            note = CLASSES[node[1]][0] if leaf else FEATURES[node[3]][0]
            out.write(f"    /* {at} */ {{{value}, {node[1]}, {node[2]}, {node[3]}}}, /* {note} */\n")
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

    def __init__(self, depth, least, penalty):
        self.depth, self.least, self.penalty, self.library = depth, least, penalty, None

    def text(self):
        return f"--depth {self.depth} --least {self.least} --penalty {self.penalty:g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces")
    parser.add_argument("--measured", nargs="*", default=[])
    parser.add_argument("--out")
    parser.add_argument("--tests", help="rewrite the rows of this C test")
    parser.add_argument("--cases", help="write rows with the answers of this program, to hold the C code against")
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--least", type=int, default=2)
    parser.add_argument("--penalty", type=float, default=2.4)
    parser.add_argument("--search", action="store_true", help="try several penalties first")
    args = parser.parse_args()
    rows = read_traces(args.traces) if args.traces else []
    for path in args.measured:
        rows += read_measured(path)
    wrong = [r for r in rows if native_depthwise(r) and r["bytes"]]
    print(len(rows), "rows;", sum(map(native_depthwise, rows)), "by PyTorch's own depthwise kernels, of them with bytes:", len(wrong))
    rows = [r for r in rows if not native_depthwise(r)]
    data = Data(rows)
    everything = np.arange(len(rows))
    best = np.argmin(np.abs(data.answers - data.bytes[:, None]), axis=1)
    print("\nthe best class each (what a perfect choice would reach)")
    table(data, data.answers[everything, best])
    how = How(args.depth, args.least, args.penalty)
    if args.search:
        for penalty in (0.5, 1, 2, 4, 8):
            one = How(args.depth, args.least, penalty)
            answer = validated(data, one)
            error = (answer - data.bytes) / (data.scale + MIB)
            nodes = []
            for tree in fit(data, everything, one):
                flatten(tree, nodes, data, answer)
            cost = np.minimum(np.abs(error) * np.where(error < 0, LOW, 1), 3)
            print(f"{one.text()}: {len(nodes)} nodes, cost {cost.mean():.4f}", flush=True)
    answer = validated(data, how)
    print("\nvalidation, whole models and shapes held out")
    table(data, answer)
    trees = fit(data, everything, how)
    fitted = predict(data, trees, everything)
    print("\nfitted on everything")
    table(data, fitted)
    tried_rows = [r for r in rows if r["benchmark"] and r.get("tried")]
    tried = Data(tried_rows, "tried")
    print("\nthe largest workspace tried with cudnn.benchmark: the best class each, then validation")
    best = np.argmin(np.abs(tried.answers - tried.bytes[:, None]), axis=1)
    table(tried, tried.answers[np.arange(len(tried_rows)), best])
    tried_answer = validated(tried, how)
    table(tried, tried_answer)
    tried_trees = fit(tried, np.arange(len(tried_rows)), how)
    if args.out:
        files = ", ".join((["allocator and operator traces"] if args.traces else []) + [os.path.basename(f) for f in args.measured])
        print("nodes:", write(args.out, [(trees, data, answer), (tried_trees, tried, tried_answer)], how, len(rows), files))
    if args.tests:
        print("test rows:", write_tests(args.tests, data, fitted))
    if args.cases:
        with open(args.cases, "w") as out:
            for row, value in zip(rows, fitted):
                out.write(json.dumps(dict(row, answer=int(value))) + "\n")


if __name__ == "__main__":
    main()
