"""The networks of lab/learn beside the same architectures in PyTorch, on one core and on two, in one run.

    python3 bench/networks.py PROGRAM [--quick]

PROGRAM is bench/networks.c, built as its first lines say. Prints Markdown: whether the outputs agree for the same
weights, microseconds per estimate, seconds per training epoch, and GFLOP/s of the products behind them. Both sides get
their best of several rounds, in turns; of one thread it is processor time, so that a neighbour on the machine costs
neither of them much. Needs torch (CPU) and numpy; --quick leaves the full-size network out.
"""
import os
import platform
import struct
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from torch import nn
from torch.nn import functional

program, quick = sys.argv[1], "--quick" in sys.argv
MLP = "linear:64,batchnorm,relu,linear:32,relu,linear"
ENCODER = "encoder:8:2048:0.1"
# name: net, columns, channels, steps, outputs (0: a regression), training samples, batch
NETWORKS = {
    "gpumemnet-mlp, 5 members": ("|".join([MLP] * 5), 20, 0, 0, 40, 4096, 256),
    "gpumemnet-transformer, 40 steps": (
        "steps,linear:64,sinusoid,encoder:4:128:0.1,encoder:4:128:0.1,mean,append,linear:64,relu,linear",
        20, 14, 40, 40, 512, 64),
    "transformer-bigru, 45 steps": (
        "positions:512,attention:4:32,attention:4:32,bigru:6:10,ends:6,relu,dropout:0.01,linear", 1, 12, 45, 0, 512, 256),
    "bigru-transformer, light": (
        "tokens:64,bigru:32,encoder:4:256:0.1,encoder:4:256:0.1,mean,linear:64,relu,linear", 45, 0, 0, 0, 512, 64),
    "bigru-transformer, full": (
        "tokens:512,bigru:256," + ",".join([ENCODER] * 6) + ",mean,linear:512,relu,linear", 45, 0, 0, 0, 32, 32),
}
if quick:
    del NETWORKS["bigru-transformer, full"]


# ---- the same in PyTorch ----

class Tokens(nn.Module):
    def __init__(self, columns, width):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(columns, width) * 0.1), nn.Parameter(torch.randn(columns, width) * 0.1)

    def forward(self, x):
        return x.unsqueeze(-1) * self.a + self.b


class Positions(nn.Module):
    def __init__(self, steps, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(steps, width) * 0.02)

    def forward(self, x):
        return x + self.table[: x.shape[1]]


class Sinusoid(nn.Module):
    def forward(self, x):
        angle = torch.arange(x.shape[1])[:, None] * torch.exp(
            torch.arange(0, x.shape[2], 2) * (-numpy.log(10000.0) / x.shape[2]))
        return x + torch.stack([angle.sin(), angle.cos()], -1).reshape(x.shape[1:])


