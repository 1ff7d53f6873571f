#!/usr/bin/env python3
"""Exports the models that the tests and examples read, with a real PyTorch and torch.export.

    python3 tools/export_fixtures.py tests     writes tests/data/graphs/*.pt2
    python3 tools/export_fixtures.py older     writes tests/data/graphs/older.pt2; run it with PyTorch 2.6
    python3 tools/export_fixtures.py examples  writes examples/*.pt2

Needs torch (made with 2.11.0), torchvision (0.26) and transformers. Models are built on the meta device, so no
weight exists and none is written. What torch.export.save wrote is packed again: members that hold no graph are
left out, the rest is deflated, and in stack traces the folders before site-packages and before this script are
cut off. The graph itself is not touched."""
import json, os, re, sys, tempfile, zipfile

import torch
from torch import nn
from torch.export import Dim

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return self.layers(x)


class Mixed(nn.Module):
    """One of everything that the importer has to understand: a module called twice, tied weights, buffers that
    change in place, no_grad, autocast, several results, optional tensors, constants, sizes computed by the code."""

    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(64, 16)
        self.fc = nn.Linear(16, 16)
        self.act = nn.GELU()
        self.conv = nn.Conv1d(16, 12, 3, stride=2, padding=1)
        self.bn = nn.BatchNorm1d(12)
        self.rnn = nn.LSTM(12, 10, batch_first=True)
        self.head = nn.Linear(16, 64, bias=False)
        self.head.weight = self.tok.weight
        self.register_buffer("scale", torch.ones(16))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, ids, mask=None):
        batch, seq = ids.shape
        x = self.act(self.fc(self.act(self.fc(self.tok(ids)))))
        a, b = x.chunk(2, -1)
        with torch.no_grad():
            angle = (x * self.scale).cos()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = self.fc(x)
        y = self.bn(self.conv((x + angle).transpose(1, 2)))
        # export unrolls an LSTM over time: it needs a fixed length
        z, (h, c) = self.rnn(y.transpose(1, 2)[:, :2])
        wide = torch.zeros(batch * 2, 3 * seq + 1, device=ids.device)
        wide = wide.masked_fill(wide > 0, float("-inf"))
        last = x[torch.arange(batch, device=ids.device), -1]
        logits = self.head(x * batch**0.5 + low.float()) + torch.tensor(2.0)
        return logits, torch.cat([a, b], -1).reshape(batch * seq, 16), y, z, h, wide, last


class Branch(nn.Module):
    """A higher-order operator that is not inlined."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        y = self.fc(x)
        return torch.cond(y.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (y,)) + x


class Routed(nn.Module):
    """Sizes that depend on numbers: tokens sorted by expert and split by their counts; tokens of an expert by where; a mask of
    which nothing is known; pieces of given lengths."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 4, bias=False)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.others = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, x, lengths):
        tokens = x.reshape(-1, 16)
        weights, chosen = self.gate(tokens).softmax(-1).topk(2, dim=-1)
        counts = torch.zeros(tokens.shape[0], 4, device=x.device).scatter(1, chosen, 1).long().sum(0).tolist()
        order = chosen.flatten().sort(0)[1]
        pieces = tokens[order.div(2, rounding_mode="trunc")].split(counts)
        sorted_out = torch.cat([expert(piece) for expert, piece in zip(self.experts, pieces)])
        out = torch.zeros_like(tokens)
        mask = nn.functional.one_hot(chosen, num_classes=4).permute(2, 1, 0)
        for e, expert in enumerate(self.others):
            place, token = torch.where(mask[e])
            out.index_add_(0, token, expert(tokens[token]) * weights[token, place, None])
        kept = tokens[tokens[:, 0] > 0]
        parts = [part.exp() for part in tokens.split(lengths.tolist())]
        return sorted_out.sum() + out.sum() + kept.square().sum() + torch.cat(parts).sum()


def ids(batch, seq, vocabulary=64):
    return torch.zeros(batch, seq, dtype=torch.int64)


def language_model(config_class, model_class, **settings):
    import transformers
    config = getattr(transformers, config_class)(**settings)
    model = getattr(transformers, model_class)(config)
    model.config.use_cache = False
    return model


class Lora(nn.Module):
    """An adapter beside a layer, as plainly as it can be: no scaling, no casts."""

    def __init__(self, base, rank):
        super().__init__()
        width, out = base.weight.shape if type(base).__name__ == "Conv1D" else reversed(base.weight.shape)
        self.base, self.a, self.b = base, nn.Linear(width, rank, bias=False), nn.Linear(rank, out, bias=False)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x))


def adapted(model, name, rank):
    model.requires_grad_(False)
    for module in list(model.modules()):
        if hasattr(module, name):
            setattr(module, name, Lora(getattr(module, name), rank))
    return model


def vision(name, **settings):
    import torchvision
    return getattr(torchvision.models, name)(**settings)


BATCH = lambda: Dim("batch", min=1, max=65536)


