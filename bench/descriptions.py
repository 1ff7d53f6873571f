"""How fast a description is answered, process and all, side by side with building the same model in Python.

    python3 bench/descriptions.py PLIMSOLL [ROUNDS]

For each: `plimsoll estimate FILE --json` as a whole process (start, read, build, simulate, print), least and median of
ROUNDS (41). Beside a config.json: `python3 -c` that imports transformers and builds the model on the meta device, which is
where any estimate in Python begins; left out where transformers is not installed. A 405B configuration is Llama 3.1's.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

root = pathlib.Path(__file__).resolve().parent.parent
LARGE = dict(hidden_size=16384, intermediate_size=53248, num_hidden_layers=126, num_attention_heads=128, num_key_value_heads=8, vocab_size=128256,
             max_position_embeddings=131072)
BUILD = """import sys, torch, transformers
config = transformers.AutoConfig.from_pretrained(sys.argv[1])
with torch.device("meta"): transformers.AutoModelForCausalLM.from_config(config)"""


def timed(command, rounds):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - begin) * 1e3)
    return min(times), statistics.median(times)


def in_python(path):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(pathlib.Path(path).read_text())
        try:
            return f"{timed([sys.executable, '-c', BUILD, folder], 3)[1]:10.0f}"
        except subprocess.CalledProcessError:
            return f"{'-':>10}"


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 41
    small = root / "examples/llama-7b.json"
    with tempfile.TemporaryDirectory() as folder:
        large = pathlib.Path(folder) / "llama-405b.json"
        large.write_text(json.dumps(dict(json.loads(small.read_text()), **LARGE)))
        graph = pathlib.Path(folder) / "llama-7b-graph.json"
        subprocess.run([program, "convert", small, "--batch", "4", "--seq", "2048", "--out", graph], check=True)
        sizes = ["--batch", "4", "--seq", "2048"]
        rows = [("config.json, 7B", small, sizes, True), ("config.json, 405B", large, sizes, True), ("the 7B's own graph", graph, [], False)]
        rows += [(p.name, p, [], False) for p in sorted((root / "examples").glob("*.yaml"))]
        rows += [(p.name, p, [], False) for p in sorted((root / "tests/data/onnx").glob("block-*-train.onnx"))]
        print(f"{'milliseconds':24} {'least':>8} {'median':>8} {'in Python':>10}")
        for name, path, more, config in rows:
            least, median = timed([program, "estimate", path, "--json", *more], rounds)
            print(f"{name:24} {least:8.1f} {median:8.1f} {in_python(path) if config else '':>10}")


main()