class Attention(nn.Module):
    def __init__(self, width, heads, key):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * heads * key), nn.Linear(heads * key, width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Gru(nn.Module):
    def __init__(self, width, forward, back):
        super().__init__()
        self.both = nn.GRU(width, forward, batch_first=True, bidirectional=True) if forward == back else None
        if not self.both:
            self.there, self.back = nn.GRU(width, forward, batch_first=True), nn.GRU(width, back, batch_first=True)

    def forward(self, x):
        if self.both:
            return self.both(x)[0]
        return torch.cat([self.there(x)[0], self.back(x.flip(1))[0].flip(1)], -1)


class Chain(nn.Module):
    def __init__(self, net, columns, channels, steps, outputs):
        super().__init__()
        self.layers, self.kinds, width, names = nn.ModuleList(), [], 0, net.split(",")
        self.steps = names[0].split(":")[0] in ("steps", "positions")
        width = channels if self.steps else columns
        for name in names:
            kind, *args = name.split(":")
            numbers = [float(a) for a in args if a[0].isdigit()]
            if kind == "linear":
                out = int(numbers[0]) if numbers else max(outputs, 1)
                layer, width = nn.Linear(width, out), out
            elif kind == "tokens":
                layer, width = Tokens(columns, int(numbers[0])), int(numbers[0])
            elif kind == "positions":
                layer = Positions(int(numbers[0]), width)
            elif kind == "attention":
                layer = Attention(width, int(numbers[0]), int(numbers[1]))
            elif kind == "bigru":
                forward, back = int(numbers[0]), int(numbers[-1])
                layer, width = Gru(width, forward, back), forward + back
            elif kind == "encoder":
                layer = nn.TransformerEncoderLayer(width, int(numbers[0]), int(numbers[1]), numbers[2], batch_first=True)
            elif kind == "batchnorm":
                layer = nn.BatchNorm1d(width)
            elif kind == "append":
                layer, width = nn.Identity(), width + columns
            elif kind == "ends":
                layer, self.ends = nn.Identity(), int(numbers[0])
            else:
                layer = {"sinusoid": Sinusoid, "relu": nn.ReLU}.get(kind, nn.Identity)()
                if kind == "dropout":
                    layer = nn.Dropout(numbers[0])
            self.layers.append(layer)
            self.kinds.append(kind)

    def forward(self, columns, steps):
        x = steps if self.steps else columns
        for kind, layer in zip(self.kinds, self.layers):
            if kind == "mean":
                x = x.mean(1)
            elif kind == "ends":
                x = torch.cat([x[:, -1, : self.ends], x[:, 0, self.ends :]], -1)
            elif kind == "append":
                x = torch.cat([x, columns], -1)
            else:
                x = layer(x)
        return x

    def tensors(self):
        """As network_file.c orders them: matrices are [in, out], the transpose of PyTorch's."""
        def gru(g, end):
            for weight in ("ih", "hh"):
                yield getattr(g, f"weight_{weight}_l0{end}").T
                yield getattr(g, f"bias_{weight}_l0{end}")

        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                yield from (layer.weight.T, layer.bias)
            elif isinstance(layer, Tokens):
                yield from (layer.a, layer.b)
            elif isinstance(layer, Positions):
                yield layer.table
            elif isinstance(layer, nn.BatchNorm1d):
                yield from (layer.weight, layer.bias)
            elif isinstance(layer, Attention):
                yield from (layer.qkv.weight.T, layer.qkv.bias, layer.out.weight.T, layer.out.bias)
            elif isinstance(layer, Gru):
                yield from gru(layer.both or layer.there, "")
                yield from gru(layer.both or layer.back, "_reverse" if layer.both else "")
            elif isinstance(layer, nn.TransformerEncoderLayer):
                a = layer.self_attn
                yield from (a.in_proj_weight.T, a.in_proj_bias, a.out_proj.weight.T, a.out_proj.bias)
                yield from (layer.norm1.weight, layer.norm1.bias, layer.linear1.weight.T, layer.linear1.bias)
                yield from (layer.linear2.weight.T, layer.linear2.bias, layer.norm2.weight, layer.norm2.bias)

    def states(self):
        for layer in self.layers:
            if isinstance(layer, nn.BatchNorm1d):
                yield from (layer.running_mean, layer.running_var)


class Network(nn.Module):
    def __init__(self, net, *sizes):
        super().__init__()
        self.members = nn.ModuleList(Chain(text, *sizes) for text in net.split("|"))

    def forward(self, columns, steps):
        return sum(m(columns, steps) for m in self.members) / len(self.members)

    def save(self, path, net, outputs):
        with open(path, "wb") as file:
            file.write(struct.pack("<IIII", 1, max(outputs, 1), 0, len(net)) + net.encode())
            for member in self.members:
                for tensor in (*member.tensors(), *member.states()):
                    file.write(tensor.detach().contiguous().numpy().astype("<f4").tobytes())


# ---- measuring ----

def run(*arguments, library=None):
    environment = dict(os.environ, LD_LIBRARY_PATH=library) if library else None
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{program} {' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout


def agree(network, net, columns, channels, steps, outputs):
    """The largest difference between the two's outputs for the same weights, relative to the outputs' size."""
    count = 9
    network.eval()
    x, s = torch.randn(count, columns), torch.randn(count, steps, channels)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for parameter in network.parameters():  # nothing stays at the 0 or 1 it starts at
            parameter += 0.02 * torch.randn_like(parameter)
        model, data = os.path.join(folder, "model"), os.path.join(folder, "input")
        network.save(model, net, outputs)
        with open(data, "wb") as file:
            file.write(x.numpy().tobytes() + s.numpy().tobytes())
        ours = numpy.array(run("outputs", model, data, columns, channels, steps, count).split(), float)
        theirs = network(x, s).flatten().numpy()
    return numpy.abs(ours - theirs).max() / max(1, numpy.abs(theirs).max())


def torch_predict(network, columns, channels, steps):
    network.eval()
    x, s = torch.randn(1, columns), torch.randn(1, steps, channels)
    best, spent, rounds = 1e30, 0, 0
    with torch.inference_mode():
        while rounds < 5 or spent < 0.5:
            begin, runs, took = time.process_time(), 0, 0
            while took < 0.001:
                network(x, s)
                runs += 1
                took = time.process_time() - begin
            best, spent, rounds = min(best, took / runs), spent + took, rounds + 1
    return best * 1e6


def torch_epoch(net, sizes, samples, batch, threads, epochs):
    torch.set_num_threads(threads)
    columns, channels, steps, _ = sizes
    chain = Chain(net.split("|")[0], columns, channels, steps, 0).train()
    optimizer, best = torch.optim.Adam(chain.parameters()), 1e30
    x, s, y = torch.randn(samples, columns), torch.randn(samples, steps, channels), torch.randn(samples, 1)
    clock = time.process_time if threads == 1 else time.perf_counter
    for _ in range(epochs):
        begin = clock()
        order = torch.randperm(samples)
        for i in range(0, samples, batch):
            at = order[i : i + batch]
            optimizer.zero_grad()
            nn.functional.mse_loss(chain(x[at], s[at]), y[at]).backward()
            optimizer.step()
        best = min(best, clock() - begin)
    torch.set_num_threads(1)
    return best


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| network | weights | agree within | an estimate, us | PyTorch, us | times faster |\n|---|--:|--:|--:|--:|--:|")
    for name, (net, *sizes, _, _) in NETWORKS.items():
        network = Network(net, *sizes)
        apart = agree(network, net, *sizes)
        mine, theirs = 1e30, 1e30
        for _ in range(2):
            took, weights = run("predict", net, *sizes).split()
            mine, theirs = min(mine, float(took)), min(theirs, torch_predict(network, *sizes[:3]))
        print(f"| {name} | {int(weights):,} | {apart:.0e} | {mine:,.1f} | {theirs:,.1f} | {theirs / mine:.1f} |", flush=True)
        assert apart < 1e-4, f"{name}: outputs differ"

    print("\nA training epoch of one chain, Adam, seconds:\n")
    print("| network | samples | batch | 1 thread | PyTorch | 2 threads | PyTorch |\n|---|--:|--:|--:|--:|--:|--:|")
    for name, (net, *sizes, samples, batch) in NETWORKS.items():
        cells, first = [], net.split("|")[0]
        for threads in (1, 2):
            mine, theirs = 1e30, 1e30
            for _ in range(3 if threads > 1 else 1 if "full" in name else 2):
                columns, channels, steps, _ = sizes
                mine = min(mine, float(run("train", first, columns, channels, steps, samples, batch, threads, 3)))
                theirs = min(theirs, torch_epoch(net, sizes, samples, batch, threads, 3))
            cells += [f"{mine:.3f}", f"{theirs:.3f}"]
        print(f"| {name} | {samples} | {batch} | {' | '.join(cells)} |", flush=True)

    print("\nProducts, GFLOP/s; OpenBLAS built serial, and threaded with 1 and with 2 threads:\n")
    print("| what | m x n x k | kernels, packed | kernels | serial | threaded, 1 | 2 |\n|---|---|--:|--:|--:|--:|--:|")
    serial = f"/usr/lib/{platform.machine()}-linux-gnu/openblas-serial"  # Debian's libopenblas0-serial
    ways = [(1, serial if os.path.isdir(serial) else None), (1, None), (2, None)]
    tables = [run("products", threads, library=library).splitlines() for threads, library in ways]
    for rows in zip(*tables):
        last = [row.split("|")[-1] for row in rows]
        if not os.path.isdir(serial):
            last[0] = ""
        print("| " + " | ".join(rows[1].split("|")[:-1] + last) + " |")


main()
