"""What DistributedDataParallel's reducer allocates, in Python.

The reducer is C++ (torch/csrc/distributed/c10d/reducer.cpp, read in PyTorch 2.11) and records CUDA events, which needs a
card. This one stands in its place: the same buckets, filled when a gradient is ready; made again before the second
forward in the order in which the gradients came, the first of 1 MiB and the others of bucket_cap_mb; with
gradient_as_bucket_view a gradient becomes a view of its bucket; communication hooks of Python are called with a bucket
of the same methods. The library's rules for ddp:N (src/tape/parallel.c) are these.

Left out: which parameters no output depends on (find_unused_parameters): their gradients stay as they are.
"""
from __future__ import annotations

import sys
from typing import Any, Callable

import torch

_CALLS_WITHOUT_EFFECT = frozenset((
    "prepare_for_forward", "set_logger", "_set_forward_pass_work_handle", "_set_static_graph", "_check_reducer_finalized",
    "_set_optimizer_in_backward", "_set_ddp_runtime_logging_sample_rate", "_install_post_backward_futures", "_push_all_rebuilt_params",
    "_set_sparse_metadata", "_reset_state",
    "_update_process_group", "_delay_all_reduce"))


# What a hook sends by collectives that it does not wait for; None: no hook runs. c10d holds it: the 419 MiB of a bf16_compress_hook over 838 MiB of
# gradients were there through the steps on an H200 (2026-11-16).
_sent: list[torch.Tensor] | None = None


def note_sent(tensor: torch.Tensor) -> None:
    if _sent is not None:
        _sent.append(tensor)


class Bucket:
    """What a communication hook is given (GradBucket)."""

    def __init__(self, at: int, last: bool, flat: torch.Tensor, parameters: list[torch.Tensor], views: list[torch.Tensor]) -> None:
        self._at, self._last, self.flat, self._parameters, self.views = at, last, flat, parameters, views
        self.held: list[Any] = []  # what its hook gave and sent, until it is called again

    def index(self) -> int:
        return self._at

    def is_last(self) -> bool:
        return self._last

    def buffer(self) -> torch.Tensor:
        return self.flat

    def gradients(self) -> list[torch.Tensor]:
        return self.views

    def parameters(self) -> list[torch.Tensor]:
        return self._parameters

    def set_buffer(self, tensor: torch.Tensor) -> None:
        self.flat = tensor


