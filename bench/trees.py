#!/usr/bin/env python3
"""Our tree learners beside scikit-learn, XGBoost, LightGBM and CatBoost: the same tables, splits and
options in one run, one thread each.

    bench/trees.py --program BUILD/bench_trees [--jobs memory.jsonl[.xz]] [--seeds 5] [--only NAME]

Tables: our measured jobs (--jobs; target: log2 of the peak's bytes) and Friedman's first function
(1,000 rows to learn from, 1,000 to test, noise of deviation 1). A seed splits the rows 70 to 30, and
seeds the learners. A row of the tables it prints: mean and standard deviation over the seeds. A gap
is marked where the paired difference of the RMSEs is more than twice its standard error and more than
1 % of the RMSE. Times are the processor's, of one thread. Needs numpy, scikit-learn, xgboost, lightgbm, catboost (pip)."""
import argparse, collections, json, lzma, os, subprocess, sys, tempfile, time, warnings

import numpy as np

warnings.filterwarnings("ignore")

LAYERS = ["Linear", "Conv2d", "Conv1d", "BatchNorm1d", "BatchNorm2d", "LayerNorm", "Dropout", "Embedding", "LSTM", "GRU"]
PRECISIONS = ["fp32", "tf32", "bf16", "amp-bf16", "amp-fp16"]
OPTIMIZERS = ["sgd", "sgd-momentum", "adam", "adamw", "adamw-fused", "rmsprop", "adagrad", "adafactor"]
FAMILIES = ["mlp", "cnn", "transformer", "rnn"]


def log2(x):
    return float(np.log2(max(float(x), 1)))


def job_features(job, result):
    """Numbers known before the job runs, from its description and its modules."""
    layers = result["layers"]
    kinds = collections.Counter(layer[0] for layer in layers)
    activations = sum(layer[1] for layer in layers)
    largest = max([layer[1] for layer in layers] or [0])
    batch = job.get("batch", 1)
    row = {
        "params": log2(result["params"]),
        "trainable": log2(result["trainable"]),
        "batch": log2(batch),
        "seq": log2(job.get("seq") or 1),
        "activations": log2(activations),
        "activations_batch": log2(activations * batch),
        "largest_batch": log2(largest * batch),
        "layers": log2(len(layers)),
        "checkpoint": float(bool(job.get("checkpoint"))),
        "accumulate": log2(job.get("accumulate") or 1),
        "channels_last": float(bool(job.get("channels_last"))),
        "benchmark": float(bool(job.get("cudnn_benchmark"))),
        "frozen": float(str(job.get("train", "all")) != "all"),
        "other_layers": float(sum(n for kind, n in kinds.items() if kind not in LAYERS)),
    }
    row.update({"n_" + kind: float(kinds.get(kind, 0)) for kind in LAYERS})
    row.update({"precision_" + p: float(job.get("precision") == p) for p in PRECISIONS})
    row.update({"optimizer_" + o: float(job.get("optimizer") == o) for o in OPTIMIZERS})
    row.update({"family_" + f: float(job.get("family") == f) for f in FAMILIES})
    return row


def read_jobs(path):
    opened = lzma.open(path, "rt") if path.endswith(".xz") else open(path)
    rows, peaks = [], []
    with opened as lines:
        for line in lines:
            entry = json.loads(line)
            result = entry["result"]
            if not result.get("layers") or "peak_reserved" not in result or "overhead" not in result:
                continue
            rows.append(job_features(entry["job"], result))
            peaks.append(log2(result["peak_reserved"] + result["overhead"]))
    names = list(rows[0])
    return np.array([[row[n] for n in names] for row in rows], np.float32), np.array(peaks, np.float32)


def friedman(rows, seed):
    from sklearn.datasets import make_friedman1
    x, y = make_friedman1(rows, 10, noise=1.0, random_state=seed)
    return x.astype(np.float32), y.astype(np.float32)


