"""Makes the accuracy fixture tests/data/accuracy from measured jobs: python3 fixture.py OUT JOBS.jsonl GRAPHS [JOBS GRAPHS]...

Takes an even share of every kind of job, by the id's prefix, each whole where it is small, spread over the
settings (sorted by them, then every n-th). Of the graphs it keeps model.json alone; of its stack traces, which are
most of its size and hold paths and code of others, what the simulator reads of the innermost line: the name it
assigns to, a maker of masks, and the kind of a cast (src/tape/{train,rewrite,op_view}.c). Of the results it keeps
what `plimsoll evaluate` and the tests read.
"""
import io
import json
import lzma
import pathlib
import re
import sys
import tarfile
import zipfile

# by the id's prefix; those that begin with n were measured by tools/measure and nothing was fitted on them
WANTED = {"cnn": 28, "mlp": 14, "rnn": 16, "tfm": 30, "tv": 20, "tvhead": 3, "hf": 16, "hflora": 5, "nops": 34, "nloss": 8,
          "nopt": 18, "nsdpa": 10, "ncell": 3, "nrnn": 6, "nhf": 44, "ntv": 18, "npar": 10}
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


MAKERS = ["create_causal_mask", "create_sliding_window_causal_mask", "create_chunked_causal_mask",
          "create_bidirectional_mask", "create_masks_for_generate", "_update_causal_mask",
          "_prepare_4d_causal_attention_mask_for_sdpa", "_prepare_4d_attention_mask_for_sdpa",
          "_create_attention_masks", "mask_function"]
TYPES = ["float32", "float16", "float()", "half()", "torch.float", "double"]


def essence(trace):
    """What the simulator reads of a stack trace, as one made-up line; its number keeps lines apart."""
    lines = trace.strip().split("\n")
    line = lines[-1].strip()
    number = re.findall(r"line (\d+)", lines[-2] if len(lines) > 1 else "")
    text = ""
    assigned = re.match(r"([A-Za-z_][\w, .]*) = ", line)
    if assigned:
        text += assigned.group(1) + " = "
    text += "".join(m + "(" for m in MAKERS if m + "(" in line)
    if ".to(" in line:
        named = next((t for t in TYPES if t in line), None)
        text += "x.to(" + (named or ("dtype" if "dtype)" in line else "device")) + ")"
    elif any(t in line for t in TYPES):
        text += next(t for t in TYPES if t in line)
    return 'File "model.py", line 1, in forward\n    ' + text + " # " + (number[-1] if number else "0")


def strip(value):
    if isinstance(value, dict):
        return {k: essence(v) if k == "stack_trace" else strip(v) for k, v in value.items()}
    if isinstance(value, list):
        return [strip(v) for v in value]
    return value


def main():
    out, *pairs = map(pathlib.Path, sys.argv[1:])
    kinds, home = {}, {}
    for jobs, graphs in zip(pairs[::2], pairs[1::2]):
        for line in jobs.open():
            record = json.loads(line)
            name = record["job"]["id"]
            if any((graphs / (name + e)).exists() for e in (".json", ".pt2")):
                kinds.setdefault(name.split("-")[0], []).append(record)
                home[name] = graphs
    chosen = []
    for kind, count in WANTED.items():
        records = kinds.get(kind, [])
        records.sort(key=lambda r: ([str(r["job"].get(s)) for s in SETTINGS], r["job"]["id"]))
        step = max(1, len(records) / count)
        chosen += [records[int(i * step)] for i in range(min(count, len(records)))]
    chosen.sort(key=lambda r: r["job"]["id"])
    out.mkdir(parents=True, exist_ok=True)
    lines, tar = [], io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for record in chosen:
            graph = model_json(home[record["job"]["id"]], record["job"]["id"])
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
