"""How near `plimsoll collocate` comes to pairs of jobs that others measured, beside saying always 1.0 and always the same.

    PLIMSOLL=build/plimsoll others_pairs.py MODELS [--traces ../shared/traces] [--lucid-gpu rtx3090]

MODELS: the folder that named_models.py has written (it is filled where it is empty).  Only pairs are taken of which both models can be named: a training step of a known
network.  Left out: PPO, TD3 and A3C, which wait for games on the CPU, DCGAN and CycleGAN, which train two networks in turns.

Nothing of these cards was measured by plimsoll: times alone are those that it says of them with `calibrated` false.  Lucid's table (RTX 3090, by the 24 GB that its jobs stay
within; it does not name the card) has speeds together over alone; Gavel's has steps per second alone and together, on a P100 and a V100 (a K80 is not in the
catalogue).  How their processes shared the card is not in the tables: both ways are printed.  Data loaders, other frameworks' versions (PyTorch 1.x) and hosts are theirs.

"their times alone": step times, and for Lucid the share of it that the card is busy, are the tables' own, and plimsoll says the rest; many of Lucid's jobs wait for their data loaders
(PointNet: 243 ms per step where 14 are the network's), which no estimate of a network can know.

Slowdowns: time together over alone.  Errors: |said / measured - 1|, each job of a pair one.  "the mean": the geometric mean of the other pairs' slowdowns."""
import argparse
import ast
import csv
import json
import lzma
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import named_models  # noqa: E402

LUCID = {("MobileNetV3", "ImageNet"): "mobilenet_v3", ("ResNet18", "CIFAR-10"): "resnet18-cifar", ("ResNet50", "ImageNet"): "resnet50", ("MobileNetV2", "CIFAR-10"): "mobilenet_v2-cifar",
         ("EfficientNet", "CIFAR-10"): "efficientnet-cifar", ("VGG", "CIFAR-10"): "vgg-cifar", ("PointNet", "ShapeNet"): "pointnet", ("LSTM", "Wikitext2"): "lstm",
         ("BERT", "SQuAD"): "bert", ("Transformer", "Multi30k"): "translation"}
GAVEL = {"ResNet-18": "resnet18-cifar", "ResNet-50": "resnet50", "Transformer": "translation", "LM": "lstm", "Recommendation": "recommendation"}


def lucid_job(row, k=""):
    name = LUCID.get((row["model" + k], row["dataset" + k]))
    return name and (name, int(row["batchsize" + k]), "amp-fp16" if row["amp" + k] == "1" else "fp32")


def lucid_alone(path):
    """{job: (milliseconds of a step, share of it that the card is busy)}; its speeds are samples per second."""
    with open(path) as f:
        return {lucid_job(row): (1000 * int(row["batchsize"]) / float(row["speed"]), float(row["gpu_util"]) / 100) for row in csv.DictReader(f) if lucid_job(row)}


def lucid(path):
    """[(one job, the other, [slowdown, slowdown])]: a job: model, batch, precision."""
    out = []
    with open(path) as f:
        for row in csv.DictReader(f):
            jobs = [lucid_job(row, k) for k in "12"]
            speeds = [float(row["speed%d" % k]) for k in (1, 2)]
            if jobs[0] and jobs[1] and min(speeds) > 0:
                out.append((jobs[0], jobs[1], [1 / s for s in speeds]))
    return out


def gavel(path, card):
    """Its pairs, and {job: (milliseconds of a step, None)}."""
    with lzma.open(path, "rt") as f:
        table = {ast.literal_eval(k): {None if a == "null" else ast.literal_eval(a): v for a, v in row.items()} for k, row in json.load(f)[card].items()}

    def job(key):
        name, _, batch = key[0].partition(" (batch size ")
        return (GAVEL[name], int(batch.rstrip(")")), "fp32") if key[1] == 1 and name in GAVEL and batch else None
    out = []
    for a, row in table.items():
        for b, rates in row.items():
            if b is None or b < a or not job(a) or not job(b) or b not in table:
                continue  # each pair stands twice
            alone = row[None], table[b][None]
            if min(rates) > 0 and min(alone) > 0:
                out.append((job(a), job(b), [x / y for x, y in zip(alone, rates)]))
    return out, {job(a): (1000 / row[None], None) for a, row in table.items() if job(a) and row[None] > 0}


