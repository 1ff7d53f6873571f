"""Numbers of small tensors on the card that are known: targets, masks, lengths, positions, counters.

A fake tensor on the card has no numbers, but many small ones follow from known ones: moved from the CPU, made by arange
or zeros, and computed from such. Each such storage has a real one on the CPU beside it, here; every operator whose
tensors are all known is run on those too, in-place ones included, so that views share what is written through
another. What mixes in an unknown is unknown. Nothing of it enters the trace.

Only up to MOST elements per tensor (a batch of 64 x 4,096 tokens is a quarter of that) and BUDGET bytes in all.
Weights are never known, whatever they were set to.
"""
from __future__ import annotations

import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

aten = torch.ops.aten

MOST = 1 << 20  # elements of a tensor
BUDGET = 1 << 29  # bytes of all
MISSING: Any = object()
WORK = 1 << 26  # products of a matrix product

# What these give follows from their arguments other than tensors. Memory that nobody has written to yet counts as
# zeros: a program that reads it has no right to more.
FILLS: dict[Any, Any] = {}
for _name, _at in (("zeros", None), ("ones", None), ("full", 1), ("empty", None), ("zeros_like", None), ("ones_like", None), ("full_like", 1),
                   ("empty_like", None), ("new_zeros", None), ("new_ones", None), ("new_full", 2), ("new_empty", None),
                   ("empty_strided", None), ("new_empty_strided", None), ("scalar_tensor", 0)):
    _packet = getattr(aten, _name)
    for _overload in _packet.overloads():
        if _overload in ("default", "memory_format"):
            FILLS[getattr(_packet, _overload)] = (1 if "ones" in _name else 0) if _at is None else (_at,)
OVERWRITES = {aten.fill_.Scalar, aten.zero_.default, aten.fill_.Tensor, aten.copy_.default}
PRODUCTS = {aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default, aten.convolution.default}


def _large(out: Any) -> bool:
    if isinstance(out, torch.Tensor):
        return bool(out.numel() > MOST)
    return isinstance(out, (list, tuple)) and any(_large(o) for o in out)


