"""What step time, operations and counters cost beside the memory estimate: two builds side by side, in one run.

    python3 bench/usage.py OLD/plimsoll NEW/plimsoll FILE [option ...] [-- FILE [option ...]]...

OLD: a build of a version that estimates memory alone (0.1 before 2026-11-16). For each file both are asked in turn, ROUNDS times; printed are the
least and the median of the report's elapsed_us (the file read already), of each and of the difference of pairs."""
import json
import statistics
import subprocess
import sys

ROUNDS = 61


def elapsed(program, arguments):
    done = subprocess.run([program, "estimate", *arguments, "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)["elapsed_us"]


def main():
    old, new, *rest = sys.argv[1:]
    jobs = [[]]
    for word in rest:
        jobs.append([]) if word == "--" else jobs[-1].append(word)
    print("us, least and median of", ROUNDS)
    for arguments in jobs:
        before, after = [], []
        for _ in range(ROUNDS):
            before.append(elapsed(old, arguments))
            after.append(elapsed(new, arguments))
        pairs = [b - a for a, b in zip(before, after)]
        print("%-60s memory %6d %6d   with time and use %6d %6d   more %6d %6d" % (" ".join(arguments)[-60:], min(before), statistics.median(before), min(after), statistics.median(after),
                                                                             min(after) - min(before), statistics.median(pairs)))


main()