def run_ours(program, x, y, xt, yt, learner, options, seed, classes=0):
    with tempfile.NamedTemporaryFile("w", suffix=".csv", delete=False) as file:
        file.write(",".join(["fold", "target"] + ["x%d" % i for i in range(x.shape[1])]) + "\n")
        for fold, values, targets in ((0, x, y), (1, xt, yt)):
            for row, target in zip(values, targets):
                file.write("%d,%.9g,%s\n" % (fold, target, ",".join("%.9g" % v for v in row)))
    try:
        done = subprocess.run([program, file.name, learner, options, str(seed), str(classes)], capture_output=True, text=True)
    finally:
        os.unlink(file.name)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    head, numbers = done.stdout.split("predictions\n")
    figures = {k: float(v) for k, v in (line.split() for line in head.splitlines())}
    figures["predictions"] = np.array(numbers.split(), np.float64)
    return figures


def run_theirs(model, x, y, xt):
    start = time.process_time()
    model.fit(x, y)
    trained = time.process_time()
    predictions = np.asarray(model.predict(xt), np.float64).reshape(-1)
    predicted = time.process_time()
    few = min(len(xt), 50)
    for i in range(few):
        model.predict(xt[i:i + 1])
    singly = time.process_time()
    return {"train_us": (trained - start) * 1e6, "batch_us": (predicted - trained) * 1e6 / len(xt),
            "one_us": (singly - predicted) * 1e6 / few, "predictions": predictions}


def regressors():
    """name: our learner, its options, theirs (a function of the seed)."""
    from catboost import CatBoostRegressor
    from lightgbm import LGBMRegressor
    from sklearn.ensemble import AdaBoostRegressor, ExtraTreesRegressor, RandomForestRegressor
    from sklearn.tree import DecisionTreeRegressor
    from xgboost import XGBRegressor
    cat = dict(iterations=1000, learning_rate=0.05, depth=6, verbose=0, thread_count=1, allow_writing_files=False)
    return {
        "decision tree": ("tree", "", "scikit-learn", lambda s: DecisionTreeRegressor(random_state=s)),
        "random forest": ("forest", "trees=100 threads=1", "scikit-learn", lambda s: RandomForestRegressor(100, random_state=s, n_jobs=1)),
        "extra trees": ("forest", "trees=100 extra=1 threads=1", "scikit-learn", lambda s: ExtraTreesRegressor(100, random_state=s, n_jobs=1)),
        "AdaBoost.R2": ("adaboost", "", "scikit-learn", lambda s: AdaBoostRegressor(random_state=s)),
        "AdaBoost.R2, depth 8": ("adaboost", "depth=8 trees=100 loss=square", "scikit-learn",
                                 lambda s: AdaBoostRegressor(DecisionTreeRegressor(max_depth=8), n_estimators=100, loss="square", random_state=s)),
        "leafwise": ("leafwise", "", "LightGBM", lambda s: LGBMRegressor(random_state=s, n_jobs=1, verbose=-1)),
        "leafwise, sampled": ("leafwise", "trees=300 rate=0.05 min_leaf=5 features=0.7 bagging=0.8 lambda=1", "LightGBM",
                              lambda s: LGBMRegressor(n_estimators=300, learning_rate=0.05, min_child_samples=5, colsample_bytree=0.7, subsample=0.8,
                                                      subsample_freq=1, reg_lambda=1, random_state=s, n_jobs=1, verbose=-1)),
        "symmetric, ordered": ("symmetric", "", "CatBoost ordered", lambda s: CatBoostRegressor(boosting_type="Ordered", random_seed=s, **cat)),
        "symmetric, plain": ("symmetric", "ordered=0", "CatBoost plain", lambda s: CatBoostRegressor(boosting_type="Plain", random_seed=s, **cat)),
        "xgboost by C API": ("xgboost", "", "xgboost (pip)", lambda s: XGBRegressor(random_state=s, n_jobs=1, tree_method="hist", n_estimators=100)),
        "lightgbm by C API": ("lightgbm", "", "LightGBM", lambda s: LGBMRegressor(random_state=s, n_jobs=1, verbose=-1)),
    }


