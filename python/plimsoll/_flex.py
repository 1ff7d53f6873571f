"""flex_attention without its kernel: the memory of the compiled one, as it is used.

Compiled, it keeps query, key, value, the output and a float32 logarithm per row, and makes no matrix of scores
(torch/_inductor/kernel/flex, read in PyTorch 2.11). A block mask is made of its shapes: how many blocks a mask leaves empty changes no
memory. Left out: calls that are not compiled, which make the scores; captured tensors that want gradients.
"""
from __future__ import annotations

import importlib
from typing import Any, Callable

import torch

from ._record import Recording

BLOCK = 128  # tokens on a side of a mask's block


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = query.new_empty((*query.shape[:-1], value.size(-1)))
        sums = query.new_empty(query.shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(query, key, value, out, sums)
        return out, sums

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        query, key, value, out, sums = ctx.saved_tensors
        delta = torch.empty_like(sums)
        made = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
        del delta
        return made


class _Mask:
    """A BlockMask of so many blocks: four tables of int32 in each direction."""

    def __init__(self, batch: int, heads: int, rows: int, columns: int, size: Any, device: Any) -> None:
        down, across = (size, size) if isinstance(size, int) else size
        r, c = -(-rows // down), -(-columns // across)
        self.shape, self.seq_lengths, self.BLOCK_SIZE = (batch, heads, rows, columns), (rows, columns), (down, across)
        self.mask_mod = None
        self.kv_num_blocks, self.full_kv_num_blocks = (torch.empty((batch, heads, r), dtype=torch.int32, device=device) for _ in range(2))
        self.kv_indices, self.full_kv_indices = (torch.empty((batch, heads, r, c), dtype=torch.int32, device=device) for _ in range(2))
        self.q_num_blocks, self.full_q_num_blocks = (torch.empty((batch, heads, c), dtype=torch.int32, device=device) for _ in range(2))
        self.q_indices, self.full_q_indices = (torch.empty((batch, heads, c, r), dtype=torch.int32, device=device) for _ in range(2))

    def __getitem__(self, index: Any) -> "_Mask":
        return self

    def to(self, device: Any) -> "_Mask":
        return self


def install(recording: Recording, patch: Callable[[Any, str, Any], None]) -> None:
    try:
        flex = importlib.import_module("torch.nn.attention.flex_attention")
    except ImportError:  # before PyTorch 2.5
        return

    def attention(query: Any, key: Any, value: Any, score_mod: Any = None, block_mask: Any = None, scale: Any = None, enable_gqa: bool = False,
                  return_lse: bool = False, kernel_options: Any = None, **kwargs: Any) -> Any:
        recording.assumed["compile"] = True
        recording.warn("flex_attention is taken for compiled: it keeps its output and a number per row, and makes no scores")
        out, sums = _Attention.apply(query, key, value)
        if kwargs.get("return_aux") is not None:
            return out, flex.AuxOutput(lse=sums)
        return (out, sums) if return_lse else out

    def mask(mask_mod: Any, B: Any, H: Any, Q_LEN: int, KV_LEN: int, device: Any = None, BLOCK_SIZE: Any = BLOCK, **kwargs: Any) -> _Mask:
        return _Mask(B or 1, H or 1, Q_LEN, KV_LEN, BLOCK_SIZE, device or "cuda")

    patch(flex, "flex_attention", attention)
    patch(flex, "create_block_mask", mask)
