"""The made-up nets of the ground truth (MLP, CNN, Transformer, RNN) by their `model` object: the operators, modules and names that
their exported graphs show, and that src/import/spec_family.c builds from the same keys.  Losses are outside (loss ce), but
for tokens: the logits of every position are laid out in one row each first.  adapt() freezes what a job does not train.

A net says what it takes with inputs(batch), as the nets of nets.py do: [(name, tensor, kind)]."""
import math
import re

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

INPLACE = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "elu": nn.ELU, "selu": nn.SELU, "silu": nn.SiLU, "mish": nn.Mish}
PLAIN = {"gelu": nn.GELU, "tanh": nn.Tanh, "softplus": nn.Softplus, "prelu": nn.PReLU}


def activation(name, inplace=False):
    return INPLACE[name](inplace=inplace) if name in INPLACE else PLAIN[name]()


class MLP(nn.Module):
    """net: for each width Linear, [BatchNorm1d], activation, [Dropout]; then Linear."""

    def __init__(self, inp, out, widths, act="relu", bn=False, dropout=0, arch=None):
        super().__init__()
        self.sizes, layers, last = (inp, out), [], inp
        for w in widths:
            layers.append(nn.Linear(last, w))
            if bn:
                layers.append(nn.BatchNorm1d(w))
            layers.append(activation(act))
            if dropout:
                layers.append(nn.Dropout(dropout))
            last = w
        self.net = nn.Sequential(*layers, nn.Linear(last, out))

    def forward(self, x):
        return self.net(x)

    def inputs(self, batch):
        return [("x", torch.zeros(batch, self.sizes[0]), "normal"), ("y", torch.randint(0, self.sizes[1], (batch,)), "int")]


