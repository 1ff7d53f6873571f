"""Exports a torchvision model with a dynamic batch, for plimsoll: python3 export.py resnet18 resnet18.pt2

The model is built on PyTorch's meta device: shapes without weights, so that it takes neither a GPU nor
much memory, and the file stays small. plimsoll needs no weights.
"""
import sys

import torch
import torchvision

name, path = sys.argv[1:]
with torch.device("meta"):
    model = torchvision.models.get_model(name).train()
    images = torch.empty(32, 3, 224, 224)

batch = torch.export.Dim("batch", min=1, max=4096)
program = torch.export.export(model, (images,), dynamic_shapes=({0: batch},))
for node in program.graph.nodes:  # they hold this machine's paths, and plimsoll can do without
    node.meta.pop("stack_trace", None)
torch.export.save(program, path)
