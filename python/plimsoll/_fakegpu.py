"""A card that is not there: torch.cuda answers as if there were one, and autograd runs on fake CUDA tensors.

FakeTensorMode already makes tensors that say "cuda" and hold nothing. What is missing on a machine without a
card is put here for the length of a `with FakeGPU():` and taken back after it: torch.cuda's queries, random
states, streams and events (_card.py); nn.Module.to, which swaps parameters and cannot swap fake ones; foreach and fused
optimizers, which look at the exact type of a parameter; a GradScaler that would read numbers; and the one
question of the autograd engine that a CUDA build cannot answer without a driver.

Left out: CUDA graphs, tensors that C++ code makes without the dispatcher.
"""
from __future__ import annotations

import atexit
import ctypes
import os
import sys
import types
from typing import Any, Callable

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from . import _batches, _card

GIB = 1 << 30


class CaptureUnavailable(RuntimeError):
    """This PyTorch cannot run autograd on fake CUDA tensors here; the message says why."""


# ---- the engine ----

_kept: list[Any] = []  # the table and the callback live as long as Python
_engine_ready = False


def _backward_works() -> bool:
    try:
        # asked, perhaps, while the script evaluates
        with torch.inference_mode(False), torch.enable_grad(), FakeTensorMode(), torch.autograd.set_multithreading_enabled(False):
            x = torch.empty(2, device="cuda", requires_grad=True)
            (x * 2).sum().backward()
        return True
    except RuntimeError:
        return False


def prepare_engine() -> None:
    """Makes backward over fake CUDA tensors possible, once per process.

    CPU builds and machines with a card need nothing. A CUDA build without a card fails in
    GraphTask::stash_current_streams, which asks CUDA's hooks whether device 0 has a context and gets an
    exception in place of "no". The hooks' virtual function for that question is replaced by one that says no;
    its place in the table differs between versions, so each likely place is tried and the rest put back.
    """
    global _engine_ready
    if _engine_ready or _backward_works():
        _engine_ready = True
        return
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
    try:
        hooks_of = getattr(ctypes.CDLL(path), "_ZN2at6detail12getCUDAHooksEv")
    except (OSError, AttributeError) as e:
        raise CaptureUnavailable("autograd refuses fake CUDA tensors in this build of PyTorch") from e
    hooks_of.restype = ctypes.c_void_p
    table = ctypes.c_void_p.from_address(hooks_of())  # the object's first word
    original, before, count = table.value, 2, 64  # two words lie before a table: offset and type
    answer = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int8)(lambda hooks, index: False)
    assert original is not None
    for slot in (4, 2, 3, 5):
        words = [ctypes.c_void_p.from_address(original + 8 * (i - before)).value for i in range(before + count)]
        copy = (ctypes.c_void_p * len(words))(*words)
        copy[before + slot] = ctypes.cast(answer, ctypes.c_void_p).value
        table.value = ctypes.addressof(copy) + 8 * before
        if _backward_works():
            _kept.extend([copy, answer])
            _engine_ready = True
            # the object is destroyed after Python, by way of its table
            atexit.register(setattr, table, "value", original)
            return
        table.value = original
    raise CaptureUnavailable("autograd refuses fake CUDA tensors in this build of PyTorch (hasPrimaryContext)")


# ---- torch.cuda ----


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _zero(*args: Any, **kwargs: Any) -> int:
    return 0