def classifiers():
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier
    from xgboost import XGBClassifier
    return {
        "decision tree": ("tree", "", "scikit-learn", lambda s: DecisionTreeClassifier(random_state=s)),
        "random forest": ("forest", "trees=100 threads=1", "scikit-learn", lambda s: RandomForestClassifier(100, random_state=s, n_jobs=1)),
        "extra trees": ("forest", "trees=100 extra=1 threads=1", "scikit-learn", lambda s: ExtraTreesClassifier(100, random_state=s, n_jobs=1)),
        "leafwise": ("leafwise", "", "LightGBM", lambda s: LGBMClassifier(random_state=s, n_jobs=1, verbose=-1)),
        "symmetric, ordered": ("symmetric", "trees=300 rate=0.1", "CatBoost ordered",
                               lambda s: CatBoostClassifier(iterations=300, learning_rate=0.1, depth=6, boosting_type="Ordered", random_seed=s, verbose=0, thread_count=1,
                                                            allow_writing_files=False)),
        "xgboost by C API": ("xgboost", "", "xgboost (pip)", lambda s: XGBClassifier(random_state=s, n_jobs=1, tree_method="hist", n_estimators=100)),
        "lightgbm by C API": ("lightgbm", "", "LightGBM", lambda s: LGBMClassifier(random_state=s, n_jobs=1, verbose=-1)),
    }


def spread(values, form="%.3f"):
    return (form + " ± " + form) % (np.mean(values), np.std(values))


def regression_figures(truth, predicted, logs):
    off = predicted - truth
    share = np.abs(2.0 ** off - 1) if logs else np.abs(off / truth)
    return {"rmse": np.sqrt(np.mean(off ** 2)), "r2": 1 - np.sum(off ** 2) / np.sum((truth - truth.mean()) ** 2), "median": 100 * np.median(share)}