class ConvBlock(nn.Module):
    """body: Conv2d, [BatchNorm2d], activation, [Dropout2d].  mode residual: its input is added, through a convolution of one
    pixel where channels differ; dense: its input is put in front."""

    def __init__(self, cin, cout, kernel, act, bn, dropout, inplace, mode):
        super().__init__()
        layers = [nn.Conv2d(cin, cout, kernel, padding=kernel // 2, bias=not bn)]
        if bn:
            layers.append(nn.BatchNorm2d(cout))
        layers.append(activation(act, inplace))
        if dropout:
            layers.append(nn.Dropout2d(dropout))
        self.body, self.mode = nn.Sequential(*layers), mode
        self.proj = nn.Conv2d(cin, cout, 1) if mode == "residual" and cin != cout else None
        self.width = cin + cout if mode == "dense" else cout

    def forward(self, x):
        y = self.body(x)
        if self.mode == "residual":
            return y + (x if self.proj is None else self.proj(x))
        return torch.cat([x, y], 1) if self.mode == "dense" else y


def channels_of(arch, base, depth, i):
    """Output channels of block i."""
    half = depth // 2
    if arch == "pyramid":
        grown = base * (1 + i // 2)
        return grown if grown <= 512 else max(base, 512)
    if arch == "bottleneck":
        return max(base // 4, 1) if i % 3 == 1 else base
    if arch == "gradual":
        return base + i * (base // 8)
    if arch == "hourglass":
        return max(8, round(base * (abs(i - half) + 1) / (half + 1)))
    return max(base // 4, 1) if arch == "dense" else base


class CNN(nn.Module):
    """body: blocks, with MaxPool2d(2) behind every pool_every-th while the image has 8 pixels or more; mean; fc."""

    def __init__(self, channels, size, classes, base, depth, arch, kernel, act, bn, dropout, inplace, pool_every):
        super().__init__()
        self.shape, self.classes = (channels, size, size), classes
        layers, c = [], channels
        for i in range(depth):
            layers.append(ConvBlock(c, channels_of(arch, base, depth, i), kernel, act, bn, dropout, inplace, arch))
            c = layers[-1].width
            if pool_every and (i + 1) % pool_every == 0 and size >= 8:
                layers.append(nn.MaxPool2d(2))
                size //= 2
        self.body = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.body(x)), 1))

    def inputs(self, batch):
        return [("x", torch.zeros(batch, *self.shape), "normal"), ("y", torch.randint(0, self.classes, (batch,)), "int")]


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    """kv makes queries too, unless keys and values come from another sequence."""

    def __init__(self, d, heads, dropout, eager, cross=False):
        super().__init__()
        self.h, self.p, self.eager, self.cross = heads, dropout, eager, cross
        if cross:
            self.q = nn.Linear(d, d)
        self.kv = nn.Linear(d, 2 * d if cross else 3 * d)
        self.out = nn.Linear(d, d)

    def forward(self, x, mem=None, causal=False):
        b, t, d = x.shape
        if self.cross:
            q, (k, v) = self.q(x), self.kv(mem).chunk(2, -1)
        else:
            q, k, v = self.kv(x).chunk(3, -1)
        q, k, v = (u.view(b, u.shape[1], self.h, d // self.h).transpose(1, 2) for u in (q, k, v))
        if not self.eager:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0, is_causal=causal)
        else:
            a = q @ k.transpose(-2, -1) / math.sqrt(d // self.h)
            if causal:
                a = a.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
            y = F.dropout(a.softmax(-1), self.p, self.training) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Mlp(nn.Module):
    def __init__(self, d, ff, kind):
        super().__init__()
        self.gated = kind == "swiglu"
        self.up = nn.Linear(d, 2 * ff if self.gated else ff)
        self.down = nn.Linear(ff, d)
        self.act = None if self.gated else activation(kind)

    def forward(self, x):
        if self.gated:
            a, b = self.up(x).chunk(2, -1)
            return self.down(F.silu(a) * b)
        return self.down(self.act(self.up(x)))


class Block(nn.Module):
    def __init__(self, m, causal, cross):
        super().__init__()
        d, norm = m["d"], RMSNorm if m["norm"] == "rmsnorm" else nn.LayerNorm
        eager = m["attn"] == "eager"
        self.causal = causal
        self.n1, self.att = norm(d), Attention(d, m["heads"], m["dropout"], eager)
        self.n2, self.mlp = norm(d), Mlp(d, m["ff"], m["mlp"])
        self.drop = nn.Dropout(m["dropout"])
        self.nx, self.xatt = (norm(d), Attention(d, m["heads"], m["dropout"], eager, True)) if cross else (None, None)

    def forward(self, x, mem=None):
        x = x + self.drop(self.att(self.n1(x), causal=self.causal))
        if self.xatt is not None:
            x = x + self.drop(self.xatt(self.nx(x), mem))
        return x + self.drop(self.mlp(self.n2(x)))


class Transformer(nn.Module):
    """Embeddings of tokens and positions, a stack of blocks (or two, the second looking at the first), a norm, a head."""

    def __init__(self, seq, **m):
        super().__init__()
        self.m, self.seq, d, n, arch = m, seq, m["d"], m["layers"], m["arch"]
        self.checkpoint = False
        lm = m["head"] == "lm"
        self.tok, self.pos = nn.Embedding(m["vocab"], d), nn.Embedding(seq, d)
        self.enc = nn.ModuleList(Block(m, False, False) for _ in range(n if arch != "decoder" else 0))
        self.dec = nn.ModuleList(Block(m, True, arch == "encdec") for _ in range(n if arch != "encoder" else 0))
        self.norm = (RMSNorm if m["norm"] == "rmsnorm" else nn.LayerNorm)(d)
        self.head = nn.Linear(d, m["vocab"] if lm else m["classes"], bias=False)
        if lm and m["tie"]:
            self.head.weight = self.tok.weight

    def emb(self, i):
        return self.tok(i) + self.pos(torch.arange(i.shape[1], device=i.device))

    def run(self, blocks, x, mem=None):
        for b in blocks:
            x = checkpoint(b, x, mem, use_reentrant=False) if self.checkpoint else b(x, mem)
        return x

    def forward(self, i):
        arch = self.m["arch"]
        if arch == "encoder":
            x = self.run(self.enc, self.emb(i))
        elif arch == "decoder":
            x = self.run(self.dec, self.emb(i))
        else:
            x = self.run(self.dec, self.emb(i), self.run(self.enc, self.emb(i)))
        x = self.norm(x)
        return self.head(x if self.m["head"] == "lm" else x.mean(1))

    def inputs(self, batch):
        lm = self.m["head"] == "lm"
        top, shape = (self.m["vocab"], (batch, self.seq)) if lm else (self.m["classes"], (batch,))
        return [("x", torch.randint(0, self.m["vocab"], (batch, self.seq)), "int"), ("y", torch.randint(0, top, shape), "int")]


class RNN(nn.Module):
    """[Embedding], a recurrent layer, Linear on the last step."""

    def __init__(self, seq, cell, vocab, inp, hidden, layers, bidirectional, dropout, classes):
        super().__init__()
        self.sizes = (seq, vocab, inp, classes)
        self.emb = nn.Embedding(vocab, inp) if vocab else None
        kind = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[cell]
        self.rnn = kind(inp, hidden, layers, batch_first=True, bidirectional=bidirectional, dropout=dropout if layers > 1 else 0)
        self.fc = nn.Linear(hidden * (2 if bidirectional else 1), classes)

    def forward(self, x):
        if self.emb is not None:
            x = self.emb(x)
        return self.fc(self.rnn(x)[0][:, -1])

    def inputs(self, batch):
        seq, vocab, inp, classes = self.sizes
        x = ("x", torch.randint(0, vocab, (batch, seq)), "int") if vocab else ("x", torch.zeros(batch, seq, inp), "normal")
        return [x, ("y", torch.randint(0, classes, (batch,)), "int")]


KINDS = ("mlp", "cnn", "transformer", "rnn")


def build(job):
    m = {k: v for k, v in job["model"].items() if k != "kind"}
    kind = job["model"]["kind"]
    if kind == "mlp":
        return MLP(**m)
    if kind == "cnn":
        return CNN(**m)
    if kind == "rnn":
        return RNN(job["seq"], **m)
    net = Transformer(job["seq"], **m)
    net.checkpoint = bool(job.get("checkpoint"))
    return net


def loss(out, y):
    return F.cross_entropy(out.reshape(-1, out.shape[-1]) if out.dim() > 2 else out, y.reshape(-1))


# ---- training a part ----

LORA = re.compile(r"(^|\.)(q|k|v|q_proj|k_proj|v_proj|o_proj|query|key|value|c_attn)$")


class Adapter(nn.Module):
    """A frozen layer with a product of two thin ones beside it."""

    def __init__(self, base, rank):
        super().__init__()
        w = base.weight
        n, m = (w.shape[1], w.shape[0]) if isinstance(base, nn.Linear) else w.shape  # transformers' Conv1D is the other way round
        self.base, self.a, self.b = base, nn.Linear(n, rank, bias=False), nn.Linear(rank, m, bias=False)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x))


def adapt(job, model):
    """Freezes what `train` leaves out."""
    how = job.get("train", "all")
    if how == "all":
        return model
    for p in model.parameters():
        p.requires_grad_(False)
    if how == "head":
        last = [m for m in model.modules() if isinstance(m, nn.Linear)][-1]
        for p in last.parameters():
            p.requires_grad_(True)
        return model
    rank = int(how.rpartition("-r")[2])
    for name, m in list(model.named_modules()):
        if LORA.search(name) and getattr(m, "weight", None) is not None and m.weight.dim() == 2:
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent) if parent else model, leaf, Adapter(m, rank))
    return model
