#!/usr/bin/env python3
"""Compares estimates from specs with those from exported graphs and with what was measured.

    tools/spec_check.py PLIMSOLL JOBS.jsonl GRAPHS_DIR [--only KIND] [--estimator sim] [--list N]

Of every job of JOBS.jsonl whose `model` is a spec (kind mlp, cnn, transformer, rnn), the estimate from
`model` written as JSON is set beside that from GRAPHS_DIR/ID.json, with the same options; jobs without a
graph beside their measured peak. Prints shares per kind: equal to the byte, within 0.1 % and 1 %.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import tempfile


def options(job, estimator):
    out = ["--precision", job["precision"], "--optimizer", job["optimizer"], "--loss", job["loss"],
           "--estimator", estimator, "--json"]
    for key, flag in (("checkpoint", "--checkpoint"), ("channels_last", "--channels-last"),
                      ("cudnn_benchmark", "--cudnn-benchmark")):
        if job.get(key):
            out.append(flag)
    if (job.get("accumulate") or 1) > 1:
        out += ["--accumulate", str(job["accumulate"])]
    if job.get("alloc_conf"):
        out += ["--alloc-conf", job["alloc_conf"]]
    return out


def ask(plimsoll, path, opts):
    done = subprocess.run([plimsoll, "estimate", path] + opts, capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr.strip()}
    return json.loads(done.stdout)


def check(args, folder, row):
    job, result = row["job"], row["result"]
    spec = dict(job["model"], batch=job["batch"])
    if "seq" in job:
        spec["seq"] = job["seq"]
    path = os.path.join(folder, job["id"] + ".json")
    with open(path, "w") as f:
        json.dump(spec, f)
    opts = options(job, args.estimator)
    graph = os.path.join(args.graphs, job["id"] + ".json")
    mine = ask(args.plimsoll, path, opts)
    theirs = ask(args.plimsoll, graph, opts) if os.path.exists(graph) else None
    return job, result, mine, theirs


def main():
    p = argparse.ArgumentParser()
    p.add_argument("plimsoll")
    p.add_argument("jobs")
    p.add_argument("graphs")
    p.add_argument("--only")
    p.add_argument("--estimator", default="sim")
    p.add_argument("--list", type=int, default=0, help="names of the worst of each kind")
    args = p.parse_args()
    rows = [json.loads(line) for line in open(args.jobs)]
    rows = [r for r in rows if r["job"]["model"].get("kind") in ("mlp", "cnn", "transformer", "rnn")]
    rows = [r for r in rows if args.only in (None, r["job"]["model"]["kind"])]
    both, alone, failed = collections.defaultdict(list), collections.defaultdict(list), []
    measured = collections.defaultdict(lambda: ([], []))
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for job, result, mine, theirs in pool.map(lambda r: check(args, folder, r), rows):
            kind = job["model"]["kind"]
            if "error" in mine or (theirs and "error" in theirs):
                failed.append((job["id"], mine.get("error"), (theirs or {}).get("error")))
                continue
            truth = result["peak_reserved"] + result["overhead"]
            error = abs(mine["memory"]["peak_bytes"] - truth) / truth
            if theirs is None:
                alone[kind].append((error, job["id"]))
                continue
            m, t = mine["memory"], theirs["memory"]
            off = max(abs(m[k] - t[k]) / t[k] for k in ("allocated_bytes", "reserved_bytes"))
            both[kind].append((off, job["id"], mine["model"]["parameters"] != theirs["model"]["parameters"],
                               mine["model"]["operators"] - theirs["model"]["operators"]))
            measured[kind][0].append(error)
            measured[kind][1].append(abs(t["peak_bytes"] - truth) / truth)
    for kind, rows in both.items():
        n = len(rows)
        print(f"{kind}: {n} with a graph: equal {sum(r[0] == 0 for r in rows) / n:.1%}, within 0.1 % "
              f"{sum(r[0] <= 1e-3 for r in rows) / n:.1%}, within 1 % {sum(r[0] <= 1e-2 for r in rows) / n:.1%}, "
              f"worst {max(r[0] for r in rows):.2%}; parameters differ {sum(r[2] for r in rows)}, operators "
              f"differ {sum(r[3] != 0 for r in rows)}; median error of the peak: spec "
              f"{statistics.median(measured[kind][0]):.3%}, graph {statistics.median(measured[kind][1]):.3%}")
        for r in sorted(rows, reverse=True)[:args.list]:
            if r[0] > 0:
                print("   ", r)
    for kind, rows in alone.items():
        print(f"{kind}: {len(rows)} without a graph: median error of the peak "
              f"{statistics.median(r[0] for r in rows):.3%}, worst {max(rows)}")
    for f in failed[:20]:
        print("failed:", *f)
    print(f"{len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
