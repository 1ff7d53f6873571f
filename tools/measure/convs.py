"""Workspaces of cuDNN convolutions.  Calls aten.convolution and aten.convolution_backward (data and
weight gradients apart) on many configurations and writes, for each call, what the allocator was asked
for: temporaries (workspaces, layout copies) and what was kept (the results), exact bytes in order.

One JSON line per configuration: n, d (spatial dimensions), cin, in, cout, k, s, p, dil, g, t (transposed), op
(output padding), mode (fp32: TF32 off; tf32; bf16; fp16), cl (channels last), bench (cudnn.benchmark),
src (torchvision, random; with --cnns: cnn, a layer of a small network as it stands, or cnn-near, one drawn near
it), oom (allocations that failed in the call; PyTorch then takes the next plan), backend (what PyTorch chose), and f, bd, bw: [temporaries, kept], the
second call's where bench is set (then f1, bd1, bw1: the largest temporary of the first); err."""
import argparse
import json
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import Budget, compress, log, record, sections, sentinel, trace  # noqa: E402

MODES = ("fp32", "tf32", "bf16", "fp16")
BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}


def out_spatial(c):
    if c["t"]:
        return [(i - 1) * s - 2 * p + dl * (k - 1) + o + 1
                for i, s, p, dl, k, o in zip(c["in"], c["s"], c["p"], c["dil"], c["k"], c["op"])]
    return [(i + 2 * p - dl * (k - 1) - 1) // s + 1
            for i, s, p, dl, k in zip(c["in"], c["s"], c["p"], c["dil"], c["k"])]


def size_of(c):
    a = c["n"] * c["cin"]
    for v in c["in"]:
        a *= v
    b = c["n"] * c["cout"]
    for v in out_spatial(c):
        if v < 1:
            return None
        b *= v
    w = c["cin"] * c["cout"] // c["g"]
    for v in c["k"]:
        w *= v
    flops = 2 * b * w // c["cout"] if not c["t"] else 2 * a * w // c["cin"]
    return (a + b + w) * BYTES[c["mode"]], flops


def known():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "convs.txt")
    out = []
    for line in open(path):
        f = line.split()
        t = [tuple(int(v) for v in x.split("x")) for x in f]
        out.append(dict(d=t[0][0], cin=t[1][0], **{"in": list(t[2])}, cout=t[3][0], k=list(t[4]), s=list(t[5]),
                        p=list(t[6]), dil=list(t[7]), g=t[8][0], t=0, op=[0] * t[0][0], src="torchvision"))
    return out


