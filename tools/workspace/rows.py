"""Rows for fitting: one measured cuDNN convolution pass each, from two sources.

traces:   allocator traces (exact requested bytes) joined with operator traces of the same jobs (shapes).
measured: files of tools/measure/convs.py, one configuration per line (see read_measured).

A row is a dict: pass ("forward", "backward_data", "backward_weight"), dtype ("float32", "float16", "bfloat16"),
tf32, channels_last, benchmark, transposed, x, w, y (sizes), stride, padding, dilation, groups, bytes
(requested from the allocator; 0: none), group (what validation keeps together), source.

What was learnt in joining them: a convolution asks for its output, then for its workspace, which it frees at
once; convolution_backward asks for grad_input and its workspace, then grad_weight and its workspace."""
import json
import lzma
import os
import zipfile

SIZE = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}
MIB = 1 << 20


def product(values):
    result = 1
    for value in values:
        result *= value
    return result


def opened(path):
    if path.endswith(".xz"):
        return lzma.open(path, "rt")
    return open(path)


def lines(folder, name):
    for suffix in (".jsonl", ".jsonl.xz"):
        path = os.path.join(folder, name + suffix)
        if os.path.exists(path):
            with opened(path) as file:
                for line in file:
                    yield json.loads(line)
            return
    raise SystemExit(f"{folder}: no {name}.jsonl[.xz]")


def parse(op):
    """The arguments of a convolution.default or convolution_backward.default as the operator trace flattens them."""
    backward = op[0].startswith("convolution_backward")
    args = op[1]
    if backward:
        y, x, w = args[0], args[1], args[2]
    else:
        x, w, y = args[0], args[1], op[2][0]
    dims = len(x[0]) - 2
    need = 4 * dims + 2 + (3 if backward else 0)
    rest = args[3:]
    rest = rest[-need:] if backward else rest[:need]
    if len(rest) < need:
        return None
    return {
        "backward": backward, "x": x[0], "w": w[0], "y": y[0], "dtype": x[1],
        "stride": rest[:dims], "padding": rest[dims:2 * dims], "dilation": rest[2 * dims:3 * dims],
        "transposed": rest[3 * dims], "groups": rest[4 * dims + 1], "mask": rest[-3:] if backward else None,
    }


def layouts(folder, job):
    """{(x sizes, w sizes)} of the convolutions whose input is channels-last in the exported graph of a job."""
    base = os.path.join(folder, "graphs", "graphs", job)
    if os.path.exists(base + ".json"):
        with open(base + ".json") as file:
            graph = json.load(file)
    elif os.path.exists(base + ".pt2"):
        archive = zipfile.ZipFile(base + ".pt2")
        name = [n for n in archive.namelist() if n.endswith("models/model.json")][0]
        graph = json.loads(archive.read(name))
    else:
        return set()
    graph = graph["graph_module"]["graph"]
    values = graph["tensor_values"]
    found = set()
    for node in graph["nodes"]:
        if "aten.conv" not in node["target"]:
            continue
        names = [a["arg"]["as_tensor"]["name"] for a in node["inputs"] if "as_tensor" in a["arg"]]
        x, w = values[names[0]], values[names[1]]
        sizes = [s.get("as_int") for s in x["sizes"]]
        strides = [s.get("as_int") for s in x["strides"]]
        if len(sizes) == 4 and sizes[1] > 1 and product(sizes[2:]) > 1 and strides[1] == 1:
            found.add((tuple(sizes), tuple(s.get("as_int") for s in w["sizes"])))
    return found


def join(events, ops, channels_last):
    """Yields (convolution, pass, bytes) by walking operators and allocations side by side.

    A forward workspace must also agree with the operator trace's own bound (most allocated inside the operator,
    less after it), to a block's slack of 1 MiB."""
    events = [e for e in events if e[0] in "af"]

    def held_for_a_moment(at):
        if at + 1 < len(events) and events[at][0] == "a" and events[at + 1][0] == "f" \
                and events[at][1] == events[at + 1][1]:
            return events[at][2]
        return None

    def asked(at, size):
        return at < len(events) and events[at][0] == "a" and events[at][2] == size

    start = 0
    for op in ops:
        conv = parse(op)
        if conv is None:
            continue
        size = SIZE.get(conv["dtype"], 8)
        x, w, y = (size * product(conv[k]) for k in "xwy")
        before, after, most = op[3:6]
        at = start
        while at < len(events):
            if not conv["backward"]:
                if asked(at, y):
                    space = held_for_a_moment(at + 1)
                    slack = most - max(before, after) - (space or 0)
                    if 0 <= slack <= (MIB + 512 if space else 0):
                        yield conv, "forward", space or 0
                        start = at + 1
                        break
            else:
                step, spaces = at, []
                for wanted, need, name in ((conv["mask"][0], x, "backward_data"), (conv["mask"][1], w, "backward_weight")):
                    if not wanted:
                        continue
                    if not asked(step, need):
                        spaces = None
                        break
                    space = held_for_a_moment(step + 1)
                    step += 3 if space is not None else 1
                    spaces.append((name, space or 0))
                if spaces:
                    # the bound again: no workspace may be larger than what the operator saw
                    if all(space <= most - before for _, space in spaces):
                        for name, space in spaces:
                            yield conv, name, space
                        start = step
                        break
            at += 1


