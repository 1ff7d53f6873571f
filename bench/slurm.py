"""What job_submit/plimsoll costs: two slurmctld side by side, one with the plugin and one without, asked by turns in blocks of 50 at full speed,
while another client asks each for a job's record, which waits for the same lock. Run by bench/slurm.sh inside its cluster.

Then the same with a daemon that is stopped, and with one that is gone."""

import os
import re
import signal
import statistics
import subprocess
import sys
import threading

S = os.environ["S"]
COUNT = int(os.environ.get("COUNT", "500"))
BLOCK = 50


def ask(client, line):
    client.stdin.write(line + "\n")
    client.stdin.flush()
    words = client.stdout.readline().split()
    return int(words[0]) / 1000, " ".join(words[1:-1]), int(words[-1])


def client(conf):
    return subprocess.Popen([f"{S}/files/slurm_submit"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "SLURM_CONF": conf})


def figures(times):
    times = sorted(times)
    return f"median {statistics.median(times):6.2f}  p99 {times[int(len(times) * 0.99)]:6.2f}  most {times[-1]:6.2f}"


def in_plugin(since):
    with open(f"{S}/log/slurmctld.log") as log:
        log.seek(since)
        return [int(one) / 1000 for one in re.findall(r"plimsoll: uid.*\((\d+) us\)", log.read())]


class Looking(threading.Thread):
    """Looks at a job again and again while a block is submitted."""

    def __init__(self, looker, job):
        super().__init__()
        self.looker, self.job, self.times, self.stop = looker, job, [], threading.Event()

    def run(self):
        while not self.stop.wait(0.002):
            self.times.append(ask(self.looker, f"look {self.job}")[0])


def measure(title, request):
    sides = {"with": f"{S}/plain.conf", "without": f"{S}/without.conf"}
    submitters, lookers = ({side: client(conf) for side, conf in sides.items()} for _ in range(2))
    first = {side: ask(submitters[side], "submit -")[2] for side in sides}
    took, looked = {side: [] for side in sides}, {side: [] for side in sides}
    since = os.path.getsize(f"{S}/log/slurmctld.log")
    for block in range(COUNT // BLOCK):
        for side in sorted(sides, reverse=bool(block % 2)):
            looking = Looking(lookers[side], first[side])
            looking.start()
            for _ in range(BLOCK):
                milliseconds, outcome, _job = ask(submitters[side], f"submit {request}")
                if outcome != "ok":
                    sys.exit(f"{side}: {outcome}")
                took[side].append(milliseconds)
            looking.stop.set()
            looking.join()
            looked[side] += looking.times
    inside = in_plugin(since)
    print(f"{title}: {COUNT} submissions to each, load average {os.getloadavg()[0]:.1f}, ms")
    for side in sides:
        print(f"  submission, {side:7} the plugin   {figures(took[side])}")
    print(f"  in the plugin, by its own clock  {figures(inside)}")
    for side in sides:
        print(f"  a job's record meanwhile, {side:7} {figures(looked[side])}")
    added = statistics.median(took["with"]) - statistics.median(took["without"])
    print(f"  added in the median: {added:.2f}")
    for one in (*submitters.values(), *lookers.values()):
        one.stdin.close()
        one.wait()


def main():
    digest = sys.argv[1]
    request = f"plimsoll:{digest},batch=1,seq=1024,precision=bf16"
    subprocess.run(["sh", "-c", f"SLURM_CONF={S}/plain.conf sbatch -H --comment={request} --gres=gpu:1 --wrap true"], check=True)
    measure("the daemon has the model", request)
    with open(f"{S}/run/daemon.pid") as file:
        daemon = int(file.read())
    os.kill(daemon, signal.SIGSTOP)
    measure("the daemon is stopped", request)
    os.kill(daemon, signal.SIGKILL)
    measure("the daemon is gone", request)


main()
