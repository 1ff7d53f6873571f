#!/usr/bin/env python3
"""make.py FOLDER: small inputs that once cost much, written into FOLDER; table.tsv beside this file says
what each must do under limits of 256 MiB and 2 s. Nothing here needs more than Python itself."""

import json
import lzma
import pathlib
import struct
import sys
import zipfile


def config(layers: int) -> str:
    return json.dumps({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
        "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": layers, "vocab_size": 1000,
        "max_position_embeddings": 64})


def symbols(count: int) -> str:
    """A graph with as many symbols as tensors, each named once."""
    return json.dumps({
        "plimsoll_graph": 1,
        "symbols": [{"name": f"s{i}", "hint": 4} for i in range(count)],
        "tensors": [{"dtype": "float32", "sizes": [[4, f"s{i}"]]} for i in range(count)]})


def parameters(count: int) -> str:
    """A graph whose parameters all stand in one module."""
    return json.dumps({
        "plimsoll_graph": 1,
        "tensors": [{"role": "parameter", "path": f"p{i}", "requires_grad": True, "dtype": "float32", "sizes": [4]}
                    for i in range(count)]})


def mismatch() -> str:
    """A linear layer whose weight does not match its input."""
    return json.dumps({
        "plimsoll_graph": 1,
        "tensors": [{"role": "input", "dtype": "float32", "sizes": [8, 4]},
                    {"role": "parameter", "path": "w", "requires_grad": True, "dtype": "float32", "sizes": [4, 500]},
                    {"dtype": "float32", "sizes": [8, 4]}],
        "nodes": [{"target": "aten.linear.default", "args": [["input", "tensor", 0], ["weight", "tensor", 1]],
                   "outputs": [2]}],
        "inputs": [0], "outputs": [2]})


def trace(count: int) -> str:
    """As many marks as events."""
    return json.dumps({
        "plimsoll_trace": 1, "torch": "2.11.0", "name": "marks", "capability": [9, 0], "job": {"batch": 1},
        "operators": ["aten.relu.default"], "modules": [["", "Net", -1]], "functions": [], "parameters": [],
        "layers": [],
        "storages": [[512, ""]] * count, "tensors": [[i, 7, [128], [1]] for i in range(count)],
        "marks": [[i, 2, 0] for i in range(count)],
        "events": [[0, 0, -1, [], [i]] for i in range(count)]})


def deflated(size: int) -> bytes:
    """The head of a model.json and then blanks."""
    return b'{"schema_version":{"major":8,"minor":8},"graph_module":' + b" " * size


def record(job: dict) -> str:
    result = {"peak_allocated": 1, "peak_reserved": 2, "overhead": 3}
    given = {"id": "a", "batch": 2, "config": json.loads(config(2)), **job}
    return json.dumps({"job": given, "result": result}) + "\n"


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: "int | str | bytes") -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def onnx(count: int) -> bytes:
    """Linear layers, each in a module of its own below the model."""
    kind = field(1, field(1, 1) + field(2, field(1, field(1, 1)) + field(1, field(1, 4))))
    graph = field(2, "g") + field(11, field(1, "x") + field(2, kind))
    last, ones = "x", struct.pack("<16f", *[1] * 16)
    for i in range(count):
        graph += field(1, field(1, last) + field(1, f"w{i}") + field(2, f"v{i}") + field(3, f"/l{i}/MatMul") +
                       field(4, "MatMul"))
        graph += field(5, field(1, 4) + field(1, 4) + field(2, 1) + field(8, f"w{i}") + field(9, ones))
        last = f"v{i}"
    return field(1, 8) + field(8, field(2, 17)) + field(7, graph + field(12, field(1, last) + field(2, kind)))


def main() -> None:
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    (out / "layers-4096.json").write_text(config(4096))
    (out / "layers-1000.json").write_text(config(1000))
    (out / "symbols.json").write_text(symbols(200_000))
    (out / "parameters.json").write_text(parameters(200_000))
    (out / "mismatch.json").write_text(mismatch())
    (out / "marks.json").write_text(trace(50_000))
    (out / "linears.onnx").write_bytes(onnx(20_000))
    with zipfile.ZipFile(out / "deflated.pt2", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("m/models/model.json", deflated(80 << 20))
    (out / "jobs.jsonl.xz").write_bytes(lzma.compress(b'{"job":{"id":"a"},"error":1}\n' * 3_000_000, preset=6))
    (out / "zeros.jsonl.xz").write_bytes(lzma.compress(b"\n" * (300 << 20), preset=0))
    (out / "accumulate-0.jsonl").write_text(record({"accumulate": 0}))
    (out / "accumulate-200000.jsonl").write_text(record({"accumulate": 200_000}))
    (out / "eight.jsonl").write_text("".join(
        record({"id": f"a{i}", "accumulate": 8, "config": json.loads(config(4096))}) for i in range(8)))
    (out / "world-0.jsonl").write_text(record({"parallel": {"kind": "fsdp2", "world": 0}}))


if __name__ == "__main__":
    main()
