"""A fleet's jobs, replayed: python3 bench/serve_replay.py DAEMON FOLDER [SEED]. FOLDER: measured jobs of others (rows.csv, models), which are not ours to publish.

The A100s of rows.csv had a context some 860 MiB larger than is assumed. Each job is estimated by the daemon, then reported with what it really took, in a
shuffled order; the next is corrected by those before it. Errors of the peak: as estimated, and as the fleet corrects it, once 20 jobs have ended.
"""
import csv
import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile

DAEMON, FOLDER = os.path.abspath(sys.argv[1]), sys.argv[2]
OPTIONS = {"-b": "batch", "-s": "seq", "-p": "precision", "-o": "optimizer"}


def share(values, part):
    values = sorted(values)
    return 100 * values[int(part * (len(values) - 1))] if values else float("nan")


def main():
    with open(os.path.join(FOLDER, "rows.csv")) as file:
        rows = [r for r in csv.DictReader(file) if r["metric"] == "smi" and r["card"] == "a100-40gb"]
    random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1).shuffle(rows)
    with tempfile.TemporaryDirectory() as folder:
        daemon = subprocess.Popen([DAEMON, "--listen", "127.0.0.1:0", "--log", "off", "--data", folder, "--timeout-ms", "60000"], stderr=subprocess.PIPE, text=True)
        found = None
        while not found:
            found = re.search(r"port (\d+)", daemon.stderr.readline())
        connection = http.client.HTTPConnection("127.0.0.1", int(found.group(1)))

        def ask(path, body):
            connection.request("POST", path, body)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        digests, done, refused = {}, [], 0
        for row in rows:
            if row["file"] not in digests:
                with open(os.path.join(FOLDER, row["file"]), "rb") as file:
                    digests[row["file"]] = ask("/v1/models?name=" + os.path.basename(row["file"]), file.read())[1].get("model")
            words = row["args"].split()
            question = {"model": digests[row["file"]], "gpu": row["card"]}
            for name, value in zip(words[::2], words[1::2]):
                question[OPTIONS[name]] = int(value) if name in ("-b", "-s") else value
            status, report = ask("/v1/estimate", json.dumps(question))
            if status != 200:
                refused += 1
                continue
            real, peak = float(row["truth"]) * (1 << 20), report["memory"]["peak_bytes"]
            fleet = report.get("fleet") or report["memory"]
            outside = not fleet["low_bytes"] <= real <= fleet["high_bytes"]
            done.append((row["source"], abs(peak - real) / real, abs(fleet["peak_bytes"] - real) / real, outside, report.get("fleet")))
            job = {"job": row["id"], "state": "ended", "gpu": row["card"], "model": digests[row["file"]], "family": report["utilization"].get("family"),
                   "predicted_bytes": peak, "upper_bytes": report["memory"]["upper_bytes"], "peak_bytes": int(real), "exit_code": 0}
            assert ask("/v1/jobs", json.dumps(job))[0] == 201
        daemon.terminate()
        daemon.wait()
        after = done[20:]
        print("%d jobs, %d refused; error of the peak, %%, middle and 90 %% within; share outside the interval" % (len(done), refused))
        for name, some in [("first 20", done[:20]), ("after them", after)] + [(s, [d for d in after if d[0] == s]) for s in sorted({d[0] for d in after})]:
            print("%-24s %4d   estimated %5.2f %6.2f   corrected %5.2f %6.2f   within 2 %%: %3.0f %%   outside %4.1f %%"
                  % (name, len(some), share([d[1] for d in some], 0.5), share([d[1] for d in some], 0.9), share([d[2] for d in some], 0.5), share([d[2] for d in some], 0.9),
                     100 * sum(d[2] < 0.02 for d in some) / len(some), 100 * sum(d[3] for d in some) / len(some)))
        last = done[-1][4]
        print("learnt at last: %+.0f MiB, factor %.4f of %d jobs" % (last["offset_bytes"] / (1 << 20), last["factor"], last["jobs"]))


main()
