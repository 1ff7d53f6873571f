"""Example inputs: which are tensors, which dimension is the batch, and the same inputs at another batch.

Only shapes count, so that every change makes meta tensors: sizes without values, on no device. Needs
PyTorch, imported when first called.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Dict, List, Optional, Tuple

from ._errors import UsageError

Call = Tuple[Tuple[Any, ...], Dict[str, Any]]  # args and kwargs of forward


def call_of(example_inputs: Any) -> Call:
    """A tensor is forward's one argument, a tuple or list its arguments, a mapping its keyword arguments."""
    if isinstance(example_inputs, Mapping):  # BatchEncoding of transformers too
        return (), {str(k): v for k, v in example_inputs.items()}
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs), {}
    return (example_inputs,), {}


def inputs_of(call: Call) -> Any:
    """The other way round: what call_of takes."""
    args, kwargs = call
    if kwargs and args:
        raise UsageError("both positional and keyword inputs", "example_inputs")
    return dict(kwargs) if kwargs else args


def leaves(tree: Any) -> List[Any]:
    """The tensors of nested tuples, lists and dictionaries, in order."""
    import torch
    from torch.utils import _pytree
    return [leaf for leaf in _pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def map_tensors(function: Any, tree: Any) -> Any:
    import torch
    from torch.utils import _pytree
    return _pytree.tree_map(lambda leaf: function(leaf) if isinstance(leaf, torch.Tensor) else leaf, tree)


def to_meta(tensor: Any) -> Any:
    """Sizes, strides and type without values."""
    import torch
    with torch.no_grad():
        made = torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="meta")
    return made.requires_grad_(True) if tensor.requires_grad and tensor.is_leaf else made


def batch_of(tree: Any) -> Optional[int]:
    """The first dimension of the first tensor that has one."""
    for leaf in leaves(tree):
        if leaf.dim():
            return int(leaf.shape[0])
    return None


def seq_of(tree: Any) -> Optional[int]:
    """The second dimension of the first tensor of whole numbers that has two: tokens."""
    for leaf in leaves(tree):
        if leaf.dim() >= 2 and not leaf.is_floating_point() and not leaf.is_complex():
            return int(leaf.shape[1])
    return None


def _resized(tensor: Any, dimension: int, old: int, new: int) -> Any:
    import torch
    if tensor.dim() <= dimension or tensor.shape[dimension] != old:
        return to_meta(tensor)
    shape = list(tensor.shape)
    shape[dimension] = new
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    wanted = formats.get(tensor.dim())
    keep = wanted is not None and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=wanted)
    return torch.empty(shape, dtype=tensor.dtype, device="meta", memory_format=wanted if keep else torch.contiguous_format)


def resize(tree: Any, batch: Optional[int], seq: Optional[int]) -> Any:
    """The inputs at another batch or sequence length: every tensor that has the old one in its place. What
    stays as it is, is given back as it is."""
    if batch is not None:
        old = batch_of(tree)
        if old is None:
            raise UsageError("the example inputs hold no tensor with a batch", "batch")
        if batch < 1:
            raise UsageError("from 1 on, not %d" % batch, "batch")
        if old != batch:
            tree = map_tensors(lambda t: _resized(t, 0, old, batch), tree)
    if seq is not None:
        old = seq_of(tree)
        if old is None:
            raise UsageError("the example inputs hold no tokens (whole numbers in two dimensions); give inputs of the length "
                             "wanted", "seq")
        if seq < 1:
            raise UsageError("from 1 on, not %d" % seq, "seq")
        if old != seq:
            tree = map_tensors(lambda t: _resized(t, 1, old, seq), tree)
    return tree


def resize_to(tree: Any, old: int, new: int) -> Any:
    """Targets at another batch."""
    return tree if tree is None or old == new else map_tensors(lambda t: _resized(t, 0, old, new), tree)
