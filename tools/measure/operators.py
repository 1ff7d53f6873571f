"""What one training step asks of the card, operator by operator: from the profiler's trace of the step, a row for each distinct
(operator, inputs, kernel, launch shape), counts of operators and autograd nodes by phase, and the calls of CUDA's runtime.

    profiled(step, path, cuda)     # runs step() under the profiler, writes its trace; the profile
    row(path)                      # the trace's row, as README.md says ("Operators")
    add(path, file, id)            # appends it to a gzip file, one member per job: a run cut short leaves what it had

Kernels find their operator by the trace's external id, else by the launch that enqueued them.  Times are those of the profiled step:
kernels' are the card's own, the host's are longer than without the profiler."""
import bisect
import gzip
import json
import os
import re

PHASES = ("fwd", "bwd", "opt", "end")
NODE = "autograd::engine::evaluate_function: "
GEOMETRY = ("est. achieved occupancy %", "blocks per SM", "warps per SM", "registers per thread", "shared memory")
TYPES = {"float": "f32", "double": "f64", "c10::BFloat16": "bf16", "c10::Half": "f16", "long int": "i64", "int": "i32", "bool": "b", "unsigned char": "u8", "short int": "i16", "signed char": "i8"}


def profiled(step, path, cuda=True):
    """One step under the profiler, its trace in path."""
    import torch
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * cuda, record_shapes=True) as prof:
        step()
        if cuda:
            torch.cuda.synchronize()
    prof.profiler.kineto_results.save(path)
    return prof


# ---- names ----

def short_kernel(name, most=140):
    """A kernel's name without namespaces and argument lists; the template's arguments name the functor."""
    name = re.sub(r"^void |at::native::|\(anonymous namespace\)::|<unnamed>::|cutlass::|c10::|std::", "", name)
    before = None
    while name != before:
        before, name = name, re.sub(r"\([^()]*\)", "", name)
    name = name.replace(", ", ",").replace(" >", ">").replace(" const", "")
    return name[:most]


