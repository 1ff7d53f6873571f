"""Makes the tables of src/estimate/verdict.c: how far from the peak a job's truth lies, by risk and by what the interval was made of;
and says how well lines that were made so hold on architectures that were kept apart.

    plimsoll evaluate memory.jsonl.xz data/h200/jobs.jsonl.xz data/h200/convs*.jsonl.xz --described --graphs graphs \\
        --estimator sim,hybrid --split kin --folds 4 --seed 1 --csv split-1.csv          # and --seed 2 to 5
    risk.py split-*.csv [--check]

Each file is one split by kin: the intervals in it are of weights that had not seen the job's architecture, nor those of its kind.  Up to five splits are laid side by side, so
that a quantile does not hang on which layers one of them left out; a quantile is that of the jobs, not of as many more.  --check: the share of jobs above the
line, the table made anew from the other architectures.  amp-fp16 jobs are left out of the lower side: in a tenth of them the scaler skipped every
measured step, and they lack the optimizer's state.  Needs no library."""
import argparse
import csv
import math
import random

RISKS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.025, 0.01, 0.005)
USUAL = 0.025
FOLDS = 5


def read(paths):
    """By what the interval was made of, (architecture, truth, usual end), in log2 over the peak, of the upper and of the lower side."""
    above, below = {}, {}
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["status"] != "0" or not row["interval"] or (row["estimator"] == "hybrid" and row["interval"] == "rows"):
                    continue
                truth, peak, low, high = (int(row[k]) for k in ("measured_bytes", "peak_bytes", "low_bytes", "high_bytes"))
                if peak <= 0 or low <= 0 or truth <= 0:
                    continue
                key = row["interval"]
                above.setdefault(key, []).append((row["model"], math.log2(truth / peak), math.log2(high / peak)))
                if row["precision"] != "amp-fp16":
                    below.setdefault(key, []).append((row["model"], math.log2(peak / truth), math.log2(peak / low)))
    return above, below


def quantile(values, risk, jobs):
    """What of `jobs` jobs and one more no more than that share is above; values may be several per job."""
    values = sorted(values)
    at = (jobs + 1) * (1 - risk) / jobs * len(values)
    return values[min(len(values), math.ceil(at)) - 1]


def table(side, splits):
    """A row of the table: shares of the usual end, then log2 beyond it."""
    jobs = max(1, len(side) // splits)
    out = []
    for risk in RISKS:
        if risk > USUAL:
            share = quantile([truth / end if end > 0 else (0.0 if truth <= 0 else 9.0) for _, truth, end in side], risk, jobs)
            out.append(min(1.0, max(0.0, share)))
        elif risk == USUAL:
            out.append(1.0)
        else:
            out.append(max(0.001, quantile([truth - end for _, truth, end in side], risk, jobs)))  # beyond the end, if by a hair
    out[0] = 0.0
    for i in range(1, len(out)):  # no line moves back as the risk falls
        if RISKS[i] != USUAL and RISKS[i - 1] != USUAL:
            out[i] = max(out[i], out[i - 1])
    return [math.ceil(x * 1000) / 1000 for x in out]


def line(row, end, risk):
    i = RISKS.index(risk)
    return end * row[i] if risk >= USUAL else end + row[i]


def check(side, splits):
    """Shares above the line, the table made without the architectures that are asked about."""
    models = sorted({model for model, _, _ in side})
    random.Random(1).shuffle(models)
    fold = {model: i % FOLDS for i, model in enumerate(models)}
    counts = [0] * len(RISKS)
    for kept in range(FOLDS):
        row = table([s for s in side if fold[s[0]] != kept], splits)
        for model, truth, end in side:
            if fold[model] == kept:
                for i, risk in enumerate(RISKS):
                    counts[i] += truth > line(row, end, risk) + 1e-12
    return [count / len(side) for count in counts]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("csv", nargs="+")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    sides = read(asked.csv)
    splits = len(asked.csv)
    for key in sorted(sides[0]):
        for name, side in (("above", sides[0][key]), ("below", sides[1][key])):
            print("%-14s .%s = {%s}, /* %d jobs */" % (key, name, ", ".join("%.3g" % x for x in table(side, splits)), len(side) // splits))
    if asked.check:
        print("\n%-14s %6s  %s" % ("above", "jobs", "  ".join("%5.1f %%" % (100 * risk) for risk in RISKS)))
        for key in sorted(sides[0]):
            print("%-14s %6d  %s" % (key, len(sides[0][key]) // splits, "  ".join("%5.2f %%" % (100 * x) for x in check(sides[0][key], splits))))


if __name__ == "__main__":
    main()
