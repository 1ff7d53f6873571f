"""plimsoll watch on a real card: python3 watch_check.py PLIMSOLL [OUT.json]. Needs one NVIDIA card that nothing else uses, nvidia-smi
and PyTorch; about two minutes. What is held against what is a row each; exit code 1 where one does not hold.

With accounting on (nvidia-smi -am 1, as root) the short peak is checked too. Rows that could not be tried say why.
"""
import json
import os
import resource
import subprocess
import sys
import time

PLIMSOLL = os.path.abspath(sys.argv[1])
MIB = 1 << 20
rows = []

# Holds HOLD MiB while kernels run, then SPIKE MiB more for 20 ms; says what PyTorch and nvidia-smi have of it.
JOB = """
import json, os, subprocess, sys, time
import torch
hold, spike = 4096, 8192
x = torch.empty(hold << 18, device="cuda")
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.time() + 6
while time.time() < end:
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
def smi():
    try:
        text = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
    except OSError:
        return None
    return next((int(u) for p, u in (line.split(",") for line in text.splitlines()) if int(p) == os.getpid()), None)
held, reserved = smi(), torch.cuda.memory_reserved()
y = torch.empty(spike << 18, device="cuda")
torch.cuda.synchronize()
time.sleep(0.02)
del y
torch.cuda.empty_cache()
time.sleep(0.5)
print(json.dumps(dict(pid=os.getpid(), smi_mib=held, reserved=reserved, most=torch.cuda.max_memory_reserved())))
"""


def row(what, good, said):
    """good: None where it could not be tried."""
    rows.append(dict(what=what, holds=good, said=said))
    print("%-12s %-44s %s" % ("not tried" if good is None else "ok" if good else "NOT OK", what, said), flush=True)


def watch(*arguments, **options):
    return subprocess.run([PLIMSOLL, "watch", *arguments], capture_output=True, text=True, **options)


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def smi(query):
    try:
        text = subprocess.run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return [[field.strip() for field in line.split(",")] for line in text.splitlines()]


def cards():
    done = watch("--json", "--interval", "1s", "--duration", "3s")
    samples = lines(done.stdout)
    row("three lines in three seconds", len(samples) == 3, done.stderr.strip() or "%d" % len(samples))
    found = [c for c in samples[-1]["cards"] if c["gpu_instance"] is None]
    listed = smi("uuid,memory.total,memory.used,power.draw,temperature.gpu,driver_version,name")
    if listed is None:
        row("against nvidia-smi", None, "no nvidia-smi")
        return found
    row("cards as nvidia-smi lists them", [c["uuid"] for c in found] == [f[0] for f in listed], "%d" % len(found))
    for card, f in zip(found, listed):
        row("name", card["name"] == f[6], card["name"])
        row("driver", samples[-1]["driver"] == f[5], samples[-1]["driver"])
        row("memory in all, to the MiB", card["memory_total_bytes"] // MIB == int(f[1]), f[1])
        row("memory in use, within 64 MiB", abs(card["memory_used_bytes"] / MIB - int(f[2])) <= 64, "%d, %s" % (card["memory_used_bytes"] // MIB, f[2]))
        row("power, within a quarter", abs(card["power_w"] - float(f[3])) <= 0.25 * float(f[3]), "%.0f W, %s" % (card["power_w"], f[3]))
        row("temperature, within 5 degrees", abs(card["temperature_c"] - float(f[4])) <= 5, "%.0f, %s" % (card["temperature_c"], f[4]))
    print("counters: " + json.dumps({k: found[0][k] for k in ("smact", "smocc", "drama", "tensor", "gpu_util", "memory_util", "energy_j", "accounting")}))
    return found


def command(found):
    accounting = all(c["accounting"] for c in found)
    done = watch("--json", "--interval", "100ms", "--out", "watch-lines.jsonl", "--", sys.executable, "-c", JOB)
    if done.returncode != 0:
        row("a job of PyTorch", None, "it ended with %d: %s" % (done.returncode, done.stderr.strip()[-300:]))
        return
    job, summary = lines(done.stdout)[-1], lines(done.stderr)[-1]
    with open("watch-lines.jsonl") as file:
        seen = [p["memory_bytes"] for sample in map(json.loads, file) for c in sample["cards"] for p in c["processes"] or () if p["pid"] == job["pid"]]
    print("summary: " + json.dumps(summary))
    row("the job's process was seen", bool(seen), "%d samples" % len(seen))
    if job["smi_mib"] is None:
        row("its memory as nvidia-smi's, to the MiB", None, "nvidia-smi lists no such process: a container?")
    else:
        row("its memory as nvidia-smi's, to the MiB", job["smi_mib"] in [b // MIB for b in seen if b is not None], "%d MiB" % job["smi_mib"])
    row("peak at least what was held", (summary["peak_bytes"] or 0) >= job["reserved"], "%s" % summary["peak_bytes"])
    if accounting:
        row("accounting has the peak of 20 ms", summary["peak_by"] == "accounting" and summary["peak_bytes"] >= job["most"], "%s of %d" % (summary["peak_bytes"], job["most"]))
    else:
        row("accounting has the peak of 20 ms", None, "accounting is off: nvidia-smi -am 1")
    if summary["smact"] is None:
        row("kernels ran (no GPM)", (summary["gpu_util"] or 0) > 20, "%s" % summary["gpu_util"])
    else:
        row("multiprocessors were busy", summary["smact"] > 20, "%.1f %%" % summary["smact"])
    row("energy", summary["energy_j"] is not None and summary["energy_j"] > 50, "%s J by %s" % (summary["energy_j"], summary["energy_by"]))
    orphan = "setsid sh -c '\"$0\" -c \"import torch, time; x = torch.empty(1 << 28, device=\\\"cuda\\\"); time.sleep(4)\" &' \"$0\"; sleep 15"
    done = watch("--json", "--", "sh", "-c", orphan.replace('"$0"', sys.executable))
    summary = lines(done.stderr)[-1]
    row("a process whose parent has ended", (summary["peak_bytes"] or 0) >= 1024 * MIB, "%s, %d processes" % (summary["peak_bytes"], summary["processes"]))


def cost():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    watch("--json", "--interval", "1s", "--duration", "30s")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row("30 s at one per second: below 0.5 % of a core", used / 30 < 0.005, "%.3f %%, the start included" % (100 * used / 30))
    process = subprocess.Popen([PLIMSOLL, "watch", "--json", "--interval", "10ms", "--duration", "50s"], stdout=subprocess.DEVNULL)

    def resident():
        with open("/proc/%d/status" % process.pid) as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    time.sleep(10)
    first = resident()
    time.sleep(35)
    last = resident()
    process.wait()
    row("3,500 readings take no more memory", last <= first + 128, "%d and %d KiB" % (first, last))


command(cards())
cost()
if len(sys.argv) > 2:
    with open(sys.argv[2], "w") as file:
        json.dump(rows, file, indent=1)
sys.exit(any(r["holds"] is False for r in rows))
