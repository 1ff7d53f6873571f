"""What the report's first line says of a script: batch, precision, passes per step, checkpointing; as they are seen while it runs.

Frameworks enter autocast inside the model's forward (Accelerate, and with it transformers' Trainer) and evaluate before they
train (Lightning), so that the first call of a model does not tell: any module that runs under autocast does, and a batch
that is trained on counts before one that is not.
"""
from __future__ import annotations

from typing import Any

import torch

SHORT = {torch.bfloat16: "bf16", torch.float16: "fp16"}


class Line:
    """job: the trace's, which is filled; what is in it already was given and stays."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self._given = frozenset(job)
        self.trained = False  # the batch is of a forward with gradients
        self._autocast = False
        self._passes = 0

    def called(self, batch: int, size: int) -> int:
        """A model is called with a batch of `size`, 0: not known. The batch to tell, after `batch`."""
        if not size or self.trained or (batch and not torch.is_grad_enabled()):
            return batch
        self.trained = torch.is_grad_enabled()
        return size

    def module(self, model: torch.nn.Module | None, again: bool) -> None:
        """A module runs. model: it, where no other is around it; again: inside backward."""
        if again and "checkpoint" not in self._given:
            self.job["checkpoint"] = True
        if self._autocast or "precision" in self._given:
            return
        if torch.is_autocast_enabled("cuda") and torch.is_grad_enabled():
            self._autocast = True
            self.job["precision"] = "amp-" + SHORT.get(torch.get_autocast_dtype("cuda"), "bf16")
        elif model is not None and "precision" not in self.job:
            types = [p.dtype for p in model.parameters() if p.is_floating_point()]
            self.job["precision"] = SHORT.get(types[0], "fp32") if types else "fp32"

    def backward(self) -> None:
        self._passes += 1

    def step(self) -> None:
        """An optimizer has stepped: the passes since the last, the most that there were."""
        if "accumulate" not in self._given and self._passes > self.job.get("accumulate", 1):
            self.job["accumulate"] = self._passes
        self._passes = 0
