#!/usr/bin/env python3
"""Compares JSON libraries on model.json files: run.py FILE... (a .pt2 is opened, its model.json taken).

Needs gcc, g++ and Debian's libjansson-dev libyajl-dev libjson-c-dev libsimdjson-dev libzip-dev zlib1g-dev. For each library: the
time inside a process (least and median of 200 rounds) and of a whole process started for one parse (lower
quartile of 150, less that of a program that only reads the file), beside python3's json.load in this process; for an
archive also the time to get model.json out of it with libzip and with src/import/zip.c; last, the whole import."""
import glob, json, os, subprocess, sys, tempfile, time, zipfile
from statistics import median

HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.join(HERE, "..", "..", "src")
LIBRARIES = {"nothing": [], "own": [SRC + "/import/json.c", SRC + "/core/arena.c"], "jansson": ["-ljansson"],
             "yajl": ["-lyajl"], "jsonc": ["-ljson-c"], "simdjson": ["-lsimdjson", "-lstdc++"]}

def build(folder):
    programs = {}
    for name, libs in LIBRARIES.items():
        out = programs[name] = os.path.join(folder, name)
        extra = []
        if name == "simdjson":
            extra = [out + ".o"]
            subprocess.run(["g++", "-O2", "-c", HERE + "/simdjson.cpp", "-o", extra[0]], check=True)
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-DWITH_" + name.upper(), "-I" + SRC,
                        "-I" + SRC + "/../include", HERE + "/bench.c", "-o", out, *extra, *libs], check=True)
    sources = [SRC + f for f in ("/core/file.c", "/core/error.c", "/core/arena.c", "/import/zip.c")]
    for name, rest in {"zip-own": [*sources, "-lz"], "zip-libzip": ["-DWITH_LIBZIP", "-lzip"]}.items():
        programs[name] = os.path.join(folder, name)
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-I" + SRC, "-I" + SRC + "/../include", HERE + "/zip.c", "-o",
                        programs[name], *rest], check=True)
    sources = [SRC + f for f in ("/core/file.c", "/core/error.c", "/core/arena.c", "/graph/graph.c", "/graph/expr.c")]
    programs["import"] = os.path.join(folder, "import")
    subprocess.run(["gcc", "-std=gnu11", "-O2", "-I" + SRC, "-I" + SRC + "/../include", HERE + "/import.c", *sources,
                    *glob.glob(SRC + "/import/*.c"), "-o", programs["import"], "-lz", "-lm"], check=True)
    return programs

def whole(commands, rounds=150):
    """The lower quartile of each command's time, taken in turn so that a busy moment hits all alike."""
    times = {name: [] for name in commands}
    for _ in range(rounds):
        for name, argv in commands.items():
            start = time.perf_counter()
            subprocess.run(argv, check=True)
            times[name].append((time.perf_counter() - start) * 1e6)
    return {name: sorted(t)[rounds // 4] for name, t in times.items()}

def python_load(path, rounds=30):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        with open(path) as f: json.load(f)
        times.append((time.perf_counter() - start) * 1e6)
    return min(times), median(times)

with tempfile.TemporaryDirectory() as folder:
    programs = build(folder)
    importer = programs.pop("import")
    for path in sys.argv[1:]:
        if zipfile.is_zipfile(path):
            archive = zipfile.ZipFile(path)
            member = next(n for n in archive.namelist() if n.endswith("models/model.json"))
            text = os.path.join(folder, "model.json")
            with open(text, "wb") as f: f.write(archive.read(member))
        else:
            text = path
        print(f"{os.path.basename(path)}: {os.path.getsize(text)} bytes of JSON; microseconds")
        least, middle = python_load(text)
        print(f"  {'python json.load':18} in process {least:8.0f} {middle:8.0f}")
        commands = {name: [program, path if name.startswith("zip-") else text] for name, program in programs.items()
                    if text != path or not name.startswith("zip-")}
        whole_times = whole(commands)
        for name in commands:
            beyond = f"whole process, beyond an idle one: {whole_times[name] - whole_times['nothing']:8.0f}"
            if name.startswith("zip-"):
                print(f"  {name:18} {beyond}")
            elif name != "nothing":
                out = subprocess.run([programs[name], text, "200"], check=True, capture_output=True, text=True)
                count, least, middle = out.stdout.split()
                print(f"  {name:18} in process {least:>8} {middle:>8}   {beyond}   ({count} objects)")
        out = subprocess.run([importer, path, "300"], check=True, capture_output=True, text=True).stdout.split()
        print(f"  {'the whole import':18} in process {out[0]:>8} {out[1]:>8}   binding its sizes: {out[2]} {out[3]}")