def join_benchmark(events, ops):
    """Yields (convolution, pass, tried, kept) of the first step of a job with cudnn.benchmark: an output, then the one
    block that every plan is timed in, then (after the cache was emptied) the workspace of the plan that is kept."""
    def next_event(at):
        at += 1
        while at < len(events) and events[at][0] not in "af":
            at += 1
        return at

    at, seen = 0, set()
    for op in ops[:len(ops) // 2]:
        conv = parse(op)
        size = SIZE.get(conv["dtype"], 8)
        x, w, y = (size * product(conv[k]) for k in "xwy")
        wanted = [(y, "forward")]
        if conv["backward"]:
            wanted = [(need, name) for mask, need, name in zip(conv["mask"], (x, w), ("backward_data", "backward_weight")) if mask]
        for need, name in wanted:
            while at < len(events) and not (events[at][0] == "a" and events[at][2] == need):
                at += 1
            first = next_event(at)
            spaces = []
            while first < len(events):
                second = next_event(first)
                if second < len(events) and events[first][0] == "a" and events[second][:2] == ["f", events[first][1]]:
                    spaces.append(events[first][2])
                    first = next_event(second)
                else:
                    break
            key = (name, str(conv["x"]), str(conv["w"]), str(conv["stride"]))
            if len(spaces) == 2 and key not in seen and spaces[0] >= spaces[1]:
                yield conv, name, spaces[0], spaces[1]
            seen.add(key)
            at += 1


def read_traces(folder):
    jobs = {entry["job"]["id"]: entry for entry in lines(folder, "allocator-traces")}
    rows = {}
    for entry in lines(folder, "operator-traces"):
        job = entry["job"]
        if job["id"] not in jobs:
            continue
        ops = [op for op in entry["result"]["ops"] if len(op) >= 6 and op[0].startswith("convolution")]
        if not ops:
            continue
        if job.get("cudnn_benchmark"):
            for conv, name, tried, kept in join_benchmark(jobs[job["id"]]["result"]["events"], ops):
                row = {"pass": name, "bytes": kept, "tried": tried, "tf32": True, "benchmark": True,
                       "channels_last": bool(job.get("channels_last")), "group": job["id"], "source": job["id"]}
                for key in ("x", "w", "y", "stride", "padding", "dilation", "transposed", "groups", "dtype"):
                    row[key] = conv[key]
                rows.setdefault(key_of(row), row)
            continue
        last = layouts(folder, job["id"])
        for conv, name, space in join(jobs[job["id"]]["result"]["events"], ops, last):
            if conv["dtype"] not in ("float32", "float16", "bfloat16"):
                continue
            row = {"pass": name, "bytes": space, "tf32": True, "benchmark": False,
                   "channels_last": bool(job.get("channels_last")) or (tuple(conv["x"]), tuple(conv["w"])) in last,
                   "group": job["id"], "source": job["id"]}
            for key in ("x", "w", "y", "stride", "padding", "dilation", "transposed", "groups", "dtype"):
                row[key] = conv[key]
            rows.setdefault(key_of(row), row)
    return list(rows.values())


def shape_of(row):
    """The layer, whatever its batch, type and layout."""
    return (tuple(row["x"][1:]), tuple(row["w"]), tuple(row["stride"]), row["groups"], row["transposed"])


def key_of(row):
    return (row["pass"], row["dtype"], row["tf32"], row["channels_last"], row["benchmark"], tuple(row["x"]), tuple(row["w"]),
            tuple(row["y"]), tuple(row["stride"]), tuple(row["padding"]), tuple(row["dilation"]),
            row["groups"], row["transposed"])


def read_measured(path):
    """Rows of a file of tools/measure/convs.py. The temporaries of a pass hold PyTorch's own copies too, so the
    workspace is the last temporary; a pass with none has no workspace. With bench, the first call's largest
    temporary is a row of its own ("tried")."""
    result = []
    with opened(path) as file:
        for line in file:
            e = json.loads(line)
            if e.get("backend", "Cudnn") not in ("Cudnn", "CudnnTranspose", "CudaDepthwise2d", "CudaDepthwise3d"):
                continue
            w = [e["cin"], e["cout"] // e["g"]] if e["t"] else [e["cout"], e["cin"] // e["g"]]
            out = []
            for i, k, s, p, d, o in zip(e["in"], e["k"], e["s"], e["p"], e["dil"], e["op"]):
                out.append((i - 1) * s - 2 * p + d * (k - 1) + o + 1 if e["t"] else (i + 2 * p - d * (k - 1) - 1) // s + 1)
            base = {
                "dtype": {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}[e["mode"]],
                "tf32": e["mode"] != "fp32", "channels_last": bool(e["cl"]), "benchmark": bool(e["bench"]),
                "transposed": bool(e["t"]), "x": [e["n"], e["cin"]] + e["in"], "w": w + e["k"], "y": [e["n"], e["cout"]] + out,
                "stride": e["s"], "padding": e["p"], "dilation": e["dil"], "groups": e["g"], "backend": e.get("backend"), "kind": e["src"],
                "source": os.path.basename(path),
            }
            base["group"] = str(shape_of(base))
            for short, name in (("f", "forward"), ("bd", "backward_data"), ("bw", "backward_weight")):
                if short in e:
                    temporaries = e[short][0]
                    result.append(dict(base, **{"pass": name, "bytes": temporaries[-1] if temporaries else 0,
                                                "temporaries": temporaries, "tried": e.get(short + "1")}))
    return result