def export(build, inputs, shapes, train=True):
    with torch.device("meta"):
        model = build()
        given = inputs()
    model.train(train)
    args, kwargs = given if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], dict) else (given, {})
    return torch.export.export(model, args, kwargs, dynamic_shapes=shapes, strict=False)


def pack(program, path, deflate=True):
    """torch.export.save, then only the members that the graph is in, without local folders."""
    stem = os.path.splitext(os.path.basename(path))[0]
    with tempfile.TemporaryDirectory() as folder:
        saved = os.path.join(folder, stem + ".pt2")
        torch.export.save(program, saved)
        archive = zipfile.ZipFile(saved)
        keep = [n for n in archive.namelist() if re.search(r"models/|archive_format|archive_version|byteorder|\.data/version|program\.json|^version$", n)]
        method = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
        with zipfile.ZipFile(path, "w", method, compresslevel=9 if deflate else None) as out:
            for name in keep:
                data = archive.read(name)
                if name.endswith(".json"):
                    text = re.sub(r'/[^"\s\\]*?/site-packages/', "site-packages/", data.decode())
                    text = re.sub(r'/[^"\s\\]*?/(export_fixtures\.py)', r"\1", text)
                    json.loads(text)
                    data = text.encode()
                info = zipfile.ZipInfo(name, (2026, 11, 15, 0, 0, 0))
                info.compress_type = method
                out.writestr(info, data, compresslevel=9 if deflate else None)
    print(f"{path}: {os.path.getsize(path)} bytes")


GPT2 = dict(n_layer=2, n_head=2, n_embd=32, n_positions=64, vocab_size=128)
BERT = dict(num_hidden_layers=2, num_attention_heads=2, hidden_size=32, intermediate_size=64, vocab_size=128,
            max_position_embeddings=64)


def token_shapes(most):
    batch, seq = BATCH(), Dim("seq", min=2, max=most)
    return {"input_ids": {0: batch, 1: seq}, "labels": {0: batch, 1: seq}}


def mixed_shapes():
    return {"ids": {0: Dim("batch", min=2, max=512), 1: Dim("seq", min=6, max=128)}}


def tokens():
    return (), {"input_ids": ids(4, 16), "labels": ids(4, 16)}


def tests():
    folder = os.path.join(ROOT, "tests", "data", "graphs")
    os.makedirs(folder, exist_ok=True)
    file = lambda name: os.path.join(folder, name + ".pt2")
    pack(export(Mlp, lambda: (torch.zeros(4, 16),), ({0: BATCH()},)), file("mlp"))
    pack(export(Mlp, lambda: (torch.zeros(4, 16),), None), file("mlp-static"), deflate=False)
    pack(export(Mixed, lambda: (ids(6, 18),), mixed_shapes()), file("mixed"))
    pack(export(Branch, lambda: (torch.zeros(4, 8),), ({0: BATCH()},)), file("cond"))
    pack(export(Routed, lambda: (torch.zeros(4, 8, 16), torch.zeros(3, dtype=torch.long)), ({0: BATCH()}, None)), file("routed"))
    pack(export(Mixed, lambda: (ids(6, 18),), None).run_decompositions({}), file("mixed-decomposed"))
    pack(export(lambda: vision("resnet18"), lambda: (torch.zeros(4, 3, 224, 224),), ({0: BATCH()},)), file("resnet18"))
    vit = lambda: __import__("torchvision").models.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=10)
    pack(export(vit, lambda: (torch.zeros(4, 3, 32, 32),), ({0: BATCH()},)), file("vit"))
    pack(export(lambda: language_model("GPT2Config", "GPT2LMHeadModel", **GPT2), tokens, token_shapes(64)), file("gpt2-tiny"))
    pack(export(lambda: adapted(language_model("GPT2Config", "GPT2LMHeadModel", **GPT2), "c_attn", 4), tokens, token_shapes(64)), file("gpt2-tiny-lora"))
    pack(export(lambda: language_model("BertConfig", "BertForMaskedLM", **BERT), tokens, token_shapes(64)), file("bert-tiny"))


def older():
    """Under PyTorch 2.6, whose torch.export.save lays archives out in another way."""
    pack(export(Mixed, lambda: (ids(6, 18),), mixed_shapes()), os.path.join(ROOT, "tests", "data", "graphs", "older.pt2"),
         deflate=False)


def examples():
    folder = os.path.join(ROOT, "examples")
    file = lambda name: os.path.join(folder, name + ".pt2")
    pack(export(lambda: vision("resnet50"), lambda: (torch.zeros(32, 3, 224, 224),), ({0: BATCH()},)), file("resnet50"))
    gpt2 = lambda: language_model("GPT2Config", "GPT2LMHeadModel")
    shapes = lambda: ((), {"input_ids": ids(8, 512), "labels": ids(8, 512)})
    pack(export(gpt2, shapes, token_shapes(1024)), file("gpt2"))


if __name__ == "__main__":
    {"tests": tests, "older": older, "examples": examples}[sys.argv[1]]()
