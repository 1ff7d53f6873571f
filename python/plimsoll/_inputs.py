"""Example inputs: which are tensors, which dimension is the batch, and the same inputs at another batch.

Shapes count, so that a change makes meta tensors: sizes without values, on no device. Small tensors of whole numbers
(labels, masks, lengths) keep theirs, repeated. Needs PyTorch, imported when first called.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Dict, List, Optional, Tuple

from ._errors import UsageError

KEPT = 1 << 20  # elements of a tensor of whole numbers that keeps them

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


def _listed(tree: Any) -> Optional[List[Any]]:
    """The samples of a model that takes them as a list of tensors, each without a batch: detection's images."""
    first = tree
    while isinstance(first, (tuple, list, Mapping)) and first:
        values = list(first.values()) if isinstance(first, Mapping) else list(first)
        if isinstance(first, list) and all(getattr(v, "ndim", None) == 3 for v in values):
            return values
        first = values[0]
    return None


def batch_of(tree: Any) -> Optional[int]:
    """The first dimension of the first tensor that has one; of a list of images, how many they are."""
    listed = _listed(tree)
    if listed is not None:
        return len(listed)
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
    small = torch.Size(shape).numel() <= KEPT and tensor.device.type not in ("meta", "cuda") and type(tensor) is torch.Tensor
    if small and not tensor.is_floating_point() and not tensor.is_complex():
        return tensor.index_select(dimension, torch.arange(new) % old)  # the same labels, masks and lengths over again
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
        if _listed(tree) is not None and old != batch:
            raise UsageError("the samples are a list; give as many as are wanted", "batch")
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
