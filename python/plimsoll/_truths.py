"""What is true of numbers that were not computed: of comparisons, and how many of a mask's places can be true.

Nothing is infinite or not a number, and a number is 1: `if loss > 10` has an answer then, which the trace's warnings
report. A mask that was all false and had k places set has at most k true ones, wherever those are: that is how
detection picks its 512 samples out of thousands.
"""
from __future__ import annotations

import operator
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ._known import MOST, Known

aten = torch.ops.aten


def truth(out: Any, value: bool | None) -> None:
    if value is not None and isinstance(out, FakeTensor):
        out._plimsoll_truth = value


def _of(value: Any) -> bool | None:
    return getattr(value, "_plimsoll_truth", None)


def _infinite(value: Any) -> bool:
    return isinstance(value, float) and value in (float("inf"), float("-inf"))


def _both(out: Any, a: Any, b: Any, *rest: Any) -> None:
    if _of(a) is not None and _of(b) is not None:
        truth(out, _of(a) and _of(b))


def _either(out: Any, a: Any, b: Any, *rest: Any) -> None:
    if _of(a) is not None and _of(b) is not None:
        truth(out, _of(a) or _of(b))


def _same(out: Any, a: Any, *rest: Any) -> None:
    truth(out, _of(a))


def _not(out: Any, a: Any, *rest: Any) -> None:
    if _of(a) is not None:
        truth(out, not _of(a))


# Nothing is infinite or not a number: isnan is x != x, isinf is abs(x) == inf, isfinite is both denied.
TRUTHS = {
    aten.ne.Tensor: lambda out, a, b, *r: truth(out, False if a is b else None),
    aten.eq.Tensor: lambda out, a, b, *r: truth(out, True if a is b else None),
    aten.eq.Scalar: lambda out, a, b, *r: truth(out, False if _infinite(b) else None),
    aten.ne.Scalar: lambda out, a, b, *r: truth(out, True if _infinite(b) else None),
    aten.isnan.default: lambda out, *r: truth(out, False),
    aten.isinf.default: lambda out, *r: truth(out, False),
    aten.any.default: _same, aten.any.dim: _same, aten.any.dims: _same, aten.all.default: _same, aten.all.dim: _same, aten.all.dims: _same,
    aten.mul.Tensor: _both, aten.logical_and.default: _both, aten.bitwise_and.Tensor: _both, aten.logical_or.default: _either,
    aten.bitwise_or.Tensor: _either, aten.logical_not.default: _not, aten.bitwise_not.default: _not,
}


COMPARISONS: dict[Any, Callable[[Any, Any], bool]] = {
    aten.lt.Scalar: operator.lt, aten.le.Scalar: operator.le, aten.gt.Scalar: operator.gt, aten.ge.Scalar: operator.ge}


# ---- how many places of a mask are true ----

_KEEPS = {aten._to_copy.default, aten.clone.default, aten.view.default, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.default,
          aten.reshape.default, aten._unsafe_view.default, aten.flatten.using_ints, aten.detach.default, aten.alias.default, aten.abs.default}
_SETS = {aten.index_put_.default, aten._index_put_impl_.default, aten.index_fill_.int_Scalar, aten.scatter_.value, aten.scatter_.src}
_OR = {aten.bitwise_or.Tensor, aten.logical_or.default, aten.add.Tensor, aten.__or__.Tensor, aten.bitwise_or_.Tensor, aten.maximum.default}
_AND = {aten.bitwise_and.Tensor, aten.logical_and.default, aten.mul.Tensor, aten.__and__.Tensor, aten.bitwise_and_.Tensor, aten.minimum.default}
_ABOVE = {aten.gt.Scalar, aten.ge.Scalar}  # than 0
_ALL = _KEEPS | _ABOVE | _SETS | _OR | _AND | {aten.cat.default}


class Bounds:
    """How many elements of a tensor that has no numbers can be other than zero, where that is less than all."""

    def __init__(self, known: Known) -> None:
        self.known = known

    def of(self, tensor: Any) -> int:
        real = tensor
        if isinstance(tensor, FakeTensor):
            most = getattr(tensor, "_plimsoll_most", None)
            if most is not None and not self.known.has(tensor):
                return int(min(most, tensor.numel()))
            real = self.known.real(tensor)
        if real is None:
            return int(tensor.numel())
        with torch._C._DisableTorchDispatch():
            return int(torch.count_nonzero(real))

    def _has(self, tensor: Any) -> bool:
        return isinstance(tensor, FakeTensor) and hasattr(tensor, "_plimsoll_most")

    def of_operator(self, func: Any, args: Any) -> int | None:
        """What its result has at most; None: nothing is known, or all. Before it runs, since it may write."""
        if func not in _ALL or not args:
            return None
        if func in _ABOVE and args[1] < (1 if func is aten.ge.Scalar else 0):
            return None
        if func in _SETS:
            # Small whole numbers and truth values alone: counting takes time.
            if not isinstance(args[0], FakeTensor) or args[0].dtype not in (torch.bool, torch.uint8, torch.int64) or args[0].numel() > MOST:
                return None
            index = args[1] if isinstance(args[1], (list, tuple)) else args[2:3]
            if len(index) != 1 or index[0] is None or index[0].dtype == torch.bool or args[0].dim() != 1:
                return None
            return self.of(args[0]) + int(index[0].numel())
        tensors = list(args[0]) if func is aten.cat.default else [a for a in args[:2] if isinstance(a, torch.Tensor)]
        if not any(map(self._has, tensors)):
            return None
        counts = [self.of(t) for t in tensors]
        if func in _AND:
            return min(counts) if len({t.shape for t in tensors}) == 1 else None
        return None if func in _OR and len({t.shape for t in tensors}) > 1 else sum(counts)

    @staticmethod
    def keep(out: Any, most: int) -> None:
        if isinstance(out, FakeTensor):
            out._plimsoll_most = most


def limit_samples(module: Any) -> None:
    """torchvision's heads of regions take at most a share of the samples for true ones (fg_bg_sampler), wherever they lie: the heads
    for masks and keypoints run on those alone."""
    choose, sampler = getattr(module, "select_training_samples", None), getattr(module, "fg_bg_sampler", None)
    if type(module).__name__ != "RoIHeads" or choose is None or sampler is None or "select_training_samples" in vars(module):
        return
    most = int(sampler.batch_size_per_image * sampler.positive_fraction)

    def chosen(*args: Any, **kwargs: Any) -> Any:
        proposals, matched, labels, *rest = choose(*args, **kwargs)
        for one in labels:
            Bounds.keep(one, most)
        return (proposals, matched, labels, *rest)

    module.select_training_samples = chosen