def gap(ours, theirs):
    """The paired difference in percent of theirs, marked where it is beyond noise."""
    difference = np.array(ours) - np.array(theirs)
    error = np.std(difference, ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else 0
    mean = difference.mean()
    beyond = abs(mean) > 2 * error and abs(mean) > 0.01 * np.mean(theirs)
    return "%+.1f %%%s" % (100 * mean / np.mean(theirs), (" better" if mean < 0 else " **worse**") if beyond else "")


def times(figures):
    train = np.mean([f["train_us"] for f in figures]) / 1e3
    return "%.1f ms | %.2f µs | %.1f µs" % (train, np.mean([f["batch_us"] for f in figures]), np.mean([f["one_us"] for f in figures]))


def compare(title, tables, rows, program, seeds, logs, only):
    print("\n### %s\n" % title)
    print("| learner | by | RMSE | R² | median relative error, % | RMSE, ours to theirs | training | a row of many | a row alone | model |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, (learner, options, rival, make) in rows.items():
        if only and only not in name:
            continue
        both = {"ours": [], "theirs": []}
        for seed in range(1, seeds + 1):
            x, y, xt, yt = tables(seed)
            try:
                ours = run_ours(program, x, y, xt, yt, learner, options, seed)
            except RuntimeError as error:
                print("%s: %s" % (name, error), file=sys.stderr)
                break
            theirs = run_theirs(make(seed), x, y, xt)
            for who, figures in (("ours", ours), ("theirs", theirs)):
                figures.update(regression_figures(yt.astype(np.float64), figures["predictions"], logs))
                both[who].append(figures)
        if not both["theirs"]:
            continue
        for who, figures in both.items():
            mark = gap([f["rmse"] for f in both["ours"]], [f["rmse"] for f in both["theirs"]]) if who == "ours" else ""
            size = "%.0f kB" % (np.mean([f["bytes"] for f in figures]) / 1e3) if who == "ours" else ""
            print("| %s | %s | %s | %s | %s | %s | %s | %s |" % (
                name if who == "ours" else "", "plimsoll" if who == "ours" else rival, spread([f["rmse"] for f in figures]),
                spread([f["r2"] for f in figures], "%.4f"), spread([f["median"] for f in figures], "%.2f"), mark, times(figures), size), flush=True)


def compare_classes(title, tables, rows, program, seeds, classes, only):
    print("\n### %s\n" % title)
    print("| learner | by | accuracy | errors, ours to theirs | training | a row of many | a row alone | model |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (learner, options, rival, make) in rows.items():
        if only and only not in name:
            continue
        both = {"ours": [], "theirs": []}
        for seed in range(1, seeds + 1):
            x, y, xt, yt = tables(seed)
            try:
                both["ours"].append(run_ours(program, x, y, xt, yt, learner, options, seed, classes))
            except RuntimeError as error:
                print("%s: %s" % (name, error), file=sys.stderr)
                break
            both["theirs"].append(run_theirs(make(seed), x, y, xt))
            for figures in both.values():
                figures[-1]["right"] = np.mean(figures[-1]["predictions"] == yt)
        if not both["theirs"]:
            continue
        for who, figures in both.items():
            mark = gap([1 - f["right"] for f in both["ours"]], [1 - f["right"] for f in both["theirs"]]) if who == "ours" else ""
            size = "%.0f kB" % (np.mean([f["bytes"] for f in figures]) / 1e3) if who == "ours" else ""
            print("| %s | %s | %s | %s | %s | %s |" % (name if who == "ours" else "", "plimsoll" if who == "ours" else rival,
                                                  spread([f["right"] for f in figures]), mark, times(figures), size), flush=True)


def compare_quantiles(tables, program, seeds):
    from lightgbm import LGBMRegressor
    print("\n### The 0.95 quantile: share of test rows below it, and pinball loss\n")
    print("| by | share below | pinball loss |\n|---|---|---|")
    found = {"plimsoll leafwise": [], "LightGBM": []}
    for seed in range(1, seeds + 1):
        x, y, xt, yt = tables(seed)
        ours = run_ours(program, x, y, xt, yt, "leafwise", "loss=quantile alpha=0.95", seed)["predictions"]
        theirs = run_theirs(LGBMRegressor(objective="quantile", alpha=0.95, random_state=seed, n_jobs=1, verbose=-1), x, y, xt)["predictions"]
        for who, predicted in (("plimsoll leafwise", ours), ("LightGBM", theirs)):
            off = yt - predicted
            found[who].append((np.mean(off <= 0), np.mean(np.maximum(0.95 * off, -0.05 * off))))
    for who, pairs in found.items():
        print("| %s | %s | %s |" % (who, spread([p[0] for p in pairs]), spread([p[1] for p in pairs])))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="bench/trees.c, built")
    parser.add_argument("--jobs", help="measured jobs, JSON lines")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", help="learners whose name has this in it")
    arguments = parser.parse_args()

    def synthetic(seed):
        return friedman(1000, seed) + friedman(1000, 1000 + seed)

    compare("Friedman #1: 1,000 rows, 10 columns", synthetic, regressors(), arguments.program, arguments.seeds, False, arguments.only)
    if arguments.jobs:
        x, y = read_jobs(arguments.jobs)

        def measured(seed):
            order = np.random.RandomState(seed).permutation(len(x))
            cut = int(0.7 * len(x))
            return x[order[:cut]], y[order[:cut]], x[order[cut:]], y[order[cut:]]

        edges = np.quantile(y, np.arange(1, 8) / 8)

        def binned(seed):
            x1, y1, x2, y2 = measured(seed)
            return x1, np.searchsorted(edges, y1).astype(np.int32), x2, np.searchsorted(edges, y2).astype(np.int32)

        title = "measured jobs: %d rows, %d columns" % x.shape
        compare(title[0].upper() + title[1:], measured, regressors(), arguments.program, arguments.seeds, True, arguments.only)
        compare_classes("Classes, eight of equal count; " + title, binned, classifiers(), arguments.program, arguments.seeds, 8, arguments.only)
        if not arguments.only:
            compare_quantiles(measured, arguments.program, arguments.seeds)


if __name__ == "__main__":
    main()