class _Numbers:
    """The numbers of one storage: a real storage, or one value everywhere until somebody looks."""

    __slots__ = ("bytes", "fill", "dtype", "storage", "alive")

    def __init__(self, size: int, storage: Any = None, fill: Any = None, dtype: Any = None) -> None:
        self.bytes, self.storage, self.fill, self.dtype = size, storage, fill, dtype
        self.alive: Any = None

    def real(self) -> Any:
        if self.storage is None:
            count = -(-self.bytes // max(self.dtype.itemsize, 1))
            self.storage = torch.full((count,), self.fill, dtype=self.dtype).untyped_storage()
        return self.storage


class Known:
    """The numbers that are known, by storage."""

    def __init__(self) -> None:
        self.of: dict[int, _Numbers] = {}  # a fake storage's address: its numbers
        self.bytes = 0
        self._random: Any = None  # state of the generator that stands for the card's

    # ---- one tensor ----

    def has(self, tensor: Any) -> bool:
        return tensor.untyped_storage()._cdata in self.of

    def real(self, tensor: Any) -> Any:
        """A real tensor that shares the numbers of a fake one; None: unknown."""
        numbers = self.of.get(tensor.untyped_storage()._cdata)
        if numbers is None or tensor.numel() > MOST or tensor.is_conj() or tensor.is_neg():
            return None
        with torch._C._DisableTorchDispatch():
            return torch.empty(0, dtype=tensor.dtype).set_(numbers.real(), tensor.storage_offset(), tuple(tensor.shape), tensor.stride())

    def drop(self, tensor: Any) -> None:
        numbers = self.of.pop(tensor.untyped_storage()._cdata, None)
        if numbers is not None:
            self.bytes -= numbers.bytes

    def _keep(self, fake: Any, numbers: _Numbers) -> None:
        storage = fake.untyped_storage()
        address = storage._cdata

        def gone(_: Any) -> None:
            if self.of.get(address) is numbers:
                del self.of[address]
                self.bytes -= numbers.bytes

        self.drop(fake)
        if self.bytes + numbers.bytes > BUDGET:
            return
        numbers.alive = weakref.ref(storage, gone)
        self.of[address] = numbers
        self.bytes += numbers.bytes

    def give(self, fake: Any, real: Any, fresh: bool) -> None:
        """The numbers of a fake tensor that has a storage of its own. fresh: nobody else holds the real one."""
        size = fake.untyped_storage().nbytes()
        if real.shape != fake.shape or real.dtype != fake.dtype or fake.numel() > MOST or size > 16 * MOST:
            self.drop(fake)
            return
        with torch._C._DisableTorchDispatch():
            if not (fresh and real.stride() == fake.stride() and real.storage_offset() == fake.storage_offset()
                    and real.untyped_storage().nbytes() == size):
                whole = torch.zeros(size, dtype=torch.uint8).untyped_storage()
                copy = torch.empty(0, dtype=fake.dtype).set_(whole, fake.storage_offset(), tuple(fake.shape), fake.stride())
                copy.copy_(real)
                real = copy
        self._keep(fake, _Numbers(size, storage=real.untyped_storage()))

    def fill(self, fake: Any, value: Any) -> None:
        if fake.numel() <= MOST and not fake.is_complex():
            self._keep(fake, _Numbers(fake.untyped_storage().nbytes(), fill=value, dtype=fake.dtype))

    # ---- operators ----

    def _all(self, values: Any) -> bool:
        """Whether every tensor among an operator's arguments has numbers."""
        for value in values:
            if isinstance(value, torch.Tensor):
                if isinstance(value, FakeTensor):
                    if value.numel() > MOST or value.untyped_storage()._cdata not in self.of:
                        return False
                elif value.device.type != "cpu" or value.numel() > MOST:
                    return False
            elif isinstance(value, (list, tuple)) and not self._all(value):
                return False
        return True

    def _swap(self, value: Any) -> Any:
        if isinstance(value, FakeTensor):
            real = self.real(value)
            if real is None:
                raise ValueError
            return real
        if isinstance(value, (list, tuple)):
            return [self._swap(v) for v in value]
        return value

    def compute(self, func: Any, kind: Any, args: Any, kwargs: Any) -> Any:
        """The operator on real numbers; MISSING where one is missing or it is too much work. In-place operators have then
        written theirs."""
        if not self._all(args) or (kwargs and not self._all(kwargs.values())):
            return MISSING
        if func in PRODUCTS:
            shapes = [a.shape for a in args if isinstance(a, torch.Tensor)]
            if shapes[-2].numel() * (shapes[-1][-1] if shapes[-1] else 1) > WORK:
                return MISSING
        try:
            real_args = [self._swap(a) for a in args]
            real_kwargs = {k: self._swap(v) for k, v in kwargs.items() if k != "pin_memory"}
        except ValueError:
            return MISSING
        if real_kwargs.get("device") is not None:
            real_kwargs["device"] = torch.device("cpu")
        try:
            with torch._C._DisableTorchDispatch():
                return self._draw(func, real_args, real_kwargs) if kind.random else func(*real_args, **real_kwargs)
        except Exception:  # no kernel for the CPU, or not for this type: unknown
            return MISSING

    def _draw(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operator that draws, as the card's generator would: the CPU's own stays where the script has it."""
        kwargs.pop("generator", None)
        generator = torch.default_generator
        before = generator.get_state()
        if self._random is None:
            generator.manual_seed(generator.initial_seed() & 0xffffffff)
        else:
            generator.set_state(self._random)
        try:
            return func(*args, **kwargs)
        finally:
            self._random = generator.get_state()
            generator.set_state(before)

    def follow(self, func: Any, kind: Any, args: Any, kwargs: Any, out: Any) -> Any:
        """Keeps up with an operator that ran on fake tensors. Gives back its result: real where it came to the CPU and is
        known."""
        fill = FILLS.get(func)
        if fill is not None:
            if isinstance(out, FakeTensor) and out.fake_device.type == "cuda":
                value = fill
                if isinstance(fill, tuple):
                    value = args[fill[0]] if len(args) > fill[0] else kwargs.get("fill_value", kwargs.get("s"))
                self.fill(out, value)
            return out
        if kind.factory:
            device = kwargs.get("device")
            if device is None or device.type != "cuda":
                return out
        result = MISSING if _large(out) else self.compute(func, kind, args, kwargs)
        if result is not MISSING:
            return out if kind.in_place else self._match(out, result)
        if kind.writes:
            self._written(func, args, kwargs, kind)
        return out

    def _written(self, func: Any, args: Any, kwargs: Any, kind: Any) -> None:
        """What an operator with an unknown among its arguments wrote to: unknown, or known now if it wrote all of it."""
        first = args[0]
        if func in OVERWRITES and isinstance(first, FakeTensor):
            whole = first.fake_device.type == "cuda" and first.numel() * first.element_size() == first.untyped_storage().nbytes()
            if whole and func is aten.zero_.default:
                return self.fill(first, 0)
            if whole and func is aten.fill_.Scalar:
                return self.fill(first, args[1])
            if whole and func in (aten.copy_.default, aten.fill_.Tensor) and self._all(args[1:2]):
                real = self._swap(args[1])
                with torch._C._DisableTorchDispatch():
                    return self.give(first, real.to(first.dtype).expand(first.shape), False)
        for i, name in kind.writes:
            value = args[i] if i < len(args) else kwargs.get(name)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, FakeTensor):
                    self.drop(tensor)

    def _match(self, out: Any, real: Any) -> Any:
        if isinstance(out, FakeTensor):
            if not isinstance(real, torch.Tensor):
                return out
            if out.fake_device.type == "cpu":
                return real
            if out.fake_device.type == "cuda":
                self.give(out, real, True)
            return out
        if isinstance(out, (list, tuple)) and isinstance(real, (list, tuple)) and len(out) == len(real):
            return type(out)([self._match(o, r) for o, r in zip(out, real)])
        return real if isinstance(out, (bool, int, float)) else out
