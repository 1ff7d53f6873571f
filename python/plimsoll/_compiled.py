"""torch.compile under the recorder: the code runs as it is written, and the trace says so.

What inductor fuses, recomputes and reuses is not simulated: mostly it keeps less for backward than eager code does
(GPT-2 small in float32, batch 12 of 1,024 tokens: 6.3 of 10.0 GiB saved), rarely more (padded products, pools of CUDA
graphs). The library widens the interval by that.
"""
from __future__ import annotations

import functools
from typing import Any, Callable

import torch

from ._record import Recording


def note(recording: Recording) -> None:
    recording.assumed["compile"] = True
    recording.warn("torch.compile is not simulated: the figures are of the code as it is written, and compiled code mostly takes less (up to a "
                   "third or so), with CUDA graphs or max-autotune at times more")


def install(recording: Recording, patch: Callable[[Any, str, Any], None]) -> None:
    def compile_(model: Any = None, **settings: Any) -> Any:
        if model is None:
            return compile_
        if isinstance(model, torch.nn.Module):
            note(recording)
            model.__dict__.setdefault("_orig_mod", model)  # as scripts look for it; no submodule
            return model
        if not callable(model):
            raise RuntimeError("torch.compile: %r is not callable" % (model,))

        @functools.wraps(model)
        def called(*args: Any, **kwargs: Any) -> Any:
            note(recording)  # not before: libraries compile functions that nobody calls
            return model(*args, **kwargs)

        return called

    def compile_method(self: Any, *args: Any, **kwargs: Any) -> None:
        note(recording)

    patch(torch, "compile", compile_)
    patch(torch.nn.Module, "compile", compile_method)
