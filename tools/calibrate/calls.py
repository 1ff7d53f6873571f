"""Rows of profiled steps (tools/measure/operators.py) as the calls that src/device/cost.c prices, beside what they took.

    rows, jobs = load(["operators.jsonl.gz"], ["utilization.jsonl"])  # Row.calls: one or more calls, as rows of numbers
    price(*stack(rows), shim())                                       # C's answer: five numbers per row, its calls added up

An operator's calls with one signature are one row: their kernels' times added up, over the number of calls.  Bytes are counted as
the tape counts them: tensors given are read, tensors made are written.  What operators make is not in a trace and is worked out
here.  convolution_backward computes two gradients in one operator: two calls, one row."""
import ctypes
import gzip
import json
import os
import re
import subprocess
import tempfile

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
COLUMNS, SHAPE = 50, 17
KINDS = "pointwise product convolution attention recurrent copy fill reduce softmax norm pool gather sort foreach transfer view".split()
KIND = {k: i for i, k in enumerate(KINDS)}
DTYPE = {"f32": 7, "f64": 8, "bf16": 13, "f16": 6, "i64": 5, "i32": 4, "b": 12, "u8": 1, "i16": 3, "i8": 2}
SIZE = {"f32": 4, "f64": 8, "bf16": 2, "f16": 2, "i64": 8, "i32": 4, "b": 1, "u8": 1, "i16": 2, "i8": 1}
FORWARD, BACKWARD, WEIGHT = 0, 1, 2


class Row:
    __slots__ = ("job", "model", "op", "sig", "phase", "n", "us", "kernels", "calls", "kind")


