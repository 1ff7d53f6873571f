"""How fast an estimate is, side by side with Python's json.load of the same model.json, in one run.

    python3 bench/speed.py BUILD FILE.pt2... [--grow]

For each file: the whole process `plimsoll estimate FILE --json` (start, read, simulate, print), the simulation alone
as the report's elapsed_us has it, and json.load of the archive's model.json in this process. Medians of ROUNDS.
With --grow: chains of 100 to 100,000 operators made by tools/make_chain.py, time and memory an operator.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

ROUNDS = 41
root = pathlib.Path(__file__).resolve().parent.parent


def model_json(path):
    with zipfile.ZipFile(path) as archive:
        return archive.read(next(n for n in archive.namelist() if n.endswith("model.json")))


def timed(action):
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def estimate(program, path):
    done = subprocess.run([program, "estimate", path, "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)


def compare(program, path):
    text = model_json(path)
    python = timed(lambda: json.loads(text))
    whole = timed(lambda: subprocess.run([program, "estimate", path, "--json"], stdout=subprocess.DEVNULL, check=True))
    start = timed(lambda: subprocess.run(["/bin/true"], check=True))
    alone = statistics.median(estimate(program, path)["elapsed_us"] for _ in range(ROUNDS)) / 1e3
    print(f"{os.path.basename(path):24} {len(text) / 1e3:8.0f} kB {python:9.2f} {whole:9.2f} {start:9.2f} {alone:9.2f} "
          f"{whole / python:9.2f}")


def grow(program):
    print("\noperators   model.json   whole process    an operator   most memory")
    for count in (100, 1000, 10000, 100000):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            subprocess.run([sys.executable, root / "tools/make_chain.py", str(count), file.name], check=True)
            begin = time.perf_counter()
            process = subprocess.Popen([program, "estimate", file.name, "--json"], stdout=subprocess.DEVNULL)
            _, _, usage = os.wait4(process.pid, 0)
            took = time.perf_counter() - begin
            size = os.path.getsize(file.name)
        print(f"{count:9}  {size / 1e6:8.1f} MB  {took * 1e3:10.1f} ms  {took / count * 1e6:10.2f} us  {usage.ru_maxrss / 1024:8.1f} MiB")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--grow"]
    program = os.path.join(arguments[0], "plimsoll")
    print("medians of", ROUNDS, "in ms            json.load     whole     start simulation    whole / json.load")
    for path in arguments[1:]:
        compare(program, path)
    if "--grow" in sys.argv:
        grow(program)


main()
