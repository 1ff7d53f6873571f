"""torch.compile under the recorder: the code runs as it is written, and the trace says so.

What inductor fuses, recomputes and reuses is not simulated: mostly it keeps less for backward than eager code does
(GPT-2 small in float32, batch 12 of 1,024 tokens: 6.3 of 10.0 GiB saved), rarely more (padded products, pools of CUDA
graphs). The library widens the interval by that.

TorchScript runs; what it does not take under the recorder's modes, and what is traced, runs as it is written, in the same memory.
CUDA graphs: what is captured runs once, and a replay makes nothing; that a graph keeps a pool of its own is not simulated.
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


class _Graph:
    """torch.cuda.CUDAGraph. Under torch.cuda.graph(it) code runs as ever."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: (0, 0) if name == "pool" else None


def _install_graphs(recording: Recording, patch: Callable[[Any, str, Any], None]) -> None:
    def noted() -> None:
        recording.assumed["compile"] = True
        recording.warn("CUDA graphs are not simulated: what is captured is counted as it runs once; a graph keeps a memory pool of its own, beside "
                       "what ran before it was captured")

    class Capture:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            noted()

        def __enter__(self) -> None: ...

        def __exit__(self, *exc: Any) -> None: ...

    def graphed(callables: Any, *args: Any, **kwargs: Any) -> Any:
        noted()
        return callables

    patch(torch.cuda, "CUDAGraph", _Graph)
    patch(torch.cuda, "graph", Capture)
    patch(torch.cuda, "make_graphed_callables", graphed)
    patch(torch.cuda, "graph_pool_handle", lambda: (0, 0))


def install(recording: Recording, patch: Callable[[Any, str, Any], None], tell_script: Callable[[], None]) -> None:
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

    script = torch.jit.script

    def scripted(obj: Any, *args: Any, **settings: Any) -> Any:
        tell_script()
        try:
            return script(obj, *args, **settings)
        except Exception:
            return obj

    def traced(func: Any, *args: Any, **settings: Any) -> Any:
        if isinstance(func, torch.nn.Module):
            func.__dict__.setdefault("save", lambda *a, **k: None)  # a traced module's own
        return func

    def nested(*args: Any, **kwargs: Any) -> Any:
        raise recording.faults.fail("nested tensors are not simulated")

    for name in ("nested_tensor", "as_nested_tensor", "nested_tensor_from_jagged"):
        if hasattr(torch.nested, name):
            patch(torch.nested, name, nested)
    _install_graphs(recording, patch)
    patch(torch.jit, "script", scripted)
    patch(torch.jit, "trace", traced)
    patch(torch, "compile", compile_)
    patch(torch.nn.Module, "compile", compile_method)