def made_up(r):
    d = r.choices((2, 1, 3), (70, 15, 15))[0]
    k = r.choices((1, 3, 5, 7, 11), (25, 45, 12, 12, 6))[0]
    if d == 3:
        k = min(k, 5)
    t = r.random() < 0.15
    s = r.choices((1, 2), (70, 30))[0] if not t else r.choices((1, 2), (25, 75))[0]
    dil = r.choices((1, 2, 4), (88, 8, 4))[0]
    p = r.choices(((k - 1) // 2 * dil, 0), (80, 20))[0]

    def chan():
        c = r.choice((1, 2, 3, 4, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768,
                      1024, 1280, 1536, 2048))
        return max(1, c + r.choice((-1, 1, 3))) if r.random() < 0.12 else c

    cin, cout, g = chan(), chan(), 1
    u = r.random()
    if u < 0.12:
        g = cin
        cout = cin * r.choice((1, 1, 1, 2))
    elif u < 0.2:
        g = r.choice((2, 4, 8, 32))
        cin, cout = max(cin // g, 1) * g, max(cout // g, 1) * g
    size = {1: (32, 64, 100, 256, 500, 1024, 4000, 16000), 2: (4, 7, 8, 12, 14, 16, 24, 28, 32, 48, 56, 64, 96, 112, 128, 150, 192, 224, 256, 384),
            3: (4, 7, 8, 14, 16, 28, 32, 56, 64)}[d]
    a = r.choice(size)
    sp = [a] * d
    if d == 3:
        sp[0] = r.choice((2, 4, 8, 16))
    elif d == 2 and r.random() < 0.1:
        sp[1] = r.choice(size)
    return dict(d=d, cin=cin, **{"in": sp}, cout=cout, k=[k] * d, s=[s] * d, p=[p] * d, dil=[dil] * d, g=g, t=int(t),
                op=[1 if t and s == 2 and k % 2 else 0] * d, src="random")


def configurations(count, bench, seed=7):
    r = random.Random(seed)
    base, out, seen = known(), [], set()
    while len(out) < count:
        if r.random() < 0.68:
            c = dict(r.choice(base))
            c["n"] = r.choices((1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256),
                               (4, 5, 2, 6, 2, 9, 3, 14, 4, 18, 4, 14, 3, 9, 3))[0]
            if r.random() < 0.2:  # the same layer on another input size
                f = r.choice((0.5, 0.75, 1.25, 2))
                c["in"] = [max(1, int(v * f)) for v in c["in"]]
        else:
            c = made_up(r)
            c["n"] = r.choice((1, 2, 4, 5, 8, 16, 20, 32, 64, 128))
        for mode in r.sample(MODES, 2):
            e = dict(c, mode=mode, cl=int(c["d"] > 1 and r.random() < 0.25), bench=int(len(out) < bench))
            s = size_of(e)
            if s is None or s[0] > 1.6e9 or s[1] > 6e11 * (1 if BYTES[mode] == 4 else 3) or (e["bench"] and s[0] > 4e8):
                continue
            key = json.dumps(e, sort_keys=True)
            if key not in seen:
                seen.add(key)
                out.append(e)
    r.shuffle(out)
    return out


def layers():
    """cnns.txt: layers of small convolutional networks (padded to keep the size), a line each: channels, size,
    output channels, kernel, then the uses: batch,mode,channels last."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cnns.txt")
    out = []
    for line in open(path):
        f = line.split()
        uses = [u.split(",") for u in f[4:]]
        out.append((int(f[0]), int(f[1]), int(f[2]), int(f[3]), [(int(n), mode, int(cl)) for n, mode, cl in uses]))
    return out


def near(r, cin, size, cout, k):
    def chan(c):
        u = r.random()
        if u < 0.4:
            return max(1, c + r.randint(-9, 9))
        if u < 0.7:
            return max(1, int(c * r.uniform(0.5, 1.6)))
        if u < 0.85:
            return max(8, int(c * r.uniform(0.5, 1.6)) // 8 * 8)
        return int(2 ** r.uniform(3.5, 9))

    s = 1
    if r.random() < 0.55:
        u = r.random()
        if u < 0.7 and cin > 3:
            cin = chan(cin)
        if u > 0.3:
            cout = chan(cout)
    if r.random() < 0.4:
        size = r.choice((4, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224))
    elif r.random() < 0.1:
        size = max(2, int(size * r.uniform(0.6, 1.5)))
    if r.random() < 0.1:
        k = r.choice((1, 3, 5, 7))
    if r.random() < 0.08:
        s = 2
    return cin, size, cout, k, s


def cnn_configurations(count, bench, seed=11):
    """Every layer of cnns.txt in its own batch, type and layout, and others drawn near them, shuffled; then bench of them,
    none large, are set to search."""
    r = random.Random(seed)
    base, out, seen = layers(), [], set()

    def add(cin, size, cout, k, s, n, mode, cl, src, least, most):
        c = dict(d=2, cin=cin, **{"in": [size, size]}, cout=cout, k=[k, k], s=[s, s], p=[k // 2, k // 2], dil=[1, 1], g=1,
                 t=0, op=[0, 0], src=src, n=n, mode=mode, cl=cl, bench=0)
        bytes_, flops = size_of(c)
        key = (cin, size, cout, k, s, n, mode, cl)
        if least <= bytes_ <= most and flops <= (6e11 if mode == "fp32" else 6e12) and key not in seen:
            seen.add(key)
            out.append(c)

    for cin, size, cout, k, uses in base:
        for n, mode, cl in uses:
            add(cin, size, cout, k, 1, n, mode, cl, "cnn", 0, 5e9)
    while len(out) < count:
        cin, size, cout, k, uses = r.choice(base)
        n = r.choice((1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 12, 16, 16, 20, 24, 24, 32, 32, 48, 48, 62, 64, 64, 80, 96, 128, 128, 256))
        mode = r.choices(("tf32", "bf16", "fp16", "fp32"), (46, 28, 21, 5))[0]
        least, most = r.choice((0, 2e6, 8e6)), 4e9 if r.random() < 0.15 else 1e9
        add(*near(r, cin, size, cout, k), n, mode, int(r.random() < 0.15), "cnn-near", least, most)
    r.shuffle(out)
    for c in [c for c in out if size_of(c)[0] < 4e8][:bench]:
        c["bench"] = 1
    return out


def tensors(c, torch, device):
    dt = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[c["mode"]]
    wshape = [c["cin"], c["cout"] // c["g"]] if c["t"] else [c["cout"], c["cin"] // c["g"]]
    mf = torch.contiguous_format
    if c["cl"]:
        mf = torch.channels_last if c["d"] == 2 else torch.channels_last_3d
    x = torch.empty([c["n"], c["cin"]] + c["in"], dtype=dt, device=device, memory_format=mf).zero_()
    w = torch.empty(wshape + c["k"], dtype=dt, device=device, memory_format=mf).zero_()
    gy = torch.empty([c["n"], c["cout"]] + out_spatial(c), dtype=dt, device=device, memory_format=mf).zero_()
    return x, w, gy


def calls(c, torch, x, w, gy):
    conv = [c["s"], c["p"], c["dil"], bool(c["t"]), c["op"], c["g"]]
    back = torch.ops.aten.convolution_backward
    return [("f", lambda: torch.ops.aten.convolution(x, w, None, *conv)),
            ("bd", lambda: back(gy, x, w, None, *conv, [True, False, False])),
            ("bw", lambda: back(gy, x, w, None, *conv, [False, True, False]))]


def worker(a):
    import torch
    todo = (cnn_configurations(a.count, a.bench) if a.cnns else configurations(a.count, a.bench))[a.index::a.workers]
    budget = Budget(a.budget)
    out = open(a.out, "w")
    torch.zeros(1, device="cuda")
    torch.backends.cuda.matmul.allow_tf32 = False
    done = 0
    for at in range(0, len(todo), 24):
        if budget.left() < 2:
            break
        group, plan = todo[at:at + 24], []
        record(False)
        torch.cuda.empty_cache()
        record(True, 400000)
        skip = len(trace())  # nothing, where switching off cleared the history
        for c in group:
            res = dict(c)
            torch.backends.cudnn.allow_tf32 = c["mode"] == "tf32"
            torch.backends.cudnn.benchmark = bool(c["bench"])
            names, failed = [], torch.cuda.memory_stats().get("num_ooms", 0)
            try:
                x, w, gy = tensors(c, torch, "cuda")
                try:
                    res["backend"] = str(torch._C._select_conv_backend(
                        x, w, None, c["s"], c["p"], c["dil"], bool(c["t"]), c["op"], c["g"], None)).split(".")[-1]
                except Exception:
                    pass
                for name, fn in calls(c, torch, x, w, gy):
                    for turn in range(1 + c["bench"]):
                        names.append(name + ("1" if c["bench"] and turn == 0 else ""))
                        sentinel()
                        y = fn()
                        sentinel()
                        del y
            except Exception as e:
                res["err"] = (names[-1] if names else "in") + ": " + repr(e)[:160]
                if "CUDA error" in res["err"] or "illegal" in res["err"]:
                    out.write(json.dumps(res, separators=(",", ":")) + "\n")
                    out.close()
                    log("worker", a.index, "stops:", res["err"])
                    return
            x = w = gy = fn = y = None  # noqa: F841  (frees their memory)
            failed = torch.cuda.memory_stats().get("num_ooms", 0) - failed
            if failed:
                res["oom"] = failed
            plan.append((res, names))
            if c["bench"] or torch.cuda.memory_reserved() > 5e9:  # the workers share the card
                torch.cuda.empty_cache()
        # Sentinels come in pairs: every even section is a call, every odd one what lies between calls.
        got, i = sections(trace()[skip:] + [dict(action="alloc", size=77, addr=0)]), 0
        for res, names in plan:
            bad = "err" in res
            for j, name in enumerate(names):
                if i >= len(got):
                    res["err"] = res.get("err", "history cut short")
                    break
                temp, kept = got[i]
                if bad and j == len(names) - 1:  # the failed call has no closing sentinel of its own
                    i += 1
                    break
                i += 2
                if name.endswith("1"):
                    res[name] = max(temp, default=0)
                else:
                    res[name] = [temp[:40], kept[:8]]
            out.write(json.dumps(res, separators=(",", ":")) + "\n")
            done += 1
        out.flush()
    out.close()
    log("convs worker", a.index, done, "of", len(todo))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--budget", type=float, default=150)
    p.add_argument("--count", type=int, default=12000)
    p.add_argument("--bench", type=int, default=700)
    p.add_argument("--workers", type=int, default=10)
    p.add_argument("--index", type=int, default=-1)
    p.add_argument("--out", default="convs.jsonl")
    p.add_argument("--cnns", action="store_true", help="layers of small convolutional networks (cnns.txt) and others near them")
    p.add_argument("--list", action="store_true", help="print the configurations' count and leave")
    a = p.parse_args()
    if a.list:
        c = cnn_configurations(a.count, a.bench) if a.cnns else configurations(a.count, a.bench)
        print(len(c), sum(x["src"] == "random" for x in c), sum(x["bench"] for x in c), c[0])
        return
    if a.index >= 0:
        return worker(a)
    start = time.time()
    parts = ["%s.%d" % (a.out, i) for i in range(a.workers)]
    procs = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--index", str(i), "--workers", str(a.workers),
                               "--budget", str(a.budget - 12), "--count", str(a.count), "--bench", str(a.bench), "--out", parts[i]]
                              + ["--cnns"] * a.cnns)
             for i in range(a.workers)]
    for q in procs:
        try:
            q.wait(max(1, a.budget - (time.time() - start)))
        except subprocess.TimeoutExpired:
            q.kill()
            log("a convs worker was stopped at the budget")
    n = 0
    with open(a.out, "w") as f:
        for part in parts:
            if os.path.exists(part):
                for line in open(part):
                    if line.endswith("}\n"):
                        f.write(line)
                        n += 1
                os.remove(part)
    compress(a.out)
    log("convs:", n, "configurations in %.0f s" % (time.time() - start))


if __name__ == "__main__":
    main()