def elements(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def short_shape(shape):
    """A tensor's sizes; of a list of tensors how many and their elements: {"n", "e"}."""
    if isinstance(shape, list) and shape and isinstance(shape[0], list):
        return dict(n=len(shape), e=sum(elements(s) for s in shape if all(isinstance(d, int) for d in s)))
    return shape


def layout(shape, strides):
    """A letter per tensor: c contiguous, l channels last, b broadcast or overlapping (a stride of 0), t any other order; - no tensor."""
    if not shape or not strides or len(shape) != len(strides) or not isinstance(shape[0], int):
        return "-"
    dims = [(s, d) for d, s in zip(shape, strides) if d != 1]
    if any(s == 0 for s, _ in dims):
        return "b"

    def dense(order):
        n = 1
        for d, s in order:
            if d != 1 and s != n:
                return False
            n *= d
        return True

    pairs = list(zip(shape, strides))
    if dense(pairs[::-1]):
        return "c"
    return "l" if len(shape) > 3 and dense([pairs[1]] + pairs[:1:-1] + [pairs[0]]) else "t"


def signature(event):
    """[operator, shapes, types, layouts, scalars] of a cpu_op; scalars by place: those that are not tensors, shortened."""
    args = event.get("args", {})
    shapes, types = args.get("Input Dims") or [], args.get("Input type") or []
    strides, values = args.get("Input Strides") or [], args.get("Concrete Inputs") or []
    scalars = {i: str(v)[:48] for i, v in enumerate(values) if v not in ("", None, []) and (i >= len(types) or types[i] != "TensorList")}
    while shapes and not shapes[-1] and (len(types) < len(shapes) or types[len(shapes) - 1] in ("", "Scalar", "ScalarList")):
        shapes = shapes[:-1]
    n = len(shapes)
    return [event.get("name", ""), [short_shape(s) for s in shapes], [TYPES.get(t, t) for t in types[:n]],
            "".join(layout(s, strides[i] if i < len(strides) else None) for i, s in enumerate(shapes)), scalars]


# ---- the trace ----

class Frame:
    """An operator or a named range on the host."""
    __slots__ = ("event", "name", "start", "end", "up", "children", "spent", "phase", "top")

    def __init__(self, event, up):
        self.event, self.name, self.up = event, event.get("name", ""), up
        self.start = float(event.get("ts", 0))
        self.end = self.start + float(event.get("dur", 0))
        self.children, self.spent = 0, 0.0  # operators right below it, and their time

    @property
    def is_op(self):
        return self.event.get("cat") == "cpu_op"


def nest(events):
    """{thread: its frames in order}, each with the one around it."""
    threads = {}
    for e in events:
        threads.setdefault(e.get("tid"), []).append(e)
    out = {}
    for tid, some in threads.items():
        some.sort(key=lambda e: (float(e.get("ts", 0)), -float(e.get("dur", 0))))
        stack, frames = [], []
        for e in some:
            at = float(e.get("ts", 0))
            while stack and stack[-1].end <= at:
                stack.pop()
            f = Frame(e, stack[-1] if stack else None)
            if f.up is not None and f.is_op:
                f.up.children += 1
                f.up.spent += f.end - f.start
            stack.append(f)
            frames.append(f)
        out[tid] = frames
    return out


def mark(threads):
    """Gives each frame its phase, and the outermost operator around it (in the backward pass the autograd node).
    end: on the main thread after the backward pass and outside the optimizer (GradScaler)."""
    main = next((t for t, fs in threads.items() for f in fs if f.name.startswith("Optimizer.")), None)
    if main is None and threads:
        main = min(threads, key=lambda t: threads[t][0].start)
    last = max((f.end for t, fs in threads.items() for f in fs if t != main or f.name.startswith(NODE)), default=float("inf"))
    for tid, frames in threads.items():
        for f in frames:
            up = f.up
            if up is not None and up.phase in ("bwd", "opt"):
                f.phase = up.phase
            elif tid != main or f.name.startswith(NODE):
                f.phase = "bwd"
            elif f.name.startswith("Optimizer.step"):
                f.phase = "opt"
            else:
                f.phase = "end" if f.start >= last else "fwd"
            f.top = up.top if up is not None and up.top is not None else f if f.is_op else None


def enclosing(frames, starts, at):
    """The innermost frame of a thread at that time."""
    i = bisect.bisect_right(starts, at) - 1
    f = frames[i] if i >= 0 else None
    while f is not None and f.end < at:
        f = f.up
    return f


class Table:
    """Things by number, in the order they came."""

    def __init__(self):
        self.items, self.at = [], {}

    def __call__(self, item, key=None):
        key = item if key is None else key
        if key not in self.at:
            self.at[key] = len(self.items)
            self.items.append(item)
        return self.at[key]


def union(spans):
    """Total length, overlaps counted once."""
    total, end = 0.0, float("-inf")
    for a, b in sorted(spans):
        if b > end:
            total += b - max(a, end)
            end = b
    return total


def row(path):
    """A trace's row."""
    with open(path, "rb") as f:
        data = f.read()
    try:
        import orjson
        events = orjson.loads(data)["traceEvents"]
    except Exception:  # none here, or a trace it refuses
        events = json.loads(data.decode(errors="replace"))["traceEvents"]
    del data
    return digest(events)


def digest(events):
    by = {}
    for e in events:
        by.setdefault(e.get("cat"), []).append(e)
    threads = nest(by.get("cpu_op", []) + by.get("user_annotation", []))
    mark(threads)
    starts = {t: [f.start for f in fs] for t, fs in threads.items()}
    frames = {f.event.get("args", {}).get("External id"): f for fs in threads.values() for f in fs}
    frames.pop(None, None)
    runtime = by.get("cuda_runtime", []) + by.get("cuda_driver", [])
    calls = {e.get("args", {}).get("correlation"): e for e in runtime}
    names, signs, outers = Table(), Table(), Table()
    sign_of, cells, copies, spans = {}, {}, {}, []
    launches = {}

    def frame(e):
        args = e.get("args", {})
        f = frames.get(args.get("External id"))
        if f is None:
            call = calls.get(args.get("correlation"))
            if call is not None:
                tid = call.get("tid")
                f = enclosing(threads[tid], starts[tid], float(call.get("ts", 0))) if tid in threads else frames.get(call.get("args", {}).get("External id"))
        return f

    def sign(f):
        if id(f) not in sign_of:
            s = signature(f.event) if f is not None else ["", [], [], "", {}]
            sign_of[id(f)] = signs(s, json.dumps(s))
        return sign_of[id(f)]

    def outer(f):
        return outers(f.top.name.replace(NODE, "") if f is not None and f.top is not None else "")

    for e in by.get("kernel", []):
        args, f, us = e.get("args", {}), frame(e), float(e.get("dur", 0))
        spans.append((float(e.get("ts", 0)), float(e.get("ts", 0)) + us))
        phase = f.phase if f is not None else "?"
        launches[phase] = launches.get(phase, 0) + 1
        geometry = [args.get("grid"), args.get("block")] + [round(v, 3) if isinstance(v, float) else v for v in (args.get(k) for k in GEOMETRY)]
        key = (sign(f), names(short_kernel(e.get("name", ""))), phase, outer(f), json.dumps(geometry))
        cell = cells.setdefault(key, [geometry, 0, 0.0, us])
        cell[1] += 1
        cell[2] += us
        cell[3] = min(cell[3], us)
    for cat in ("gpu_memcpy", "gpu_memset"):
        for e in by.get(cat, []):
            f, us = frame(e), float(e.get("dur", 0))
            spans.append((float(e.get("ts", 0)), float(e.get("ts", 0)) + us))
            key = (e.get("name", cat), e.get("args", {}).get("bytes"), f.phase if f is not None else "?", f.name if f is not None else "")
            cell = copies.setdefault(key, [0, 0.0])
            cell[0] += 1
            cell[1] += us
    out = dict(sigs=signs.items, kernels=names.items, outers=outers.items,
               ops=[[s, k, p, o] + c[0] + [c[1], round(c[2] / c[1], 3), round(c[3], 3)] for (s, k, p, o, _), c in cells.items()],
               copies=[list(k) + [c[0], round(c[1], 3)] for k, c in copies.items()], launches_by=launches)
    out.update(host(threads), runtime=calls_by_name(runtime))
    if spans:
        out["device"] = dict(busy_us=round(union(spans), 2), span_us=round(max(b for _, b in spans) - min(a for a, _ in spans), 2))
    return out


def host(threads):
    """Operators of the host by phase: {name: [all, outermost, innermost, own microseconds]}; autograd's nodes {name: [count,
    microseconds]}; how many are outermost; the phases' spans."""
    aten, nodes, tops, marks = {p: {} for p in PHASES}, {}, {}, {}
    for frames in threads.values():
        for f in frames:
            us = f.end - f.start
            if not f.is_op:
                c = marks.setdefault(f.name, [0, 0.0])
                c[0] += 1
                c[1] += us
                continue
            if f.name.startswith(NODE):
                c = nodes.setdefault(f.name[len(NODE):], [0, 0.0])
                c[0] += 1
                c[1] += us
                continue
            outermost = f.top is f or (f.phase == "bwd" and f.up is not None and f.up.name.startswith(NODE))
            if outermost:
                tops[f.phase] = tops.get(f.phase, 0) + 1
            c = aten[f.phase].setdefault(f.name, [0, 0, 0, 0.0])
            c[0] += 1
            c[1] += outermost
            c[2] += f.children == 0
            c[3] += us - f.spent
    spans = {}
    for p in PHASES:
        ours = [f for fs in threads.values() for f in fs if f.phase == p]
        if ours:
            spans[p] = round(max(f.end for f in ours) - min(f.start for f in ours), 1)
    short = lambda d: {k: [round(x, 1) if isinstance(x, float) else x for x in v] for k, v in d.items()}  # noqa: E731
    return dict(aten={p: short(d) for p, d in aten.items() if d}, nodes=short(nodes), tops=tops, marks=short(marks), host_us=spans)


def calls_by_name(runtime):
    out = {}
    for e in runtime:
        c = out.setdefault(e.get("name", ""), [0, 0.0])
        c[0] += 1
        c[1] += float(e.get("dur", 0))
    return {k: [c[0], round(c[1], 1)] for k, c in out.items()}


def add(path, file, name):
    """Appends the trace's row to the file; the trace goes.  How many rows of kernels there were."""
    try:
        try:
            got = dict(id=name, **row(path))
        except Exception as e:
            got = dict(id=name, error=repr(e)[:300], ops=[])
        append(file, got)
        return len(got["ops"])
    finally:
        os.unlink(path)


def append(file, what):
    member = gzip.compress((json.dumps(what, separators=(",", ":")) + "\n").encode(), 6)
    fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        while member:
            member = member[os.write(fd, member):]
    finally:
        os.close(fd)
