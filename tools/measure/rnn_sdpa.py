"""What recurrent layers, attention and matrix products ask the allocator for, call by call, and what the
process holds outside the allocator after the first use of each library.

JSON lines; `what` is rnn, sdpa, matmul or overhead.  For the first three: `cfg`, and f, b: [temporaries,
kept] in exact bytes, in order, of the forward and of the backward call (temporaries: freed inside the call;
kept: alive at its end); rnn adds flat (bytes of the flattened weights); sdpa adds backend; err.  Matrix
products run in fresh processes, one per group (`first`: the first product there, which takes the workspaces).
overhead: `step`, `outside` (the process's bytes as NVML reports, less reserved), each in a fresh process."""
import argparse
import json
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import Budget, compress, log, process_bytes, device_used, record, sections, sentinel, trace  # noqa: E402


def dtype_of(mode):
    import torch
    torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
    torch.backends.cudnn.allow_tf32 = mode == "tf32"
    return {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[mode]


def rnn_configs(count, seed=11):
    r, out, seen = random.Random(seed), [], set()
    while len(out) < count:
        c = dict(cell=r.choice(("lstm", "gru", "rnn_tanh", "rnn_relu")), inp=r.choice((16, 32, 64, 100, 128, 256, 300, 512, 1024)),
                 hidden=r.choice((16, 32, 64, 100, 128, 200, 256, 384, 512, 768, 1024, 2048)), layers=r.choice((1, 1, 2, 2, 3, 4, 6)),
                 bi=r.random() < 0.35, batch=r.choice((1, 2, 4, 8, 16, 20, 32, 64, 128, 256)),
                 seq=r.choice((1, 5, 10, 16, 25, 32, 50, 64, 100, 128, 256, 500)), mode=r.choice(("fp32", "tf32", "bf16", "fp16")),
                 dropout=r.choice((0, 0, 0.2)), bias=r.random() < 0.9, batch_first=r.random() < 0.6,
                 proj=0, input_grad=r.random() < 0.8)
        if c["cell"] == "lstm" and r.random() < 0.15:
            c["proj"] = c["hidden"] // 2
        if c["batch"] * c["seq"] * c["hidden"] * c["layers"] * (1 + c["bi"]) > 1.2e8:
            continue
        k = json.dumps(c)
        if k not in seen:
            seen.add(k)
            out.append(c)
    return out


def make_rnn(c, device, dt):
    import torch
    kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(c["cell"], torch.nn.RNN)
    extra = {"nonlinearity": c["cell"][4:]} if c["cell"].startswith("rnn") else {}
    if c["proj"]:
        extra["proj_size"] = c["proj"]
    return kind(c["inp"], c["hidden"], c["layers"], bidirectional=c["bi"], dropout=c["dropout"] if c["layers"] > 1 else 0,
                bias=c["bias"], batch_first=c["batch_first"], device=device, dtype=dt, **extra)


def rnn_call(c, device="cuda"):
    """Yields after each part, so that the caller can put sentinels between them."""
    import torch
    dt = dtype_of(c["mode"])
    m = make_rnn(c, device, dt)
    shape = (c["batch"], c["seq"]) if c["batch_first"] else (c["seq"], c["batch"])
    x = torch.zeros(*shape, c["inp"], device=device, dtype=dt, requires_grad=c["input_grad"])
    yield "build", dict(flat=sum(p.untyped_storage().nbytes() for p in {q.untyped_storage().data_ptr(): q for q in m.parameters()}.values()))
    y = m(x)[0]
    yield "f", {}
    g = torch.zeros_like(y)
    yield "gap", {}
    torch.autograd.backward([y], [g])
    yield "b", {}


def sdpa_configs(count, seed=13):
    r, out, seen = random.Random(seed), [], set()
    while len(out) < count:
        c = dict(b=r.choice((1, 2, 3, 4, 8, 16, 32)), h=r.choice((1, 2, 4, 8, 12, 16, 20)), e=r.choice((16, 32, 40, 64, 64, 72, 80, 96, 128, 128, 160, 192, 256, 264)),
                 lq=r.choice((1, 7, 64, 100, 128, 196, 197, 256, 384, 500, 512, 577, 1000, 1024, 2048)), mode=r.choice(("fp32", "tf32", "bf16", "bf16", "fp16")),
                 mask=r.choice(("none", "none", "none", "causal", "causal", "bool", "float", "float_grad", "bool_full")),
                 dropout=r.choice((0, 0, 0, 0.1)), layout=r.choice(("bhle", "blhe", "blhe", "packed")), gqa=1)
        c["lk"] = c["lq"] if r.random() < 0.8 else r.choice((64, 77, 128, 256, 333, 512))
        if c["layout"] == "packed":
            c["lk"] = c["lq"]
        elif r.random() < 0.15 and c["h"] % 4 == 0:
            c["gqa"] = r.choice((2, 4))
        if c["b"] * c["h"] * c["lq"] * max(c["lk"], c["e"]) > 3e8:
            continue
        k = json.dumps(c)
        if k not in seen:
            seen.add(k)
            out.append(c)
    return out


def sdpa_call(c, device="cuda"):
    import torch
    dt = dtype_of(c["mode"])
    b, h, e, hk = c["b"], c["h"], c["e"], c["h"] // c["gqa"]

    def make(heads, length):
        if c["layout"] == "bhle":
            return torch.zeros(b, heads, length, e, device=device, dtype=dt, requires_grad=True)
        return torch.zeros(b, length, heads, e, device=device, dtype=dt, requires_grad=True)

    if c["layout"] == "packed":
        leaf = torch.zeros(b, c["lq"], 3, h, e, device=device, dtype=dt, requires_grad=True)
        q, k, v = (t.transpose(1, 2) for t in leaf.unbind(2))
    else:
        q, k, v = make(h, c["lq"]), make(hk, c["lk"]), make(hk, c["lk"])
        if c["layout"] == "blhe":
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    mask = None
    if c["mask"] == "bool":
        mask = torch.ones(b, 1, 1, c["lk"], device=device, dtype=torch.bool).expand(b, 1, c["lq"], c["lk"])
    elif c["mask"] == "bool_full":
        mask = torch.ones(b, 1, c["lq"], c["lk"], device=device, dtype=torch.bool)
    elif c["mask"] in ("float", "float_grad"):
        mask = torch.zeros(1, h, c["lq"], c["lk"], device=device, dtype=dt, requires_grad=c["mask"] == "float_grad")
    args = dict(attn_mask=mask, dropout_p=c["dropout"], is_causal=c["mask"] == "causal", enable_gqa=c["gqa"] > 1)
    try:
        choice = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn", 4: "overrideable"}.get(
            torch._fused_sdp_choice(q, k, v, **args), "?")
    except Exception as ex:
        choice = repr(ex)[:80]
    yield "build", dict(backend=choice)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, **args)
    yield "f", {}
    g = torch.zeros(b, c["lq"], h, e, device=device, dtype=dt).transpose(1, 2)
    yield "gap", dict(node=type(y.grad_fn).__name__)
    torch.autograd.backward([y], [g])
    yield "b", {}


