"""Operators for which PyTorch has no fake kernel: their shapes are those that the CPU's kernel gives.

PyTorch itself would run such an operator on the card, which is not there. Here it runs on zeros on the CPU, which tells sizes and
types; an operator that the CPU does not have either, or whose inputs are large, is an error that names it.
"""
from __future__ import annotations

from typing import Any, Callable

import torch
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch
from torch._library.custom_ops import OPDEFS
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor

from ._errors import InputError
from ._values import place

MOST = 256 << 20  # bytes of the inputs that are made for real


def _refused(func: Any, why: str) -> InputError:
    return InputError("%s cannot be simulated: %s" % (func, why), place())


def _on_cpu(mode: Any, func: Any, flat: Any, spec: Any, problem: Exception) -> Any:
    if torch.Tag.inplace_view in func.tags:
        raise problem
    given = [t for t in flat if isinstance(t, FakeTensor)]
    if any(t.layout != torch.strided for t in given):
        raise _refused(func, "it is one of sparse tensors")
    if sum(t.numel() * t.element_size() for t in given) > MOST:
        raise _refused(func, "PyTorch cannot tell what it gives without running it")
    device = next((t.fake_device for t in given if t.fake_device.type == "cuda"), torch.device("cpu"))
    fakes: dict[int, FakeTensor] = {}
    reals: list[Any] = []
    with no_dispatch():
        for value in flat:
            if isinstance(value, FakeTensor):
                real = torch.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype).zero_()
                fakes[id(real)] = value
                value = real
            elif isinstance(value, torch.device):
                value = torch.device("cpu")
            reals.append(value)
        args, kwargs = pytree.tree_unflatten(reals, spec)
        try:
            made = func(*args, **kwargs)
        except (RuntimeError, NotImplementedError) as e:
            raise _refused(func, "neither PyTorch's fake tensors nor the CPU have it") from e

    def fake(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in fakes:
            return fakes[id(value)]
        out = mode.fake_tensor_converter.from_real_tensor(mode, value)
        out.fake_device = device
        return out

    return pytree.tree_map(fake, made)


def body_of(name: str) -> Callable[..., Any] | None:
    """The Python code of an operator of torch.library.custom_op that has no fake kernel: it runs as it would on a card."""
    made = OPDEFS.get(name)
    if made is None or getattr(made, "_abstract_fn", None) is not None:
        return None
    return getattr(made, "_init_fn", None)


def install(warn: Callable[[str], None], patch: Callable[[Any, str, Any], None]) -> None:
    """warn: told of each operator, since a size that depends on numbers is that of zeros."""
    def on_cpu(mode: Any, func: Any, *rest: Any) -> Any:
        out = _on_cpu(mode, func, *rest)
        warn("%s: PyTorch cannot tell what it gives without running it; sizes are those that zeros give" % func)
        return out

    patch(fake_tensor, "run_fallback_kernel", on_cpu)