class Reducer:
    """Takes what c10d's takes, by position. note: is told of each bucket."""

    def __init__(self, params: Any, bucket_indices: Any, per_bucket_size_limits: Any, process_group: Any, expect_sparse_gradients: Any = (),
                 bucket_bytes_cap: int = 25 << 20, find_unused_parameters: bool = False, gradient_as_bucket_view: bool = False,
                 param_to_name_mapping: Any = None, first_bucket_bytes_cap: int = 1 << 20, skip_all_reduce_unused_params: bool = False,
                 use_python_reducer: bool = False, bucket_bytes_cap_list: Any = (), *, note: Callable[[torch.Tensor], None]) -> None:
        self._note = note  # takes each bucket
        self._params = list(params)
        self._sparse = list(expect_sparse_gradients) or [False] * len(self._params)
        self._limits = list(bucket_bytes_cap_list) or [first_bucket_bytes_cap, bucket_bytes_cap]
        self._may_rebuild, self._as_view = not find_unused_parameters, gradient_as_bucket_view
        self._dtype: torch.dtype | None = None
        self._indices = [list(one) for one in bucket_indices]
        self._arrived: list[int] = []  # parameters in the order of their gradients in the first backward
        self._hook: tuple[Callable[..., Any], Any] | None = None
        self._expects = True  # False: inside no_sync()
        self._handles = [p.register_post_accumulate_grad_hook(lambda _, i=i: self._autograd_hook(i)) for i, p in enumerate(self._params)]
        self._buckets: list[Bucket | None] = []
        self._make()

    def __getattr__(self, name: str) -> Any:
        if name in _CALLS_WITHOUT_EFFECT:
            return lambda *args, **kwargs: None
        raise AttributeError(name)

    def _make(self) -> None:
        """One flat tensor per bucket; the old ones have gone before."""
        self._buckets = []
        self._place: dict[int, tuple[int, int]] = {}  # a parameter: its bucket, and its place there
        self._waiting: list[int] = []
        for at, indices in enumerate(self._indices):
            inside = [self._params[i] for i in indices]
            self._place.update({i: (at, k) for k, i in enumerate(indices)})
            self._waiting.append(len(indices))
            if any(self._sparse[i] for i in indices):
                self._buckets.append(None)
                continue
            first = inside[0]
            with torch.no_grad():
                flat = torch.empty(sum(p.numel() for p in inside), dtype=self._dtype or first.dtype, device=first.device)
                self._note(flat)
                views, offset = [], 0
                for p in inside:
                    dense = torch.ops.aten.is_non_overlapping_and_dense.default(p)
                    part = flat[offset:offset + p.numel()]
                    views.append(flat.as_strided(p.shape, p.stride(), offset) if dense else part.view(p.shape))
                    offset += p.numel()
            self._buckets.append(Bucket(at, at == len(self._indices) - 1, flat, inside, views))

    def _rebuild_buckets(self) -> bool:
        if not self._may_rebuild or len(self._arrived) != len(self._params):
            return False
        self._may_rebuild = False
        dist = sys.modules["torch.distributed"]
        indices, _ = dist._compute_bucket_assignment_by_size([self._params[i] for i in self._arrived], self._limits,
                                                             [self._sparse[i] for i in self._arrived], self._arrived)
        self._indices = [list(one) for one in indices]
        self._make()
        return True

    def prepare_for_backward(self, outputs: Any) -> None:
        self._expects = True
        self._waiting = [len(indices) for indices in self._indices]

    def _autograd_hook(self, index: int) -> None:
        if self._may_rebuild and index not in self._arrived:
            self._arrived.append(index)
        if not self._expects:
            return
        at, inside = self._place[index]
        bucket, p = self._buckets[at], self._params[index]
        if bucket is not None and p.grad is not None and not p.grad.is_sparse:
            view = bucket.views[inside]
            with torch.no_grad():
                if not self._as_view:
                    view.copy_(p.grad)
                elif p.grad.untyped_storage()._cdata != bucket.flat.untyped_storage()._cdata:
                    view.copy_(p.grad)
                    p.grad = view
        self._waiting[at] -= 1
        if self._waiting[at] == 0 and bucket is not None:
            self._reduce(bucket)
        if not any(n > 0 for n in self._waiting):
            self._expects = False

    def _reduce(self, bucket: Bucket) -> None:
        global _sent
        if self._hook is None:
            return
        hook, state = self._hook
        with torch.no_grad():
            _sent = []
            result = hook(state, bucket).wait()
            result = result[0] if isinstance(result, (list, tuple)) else result
            bucket.held, _sent = [result, *_sent], None
            if result.untyped_storage()._cdata == bucket.flat.untyped_storage()._cdata:
                return
            if self._as_view:
                bucket.flat.copy_(result)
                return
            for p, part in zip(bucket.parameters(), torch.split(result, [p.numel() for p in bucket.parameters()])):
                if p.grad is not None:
                    p.grad.copy_(part.view(p.grad.shape))

    def register(self, state: Any, hook: Callable[..., Any]) -> None:
        self._hook = (hook, state)

    def _set_mixed_precision_param_dtype(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._make()

    def _remove_autograd_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _get_zeros_like_grad_buckets(self) -> list[Bucket]:
        return [b for b in self._buckets if b is not None]

    def _run_comm_hook(self, bucket: Bucket) -> Any:
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    def _get_local_used_map(self) -> torch.Tensor:
        return torch.ones(len(self._params), dtype=torch.int32)

    def get_backward_stats(self) -> list[int]:
        return [0] * len(self._params)


class Logger:
    """c10d's log of a DDP module: nothing is written."""

    def __init__(self, reducer: Any) -> None: ...

    def _get_ddp_logging_data(self) -> Any:
        from types import SimpleNamespace
        return SimpleNamespace(strs_map={}, ints_map={})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def register_comm_hook(reducer: Reducer, state: Any, hook: Callable[..., Any]) -> None:
    reducer.register(state, hook)


def _half(state: Any, bucket: Bucket) -> Any:
    """BuiltinCommHookType.FP16_COMPRESS: the bucket once more, in half."""
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result(bucket.buffer().to(torch.float16))
    return future


def register_builtin_comm_hook(reducer: Reducer, kind: Any) -> None:
    if "FP16" in str(kind):
        reducer.register(None, _half)
