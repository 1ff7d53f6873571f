"""Triton's kernels without a card: they are not compiled and not run.

A kernel writes into tensors that its caller made, and makes none, so that memory is as on a card; what it writes is not
known. Left out: scratch that a kernel asks of Triton itself, and autotuning, whose trials make nothing that lasts.
"""
from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Callable

from torch._subclasses.fake_tensor import FakeTensor

from ._known import Known

# Everything that can be launched: kernel[grid](...) ends in `run`.
LAUNCHED = (("triton.runtime.jit", "JITFunction"), ("triton.runtime.autotuner", "Autotuner"), ("triton.runtime.autotuner", "Heuristics"))


def stand_in(patch: Callable[[Any, str, Any], None], known: Known) -> None:
    """patch(owner, name, value) puts a value there for as long as a recorder is entered."""
    if importlib.util.find_spec("triton") is None:
        return

    def run(kernel: Any, *args: Any, **kwargs: Any) -> None:
        for value in (*args, *kwargs.values()):
            if isinstance(value, FakeTensor):
                known.drop(value)

    for module, name in LAUNCHED:
        try:
            owner = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):  # another version's
            continue
        patch(owner, "run", run)
