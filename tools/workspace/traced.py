"""Workspaces of convolutions read off recorded jobs: what the allocator did (wide.py memory --events) laid beside what the simulation asks for.

    ninja -C build workspace_requests
    build/workspace_requests JOBS.jsonl GRAPHS >requests.jsonl
    python3 tools/workspace/traced.py requests.jsonl EVENTS.jsonl.xz OUT.jsonl.xz [--kept-apart]

EVENTS: lines with id and events ([kind, id, bytes]). Both are lists of sizes in order; what is the same in both anchors the rest. Between two anchors
side by side in the simulation lies the workspace of one pass, or none: what is allocated and freed at once. PyTorch's own copies come first, so
the last of it is meant. A pass counts where it took the same each time that it ran, of the same sizes in all jobs; rows are
written in the form of tools/measure/convs.py, each convolution once, with the passes that were seen (a pass that was not: null)."""
import argparse
import collections
import json
import lzma
import subprocess
import tempfile


def opened(path, mode="rt"):
    return lzma.open(path, mode) if path.endswith(".xz") else open(path, mode)


def rounded(size):
    return -(-size // 512) * 512


def recorded(events):
    """[bytes asked for, whether it went at once] of every allocation but the first, which brings CUDA up."""
    allocs, events = [], [e for e in events if e[0] in "af"]
    for i, e in enumerate(events):
        if e[0] == "a":
            allocs.append((e[2], i + 1 < len(events) and events[i + 1][0] == "f" and events[i + 1][1] == e[1]))
    return allocs[1:]


def aligned(left, right):
    """[place in right or None] of each of left: the longest common subsequence, by diff."""
    with tempfile.NamedTemporaryFile("w") as a, tempfile.NamedTemporaryFile("w") as b:
        for file, sizes in ((a, left), (b, right)):
            file.write("".join("%d\n" % s for s in sizes))
            file.flush()
        out = subprocess.run(["diff", "-d", "--unchanged-line-format=%dn\n", "--old-line-format=-\n", "--new-line-format=", a.name, b.name],
                             capture_output=True, text=True).stdout.split()
        back = subprocess.run(["diff", "-d", "--unchanged-line-format=%dn\n", "--old-line-format=-\n", "--new-line-format=", b.name, a.name],
                              capture_output=True, text=True).stdout.split()
    # %dn is the number in the first file; the k-th kept line of one is the k-th of the other.
    places = [int(n) - 1 for n in back if n != "-"]
    kept, at = [], 0
    for n in out:
        kept.append(None if n == "-" else places[at] if at < len(places) else None)
        at += n != "-"
    return kept if at == len(places) else [None] * len(left)


def workspaces(allocs, events):
    """(place of the request, bytes) of every pass that lies between two anchors."""
    real = recorded(events)
    plain = [i for i, size in enumerate(allocs) if size >= 0]
    place = dict(zip(plain, aligned([rounded(allocs[i]) for i in plain], [rounded(size) for size, _ in real])))
    for i, size in enumerate(allocs):
        if size >= 0 or i == 0 or i + 1 >= len(allocs):
            continue
        before, after = place.get(i - 1), place.get(i + 1)
        if before is None or after is None or after <= before:
            continue
        between = real[before + 1:after]
        if all(at_once for _, at_once in between):
            yield -size - 1, between[-1][0] if between else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requests")
    parser.add_argument("events")
    parser.add_argument("out")
    a = parser.parse_args()
    asked = {r["id"]: r for r in map(json.loads, opened(a.requests))}
    found = collections.defaultdict(lambda: collections.defaultdict(set))  # convolution -> pass -> bytes
    seen = total = 0
    for line in opened(a.events):
        record = json.loads(line)
        job = asked.get(record["id"])
        if job is None or not record.get("events") or not job["convs"]:
            continue
        total += len(job["convs"])
        for which, size in workspaces(job["allocs"], record["events"]):
            conv = dict(job["convs"][which])
            name = conv.pop("pass")
            found[json.dumps(conv, sort_keys=True)][name].add(size)
            seen += 1
    rows, passes, unsteady = [], 0, 0
    for text, of in sorted(found.items()):
        row = dict(json.loads(text), src="traced")
        for name in ("f", "bd", "bw"):
            sizes = of.get(name, set())
            unsteady += len(sizes) > 1
            row[name] = [[s for s in sizes if s], []] if len(sizes) == 1 else None
        if any(row[name] is not None for name in ("f", "bd", "bw")):
            rows.append(row)
            passes += sum(row[name] is not None for name in ("f", "bd", "bw"))
    with opened(a.out, "wt") as file:
        for row in rows:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
    print("%d of %d passes lie between anchors; %d convolutions, %d passes of theirs, %d that took several sizes left out" %
          (seen, total, len(rows), passes, unsteady))


if __name__ == "__main__":
    main()
