"""What a training step is, where a script has several optimizers, closures, or steps inside backward.

A step ends when every optimizer has stepped: a GAN's has the discriminator's and the generator's in it, one optimizer per
parameter that steps in hooks of backward has hundreds. An optimizer that steps a second time begins the next one. The
recorder has seen enough when each optimizer that trains something has stepped as often as was wanted; one that was
made and does not step is waited for PATIENCE steps.

A closure that an optimizer calls (LBFGS, Lightning) is forward and backward again, not the optimizer.
"""
from __future__ import annotations

from typing import Any, Callable

import torch

from ._record import Recording

PATIENCE = 6  # further steps until an optimizer that was made is taken for one that is not used


def missing_pairs(optimizer: torch.optim.Optimizer) -> int:
    """How many pairs of directions LBFGS is still to keep."""
    most = optimizer.param_groups[0].get("history_size", 0)
    return max([most - len(s["old_dirs"]) for s in optimizer.state.values() if "old_dirs" in s], default=0)


class Steps:
    """wanted: how often each optimizer is to step; None: no end."""

    def __init__(self, recording: Recording, wanted: int | None) -> None:
        self.recording, self.wanted = recording, wanted
        self.made: list[torch.optim.Optimizer] = []  # held: a script's end does not free their state
        self.counts: dict[int, int] = {}  # an optimizer's identity: its steps
        self.trained: set[int] = set()  # identities of the parameters that were stepped
        self.stepped: set[int] = set()  # those of the present step
        self.done = 0  # steps in which an optimizer has stepped
        self.end = 0  # event after the last optimizer
        self.running: list[tuple[torch.optim.Optimizer, str]] = []  # those inside their step, and the phase they came from
        self.finished = False

    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        r = self.recording
        if self.stepped and id(optimizer) not in self.stepped:
            # Another one of the same step: what came since the last belongs to it.
            r.step -= 1
            for mark in reversed(r.marks):
                if mark[0] < self.end:
                    break
                mark[2] = min(mark[2], r.step)
        else:
            self.stepped.clear()
        self.stepped.add(id(optimizer))
        self.running.append((optimizer, r.phase))
        r.searching = isinstance(optimizer, torch.optim.LBFGS)
        r.mark("optimizer")

    def finish(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether all was seen that was wanted."""
        r = self.recording
        _, phase = self.running.pop() if self.running else (None, "")
        self.counts[id(optimizer)] = self.counts.get(id(optimizer), 0) + 1
        self.done += len(self.stepped) == 1
        self.trained.update(id(p) for group in optimizer.param_groups for p in group["params"])
        r.step += 1
        r.searching = False
        self.end = len(r.events)
        if phase == "backward" and torch._C._current_autograd_node() is not None:
            r.step -= 1  # in a hook of backward, which goes on; the next optimizer would take it back anyhow
            r.mark("backward")
            r.step += 1
        self.finished = self.wanted is not None and self._enough(self.wanted)
        return self.finished

    def by_hand(self) -> None:
        """A step of a script that has no optimizer."""
        self.done += 1
        self.recording.step += 1
        self.end = len(self.recording.events)

    def _enough(self, wanted: int) -> bool:
        most = max(self.counts.values())
        if most < wanted:
            return False
        if most >= wanted + PATIENCE:
            return True
        for optimizer in self.made:
            count = self.counts.get(id(optimizer), 0)
            if isinstance(optimizer, torch.optim.LBFGS) and missing_pairs(optimizer):
                return False  # what it keeps grows until then
            if count >= wanted:
                continue
            ids = {id(p) for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
            if count or ids - self.trained:  # one made anew for the same parameters replaces the other
                return False
        return True

    def wrapped(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """The closure, with its own phases."""
        r = self.recording

        def call(*args: Any, **kwargs: Any) -> Any:
            r.mark("input")
            try:
                return closure(*args, **kwargs)
            finally:
                r.mark("optimizer")

        return call