def _cuda_answers(capability: tuple[int, int], memory: int, name: str) -> dict[str, Any]:
    major, minor = capability
    properties = types.SimpleNamespace(
        name=name, major=major, minor=minor, total_memory=memory, multi_processor_count=132, is_multi_gpu_board=0,
        is_integrated=0, max_threads_per_multi_processor=2048, warp_size=32, gcnArchName="", L2_cache_size=50 << 20,
        regs_per_multiprocessor=65536, shared_memory_per_block=49152, shared_memory_per_block_optin=232448)
    answers: dict[str, Any] = {
        "is_available": lambda: True, "is_initialized": lambda: True,
        "get_device_name": lambda device=None: name, "get_device_capability": lambda device=None: capability,
        "get_device_properties": lambda device=None: properties, "is_bf16_supported": lambda *a, **k: major >= 8,
        "memory_summary": lambda *a, **k: "", "memory_snapshot": lambda *a, **k: [], "get_arch_list": list,
        "current_blas_handle": _zero, "is_current_stream_capturing": lambda: False,
        "get_rng_state": lambda device=None: torch.empty(16, dtype=torch.uint8), "initial_seed": _zero,
        "get_rng_state_all": lambda: [torch.empty(16, dtype=torch.uint8)], "can_device_access_peer": lambda *a: False,
        "temperature": _zero, "utilization": _zero, "power_draw": _zero, "clock_rate": _zero,
    }
    for quiet in ("init", "_lazy_init", "synchronize", "empty_cache", "ipc_collect",
                  "manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all",
                  "reset_accumulated_memory_stats", "set_per_process_memory_fraction", "set_sync_debug_mode"):
        answers[quiet] = _nothing
    return answers


# ---- modules, optimizers, scaler, data ----


_data = torch._C.TensorBase.data


def set_data(parameter: torch.Tensor, value: torch.Tensor) -> None:
    """parameter.data = value, the device of a fake one included."""
    _data.__set__(parameter, value)
    if isinstance(parameter, FakeTensor) and isinstance(value, FakeTensor):
        parameter.fake_device = value.fake_device


