"""Kernels that fake tensors do not have, or have otherwise than a card: what they give back, in shapes and strides.

Sizes follow ATen's CUDA sources of PyTorch 2.11 (RNN.cpp, LossCTC.cu, GroupedMMUtils.h, torchvision's nms). The first
argument is what is known of numbers (_known.py): lengths decide sizes here.
"""
from __future__ import annotations

from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ._known import Known

aten = torch.ops.aten


def _cudnn_rnn(_: Known, x: Any, weight: Any, stride: int, buffer: Any, hx: Any, cx: Any, mode: int, hidden: int, projection: int, layers: int,
               batch_first: bool, dropout: float, train: bool, both: bool, batch_sizes: Any, state: Any) -> Any:
    """Output in time-major memory, the states, the reserve (its size is the library's to say: one byte here), the flat weights."""
    width = (projection or hidden) * (2 if both else 1)
    if batch_sizes:  # packed
        y = x.new_empty((x.size(0), width))
    else:
        batch, seq = (x.size(0), x.size(1)) if batch_first else (x.size(1), x.size(0))
        y = x.new_empty((seq, batch, width))
    if batch_first:
        y = y.transpose(0, 1)
    hy = x.new_empty(hx.shape)
    cy = x.new_empty(cx.shape) if cx is not None else x.new_empty((0,))
    if buffer is None:
        buffer = x.new_empty((sum(w.numel() for w in weight),))
    reserve = x.new_empty((1 if train else 0,), dtype=torch.uint8)
    return y, hy, cy, reserve, buffer


def _cudnn_rnn_backward(_: Known, x: Any, weight: Any, stride: int, buffer: Any, hx: Any, cx: Any, output: Any, dy: Any, dhy: Any, dcy: Any,
                        mode: int, hidden: int, projection: int, layers: int, batch_first: bool, dropout: float, train: bool, both: bool,
                        batch_sizes: Any, state: Any, reserve: Any, wanted: Any) -> Any:
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    dhx = hx.new_empty(hx.shape)
    dcx = cx.new_empty(cx.shape) if cx is not None else None
    dw: list[Any] = []
    if wanted[3]:
        biased = stride >= 4
        flat = x.new_empty((sum(w.numel() for w in weight),)) if biased else None
        at = 0
        for w in weight:
            dw.append(x.new_empty(w.shape) if flat is None else flat[at:at + w.numel()].view(w.shape))
            at += w.numel()
    return dx, dhx, dcx, dw


def _pack_padded_sequence(known: Known, x: Any, lengths: Any, batch_first: bool) -> Any:
    """The sequences' elements by time, and how many of them there are at each time, which is a CPU tensor with its numbers."""
    if isinstance(lengths, FakeTensor):
        lengths = known.real(lengths)
    with torch._C._DisableTorchDispatch():
        counts = [x.size(1 if batch_first else 0)] * x.size(0 if batch_first else 1) if lengths is None else lengths.tolist()
        sizes = torch.tensor([sum(count > t for count in counts) for t in range(max([*counts, 0]))], dtype=torch.int64)
    return x.new_empty((sum(counts), *x.shape[2:])), sizes


def _in_place(*_: Any, **__: Any) -> None:
    """A fused optimizer for which PyTorch has no fake kernel: it makes nothing."""


def _most(known: Known, lengths: Any, otherwise: int) -> int:
    """The largest of some lengths: a list, or a tensor."""
    if isinstance(lengths, torch.Tensor):
        lengths = known.real(lengths) if isinstance(lengths, FakeTensor) else lengths
        if lengths is None:
            return otherwise
        with torch._C._DisableTorchDispatch():
            lengths = lengths.tolist()
    return int(max([*lengths, 0]))


def _ctc_loss(known: Known, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
              zero_infinity: bool = False) -> Any:
    """The loss per sample, and log alpha, [batch, time, 2 * longest target + 1]."""
    batch = log_probs.size(1)
    longest = _most(known, target_lengths, targets.size(1) if targets.dim() > 1 else targets.size(0))
    return log_probs.new_empty((batch,)), log_probs.new_empty((batch, log_probs.size(0), 2 * longest + 1))


def _ctc_loss_backward(_: Known, grad: Any, log_probs: Any, *rest: Any, **__: Any) -> Any:
    return torch.empty_like(log_probs, memory_format=torch.contiguous_format)


def _use_cudnn_ctc_loss(known: Known, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int) -> bool:
    """cuDNN's takes float32, whole numbers of four bytes and targets on the CPU, laid end to end; else the native one runs."""
    return bool(torch.backends.cudnn.enabled and blank == 0 and targets.dim() == 1 and log_probs.dtype == torch.float32
                and targets.dtype == torch.int32 and targets.device.type == "cpu" and log_probs.dim() == 3
                and _most(known, target_lengths, 256) < 256)


def _no(*_: Any, **__: Any) -> bool:
    return False


def _cudnn_ctc_loss(_: Known, log_probs: Any, *rest: Any, **__: Any) -> Any:
    return log_probs.new_empty((log_probs.size(1),)), log_probs.new_empty(log_probs.shape)


def _grouped_mm(_: Known, a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """Products of groups: rows padded to 16 bytes. PyTorch's fake one takes bfloat16 alone."""
    if a.dim() == 2:
        shape = [offs.size(0), a.size(0), b.size(1)] if b.dim() == 2 else [a.size(0), b.size(2)]
    else:
        shape = [a.size(1), b.size(1)] if b.dim() == 2 else [a.size(0), a.size(1), b.size(2)]
    dtype = out_dtype or a.dtype
    unit = max(16 // dtype.itemsize, 1)
    row = -(-shape[-1] // unit) * unit
    strides = [row, 1] if len(shape) == 2 else [shape[1] * row, row, 1]
    return torch.empty_strided(shape, strides, dtype=dtype, device=a.device)


def _product_in(_: Known, *args: Any, out: Any = None, **__: Any) -> Any:
    """mm, bmm, addmm, baddbmm with out_dtype, (..., a, b, dtype): PyTorch's fake ones take the type for beta."""
    a, b, dtype = args[-3:]
    return out if out is not None else torch.empty((*a.shape[:-1], b.shape[-1]), dtype=dtype, device=a.device)


KERNELS: dict[Any, Callable[..., Any]] = {
    aten._pack_padded_sequence.default: _pack_padded_sequence,
    aten._cudnn_rnn.default: _cudnn_rnn, aten._cudnn_rnn_backward.default: _cudnn_rnn_backward,
    aten._fused_sgd_.default: _in_place,
    aten._fused_sgd_.tensor_lr: _in_place}
for _name, _kernel in (("_ctc_loss", _ctc_loss), ("_ctc_loss_backward", _ctc_loss_backward), ("_use_cudnn_ctc_loss", _use_cudnn_ctc_loss),
                       ("_cudnn_ctc_loss", _cudnn_ctc_loss), ("_use_miopen_ctc_loss", _no), ("_grouped_mm", _grouped_mm)):
    for _overload in ("default", "Tensor"):
        if hasattr(aten, _name) and hasattr(getattr(aten, _name), _overload):
            KERNELS[getattr(getattr(aten, _name), _overload)] = _kernel
for _name in ("mm", "bmm", "addmm", "baddbmm"):
    for _overload in ("dtype", "dtype_out"):
        if hasattr(getattr(aten, _name), _overload):
            KERNELS[getattr(getattr(aten, _name), _overload)] = _product_in
