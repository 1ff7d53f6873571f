"""Makes the accuracy fixture tests/data/accuracy from a ground truth: python3 fixture.py JOBS.jsonl GRAPHS OUT

Takes an even share of every kind of job, by the id's prefix, each whole where it is small, spread over the
settings (sorted by them, then every n-th). Of the graphs it keeps model.json alone, without stack traces:
they are most of its size, hold another machine's paths, and the simulator does not read them. Of the
results it keeps what `plimsoll evaluate` and the tests read.
"""
import io
import json
import lzma
import pathlib
import sys
import tarfile
import zipfile

WANTED = {"cnn": 28, "mlp": 14, "rnn": 16, "tfm": 30, "tv": 20, "tvhead": 3, "hf": 16, "hflora": 5}
KEPT = ["params", "trainable", "param_bytes", "phases", "peak_allocated", "peak_reserved", "overhead", "retries"]
SETTINGS = ["precision", "optimizer", "checkpoint", "accumulate", "channels_last", "cudnn_benchmark", "alloc_conf"]
LARGEST = 4 << 20  # bytes of a model.json


def model_json(graphs, name):
    path = graphs / (name + ".json")
    if path.exists():
        return path.read_bytes()
    path = graphs / (name + ".pt2")
    if not path.exists():
        return None
    with zipfile.ZipFile(path) as archive:
        member = next(n for n in archive.namelist() if n.endswith("models/model.json"))
        return archive.read(member)


def strip(value):
    """Drops every stack_trace, at any depth."""
    if isinstance(value, dict):
        return {k: strip(v) for k, v in value.items() if k != "stack_trace"}
    if isinstance(value, list):
        return [strip(v) for v in value]
    return value


def main():
    jobs, graphs, out = map(pathlib.Path, sys.argv[1:])
    kinds = {}
    for line in jobs.open():
        record = json.loads(line)
        kinds.setdefault(record["job"]["id"].split("-")[0], []).append(record)
    chosen = []
    for kind, count in WANTED.items():
        records = [r for r in kinds[kind] if any((graphs / (r["job"]["id"] + e)).exists() for e in (".json", ".pt2"))]
        records.sort(key=lambda r: ([str(r["job"].get(s)) for s in SETTINGS], r["job"]["id"]))
        step = max(1, len(records) / count)
        chosen += [records[int(i * step)] for i in range(min(count, len(records)))]
    chosen.sort(key=lambda r: r["job"]["id"])
    out.mkdir(parents=True, exist_ok=True)
    lines, tar = [], io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for record in chosen:
            graph = model_json(graphs, record["job"]["id"])
            if len(graph) > LARGEST:
                continue
            text = json.dumps(strip(json.loads(graph)), separators=(",", ":")).encode()
            member = tarfile.TarInfo(record["job"]["id"] + ".json")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
            record["job"].pop("config", None)
            record["result"] = {k: record["result"][k] for k in KEPT if k in record["result"]}
            lines.append(json.dumps(record, separators=(",", ":")))
    (out / "jobs.jsonl.xz").write_bytes(lzma.compress(("\n".join(lines) + "\n").encode(), preset=9))
    (out / "graphs.tar.xz").write_bytes(lzma.compress(tar.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    print(len(lines), "jobs")


main()
