"""Where Python takes numbers out of tensors and puts them in: .item(), int(), .tolist(), .numpy(), torch.tensor().

While a recorder is entered these answer truly where the numbers are known (CPU tensors, and small ones on the card that
follow from known ones, _known.py), and with made-up ones (_values.py) where they are not.
"""
from __future__ import annotations

from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import _values
from ._record import NO_END, Recording


def _number(dtype: torch.dtype, truth: Any = None) -> Any:
    """What a number of that type is, where nobody knows."""
    if dtype == torch.bool:
        return True if truth is None else truth
    return _values.MadeFloat(1.0) if dtype.is_floating_point else complex(1.0) if dtype.is_complex else _values.MadeInt(1)


def install(recording: Recording, patch: Callable[[Any, str, Any], None]) -> None:
    """patch: sets an attribute for as long as the recorder is entered."""
    r, tensor = recording, torch.Tensor
    item, tolist, numpy, as_int, as_float, as_index, put = (tensor.item, tensor.tolist, tensor.numpy, tensor.__int__, tensor.__float__,
                                                            tensor.__index__, tensor.__setitem__)
    get = tensor.__getitem__

    def plain(t: Any) -> bool:
        """A real tensor with true numbers, or one of a class that has its own ways."""
        return not isinstance(t, FakeTensor) and (not r.spoilt or not r.is_spoilt(t))

    def read_item(t: Any) -> Any:
        if plain(t) or t.numel() != 1 or r.is_known(t):
            return item(t)
        r.read()
        return _number(t.dtype, getattr(t, "_plimsoll_truth", None))

    def read_list(t: Any) -> Any:
        if plain(t):
            return tolist(t)
        if r.is_known(t):
            return tolist(r.real(t))
        r.read()

        def rows(shape: Any) -> Any:
            return [rows(shape[1:]) for _ in range(shape[0])] if shape else _number(t.dtype)

        return rows(tuple(t.shape))

    def read_array(t: Any, *args: Any, **kwargs: Any) -> Any:
        if plain(t):
            return numpy(t, *args, **kwargs)
        if isinstance(t, FakeTensor) and t.fake_device.type != "cpu" and not kwargs.get("force"):
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.")
        if r.is_known(t):
            return numpy(r.real(t), *args, **kwargs)
        import numpy as np
        r.warn("the code reads a tensor's numbers that were not computed (.numpy()): it was given zeros")
        kind = str(t.dtype).removeprefix("torch.")
        return _values.array(tuple(t.shape), kind if kind == "bool" or hasattr(np, kind) else "float32")

    def read_int(t: Any) -> int:
        if plain(t) or r.is_known(t):
            return int(as_int(t))
        r.read()
        return _values.HUGE if t.dtype != torch.bool else 1

    def read_float(t: Any) -> float:
        if plain(t) or r.is_known(t):
            return float(as_float(t))
        r.read()
        r.reads += r.searching  # LBFGS ends where a loss stays as it was
        return 1.0 / (1 + r.reads)

    def read_index(t: Any) -> int:
        if plain(t) or r.is_known(t):
            return int(as_index(t))
        raise _values.index_fault()

    def write(t: Any, index: Any, value: Any) -> None:
        if _values.is_made(value):
            put(t, index, _values.plain(value) if isinstance(value, (_values.MadeInt, _values.MadeFloat)) else value)
            r.spoil(t)
        else:
            put(t, index, value)

    def pick(t: Any, index: Any) -> Any:
        # A slice up to beyond the end is no operator: PyTorch gives the tensor back as it is. An index beyond is its IndexError.
        for part in index if type(index) is tuple else (index,):
            last = part.stop if type(part) is slice else part
            if type(last) is int and _values.LEAST_HUGE <= last != NO_END:
                raise _values.index_fault()
        return get(t, index)

    for name, function in (("item", read_item), ("tolist", read_list), ("numpy", read_array), ("__int__", read_int), ("__float__", read_float),
                           ("__index__", read_index), ("__setitem__", write), ("__getitem__", pick)):
        patch(tensor, name, function)

    def holds_made(value: Any) -> bool:
        """Whether a list's numbers were not computed, by its first ones."""
        if isinstance(value, (list, tuple)):
            return any(holds_made(v) for v in value[:64])
        return _values.is_made(value)

    def bare(value: Any) -> Any:
        return [bare(v) for v in value] if isinstance(value, (list, tuple)) else _values.plain(value)

    def read_in(value: Any) -> Any:
        """A list whose tensors of one number are read, as PyTorch reads them."""
        if isinstance(value, (list, tuple)):
            return type(value)(read_in(v) for v in value) if type(value) in (list, tuple) else value
        return value.item() if isinstance(value, tensor) and value.dim() == 0 else value

    def maker(name: str) -> None:
        make = getattr(torch, name)

        def made(data: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(data, (list, tuple)) and name != "from_numpy":
                data = read_in(data)
            if not holds_made(data):
                return make(data, *args, **kwargs)
            out = make(bare(data), *args, **kwargs)
            r.spoil(out)
            return out

        patch(torch, name, made)

    for name in ("tensor", "as_tensor", "from_numpy"):
        maker(name)
