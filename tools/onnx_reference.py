#!/usr/bin/env python3
"""Exports the ONNX files that the tests read, with both exporters of torch.onnx.

    python3 tools/onnx_reference.py     writes tests/data/onnx/*.onnx

Needs torch (made with 2.11.0), onnx (1.23) and onnxscript (0.7). Weights are taken out: they become external data
that does not exist, but for tensors of up to 16 elements, which shapes are computed from, and for those of
block-old-eval.onnx, whose equality shows what was tied. In stack traces the
folders before site-packages and before this script are cut off."""
import os, re, tempfile, warnings

import onnx
import torch
from torch import nn
from torch.export import Dim

warnings.filterwarnings("ignore")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "tests", "data", "onnx")


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(8 * 16, 10)

    def forward(self, x):
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(self.drop(torch.flatten(x, 1)))


class Block(nn.Module):
    """Attention, a gated layer, tied weights; sizes computed from the input."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(100, 16)
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
        self.act = nn.GELU()
        self.head = nn.Linear(16, 100, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        batch, seq = ids.shape
        x = self.emb(ids)
        q, k, v = (t.reshape(batch, seq, 2, 8).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=False)
        x = x + a.transpose(1, 2).reshape(batch, seq, 16)
        return self.head(x + self.down(self.act(self.up(x))))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 8, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(16, 4)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1])


class Groups(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.GroupNorm(2, 8)
        self.act = nn.SiLU()
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)

    def forward(self, x):
        y = self.up(self.act(self.norm(self.conv(x))))
        return nn.functional.interpolate(y, scale_factor=2).mean((2, 3))


def clean(text):
    """Also only the two innermost frames of a stack trace."""
    frames = re.split(r'(?=File ")', text)
    text = "".join(frames[-2:]) if len(frames) > 2 else text
    text = re.sub(r'/[^"\n]*?/site-packages/', "site-packages/", text)
    return re.sub(r'/[^"\n]*?/(onnx_reference\.py)', r"\1", text)


def strip(model, most=16):
    model.doc_string = ""
    for t in model.graph.initializer:
        t.doc_string = ""
        count = 1
        for d in t.dims:
            count *= d
        if count > most and t.data_location != onnx.TensorProto.EXTERNAL:
            for field in ("raw_data", "float_data", "int64_data", "int32_data"):
                t.ClearField(field)
            t.data_location = onnx.TensorProto.EXTERNAL
            t.external_data.add(key="location", value="gone")
    for n in model.graph.node:
        n.doc_string = ""
        kept = [(p.key, clean(p.value)) for p in n.metadata_props if p.key.startswith("pkg.torch") or "rewriter" in p.key]
        del n.metadata_props[:]
        for key, value in kept:
            n.metadata_props.add(key=key, value=value)
    del model.graph.value_info[:]
    return model


def old(model, args, path, names, axes, train, opset=17, most=16):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "m.onnx")
        mode = torch.onnx.TrainingMode.TRAINING if train else torch.onnx.TrainingMode.EVAL
        torch.onnx.export(model.train(train), args, file, dynamo=False, input_names=names, dynamic_axes=axes, opset_version=opset,
                          training=mode, do_constant_folding=not train)
        save(onnx.load(file), path, most)


def new(model, args, path, shapes, train):
    save(torch.onnx.export(model.train(train), args, dynamo=True, dynamic_shapes=shapes, optimize=not train, verbose=False).model_proto, path)


def save(model, path, most=16):
    data = strip(model, most).SerializeToString()
    with open(os.path.join(OUT, path), "wb") as out:
        out.write(data)
    print(f"{path}: {len(data)} bytes")


def main():
    os.makedirs(OUT, exist_ok=True)
    torch.manual_seed(0)
    batch, seq = Dim("batch", min=1, max=4096), Dim("seq", min=2, max=512)
    image, ids, rows = torch.zeros(2, 3, 16, 16), torch.zeros(2, 6, dtype=torch.int64), torch.zeros(2, 5, 6)
    for train in (True, False):
        kind = "train" if train else "eval"
        model = Cnn()
        for p in list(model.parameters()) + [model.bn1.running_mean]:
            p.data.uniform_(-1, 1)
        old(model, (image,), f"cnn-old-{kind}.onnx", ["x"], {"x": {0: "batch"}}, train)
        new(model, (image,), f"cnn-new-{kind}.onnx", ({0: batch},), train)
        old(Block(), (ids,), f"block-old-{kind}.onnx", ["ids"], {"ids": {0: "batch", 1: "seq"}}, train,
            most=16 if train else 1600)
    new(Block(), (ids,), "block-new-train.onnx", ({0: batch, 1: seq},), True)
    old(Block(), (ids,), "block-old-13.onnx", ["ids"], {"ids": {0: "batch", 1: "seq"}}, True, 14)
    old(Recurrent(), (rows,), "gru-old.onnx", ["x"], {"x": {0: "batch"}}, True)
    old(Groups(), (torch.zeros(2, 3, 16, 16),), "groups-old.onnx", ["x"], {"x": {0: "batch"}}, True)
    old(Cnn(), (image,), "cnn-static.onnx", ["x"], {}, True)


if __name__ == "__main__":
    main()
