"""The jobs whose step time and counters utilization.py measures, and the pairs of them that run together.  They lie in
utilization_jobs.jsonl.xz: first the configurations of Hugging Face models by name, then one job per line, without what is default, in
the order of measuring.  The order is fixed and such that every prefix is spread over groups, precisions and sizes.

    utilization_jobs.py                                                      # counts
    utilization_jobs.py --make MEMORY UTILIZATION MEASURED | xz -9 > utilization_jobs.jsonl.xz

MEMORY and UTILIZATION are the ground truth's memory.jsonl and utilization.jsonl, MEASURED the lines of jobs.py.  A job of those files
keeps its id; with another batch (or optimizer) it gets one of its own, and `of` names the source."""
import collections
import json
import lzma
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "utilization_jobs.jsonl.xz")
DEFAULTS = dict(checkpoint=False, channels_last=False, cudnn_benchmark=False)
COMMON = ("sgd", "sgd-momentum", "adam", "adamw", "adamw-fused", "adam-fused", "rmsprop", "adagrad")
SHAPES = {"r3d_18": [3, 16, 112, 112]}  # samples of torchvision models that are not [3, 224, 224]
MOST_GB = 70  # a job's expected peak
MOST_MS = 1500  # a step as measured beside nine other jobs: alone it is several times shorter


def load(path=LIST):
    """The jobs in order, whole."""
    configs, jobs = {}, []
    with lzma.open(path, "rt") as f:
        for line in f:
            row = json.loads(line)
            if "config_name" in row:
                configs[row["config_name"]] = row["config"]
                continue
            job = dict(DEFAULTS, **row)
            kind = job["model"]["kind"]
            job.setdefault("loss", "own" if kind == "transformers" else "ce")
            job["source"] = kind if kind in ("torchvision", "transformers") else "synthetic"
            job["family"] = {"torchvision": "cnn", "transformers": "transformer"}.get(kind, kind)
            if isinstance(job.get("config"), str):
                job["config"] = configs[job["config"]]
            jobs.append(job)
    return jobs


def group(job):
    return job["model"]["kind"]


def pairs(jobs):
    """[(i, j)] of the pool's jobs, in rounds: each round uses every job twice, so every prefix is spread.  Jobs next to each
    other in the list are unlike by the list's order."""
    n, out, seen = len(jobs), [], set()
    for offset in (1, 7, 3, 11, 5, 13, 2, 17, 9, 19):
        if offset >= n:
            continue
        for i in range(n):
            p = tuple(sorted((i, (i + offset) % n)))
            if p not in seen:
                seen.add(p)
                out.append(p)
    return out


def sets(jobs):
    """[(i, j, k), (i, j, k, l), ...] of the pool's jobs, threes and fours in turns, each once; a round of the pool uses every job about seven times."""
    n, out, seen = len(jobs), [], set()
    steps = ((1, 7), (5, 8, 3), (3, 11), (2, 7, 9), (5, 13), (1, 12, 5))  # from one job of a set to the next
    for first in range(2):
        for i in range(first, n, 2):
            for some in steps:
                s, at = {i}, i
                for step in some:
                    at = (at + step) % n
                    s.add(at)
                if len(s) == len(some) + 1 and frozenset(s) not in seen:
                    seen.add(frozenset(s))
                    out.append(tuple(sorted(s)))
    return out


# ---- making the list ----

def spread(items, key, seed):
    """Items so that each cell of key is spread evenly: the k-th of n in a cell comes at (k + u) / n."""
    rng = random.Random(seed)
    cells = collections.defaultdict(list)
    for it in items:
        cells[key(it)].append(it)
    out = []
    for k in sorted(cells, key=str):
        rng.shuffle(cells[k])
        u = rng.random()
        out += [((i + u) / len(cells[k]), rng.random(), it) for i, it in enumerate(cells[k])]
    return [it for _, _, it in sorted(out, key=lambda t: t[:2])]


def sized(rows):
    """Marks each row with its third by peak memory."""
    order = sorted(rows, key=lambda r: r["gb"])
    for i, r in enumerate(order):
        r["third"] = 3 * i // len(order)
    return rows


def other_batch(job, gb, factor):
    """The job with its batch times factor (a power of two), as far as memory lets it."""
    batch = max(1, int(job["batch"] * factor))
    while batch > job["batch"] and gb * batch / job["batch"] > MOST_GB / 2:
        batch //= 2
    if batch == job["batch"]:
        return job, gb
    new = dict(job, batch=batch, of=job["id"], id="%s@b%d" % (job["id"], batch))
    return new, gb * max(1, batch / job["batch"])


