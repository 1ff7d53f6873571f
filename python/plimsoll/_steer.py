"""The kernels that PyTorch would choose on a card, called by name.

Some composite operators look at the card, at cuDNN or at the exact type of a tensor before they choose a
kernel, and on fake tensors choose another. While a `Steer` is entered, implementations in Python stand in for
them under the AutogradCUDA key, above autograd and below autocast, and choose as a real card would:
scaled_dot_product_attention (the rules of ATen/native/transformers/cuda/sdp_utils.cpp), batch_norm
(Normalization.cpp), lstm and its like (RNN.cpp), linear (Linear.cpp adds a bias in place outside its fast path,
but not to subclasses). Read in PyTorch 2.11.

Left out: nested tensors.
"""
from __future__ import annotations

import contextlib
from typing import Any

import torch

aten = torch.ops.aten
HALF = (torch.float16, torch.bfloat16)


class Steer:
    """Entered while steps are recorded. capability: of the card, (major, minor)."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self.capability = capability
        self.dropout_state: torch.Tensor | None = None
        self._library: Any = None

    def __enter__(self) -> "Steer":
        self._library = torch.library.Library("aten", "IMPL")
        for name, kernel in (("scaled_dot_product_attention", self.attention), ("batch_norm", self.batch_norm), ("linear", self.linear),
                             ("lstm.input", self.lstm), ("gru.input", self.gru), ("rnn_tanh.input", self.rnn_tanh),
                             ("rnn_relu.input", self.rnn_relu), ("lstm.data", self.packed(2)), ("gru.data", self.packed(3)),
                             ("rnn_tanh.data", self.packed(1)), ("rnn_relu.data", self.packed(0))):
            self._library.impl(name, kernel, "AutogradCUDA")
        return self

    def __exit__(self, *exc: Any) -> None:
        self._library._destroy()
        self._library = None

    # ---- linear ----

    def linear(self, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        if bias is not None and input.dim() == 2:
            return torch.addmm(bias, input, weight.t())
        if bias is not None and bias.dim() == 1 and input.dim() >= 3 and input.is_contiguous():
            flat = input.reshape(-1, input.size(-1))
            return torch.addmm(bias, flat, weight.t()).view(*input.shape[:-1], weight.size(0))
        product = torch.matmul(input, weight.t())
        return product if bias is None else product.add_(bias)

    # ---- batch norm ----

    def batch_norm(self, x: torch.Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float,
                   eps: float, cudnn_enabled: bool) -> torch.Tensor:
        cudnn = (cudnn_enabled and weight is not None and bias is not None and x.dim() >= 3
                 and x.dtype not in (torch.bfloat16, torch.float64) and weight.dtype != torch.bfloat16
                 and (x.dtype != torch.float16 or weight.dtype == torch.float32)
                 and x.size(0) <= (880801 if training else 65535) and eps >= 1e-5 and x.numel() < 2 ** 31
                 and ((running_mean is not None and running_var is not None) or training))
        kernel = aten.cudnn_batch_norm if cudnn else aten.native_batch_norm
        return kernel(x, weight, bias, running_mean, running_var, training, momentum, eps)[0]

    # ---- attention ----

    def _backend(self, q: Any, k: Any, v: Any, mask: Any, gqa: bool, dropout: float) -> str:
        major, minor = self.capability
        cc = 10 * major + minor
        head, value_head = q.size(3), v.size(3)

        def dense(t: torch.Tensor) -> bool:
            return bool(t.dim() == 0 or t.stride(-1) == 1 or t.size(-1) == 1)

        same_heads = q.size(1) == k.size(1) == v.size(1)
        usable = dense(q) and dense(k) and dense(v) and q.size(2) > 0 and k.size(2) > 0 and (mask is None or dense(mask))
        if not usable or not q.size(0) == k.size(0) == v.size(0) or not (same_heads or gqa):
            return "math"
        half = q.dtype in HALF and (q.dtype == torch.float16 or cc >= 80)
        most = 256 if major >= 9 else 128
        takes_mask = mask is None or (not mask.requires_grad and mask.dim() in (2, 4) and all(
            s in (1, whole) for s, whole in zip(mask.shape, (q.size(0), q.size(1), q.size(2), k.size(2))[4 - mask.dim():])))
        if (major in (9, 10) and half and head <= most and value_head <= most and head % 8 == 0 and value_head % 8 == 0
                and (q.size(2) > 1 or not dropout) and k.size(2) > 1 and takes_mask and torch.backends.cuda.cudnn_sdp_enabled()):
            return "cudnn"
        if half and cc >= 80 and mask is None and head == value_head and head <= 256 and torch.backends.cuda.flash_sdp_enabled():
            return "flash"
        align = (8 if cc >= 75 else 4) if q.dtype in HALF else 4
        if ((q.dtype in (torch.float32, torch.float16) or (q.dtype == torch.bfloat16 and cc >= 80)) and same_heads
                and head % align == 0 and value_head % align == 0 and torch.backends.cuda.mem_efficient_sdp_enabled()):
            return "efficient"
        return "math"

    def attention(self, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
                  scale: float | None = None, enable_gqa: bool = False) -> torch.Tensor:
        if not query.dim() == key.dim() == value.dim() == 4:  # check_tensor_shapes: kernels take no other
            return aten._scaled_dot_product_attention_math(query, key, value, self._float_mask(attn_mask, query), dropout_p, is_causal, None,
                                                           scale=scale, enable_gqa=enable_gqa)[0]
        return self._attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)

    def _attention(self, q: Any, k: Any, v: Any, mask: Any, dropout: float, causal: bool, scale: float | None, gqa: bool) -> torch.Tensor:
        backend = self._backend(q, k, v, mask, gqa, dropout)
        mask = self._float_mask(mask, q)
        if backend == "math":
            return aten._scaled_dot_product_attention_math(q, k, v, mask, dropout, causal, None, scale=scale, enable_gqa=gqa)[0]
        wants = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v) + (() if mask is None else (mask,)))
        if backend == "cudnn":
            if mask is not None and mask.dim() == 2:
                mask = mask.expand(q.size(0), q.size(1), q.size(2), k.size(2))
            return aten._scaled_dot_product_cudnn_attention(q, k, v, mask, wants, dropout, causal, False, scale=scale)[0]
        if backend == "flash":
            head = q.size(3)
            if scale is None:
                scale = head ** -0.5
            if head % 8:
                q, k, v = (torch.constant_pad_nd(t, (0, 8 - head % 8)) for t in (q, k, v))
            out = aten._scaled_dot_product_flash_attention(q, k, v, dropout, causal, False, scale=scale)[0]
            return out[..., :head] if head % 8 else out
        if mask is not None:
            mask = self._aligned(mask, q, k)
        return aten._scaled_dot_product_efficient_attention(q, k, v, mask, wants, dropout, causal, scale=scale)[0]

    @staticmethod
    def _float_mask(mask: Any, q: torch.Tensor) -> Any:
        """A bool mask as numbers that are added (attention.cpp, convert_boolean_attn_mask)."""
        if mask is None or mask.dtype != torch.bool:
            return mask
        zero = torch.scalar_tensor(0.0, dtype=q.dtype, device=q.device)
        return torch.where(mask, zero, torch.scalar_tensor(float("-inf"), dtype=q.dtype, device=q.device))

    @staticmethod
    def _aligned(mask: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """Rows that begin at multiples of 8 elements, for every sample and head (attention.cpp, preprocess_mask)."""
        if mask.dim() and (mask.stride(-1) != 1 or any(s % 8 for s in mask.stride()[:-1])):
            last = mask.size(-1)
            mask = torch.constant_pad_nd(mask, (0, 8 - last % 8))[..., :last]
        return mask.expand(q.size(0), q.size(1), q.size(2), k.size(2))

    # ---- recurrent layers ----

    def _recurrent(self, mode: int, x: torch.Tensor, states: Any, params: Any, biases: bool, layers: int, dropout: float, train: bool,
                   both: bool, batch_first: bool, sizes: Any = ()) -> Any:
        gates = {0: 1, 1: 1, 2: 4, 3: 3}[mode]  # relu, tanh, LSTM, GRU
        hidden = params[1].size(0) // gates
        projection = params[1].size(1) if mode == 2 and params[1].size(1) != hidden else 0
        step = (4 if biases else 2) + (1 if projection else 0)
        elements = sum(p.numel() for p in params)
        buffer, states = None, list(states)
        low = torch.is_autocast_enabled("cuda")
        with torch.amp.autocast("cuda", enabled=False) if low else contextlib.nullcontext():
            if low:  # float16 whatever autocast's type; weights are gathered anew
                x = x.to(torch.float16)
                buffer = torch.empty(elements, dtype=torch.float16, device=x.device)
                states = [s.to(torch.float16) for s in states]
            elif x.dtype != torch.bfloat16 and len({p.untyped_storage()._cdata for p in params}) == 1:
                buffer = params[0].detach().as_strided((elements,), (1,), 0)
            if dropout > 0 and train and self.dropout_state is None:
                self.dropout_state = torch.empty(6488064, dtype=torch.uint8, device=x.device)
            state = self.dropout_state if dropout > 0 and train else None
            out = aten._cudnn_rnn(x, list(params), step, buffer, states[0], states[1] if len(states) > 1 else None, mode, hidden, projection,
                                  layers, batch_first, float(dropout), train, both, list(sizes), state)
        return out[:3] if mode == 2 else out[:2]

    def packed(self, mode: int) -> Any:
        """Sequences of several lengths in one tensor, laid end to end by time; sizes: how many there are at each time, on the CPU."""
        def call(x: Any, sizes: torch.Tensor, hx: Any, *rest: Any) -> Any:
            with torch._C._DisableTorchDispatch():
                counts = sizes.tolist()
            params, biases, layers, dropout, train, both = rest
            return self._recurrent(mode, x, hx if mode == 2 else [hx], params, biases, layers, dropout, train, both, False, counts)
        return call

    def lstm(self, x: Any, hx: Any, *rest: Any) -> Any:
        return self._recurrent(2, x, hx, *rest)

    def gru(self, x: Any, hx: Any, *rest: Any) -> Any:
        return self._recurrent(3, x, [hx], *rest)

    def rnn_tanh(self, x: Any, hx: Any, *rest: Any) -> Any:
        return self._recurrent(1, x, [hx], *rest)

    def rnn_relu(self, x: Any, hx: Any, *rest: Any) -> Any:
        return self._recurrent(0, x, [hx], *rest)
