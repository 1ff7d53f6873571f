"""The models that public cluster measurements name (Muri's trace, Lucid's pairs, Gavel's throughputs), as near as their names and data sets tell: exported
with an open batch for plimsoll.

    named_models.py OUT                     # OUT/NAME.pt2, NAME.json
    PLIMSOLL=build/plimsoll named_models.py OUT --sizes sizes.jsonl [--estimator hybrid,horus] [--gpu h200]

The second form estimates Muri's eight models at their batches too, as lines for `plimsoll simulate --sizes`.  Needs torch and torchvision.  What is known of a model is
its name, data set and batch; where its authors took another depth or width than is usual, these differ.  Reinforcement learning (A3C, PPO, TD3) waits
for a game on the CPU most of the time, and GANs (DCGAN, CycleGAN) train two networks in turns: a2c and dqn are here as their networks alone, the others are not."""
import argparse
import json
import os
import subprocess
import sys

import torch
from torch import nn

PICTURE, SMALL = (3, 224, 224), (3, 32, 32)  # ImageNet, CIFAR-10
MURI = {"vgg16": 16, "vgg19": 16, "resnet18": 128, "shufflenet_v2_x1_0": 128, "gpt2": 4, "bert": 4, "a2c": 64, "dqn": 128}


def vision(name, **more):
    import torchvision
    return getattr(torchvision.models, name)(**more)


def vgg_small():
    """VGG-11 as it is built for CIFAR-10: one linear layer behind the convolutions."""
    return nn.Sequential(vision("vgg11_bn").features, nn.Flatten(), nn.Linear(512, 10))


class Nature(nn.Module):
    """The network of deep Q-learning (Mnih et al. 2015): three convolutions over four frames of 84 x 84."""
    def __init__(self, out):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, out))

    def forward(self, x):
        return self.net(x)


class PointNet(nn.Module):
    """Classification without the transforms of features (Qi et al. 2017): 2,500 points."""
    def __init__(self):
        super().__init__()
        def row(a, b):
            return [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
        self.points = nn.Sequential(*row(3, 64), *row(64, 128), *row(128, 1024))
        self.head = nn.Sequential(nn.Linear(1024, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 16))

    def forward(self, x):
        return self.head(self.points(x).max(2).values)


class Words(nn.Module):
    """PyTorch's word language model: two LSTM layers over Wikitext-2's 33,278 words, 35 at a time."""
    def __init__(self, words=33278, width=200):
        super().__init__()
        self.embed, self.drop, self.lstm, self.head = nn.Embedding(words, width), nn.Dropout(0.2), nn.LSTM(width, width, 2, dropout=0.2, batch_first=True), nn.Linear(width, words)

    def forward(self, x):
        return self.head(self.drop(self.lstm(self.drop(self.embed(x)))[0])).flatten(0, 1)


class Translation(nn.Module):
    """"Attention is all you need" over Multi30k: six layers of 512 each way, 9,521 words, 30 of them in a sentence."""
    def __init__(self, words=9521, width=512):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.net = nn.Transformer(width, 8, 6, 6, 2048, 0.1, batch_first=True)

    def forward(self, x):
        e = self.embed(x)
        return self.head(self.net(e, e)).flatten(0, 1)


class Recoder(nn.Module):
    """Gavel's recommendation: an autoencoder over MovieLens-20M's 20,108 films (Sedhain et al. 2015)."""
    def __init__(self, items=20108, width=200):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(items, width), nn.Tanh(), nn.Linear(width, items))

    def forward(self, x):
        return self.net(x)


def pictures(shape):
    return lambda n: torch.empty((n,) + shape, device="meta")


def words(length, count):
    return lambda n: torch.zeros((n, length), dtype=torch.long, device="meta")


MODELS = {  # name: how to build it, its batch
    "vgg16": (lambda: vision("vgg16"), pictures(PICTURE)), "vgg19": (lambda: vision("vgg19"), pictures(PICTURE)),
    "resnet18": (lambda: vision("resnet18"), pictures(PICTURE)), "resnet50": (lambda: vision("resnet50"), pictures(PICTURE)),
    "shufflenet_v2_x1_0": (lambda: vision("shufflenet_v2_x1_0"), pictures(PICTURE)), "mobilenet_v3": (lambda: vision("mobilenet_v3_small"), pictures(PICTURE)),
    "resnet18-cifar": (lambda: vision("resnet18", num_classes=10), pictures(SMALL)), "mobilenet_v2-cifar": (lambda: vision("mobilenet_v2", num_classes=10), pictures(SMALL)),
    "efficientnet-cifar": (lambda: vision("efficientnet_b0", num_classes=10), pictures(SMALL)), "vgg-cifar": (vgg_small, pictures(SMALL)),
    "a2c": (lambda: Nature(7), pictures((4, 84, 84))), "dqn": (lambda: Nature(6), pictures((4, 84, 84))), "pointnet": (PointNet, pictures((3, 2500))),
    "lstm": (Words, words(35, 33278)), "translation": (Translation, words(30, 9521)), "recommendation": (Recoder, pictures((20108,))),
}
CONFIGS = {"bert": dict(model_type="bert", architectures=["BertForQuestionAnswering"]), "gpt2": dict(model_type="gpt2", architectures=["GPT2LMHeadModel"])}


def export(folder):
    os.makedirs(folder, exist_ok=True)
    for name, config in CONFIGS.items():
        with open(os.path.join(folder, name + ".json"), "w") as f:
            json.dump(config, f)
    for name, (build, batch) in MODELS.items():
        path = os.path.join(folder, name + ".pt2")
        if os.path.exists(path):
            continue
        with torch.device("meta"):
            model = build().train()
        program = torch.export.export(model, (batch(4),), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},), strict=False)
        torch.export.save(program, path)
        print(name, sum(p.numel() for p in model.parameters()), "parameters", flush=True)


def path_of(folder, name):
    return os.path.join(folder, name + (".json" if name in CONFIGS else ".pt2"))


def estimate(folder, name, batch, gpu, estimator="hybrid", precision="fp32", extra=()):
    """The JSON of `plimsoll estimate`, a text; None: it cannot."""
    call = [os.environ.get("PLIMSOLL", "plimsoll"), "estimate", path_of(folder, name), "--batch", str(batch), "--gpu", gpu, "--estimator", estimator, "--precision", precision, "--json", *extra]
    done = subprocess.run(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print(name, batch, estimator, done.stderr.strip(), file=sys.stderr)
        return None
    return done.stdout


def main():
    a = argparse.ArgumentParser()
    a.add_argument("out")
    a.add_argument("--sizes")
    a.add_argument("--estimator", default="hybrid,gpumemnet-mlp,horus")
    a.add_argument("--gpu", default="h200")
    a = a.parse_args()
    export(a.out)
    if a.sizes:
        with open(a.sizes, "w") as f:
            for name, batch in MURI.items():
                for estimator in a.estimator.split(","):
                    f.write(estimate(a.out, name, batch, a.gpu, estimator, extra=("--seq", "128") if name in CONFIGS else ()) or "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