def _apply(self: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> torch.nn.Module:
    """nn.Module._apply as it is for real tensors: children, own parameters in place, buffers."""
    if recurse:
        for child in self.children():
            child._apply(fn)
    for key, parameter in list(self._parameters.items()):
        if parameter is None:
            continue
        with torch.no_grad():
            moved = fn(parameter)
        if moved is not parameter and not torch._has_compatible_shallow_copy_type(parameter, moved):  # a DTensor on the meta device
            self._parameters[key] = torch.nn.Parameter(moved, requires_grad=parameter.requires_grad)
            continue
        grad = parameter.grad
        if grad is not None:
            parameter.grad = None
        if moved is not parameter:
            set_data(parameter, moved)
        if grad is not None:
            with torch.no_grad():
                parameter.grad = fn(grad).requires_grad_(grad.requires_grad)
    for key, buffer in self._buffers.items():
        if buffer is not None:
            self._buffers[key] = fn(buffer)
    return self


def _flatten_parameters(self: torch.nn.RNNBase) -> None:
    """nn.RNNBase.flatten_parameters on a card: one buffer for all weights, of types that cuDNN takes flat."""
    weights = self._flat_weights
    if len(weights) != len(self._flat_weights_names) or not all(isinstance(w, torch.Tensor) for w in weights):
        return
    first = weights[0]
    if any(w.dtype != first.dtype or w.device.type != "cuda" for w in weights):
        return
    if first.dtype not in (torch.float32, torch.float64, torch.float16):
        return
    if len({w.untyped_storage()._cdata for w in weights}) == 1 and len(weights) > 1:
        return  # flat already
    with torch.no_grad():
        flat = torch.empty(sum(w.numel() for w in weights), dtype=first.dtype, device=first.device)
        at = 0
        for w in weights:
            set_data(w, flat[at:at + w.numel()].view(w.shape))
            at += w.numel()


def _pin(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return self


_type = torch.Tensor.type


def _typed(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Tensor.type with one of torch.cuda's old tensor types, itself or its name: PyTorch asks the driver before it dispatches."""
    name = dtype if isinstance(dtype, str) else "%s.%s" % (getattr(dtype, "__module__", ""), getattr(dtype, "__name__", ""))
    kind = getattr(torch.cuda, name[11:], None) if name.startswith("torch.cuda.") and name.endswith("Tensor") else None
    if kind is None:
        return _type(self, dtype, non_blocking, **kwargs) if dtype is not None else _type(self)
    return self.to("cuda", kind.dtype, non_blocking)


class _NotFake:
    """Stands for FakeTensor where libraries ask whether they are being traced: here they are not."""


def _always_step(self: Any, optimizer: Any, optimizer_state: Any, *args: Any, **kwargs: Any) -> Any:
    """A GradScaler's step as it is when no gradient overflowed."""
    return optimizer.step(*args, **kwargs)


def _format(self: torch.Tensor, spec: str) -> str:
    if self.dim() == 0:
        return format(self.item(), spec)
    return object.__format__(self, spec)


def _enter_inference(self: Any) -> None:
    """torch.inference_mode as no_grad: composite operators would reach the modes whole, and memory is the same."""
    self._plimsoll_before = torch.is_grad_enabled()
    torch._C._set_grad_enabled(not self.mode)


def _leave_inference(self: Any, *exc: Any) -> None:
    torch._C._set_grad_enabled(self._plimsoll_before)


_INHERITED = object()  # not the owner's own: to be deleted again


class FakeGPU:
    """`with FakeGPU(capability=(9, 0)):` puts the card there; leaving takes it away again."""

    def __init__(self, capability: tuple[int, int] = (9, 0), memory: int = 141 * GIB, name: str = "plimsoll fake card") -> None:
        self.capability, self.memory, self.name = capability, memory, name
        self.card = _card.Card()
        self._saved: list[tuple[Any, str, Any]] = []

    def patch(self, owner: Any, name: str, value: Any) -> None:
        """Sets owner.name for the length of the with."""
        self._saved.append((owner, name, vars(owner).get(name, _INHERITED)))
        setattr(owner, name, value)

    def tell_script(self) -> None:
        """TorchScript knows PyTorch's functions by their identity: what stands in for one is told as the same operator."""
        table = torch.jit._builtins._get_builtin_table()
        for owner, name, value in self._saved:
            if value is not _INHERITED and id(value) in table:
                table[id(vars(owner)[name])] = table[id(value)]

    def __enter__(self) -> "FakeGPU":
        prepare_engine()
        answers = {**_cuda_answers(self.capability, self.memory, self.name), **_card.cuda_answers(self.card),
                   **_card.memory_answers(self.card, self.memory)}
        for name, answer in answers.items():
            if hasattr(torch.cuda, name):
                self.patch(torch.cuda, name, answer)
        for module in ("memory", "random", "streams"):  # where torch's own code imports them from
            inner = getattr(torch.cuda, module, None)
            for name, answer in answers.items():
                if inner is not None and name in vars(inner):
                    self.patch(inner, name, answer)
        _card.install(self.patch, self.card, answers, self.memory, self.name)
        self.patch(fake_tensor, "init_gpu_context", _nothing)
        self.patch(FakeTensorMode, "avoid_device_init", property(lambda mode: True))
        self.patch(FakeTensorMode, "__deepcopy__", lambda mode, memo: mode)  # an attribute of each tensor, and one for all of them
        self.patch(torch._subclasses, "FakeTensor", _NotFake)
        self.patch(torch.nn.Module, "_apply", _apply)
        self.patch(torch.inference_mode, "__enter__", _enter_inference)
        self.patch(torch.inference_mode, "__exit__", _leave_inference)
        self.patch(torch.nn.RNNBase, "flatten_parameters", _flatten_parameters)
        self.patch(torch.Tensor, "data", property(_data.__get__, set_data))
        self.patch(torch.Tensor, "pin_memory", _pin)
        self.patch(torch.Tensor, "is_pinned", lambda self, *a, **k: False)
        self.patch(torch.Tensor, "__format__", _format)
        self.patch(torch.Tensor, "record_stream", _nothing)
        self.patch(torch.Tensor, "share_memory_", _pin)
        self.patch(torch.Tensor, "type", _typed)
        self.patch(torch.utils.data.DataLoader, "_get_iterator", _batches.get_iterator)
        from torch.amp import grad_scaler
        self.patch(grad_scaler.GradScaler, "_maybe_opt_step", _always_step)
        for holder in (sys.modules["torch.optim.optimizer"], sys.modules["torch.utils._foreach_utils"]):
            self.patch(holder, "_foreach_supported_types", [*holder._foreach_supported_types, FakeTensor])
        return self

    def __exit__(self, *exc: Any) -> None:
        for owner, name, value in reversed(self._saved):
            if value is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        self._saved.clear()