def with_times(text, step, busy):
    """The estimate as if it had said these; its other times and shares go along."""
    d = json.loads(text)
    c, u = d["compute"], d["utilization"]
    share = c["device_ms"] / c["step_ms"]
    busy = share if busy is None else busy
    c["step_ms"], c["device_ms"], c["host_ms"] = step, busy * step, min(c["host_ms"], step)
    for k in ("smact", "smocc", "drama", "tensor"):
        if isinstance(u.get(k), (int, float)):
            u[k] = min(100, u[k] * busy / share)
    return json.dumps(d)


class Asker:
    def __init__(self, models, folder, alone=None):
        self.models, self.folder, self.alone, self.files, self.pairs = models, folder, alone, {}, {}

    def demand(self, job, gpu):
        """The file of its estimate; None: it cannot be estimated."""
        key = job + (gpu,)
        if key not in self.files:
            text = named_models.estimate(self.models, job[0], job[1], gpu, precision=job[2], extra=("--seq", "384") if job[0] == "bert" else ())
            if self.alone is not None:
                text = with_times(text, *self.alone[job]) if text and job in self.alone else None
            self.files[key] = os.path.join(self.folder, "%d.json" % len(self.files)) if text else None
            if text:
                with open(self.files[key], "w") as f:
                    f.write(text)
        return self.files[key]

    def slowdowns(self, a, b, gpu, sharing):
        key = (a, b, gpu, sharing)
        if key not in self.pairs:
            files = self.demand(a, gpu), self.demand(b, gpu)
            said = None
            if all(files):
                done = subprocess.run([os.environ.get("PLIMSOLL", "plimsoll"), "collocate", *files, "--sharing", sharing, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                if done.stdout:
                    said = [j["slowdown"] for j in json.loads(done.stdout)["jobs"]]
            self.pairs[key] = said
        return self.pairs[key]


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def tell(name, said, measured):
    errors = [abs(s / m - 1) for s, m in zip(said, measured)]
    print("  %-38s median %5.1f %%, p90 %5.1f %%" % (name, 100 * quantile(errors, .5), 100 * quantile(errors, .9)))


def compare(title, pairs, alone, models, gpu):
    measured, said = [], {}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        askers = {"": Asker(models, one), ", their times alone": Asker(models, other, alone)}
        for a, b, slow in pairs:
            both = {s + name: asker.slowdowns(a, b, gpu, s) for s in ("slices", "mps") for name, asker in askers.items()}
            if None in both.values():
                continue
            measured += slow
            for name, values in both.items():
                said.setdefault(name, []).extend(values)
    logs = [math.log(m) for m in measured]
    names = sorted({j[0] for a, b, _ in pairs for j in (a, b)})
    print("%s: %d pairs of %d, %d models (%s), as %s; measured slowdowns: median %.2f, p10 %.2f, p90 %.2f" % (title, len(measured) // 2, len(pairs), len(names), ", ".join(names), gpu,
          quantile(measured, .5), quantile(measured, .1), quantile(measured, .9)))
    tell("always 1.0", [1] * len(measured), measured)
    total = sum(logs)
    tell("the mean", [math.exp((total - logs[i ^ 1] - logs[i]) / (len(logs) - 2)) for i in range(len(logs))], measured)
    for name, values in said.items():
        tell("collocate, " + name, values, measured)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("models")
    a.add_argument("--traces", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "traces"))
    a.add_argument("--lucid-gpu", default="rtx3090")
    a = a.parse_args()
    named_models.export(a.models)
    compare("Lucid", lucid(os.path.join(a.traces, "lucid-pairs.csv")), lucid_alone(os.path.join(a.traces, "lucid-alone.csv")), a.models, a.lucid_gpu)
    for card, gpu in (("v100", "v100-16gb"), ("p100", "p100-16gb")):
        compare("Gavel, " + card, *gavel(os.path.join(a.traces, "gavel-throughputs.json.xz"), card), a.models, gpu)
    return 0


if __name__ == "__main__":
    sys.exit(main())
