"""How fast an estimate is, side by side with Python's json.load of the same model.json, in one run.

    python3 bench/speed.py BUILD FILE.pt2... [--grow]
    python3 bench/speed.py BUILD --old PROGRAM FILE...

For each file: the whole process `plimsoll estimate FILE --json` (start, read, simulate, print), the simulation alone
as the report's elapsed_us has it, and json.load of the archive's model.json in this process. Medians of ROUNDS.
With --old: another plimsoll, side by side with this one and by turns, of any inputs: the whole process and the
simulation alone, least and median, instructions where valgrind is there; and how long a process takes to start.
With --grow: chains of 100 to 100,000 operators made by tools/make_chain.py, time and memory per operator.
"""
import json
import os
import pathlib
import re
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


def instructions(command):
    """What callgrind counts, in millions: does not depend on what else the machine does."""
    try:
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command],
                              capture_output=True, text=True)
    except FileNotFoundError:
        return float("nan")
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found.group(1)) / 1e6 if found else float("nan")


def side_by_side(programs, paths):
    """By turns, so that what else the machine does meets all of them alike."""
    print(f"{'ms, least / median of ' + str(10 * ROUNDS):34} {'old process':>15} {'new process':>15} {'old inside':>15} "
          f"{'new inside':>15} {'million instructions':>22}")
    commands = [(["--version"], False)] + [(["estimate", path, "--json"], True) for path in paths]
    for command, reports in commands:
        whole, inside = ([], []), ([], [])
        for _ in range(10 * ROUNDS):
            for k, program in enumerate(programs):
                begin = time.perf_counter()
                done = subprocess.run([program, *command], stdout=subprocess.PIPE, check=True)
                whole[k].append((time.perf_counter() - begin) * 1e3)
                if reports:
                    inside[k].append(json.loads(done.stdout)["elapsed_us"] / 1e3)
        cells = [f"{min(t):6.2f} / {statistics.median(t):6.2f}" if t else "" for t in (*whole, *inside)]
        counts = [instructions([program, *command]) for program in programs]
        print(f"{os.path.basename(command[-2]) if reports else command[0]:34} " + " ".join(f"{c:>15}" for c in cells) +
              f" {counts[0]:10.1f} {counts[1]:10.1f}")


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
    if "--old" in arguments:
        at = arguments.index("--old")
        side_by_side((arguments[at + 1], program), arguments[1:at] + arguments[at + 2:])
        return
    print("medians of", ROUNDS, "in ms            json.load     whole     start simulation    whole / json.load")
    for path in arguments[1:]:
        compare(program, path)
    if "--grow" in sys.argv:
        grow(program)


main()