def matmul_configs():
    """Groups of products; each group runs in a fresh process, its first call takes the workspaces."""
    groups = []
    for mode in ("fp32", "tf32", "bf16", "fp16"):
        for first in ("mm", "linear", "linear_bias", "bmm", "addmm", "baddbmm", "matmul3"):
            rest = [f for f in ("mm", "linear", "linear_bias", "bmm", "addmm", "baddbmm", "matmul3") if f != first]
            sizes = [(64, 96, 128), (2048, 1024, 4096), (1, 333, 1000), (8192, 768, 3072)]
            groups.append([dict(form=f, m=m, k=k, n=n, mode=mode) for f in [first] + rest for m, k, n in
                           (sizes if f == first else sizes[1:2])])
    return groups


def matmul_call(c, device="cuda"):
    import torch
    dt = dtype_of(c["mode"])
    m, k, n = c["m"], c["k"], c["n"]

    def t(*s):
        return torch.zeros(*s, device=device, dtype=dt, requires_grad=True)

    f = c["form"]
    F = torch.nn.functional
    fn = {"mm": lambda a: torch.mm(*a), "linear": lambda a: F.linear(a[0], a[1]), "linear_bias": lambda a: F.linear(*a),
          "bmm": lambda a: torch.bmm(*a), "addmm": lambda a: torch.addmm(*a), "baddbmm": lambda a: torch.baddbmm(*a),
          "matmul3": lambda a: torch.matmul(*a)}[f]
    b = max(1, min(4, 2 ** 22 // (m * n)))
    a = {"mm": lambda: (t(m, k), t(k, n)), "linear": lambda: (t(m, k), t(n, k)), "linear_bias": lambda: (t(m, k), t(n, k), t(n)),
         "bmm": lambda: (t(b, m, k), t(b, k, n)), "addmm": lambda: (t(m, n), t(m, k), t(k, n)),
         "baddbmm": lambda: (t(b, m, n), t(b, m, k), t(b, k, n)), "matmul3": lambda: (t(b, m, k), t(k, n))}[f]()
    yield "build", {}
    y = fn(a)
    yield "f", {}
    g = torch.zeros_like(y)
    yield "gap", {}
    torch.autograd.backward([y], [g])
    yield "b", {}


CALLS = {"rnn": rnn_call, "sdpa": sdpa_call, "matmul": matmul_call}


def measure(what, cfgs, out, budget, first=False):
    import torch
    torch.zeros(1, device="cuda")
    for c in cfgs:
        if budget.left() < 2:
            break
        res = dict(what=what, cfg=c)
        if first:
            res["first"], first = True, False
        record(False)
        torch.cuda.empty_cache()
        record(True, 200000)
        skip, names = len(trace()), []
        try:
            gen = CALLS[what](c)
            sentinel()
            for name, more in gen:
                sentinel()
                names.append(name)
                res.update(more)
        except Exception as e:
            res["err"] = repr(e)[:200]
            if "CUDA error" in res["err"]:
                out.write(json.dumps(res) + "\n")
                return False
        gen = None
        for name, (temp, kept) in zip(names, sections(trace()[skip:] + [dict(action="alloc", size=77, addr=0)])):
            if name in ("f", "b"):
                res[name] = [temp[:64], kept[:64]]
        out.write(json.dumps(res, separators=(",", ":")) + "\n")
        out.flush()
    return True


def overhead_steps():
    import torch
    F = torch.nn.functional

    def gemm(dt):
        a = torch.ones(512, 512, device="cuda", dtype=dt)
        return lambda: a @ a

    def conv(dt, back=False):
        w = torch.ones(64, 64, 3, 3, device="cuda", dtype=dt, requires_grad=back)
        x = torch.ones(8, 64, 56, 56, device="cuda", dtype=dt)

        def go():
            y = F.conv2d(x, w, padding=1)
            if back:
                y.sum().backward()
        return go

    def rnn():
        m = torch.nn.LSTM(64, 64, device="cuda")
        x = torch.ones(10, 8, 64, device="cuda")
        return lambda: m(x)[0].sum().backward()

    def sdpa(kind, back):
        dt = torch.float32 if kind in ("math", "efficient") else torch.bfloat16
        q = torch.ones(2, 8, 256, 64, device="cuda", dtype=dt, requires_grad=back)
        from torch.nn.attention import SDPBackend, sdpa_kernel
        b = dict(math=SDPBackend.MATH, efficient=SDPBackend.EFFICIENT_ATTENTION, flash=SDPBackend.FLASH_ATTENTION,
                 cudnn=SDPBackend.CUDNN_ATTENTION)[kind]

        def go():
            with sdpa_kernel(b):
                y = F.scaled_dot_product_attention(q, q, q)
            if back:
                y.sum().backward()
        return go

    def opt(name, **k):
        p = [torch.nn.Parameter(torch.ones(n, 100, device="cuda")) for n in (100, 1000, 3)]
        for q in p:
            q.grad = torch.ones_like(q)
        o = getattr(torch.optim, name)(p, lr=1e-3, **k)
        return lambda: o.step()

    def elementwise():
        x = torch.ones(1 << 20, device="cuda", requires_grad=True)
        return lambda: F.gelu(x).mul(2).sum().backward()

    def softmax_ce():
        x = torch.ones(1024, 1000, device="cuda", requires_grad=True)
        y = torch.zeros(1024, dtype=torch.long, device="cuda")
        return lambda: F.cross_entropy(x, y).backward()

    def norm(kind):
        x = torch.ones(32, 64, 28, 28, device="cuda", requires_grad=True)
        bn, ln = torch.nn.BatchNorm2d(64, device="cuda"), torch.nn.LayerNorm(28, device="cuda")
        return lambda: (bn if kind == "bn" else ln)(x).sum().backward()

    def embedding():
        e = torch.nn.Embedding(1000, 64, device="cuda")
        x = torch.zeros(8, 128, dtype=torch.long, device="cuda")
        return lambda: e(x).sum().backward()

    def dropout():
        x = torch.ones(1 << 20, device="cuda")
        return lambda: F.dropout(x, 0.1).normal_()

    def fakepg():
        def go():
            import torch.distributed as dist
            from torch.testing._internal.distributed.fake_pg import FakeStore
            if not dist.is_initialized():  # steps run twice
                dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
            torch.cuda.Stream().synchronize()
        return go

    bf, fl, hf = torch.bfloat16, torch.float32, torch.float16
    steps = {"context": lambda: (lambda: None), "gemm_fp32": lambda: gemm(fl), "gemm_bf16": lambda: gemm(bf), "gemm_fp16": lambda: gemm(hf),
             "conv_fp32": lambda: conv(fl), "conv_bf16": lambda: conv(bf), "conv_fp16": lambda: conv(hf),
             "conv_fp32_back": lambda: conv(fl, True), "conv_bf16_back": lambda: conv(bf, True), "rnn_fp32": rnn,
             "adamw_foreach": lambda: opt("AdamW"), "adamw_fused": lambda: opt("AdamW", fused=True), "sgd_foreach": lambda: opt("SGD"),
             "elementwise": elementwise, "cross_entropy": softmax_ce, "batch_norm": lambda: norm("bn"), "layer_norm": lambda: norm("ln"),
             "embedding": embedding, "dropout": dropout, "fake_group": fakepg}
    for kind in ("math", "efficient", "flash", "cudnn"):
        steps["sdpa_" + kind] = lambda kind=kind: sdpa(kind, False)
        steps["sdpa_%s_back" % kind] = lambda kind=kind: sdpa(kind, True)
    return steps


OVERHEAD = ["context", "gemm_fp32", "gemm_bf16", "gemm_fp16", "conv_fp32", "conv_bf16", "conv_fp16", "conv_fp32_back", "conv_bf16_back",
            "rnn_fp32", "adamw_foreach", "adamw_fused", "sgd_foreach", "elementwise", "cross_entropy", "batch_norm", "layer_norm",
            "embedding", "dropout", "fake_group"] + ["sdpa_%s%s" % (k, b) for k in ("math", "efficient", "flash", "cudnn") for b in ("", "_back")]
CHAINS = [["gemm_fp32", "conv_fp32_back", "sdpa_efficient_back", "adamw_foreach"],
          ["gemm_bf16", "sdpa_cudnn_back", "adamw_foreach"], ["gemm_fp32", "gemm_bf16", "gemm_fp16"],
          ["conv_fp32_back", "conv_bf16_back"], ["gemm_fp32", "cross_entropy", "adamw_foreach"], ["rnn_fp32", "conv_fp32_back", "gemm_fp32"]]


def overhead(chain, out):
    import torch
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()

    def outside():
        torch.cuda.synchronize()
        p = process_bytes()
        return None if p is None else p - torch.cuda.memory_reserved()

    seen = [["start", outside(), device_used()]]
    steps = overhead_steps()
    for s in chain:
        try:
            go = steps[s]()
            before = outside()
            go()
            go()
            seen.append([s, before, outside()])
        except Exception as e:
            seen.append([s, None, repr(e)[:160]])
    out.write(json.dumps(dict(what="overhead", chain=chain, seen=seen)) + "\n")


def units(a):
    """The work, cut into pieces that each run in a process of their own."""
    todo = [("overhead", [s]) for s in OVERHEAD] + [("overhead", c) for c in CHAINS]
    todo += [("matmul", g) for g in matmul_configs()]
    rnn, att = rnn_configs(a.rnn), sdpa_configs(a.sdpa)
    todo += [("rnn", rnn[i::10]) for i in range(10)] + [("sdpa", att[i::10]) for i in range(10)]
    todo.sort(key=lambda u: {"rnn": 0, "sdpa": 1, "matmul": 2, "overhead": 3}[u[0]])
    return todo


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--budget", type=float, default=90)
    p.add_argument("--rnn", type=int, default=420)
    p.add_argument("--sdpa", type=int, default=560)
    p.add_argument("--workers", type=int, default=10)
    p.add_argument("--unit", type=int, default=-1)
    p.add_argument("--out", default="rnn-sdpa.jsonl")
    p.add_argument("--cpu-dry-run", action="store_true")
    a = p.parse_args()
    todo = units(a)
    if a.cpu_dry_run:
        n = bad = 0
        for what, cfgs in todo:
            if what != "overhead":
                for c in cfgs[:6]:
                    small = dict(c)
                    for k, v in (("batch", 2), ("seq", 5), ("b", 2), ("m", 8)):
                        if k in small:
                            small[k] = v
                    n += 1
                    try:
                        for _ in CALLS[what](small, "cpu"):
                            pass
                    except Exception as e:
                        bad += 1
                        print(what, small, repr(e)[:200])
        print(n, "tried", bad, "failed", len(todo), "units")
        return
    if a.unit >= 0:
        what, cfgs = todo[a.unit]
        with open(a.out, "w") as f:
            if what == "overhead":
                overhead(cfgs, f)
            else:
                measure(what, cfgs, f, Budget(a.budget), first=what == "matmul")
        return
    start, running, parts, i = time.time(), [], [], 0
    while i < len(todo) or running:
        left = a.budget - (time.time() - start)
        while i < len(todo) and len(running) < a.workers and left > 12:
            part = "%s.%d" % (a.out, i)
            parts.append(part)
            share = left - 6 if todo[i][0] in ("rnn", "sdpa") else min(40, left - 6)
            if todo[i][0] == "rnn":
                share = min(share, a.budget * 0.45)
            running.append((subprocess.Popen([sys.executable, os.path.abspath(__file__), "--unit", str(i), "--budget", str(share - 6),
                                              "--rnn", str(a.rnn), "--sdpa", str(a.sdpa), "--out", part]), time.time() + share + 3))
            i += 1
        if left <= 12:
            i = len(todo)
        for q in list(running):
            if q[0].poll() is not None:
                running.remove(q)
            elif time.time() > q[1] or time.time() - start > a.budget:
                q[0].kill()
                q[0].wait()
                running.remove(q)
        time.sleep(0.05)
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
    log("rnn_sdpa:", n, "records in %.0f s" % (time.time() - start))


if __name__ == "__main__":
    main()