def make(memory, utilization, measured):
    rng = random.Random(20261115)
    read = lambda p: [json.loads(line) for line in open(p)]  # noqa: E731
    truth, used, ours = read(memory), read(utilization), read(measured)
    done = {r["job"]["id"] for r in used}
    size = lambda r: r["result"]["peak_reserved"] / 2 ** 30  # noqa: E731
    rows = collections.defaultdict(list)

    def add(job, gb, known=None):
        rows[group(job)].append(dict(job=job, gb=gb, known=known))

    def mixed(job, gb, i):  # every third with another batch, and those measured already
        if i % 3 == 2 or job["id"] in done:
            return other_batch(job, gb, rng.choice((4, 4, 0.25)) if group(job) != "mlp" else rng.choice((8, 0.125)))
        return job, gb

    quick = [r for r in truth if not r["job"].get("parallel") and size(r) < MOST_GB and r["result"].get("step_ms_shared", 0) < MOST_MS]
    for kind, n in (("mlp", 75), ("cnn", 115), ("transformer", 115), ("rnn", 65)):
        some = sized([dict(r, gb=size(r)) for r in quick if group(r["job"]) == kind])
        for i, r in enumerate(spread(some, lambda r: (r["job"]["precision"], r["third"]), kind)[:n]):
            add(*mixed(r["job"], r["gb"], i))
    for r in truth:
        if group(r["job"]) in ("torchvision", "transformers") and not r["job"].get("parallel") and size(r) < MOST_GB:
            add(*(other_batch(r["job"], size(r), rng.choice((2, 0.5))) if r["job"]["id"] in done else (r["job"], size(r))))
    seen = collections.Counter()
    for r in sorted((r for r in ours if "result" in r), key=lambda r: r["job"]["id"]):
        job, kind = r["job"], group(r["job"])
        if kind not in ("torchvision", "transformers") or job.get("parallel") or job["id"].startswith("check-"):
            continue
        turn = seen[kind, job["model"]["name"]]
        seen[kind, job["model"]["name"]] += 1
        gb = size(r)
        if turn and kind == "transformers":  # small models: the second and third at larger batches, with a common optimizer
            job, gb = other_batch(job, gb, 4 if turn == 1 else 16)
            if job["optimizer"] not in COMMON and "of" in job:
                job["optimizer"] = ("adamw", "sgd-momentum")[turn - 1]
        add(job, gb)
    # jobs of the ground truth's utilization: the pool for pairs, measured alone again there
    pool = []
    small = [r for r in used if 1.5 < r["result"]["step_ms"] < 130 and size(r) < 4.5 and not r["job"].get("accumulate") and not r["job"].get("alloc_conf") and not r["job"].get("cudnn_benchmark")]
    for kind, n in (("mlp", 5), ("cnn", 7), ("transformer", 9), ("rnn", 3), ("torchvision", 7), ("transformers", 3)):
        some = sorted((r for r in small if group(r["job"]) == kind), key=lambda r: r["result"]["smact"])
        n = min(n, len(some))
        pool += [dict(job=some[round(i * (len(some) - 1) / max(1, n - 1))]["job"], gb=size(some[round(i * (len(some) - 1) / max(1, n - 1))])) for i in range(n)]
    extra = [r for r in rows["transformers"] if "of" in r["job"] and "settings" in r["job"]["model"] and 1 < r["gb"] < 4 and r["job"]["optimizer"] in COMMON]
    pool += spread(extra, lambda r: r["job"]["precision"], "pool")[:40 - len(pool)]
    pool = spread(pool, lambda r: group(r["job"]), "order")
    names = {r["job"]["id"] for r in pool}

    out = []
    for kind, some in rows.items():
        out += spread(sized(some), lambda r: (r["job"]["precision"], r["third"]), "in " + kind)
    out = spread_groups(out)
    # of the pool and of the ground truth's jobs, ten as a check of one measurement against the other
    checks = [dict(r, gb=size(r)) for r in spread(used, lambda r: group(r["job"]), "checks")[:10]]
    for i, r in enumerate(checks):
        out.insert(5 + 30 * i, r)
    ids, configs, lines = set(), {}, []
    for r in out + [r for r in pool if r["job"]["id"] not in {q["job"]["id"] for q in out}]:
        job = dict(r["job"])
        if job["id"] in ids:
            continue
        ids.add(job["id"])
        lines.append(compact(job, r, configs, names, [q["job"]["id"] for q in pool]))
    for name, config in configs.items():
        print(json.dumps(dict(config_name=name, config=config), separators=(",", ":")))
    for line in lines:
        print(json.dumps(line, separators=(",", ":")))


def spread_groups(rows):
    """Keeps the order in each group."""
    n, at = collections.Counter(group(r["job"]) for r in rows), collections.Counter()
    keyed = []
    for r in rows:
        g = group(r["job"])
        keyed.append(((at[g] + 0.5) / n[g], g, r))
        at[g] += 1
    return [r for _, _, r in sorted(keyed, key=lambda t: t[:2])]


def compact(job, row, configs, names, order):
    kind = job["model"]["kind"]
    for k in ("source", "family", "loss", "cudnn_tf32"):
        job.pop(k, None)
    for k, v in DEFAULTS.items():
        if job.get(k) == v:
            job.pop(k)
    job = {k: job[k] for k in ["id"] + [k for k in job if k != "id"]}
    job["gb"] = round(row["gb"], 1)
    if kind == "torchvision":
        job["model"] = dict(job["model"])
        job["model"].setdefault("shape", SHAPES.get(job["model"]["name"], [3, 224, 224]))
    if kind == "transformers" and "settings" in job["model"]:
        job.pop("config", None)
    elif kind == "transformers":
        config = {k: v for k, v in job["config"].items() if v is not None}
        name = job["model"]["name"]
        while configs.setdefault(name, config) != config:
            name += "'"
        job["config"] = name
        if job["model"]["name"].startswith("wav2vec2"):
            job["samples"] = 64000
    if job["id"] in names:
        job["pool"] = order.index(job["id"])
    return job


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--make":
        return make(*sys.argv[2:])
    jobs = load()
    pool = [j for j in jobs if "pool" in j]
    for k in (100, 200, 400, len(jobs)):
        print(k, dict(collections.Counter(group(j) for j in jobs[:k])), dict(collections.Counter(j["precision"] for j in jobs[:k])))
    print("pool", len(pool), "%.0f GB" % sum(j["gb"] + 0.8 for j in pool), dict(collections.Counter(group(j) for j in pool)), len(pairs(pool)), "pairs")


if __name__ == "__main__":
    main()