def product(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def numbers(text):
    return [int(x) for x in re.findall(r"-?\d+", text or "")]


class Sig:
    """An operator's signature; arguments by place."""

    def __init__(self, raw, listed, elements=0):
        self.name, self.shapes, self.types, self.layouts, scalars = raw
        # long lists come without sizes: an optimizer's, of all that is trained
        self.shapes = [dict(n=0, e=elements) if t == "TensorList" and not s else s for s, t in zip(self.shapes, self.types)]
        self.scalars = {int(k): v for k, v in scalars.items()}
        self.listed = listed  # type of tensors in lists

    def shape(self, i):
        return self.shapes[i] if i < len(self.shapes) and isinstance(self.shapes[i], list) else []

    def type(self, i):
        return self.types[i] if i < len(self.types) else ""

    def tensor(self, i):
        """Whether argument i is a tensor of one dimension or more."""
        return self.type(i) in SIZE and bool(self.shape(i))

    def tensors(self):
        return [i for i in range(len(self.shapes)) if self.tensor(i)]

    def layout(self, i):
        return self.layouts[i] if i < len(self.layouts) else "-"

    def bytes(self, i):
        s = self.shapes[i] if i < len(self.shapes) else []
        if isinstance(s, dict):
            return s["e"] * SIZE[self.listed]
        return product(s) * SIZE.get(self.type(i), 0) if s else 0

    def all_bytes(self):
        """Of what is given; a broadcast tensor counts nothing."""
        return sum(self.bytes(i) for i in range(len(self.shapes)) if self.layout(i) != "b")

    def ints(self, i):
        return numbers(self.scalars.get(i))

    def true(self, i):
        return self.scalars.get(i, "").startswith("True")


def call(kind, dtype="f32", what="", **k):
    r = numpy.zeros(COLUMNS)
    r[0], r[2], r[6], r[15] = KIND[kind], DTYPE.get(dtype, 7), k.get("launches", 1), kernel_class(what, kind)
    r[1] = k.get("passed", FORWARD)
    r[3] = k.get("strided", False)
    r[4], r[5] = k.get("transposed", (0, 0))
    r[7] = k.get("tensors", 0)
    for i, f in enumerate(("flops", "read", "written", "rows", "columns", "depth", "count")):
        r[8 + i] = k.get(f, 0)
    r[16] = k.get("tf32", False)
    s = k.get("shape", ())
    r[SHAPE:SHAPE + len(s)] = s
    return r


# pl_kernel_class (src/tape/work.h): parts of profiled operators' names, by kind; "" stands for every other kind.
CLASSES = {
    "norm": (("native_batch", 2), ("batch_norm", 1), ("group_norm", 3)),
    "pool": (("max_pool", 4),),
    "gather": (("embedding", 5),),
    "fill": (("norm", 7), ("unif", 7), ("rand", 7), ("bern", 7)),
    "foreach": (("fused", 8),),
    "": (("nll_loss", 6),),
}


def kernel_class(name, kind):
    return next((number for part, number in CLASSES.get(kind, CLASSES[""]) if part in name), 0)


# ---- operators ----

def broadcast(shapes):
    n = max(map(len, shapes), default=0)
    return [max((s[len(s) - n + i] for s in shapes if len(s) - n + i >= 0), default=1) for i in range(n)]


def first_type(s):
    return next((s.type(i) for i in s.tensors()), s.listed)


def matrix(s, tf32):
    at = {"aten::addmm": 1, "aten::_addmm_activation": 1, "aten::baddbmm": 1, "aten::addmv": 1, "aten::addbmm": 1}.get(s.name, 0)
    a, b = s.shape(at), s.shape(at + 1)
    if not a or not b:
        return None
    count = a[0] if len(a) == 3 else 1
    m, k, n = a[-2] if len(a) > 1 else 1, a[-1], b[-1] if len(b) > 1 else 1
    t, e = s.type(at), SIZE.get(s.type(at), 4)
    return [call("product", t, s.name, rows=m, columns=n, depth=k, count=count, flops=2.0 * count * m * n * k,
                 read=count * (m * k + k * n) * e, written=count * m * n * e,
                 transposed=(s.layout(at) == "t", s.layout(at + 1) == "t"), tf32=tf32, tensors=at == 1 and len(s.shape(0)) == 1)]


def conv(s, job, passes, given):
    """given: places of input, weight, stride, padding, dilation, transposed, groups; grad_output."""
    x, w = s.shape(given["input"]), s.shape(given["weight"])
    if not x and "in" in given:
        x = given["in"]
    d = len(x) - 2
    if d < 1 or len(w) != d + 2:
        return None
    full = lambda v: (v * d if len(v) == 1 else v) + [0] * (3 - d) if v else [1] * 3  # noqa: E731
    stride, padding, dilation = (full(s.ints(given[f])) for f in ("stride", "padding", "dilation"))
    transposed = given["transposed"]
    groups = (s.ints(given["groups"]) or [1])[0]
    cin = x[1]
    cout = w[1] * groups if transposed else w[0]
    if "grad" in given and s.shape(given["grad"]):
        out = s.shape(given["grad"])[2:]
    elif transposed:
        op = full(s.ints(given["output_padding"])) if "output_padding" in given else [0] * 3
        out = [(x[2 + i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (w[2 + i] - 1) + op[i] + 1 for i in range(d)]
    else:
        out = [(x[2 + i] + 2 * padding[i] - dilation[i] * (w[2 + i] - 1) - 1) // stride[i] + 1 for i in range(d)]
    t = s.type(given["input"])
    last = "l" in (s.layout(given["input"]) + s.layout(given["weight"]))
    e = SIZE.get(t, 4)
    tf32 = job.get("cudnn_tf32", True)
    shape = [d, x[0], cin, cout, groups, transposed, tf32, last, job.get("cudnn_benchmark", False)]
    for v in (x[2:], w[2:], stride[:d], padding[:d], dilation[:d], out):
        shape += list(v) + [0] * (3 - d)
    ins, outs, ws = product(x) * e, x[0] * cout * product(out) * e, product(w) * e
    site = x[0] * product(x[2:] if transposed else out)
    flops = 2.0 * site * cout * cin / groups * product(w[2:])
    moved = {FORWARD: (ins + ws, outs), BACKWARD: (outs + ws, ins), WEIGHT: (ins + outs, ws)}
    return [call("convolution", t, s.name, passed=p, shape=shape, flops=flops, read=moved[p][0], written=moved[p][1]) for p in passes]


def convolution(s, job):
    n = s.name
    if n == "aten::convolution_backward":
        mask = s.scalars.get(10, "")
        flags = re.findall(r"True|False", mask) or ["True", "True"]
        given = dict(grad=0, input=1, weight=2, stride=4, padding=5, dilation=6, transposed=s.true(7), output_padding=8, groups=9)
        return conv(s, job, [BACKWARD] * (flags[0] == "True") + [WEIGHT] * (flags[1] == "True"), given)
    if n in ("aten::cudnn_convolution", "aten::cudnn_convolution_relu"):
        return conv(s, job, [FORWARD], dict(input=0, weight=1, padding=2, stride=3, dilation=4, groups=5, transposed=False))
    if n == "aten::cudnn_convolution_transpose":
        return conv(s, job, [FORWARD], dict(input=0, weight=1, padding=2, output_padding=3, stride=4, dilation=5, groups=6, transposed=True))
    if n in ("aten::_conv_depthwise2d", "aten::conv_depthwise3d"):
        s.scalars[99] = str(s.shape(0)[1])
        return conv(s, job, [FORWARD], dict(input=0, weight=1, stride=4, padding=5, dilation=6, groups=99, transposed=False))
    return None


ATTENTION = {"flash": 1, "efficient": 2, "cudnn": 3}


def attention(s, job):
    backend = next((v for k, v in ATTENTION.items() if k in s.name), None)
    if backend is None:
        return None
    backward = "backward" in s.name
    at = 1 if backward else 0
    q, k, v = s.shape(at), s.shape(at + 1), s.shape(at + 2)
    if len(q) != 4 or len(k) != 4 or len(v) != 4:
        return None
    heads, length = (1, 2) if "cudnn" in s.name or "_scaled_dot_product" in s.name else (2, 1)
    b, h, lq, d, hk, lk = q[0], q[heads], q[length], q[3], k[heads], k[length]
    t = s.type(at)
    # places of dropout, of causal (a flag or a kind of mask), of the bias
    drop, cause, bias = {("cudnn", False): (9, 10, 3), ("cudnn", True): (13, 14, 8), ("efficient", False): (8, 9, 3), ("efficient", True): (11, 14, 4),
                         ("flash", False): (7, 8, 99), ("flash", True): (10, 11, 99)}[next(x for x in ATTENTION if x in s.name), backward]
    causal = s.scalars.get(cause, "0") not in ("0", "", "False")
    dropout = float(s.scalars.get(drop) or 0) > 0
    mask = s.tensor(bias)
    e = SIZE.get(t, 4)
    tensors = [product(x) * e for x in (q, k, v)]
    out = b * h * lq * v[3] * e
    flops = 2.0 * b * h * lq * lk * (d + v[3]) * (2.5 if backward else 1)
    read, written = (sum(tensors) + 2 * out, sum(tensors)) if backward else (sum(tensors), out)
    return [call("attention", t, s.name, passed=int(backward), flops=flops, read=read, written=written,
                 shape=[backend, b, h, hk, lq, lk, d, v[3], causal, dropout, mask, False])]


def recurrent(s, job, tf32):
    backward = "backward" in s.name
    x = s.shape(0)
    if len(x) != 3:
        return None
    # _cudnn_rnn: input, weight, stride0, buf, hx, cx, mode, hidden, proj, layers, batch_first, dropout, train, bidirectional
    # backward: input, weight, stride0, buf, hx, cx, output, grad_output, grad_hy, grad_cy, mode, hidden, proj, layers, batch_first, ...
    o = 10 if backward else 6
    get = lambda i: (s.ints(o + i) or [0])[0]  # noqa: E731
    first = s.true(o + 4)
    b, t = (x[0], x[1]) if first else (x[1], x[0])
    dirs = 2 if s.true(o + 7) else 1
    shape = [get(0), get(3), dirs, b, t, x[2], get(1), get(2), 1, s.true(o + 6), float(s.scalars.get(o + 5, "0"))]
    return [call("recurrent", s.type(0), s.name, passed=int(backward), read=s.all_bytes(), written=b * t * dirs * get(1) * 4, shape=shape, tf32=tf32)]


FILLS = {"fill_", "zero_", "normal_", "uniform_", "bernoulli_", "arange", "random_", "exponential_", "eye", "tril_", "triu_", "ones", "zeros", "full"}
COPIES = {"copy_", "clone", "cat", "_to_copy", "contiguous", "stack", "flip", "roll", "repeat", "constant_pad_nd", "slice_backward"}
REDUCES = {"sum", "mean", "norm", "linalg_vector_norm", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "var", "std", "var_mean", "prod", "logsumexp", "count_nonzero", "nansum"}
SOFTMAXES = {"_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "_safe_softmax"}
SORTS = {"sort", "topk", "cumsum", "_cumsum_helper", "unique", "_unique2", "nonzero", "argsort", "multinomial", "cumprod", "kthvalue", "searchsorted", "bincount", "histc", "unique_dim", "unique_consecutive"}
GATHERS = {"embedding", "index", "index_select", "gather", "take", "index_put_", "_index_put_impl_", "embedding_dense_backward", "scatter", "scatter_", "scatter_add", "scatter_add_", "index_add_", "index_add", "index_copy_", "index_fill_", "_embedding_bag", "take_along_dim", "masked_select", "masked_scatter"}
COMPARES = {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "logical_not", "logical_and", "logical_or", "bitwise_not", "bitwise_and", "bitwise_or"}


def norm(s, base):
    backward = "backward" in base
    if "batch_norm" in base:
        at = {"native_batch_norm": 0, "cudnn_batch_norm": 0, "native_batch_norm_backward": 1, "cudnn_batch_norm_backward": 0, "batch_norm_elemt": 0,
              "batch_norm_stats": 0, "batch_norm_backward_reduce": 1, "batch_norm_backward_elemt": 1}.get(base, 0)
        x = s.shape(at)
        if len(x) < 2:
            return None
        big = product(x) * SIZE.get(s.type(at), 4)
        rows, columns = x[1], product(x) // x[1]
        last = s.layout(at) == "l" or len(x) == 2
        return [call("norm", s.type(at), s.name, passed=int(backward), strided=last, rows=rows, columns=columns,
                     read=big * (2 if backward else 1), written=big, launches=1)]
    at = 1 if backward else 0
    x = s.shape(at)
    if not x:
        return None
    big = product(x) * SIZE.get(s.type(at), 4)
    if "group" in base:
        g = (s.ints(8 if backward else 6) or [32])[0]
        rows, columns = x[0] * g, product(x) // max(1, x[0] * g)
    else:
        inner = product(s.ints(2 if backward else 1)) or x[-1]
        rows, columns = product(x) // max(1, inner), inner
    same = dict(rows=rows, columns=columns, read=big * (2 if backward else 1))
    out = [call("norm", s.type(at), s.name, passed=int(backward), written=big, **same)]
    if backward and "group" in base:
        out += [call("norm", "f32", s.name, passed=WEIGHT, rows=x[1], columns=x[0], read=8 * x[0] * x[1], written=8 * x[1])]
    elif backward and any(s.tensor(i) and len(s.shape(i)) == 1 for i in range(3, len(s.shapes))):  # has a weight
        out += [call("norm", s.type(at), s.name, passed=WEIGHT, written=8 * columns, **same)]
    return out


def reduce(s, base):
    i = next(iter(s.tensors()), None)
    if i is None:
        return None
    x = s.shape(i)
    dims = s.ints(1) if base not in ("norm", "linalg_vector_norm") else s.ints(2)
    if base in ("max", "min", "argmax", "argmin", "any", "all", "amax", "amin") and s.scalars.get(1, "").lstrip("[").startswith(("True", "False")):
        dims = []
    dims = sorted({d % len(x) for d in dims if -len(x) <= d < len(x)}) or list(range(len(x)))
    columns = product([x[d] for d in dims])
    rows = product(x) // max(1, columns)
    inner = len(x) - 1 in dims
    while not inner and dims and product(x[max(dims) + 1:]) == 1:
        inner = True
    e = SIZE.get(s.type(i), 4)
    strided = not inner
    return [call("reduce", s.type(i), s.name, rows=rows, columns=columns, strided=strided, read=0 if s.layout(i) == "b" else product(x) * e, written=rows * e)]


def calls_of(s, job):
    """The calls of one run of an operator; None: not known how."""
    base = s.name.split("::")[-1]
    tf32 = job.get("precision") == "tf32"
    if base in ("mm", "addmm", "bmm", "baddbmm", "_addmm_activation", "addmv", "addbmm", "mv", "linear", "dot"):
        return matrix(s, tf32)
    if "convolution" in base or "conv_depthwise" in base:
        return convolution(s, job)
    if "attention" in base and "bias" not in base:
        return attention(s, job)
    if base in ("_cudnn_rnn", "_cudnn_rnn_backward"):
        return recurrent(s, job, tf32)
    if "_norm" in base and "weight_norm" not in base and base not in ("linalg_vector_norm", "_foreach_norm", "norm", "clip_grad_norm_") and not base.startswith("_foreach"):
        got = norm(s, base)
        if got:
            return got
    if base.startswith(("_foreach", "_fused_adam", "_fused_sgd", "_fused_adagrad", "_amp_foreach")):
        lists = [i for i in range(len(s.shapes)) if isinstance(s.shapes[i], dict)]
        if not lists:
            return None
        n, big = s.shapes[lists[0]]["n"], s.bytes(lists[0])
        read = sum(s.bytes(i) for i in lists)
        made = big
        if base.startswith("_foreach_norm"):
            made = 0
        if base.startswith("_fused_adam"):
            made = 3 * big
        if base.startswith("_fused_sgd"):
            made = 2 * big if len(lists) > 2 else big
        if base == "_foreach_copy_":
            read -= big
        if base.startswith("_foreach_addcmul"):  # of a gradient with itself
            read -= big
        if base == "_foreach_zero_":
            read = 0
        return [call("foreach", s.listed, s.name, tensors=n, read=read, written=made)]
    t = first_type(s)
    tensors = s.tensors()
    strided = any(s.layout(i) == "t" for i in tensors)
    back = "backward" in base
    size = SIZE.get(t, 4)
    if base in FILLS:
        big = s.bytes(0) if s.tensor(0) else 8 * max(s.ints(0) + [1])
        return [call("fill", t, s.name, written=big)]
    if base in COPIES:
        if base == "copy_":
            if len(tensors) and tensors[0] == 0:
                read = s.bytes(1) if s.layout(1) != "b" else 0
                letters = s.layout(0) + s.layout(1)
                return [call("copy", s.type(0), s.name, strided=len(set(letters)) > 1 or "t" in letters, read=read, written=s.bytes(0))]
            return [call("copy", t, s.name, read=size, written=size)]
        big = s.all_bytes()
        return [call("copy", t, s.name, strided=strided, read=big, written=big)]
    if base in REDUCES:
        return reduce(s, base) or [call("reduce", t, s.name, read=size, written=size)]
    if base in SOFTMAXES:
        x = s.shape(0)
        big = product(x) * size
        columns = x[-1] if x else 1
        return [call("softmax", t, s.name, passed=int(back), rows=product(x) // max(columns, 1), columns=columns, read=big * (2 if back else 1), written=big)]
    if "pool" in base or "upsample" in base:
        x = s.shape(0)
        big = s.all_bytes()
        if back:  # given: grad_output, input (where kept); made: of the input's size
            kept = s.shape(1) if s.tensor(1) else []
            made = product(kept) * size if len(kept) == len(x) else product((s.ints(2) if "upsample" in base else []) or x) * size
            if len(kept) == len(x):
                big -= product(kept) * size * ("max" in base or "avg" in base)
        else:
            out = x
            if "max_pool" in base or base.startswith("avg_pool"):
                d = len(s.ints(1)) or 2
                st = s.ints(2) or s.ints(1)
                out = x[:-d] + [max(1, v // max(1, q)) for v, q in zip(x[-d:], st * d if len(st) == 1 else st)] if st else x
            elif "adaptive" in base or "upsample" in base:
                o = s.ints(1)
                out = x[:len(x) - len(o)] + o if o else x
            made = product(out) * (size + (8 if "with_indices" in base else 0))
        return [call("pool", t, s.name, passed=int(back), strided=s.layout(0) == "l", read=big, written=made)]
    if base in GATHERS:
        if base == "embedding":
            w, ix = s.shape(0), s.shape(1)
            moved = product(ix) * (w[-1] if w else 1) * size
            return [call("gather", t, s.name, rows=product(ix), columns=w[-1] if w else 1, read=moved, written=moved)]
        if base == "embedding_dense_backward":
            g, rows = s.shape(0), product(s.shape(1))
            width = g[-1] if g else 1
            moved = product(g) * size
            if rows <= 3072:
                return [call("gather", t, s.name, passed=BACKWARD, rows=rows, columns=width, read=2 * moved + 8 * rows, written=moved)]
            return [call("sort", "i64", s.name, passed=BACKWARD, launches=10, rows=1, columns=rows, read=136 * rows, written=128 * rows),
                    call("sort", "i64", s.name, passed=BACKWARD, launches=7, rows=1, columns=rows, read=24 * rows, written=24 * rows),
                    call("gather", t, s.name, passed=BACKWARD, launches=2, rows=rows, columns=width, read=2 * moved + 8 * rows, written=2 * moved)]
        x = s.shape(0)
        if base in ("index", "index_select", "gather", "take", "take_along_dim", "masked_select"):
            ix = s.shape(2) if base != "index" else []
            made = product(ix) * size if base == "gather" and ix else product(x) * size
            whole = base == "gather" and ix and s.layout(2) == "b"  # rows, as embedding takes them
            return [call("gather", t, s.name, rows=product(ix) // (ix[-1] if whole else 1) if ix else 0, columns=ix[-1] if whole else 1, read=made, written=made)]
        big = s.all_bytes()
        return [call("gather", t, s.name, passed=BACKWARD, read=big, written=product(x) * size)]
    if base in SORTS:
        big = s.all_bytes()
        x = s.shape(0)
        return [call("sort", t, s.name, rows=product(x[:-1]), columns=x[-1] if x else 1, read=big, written=big * (2 if base in ("sort", "topk", "argsort") else 1))]
    if base.startswith("nll_loss"):
        n = max([product(s.shape(i)) for i in tensors if s.type(i) == "i64"] + [1])
        return [call("pointwise", t, s.name, passed=int(back), rows=n, read=s.all_bytes(), written=size)]
    # all else is elementwise
    shapes = [s.shape(i) for i in tensors]
    out = broadcast(shapes)
    floats = [s.type(i) for i in tensors if s.type(i) in ("f32", "bf16", "f16")]
    if floats and not base.endswith("_"):  # what comes of two types is the wider one
        t = max(floats, key=SIZE.get)
        size = SIZE[t]
    made = product(out) * (1 if base in COMPARES else size) if shapes else size
    if base.endswith("_") and s.tensor(0):
        made = s.bytes(0)
    if base == "native_dropout":
        made += product(out)
    big = s.all_bytes()
    letters = {s.layout(i) for i in tensors} - {"b", "-"}
    spread = any(s.layout(i) == "b" for i in tensors) or len({tuple(x) for x in shapes}) > 1
    return [call("pointwise", t, s.name, passed=int(back), strided="t" in letters or len(letters) > 1 or spread, read=big, written=made)]


# ---- files ----

ONE_KERNEL = {"pointwise", "copy", "fill"}


def number_of_calls(kind, kernels, op, phase, row, same, groups=1):
    """How often an operator ran with a signature: kernels [name, count, ...]."""
    if kind == "recurrent":
        host = (row.get("aten") or {}).get(phase, {}).get(op)
        if host:
            twice = phase == "fwd" and row.get("amp")  # autocast's own call around it
            return max(1, round(host[0] / same / (2 if twice else 1)))
    if kind == "product":  # the sum of a cut depth's parts is a kernel of its own
        longest = max(k[2] for k in kernels)
        return sum(k[1] for k in kernels if "splitKreduce" not in k[0] and k[2] > 0.3 * longest)
    least = min(k[1] for k in kernels)
    if kind == "convolution" and groups > 1 and least % groups == 0:  # one kernel per group
        return least // groups
    return least


def opened(path):
    return gzip.open(path, "rt") if path.endswith(".gz") else open(path)


def lines(path):
    with opened(path) as f:
        while True:
            try:
                line = f.readline()
            except EOFError:
                return
            if not line:
                return
            try:
                yield json.loads(line)
            except ValueError:
                continue


def model_of(job):
    m = job.get("model", {})
    if m.get("kind") in ("torchvision", "transformers"):
        return m.get("name") or m.get("type")
    return job.get("of") or job["id"]


def load(operators, windows):
    """(rows, jobs): jobs {id: (job, result, operators' row)}."""
    jobs = {}
    for path in windows:
        for r in lines(path):
            if "result" in r:
                jobs[r["job"]["id"]] = [r["job"], r["result"], None]
    rows = []
    for path in operators:
        for r in lines(path):
            if r.get("id") not in jobs or not r.get("ops") or jobs[r["id"]][2] is not None:
                continue
            jobs[r["id"]][2] = r
            rows += rows_of(r, *jobs[r["id"]][:2])
    return rows, {k: v for k, v in jobs.items() if v[2] is not None}


def rows_of(r, job, result):
    groups = {}
    r["amp"] = str(job.get("precision", "")).startswith("amp")
    for s, k, phase, outer, grid, block, occ, bps, wps, regs, smem, count, mean, least in r["ops"]:
        groups.setdefault((s, phase), []).append([r["kernels"][k], count, mean, least, grid, block, occ, bps, wps])
    listed = {"bf16": "bf16", "fp16": "f16"}.get(job.get("precision"), "f32")
    same = {}
    for s, phase in groups:
        key = (r["sigs"][s][0], phase)
        same[key] = same.get(key, 0) + 1
    out = []
    for (s, phase), kernels in groups.items():
        sig = Sig(r["sigs"][s], listed, result.get("trainable") or result.get("params") or 0)
        try:
            calls = calls_of(sig, job)
        except (IndexError, ValueError, ZeroDivisionError):
            calls = None
        kind = KINDS[int(calls[-1][0])] if calls else None
        parts = [[k] for k in kernels] if kind in ONE_KERNEL else [kernels]
        for part in parts:
            row = Row()
            row.job, row.model, row.op, row.sig, row.phase, row.kind = job["id"], model_of(job), sig.name, sig, phase, kind
            row.n = part[0][1] if len(part) == 1 and kind != "recurrent" else number_of_calls(kind, part, sig.name, phase, r, same[(sig.name, phase)], int(calls[0][SHAPE + 4]) if kind == "convolution" else 1)
            row.us = sum(k[1] * k[2] for k in part) / row.n
            row.kernels, row.calls = part, calls or []
            launches = sum(k[1] for k in part) / row.n
            if sig.name == "aten::cat" and calls:  # lists come without strides: the kernel's name says it
                calls = row.calls = [calls[0].copy()]
                calls[0][3] = "vectorized" not in part[0][0] and "Aligned" not in part[0][0] and "contig" not in part[0][0]
            if calls and len(calls) == 1 and kind not in ("convolution", "recurrent", "attention", "product"):
                calls = row.calls = [c.copy() for c in calls]
                calls[0][6] = max(1, round(launches))
            moved = sum(c[9] + c[10] for c in row.calls) if kind == "foreach" else 0
            if moved > row.us * 9e6:  # of steps' counters, not of parameters
                row.calls = []
            out.append(row)
    return out


# ---- C ----

def shim(constants=None):
    """Builds src/device/cost.c with shim.c; the function (matrix, card) -> n x 5."""
    d = tempfile.mkdtemp()
    so = os.path.join(d, "shim.so")
    gpus = catalogue(d)
    subprocess.run(["cc", "-std=c11", "-O2", "-D_POSIX_C_SOURCE=200809L", "-DPL_COST_FIT", "-shared", "-fPIC", "-I", os.path.join(ROOT, "src"), "-I", os.path.join(ROOT, "include"), "-I", d,
                    os.path.join(HERE, "shim.c"), os.path.join(ROOT, "src/device/cost.c"), constants or os.path.join(ROOT, "src/device/cost_tables.c"), os.path.join(ROOT, "src/device/workspace_conv.c"), os.path.join(ROOT, "src/device/workspace_tree.c"), gpus, "-o", so, "-lm"], check=True)
    lib = ctypes.CDLL(so)
    lib.shim.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_char_p, ctypes.c_void_p]

    def run(matrix, card=b"h200"):
        matrix = numpy.ascontiguousarray(matrix)
        out = numpy.empty((len(matrix), 5))
        lib.shim(matrix.ctypes.data, len(matrix), card, out.ctypes.data)
        return out
    run.lib = lib
    return run


def catalogue(folder):
    """A file with pl_gpu_find over gpus.tsv's rows, and what else of the library cost.c reaches."""
    path = os.path.join(folder, "gpus.c")
    with open(os.path.join(ROOT, "src/device/gpus.tsv")) as f, open(path, "w") as out:
        out.write('#include "plimsoll/plimsoll.h"\n#include "graph/graph.h"\n#include <math.h>\n#include <string.h>\nstatic const pl_gpu all[] = {\n')
        for line in f:
            if line.startswith("#"):
                continue
            c = line.rstrip("\n").split("\t")
            major, minor = c[4].split(".")
            rates = ["NAN" if x == "-" else x for x in c[9:13]]
            out.write(f'{{.name = "{c[0]}", .cc_major = {major}, .cc_minor = {minor}, .sms = {c[5]}, .threads = {c[6]}, .bandwidth_gbps = {c[8]}, .l2_mib = {"NAN" if c[7] == "-" else c[7]}, '
                      f'.fp32_tflops = {rates[0]}, .tf32_tflops = {rates[1]}, .fp16_tflops = {rates[2]}, .bf16_tflops = {rates[3]}}},\n')
        out.write("};\nconst pl_gpu *pl_gpu_find(const char *name) {\n    for (size_t i = 0; i < sizeof all / sizeof *all; i++)\n"
                  "        if (!strcmp(all[i].name, name)) return &all[i];\n    return NULL;\n}\n"
                  "int pl_dtype_size(pl_dtype t) { return t == PL_DT_F16 || t == PL_DT_BF16 ? 2 : t == PL_DT_F64 ? 8 : 4; }\n")
    return path


def stack(rows):
    """(matrix of all calls, start of each row's)."""
    calls = [c for r in rows for c in r.calls]
    starts = numpy.cumsum([0] + [len(r.calls) for r in rows])
    return (numpy.array(calls) if calls else numpy.zeros((0, COLUMNS))), starts


def price(matrix, starts, run, card=b"h200"):
    """Of each row: microseconds, and the four shares weighted by them."""
    got = run(matrix, card)
    got[:, 1:] *= got[:, :1]
    sums = numpy.add.reduceat(got, starts[:-1], axis=0) if len(got) else got
    sums[:, 1:] /= numpy.maximum(sums[:, :1], 1e-9)
    return sums
