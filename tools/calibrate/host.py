"""Fits the prices of src/device/host.c: what the host needs to issue a step is the sum of count times price over the terms of
pl_host_count.

    ninja -C build usage_features
    build/usage_features data/h200/utilization.jsonl.xz GRAPHS ... > features.jsonl
    python3 tools/calibrate/host.py features.jsonl data/h200/utilization.jsonl.xz

Fitted are the steps of jobs that are bound by the host (host_ms above 1.6 times kernel_ms), less the copy of the batch; those of
GradScaler are left out, since they wait for the card too. Relative errors count, large ones less (as absolute, not squared
ones); prices are not negative. Each run (a row's `run`) had a host of its own: its speed is a factor beside the prices, the first one's being 1. Folds
by model say how well new models are predicted. Needs numpy and scipy."""
import json
import lzma
import sys

import numpy as np
from scipy.optimize import nnls


def lines(path):
    with (lzma.open(path, "rt") if path.endswith(".xz") else open(path)) as f:
        return [json.loads(line) for line in f]


def solve(x, y, rounds=12, ridge=1e-3):
    """Weighted until the sum of relative absolute errors is small."""
    w = 1 / y
    scale = np.abs(x * w[:, None]).mean(0) + 1e-12
    pull = ridge * np.diag(scale) * len(y)
    c = None
    for _ in range(rounds):
        c = nnls(np.vstack([x * w[:, None], pull]), np.append(y * w, np.zeros(x.shape[1])))[0]
        miss = np.abs(x @ c / y - 1)
        w = 1 / y / np.sqrt(np.maximum(miss, 0.03))
    return c


def show(name, p, y):
    e = np.abs(p / y - 1)
    print("%-28s %4d jobs: median %.1f %%, 90th percentile %.1f %%, bias %+.1f %%" % (name, len(y), 100 * np.median(e), 100 * np.quantile(e, 0.9), 100 * np.median(p / y - 1)))


def main():
    features = {f["id"]: f for f in lines(sys.argv[1])}
    rows = []
    for path in sys.argv[2:]:
        for r in lines(path):
            result, f = r.get("result", {}), features.get(r.get("job", {}).get("id"))
            if f and result.get("kernel_ms") and 1.6 * result["kernel_ms"] < result["host_ms"] and r["job"]["precision"] != "amp-fp16":
                rows.append((f, r, r["job"].get("run", 0)))
    names = list(rows[0][0]["host"])
    x = np.array([[f["host"][n] if n not in ("step", "transfer") else n == "step" for n in names] for f, _, _ in rows], float)
    y = np.array([1e3 * (r["result"]["step_ms"] - r["result"]["copy_ms"]) for _, r, _ in rows])
    run = np.array([n for _, _, n in rows])
    model = [json.dumps(r["job"]["model"], sort_keys=True) for _, r, _ in rows]
    speed = np.ones(run.max() + 1)
    for _ in range(6):
        c = solve(x, y * speed[run])
        for k in range(1, len(speed)):
            if (run == k).any():
                speed[k] = np.median((x @ c)[run == k] / y[run == k])
    show("all", x @ c / speed[run], y)
    fold = np.array([hash(m) % 5 for m in model])
    p = np.zeros(len(y))
    for k in range(5):
        p[fold == k] = x[fold == k] @ solve(x[fold != k], (y * speed[run])[fold != k])
    show("models kept apart", p / speed[run], y)
    for family in sorted({r["job"]["family"] for _, r, _ in rows}):
        own = np.array([r["job"]["family"] == family for _, r, _ in rows])
        show(family, (p / speed[run])[own], y[own])
    for n, price in zip(names, c):
        print("%-20s %8.2f us   in %d jobs" % (n, price, (x[:, names.index(n)] > 0).sum()))
    print("speeds of the runs:", np.round(speed, 3))


if __name__ == "__main__":
    main()
