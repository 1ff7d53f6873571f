"""The recorder: every operator below autograd, every storage's birth and death, as a trace.

A TorchDispatchMode above FakeTensorMode sees the operators of forward, backward and optimizer in the order in
which a card would run them. Storages are known by weak references: a storage's death is written down when the
last tensor that looks at it goes, autograd's saved ones included, since it is PyTorch's own autograd that holds
them. docs/formats.md describes what is written.
"""
from __future__ import annotations

import json
import threading
import weakref
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from . import _values
from ._card import Card
from ._fallback import body_of
from ._full import Full
from ._kernels import KERNELS
from ._known import MISSING, MOST, Known
from ._truths import COMPARISONS, TRUTHS, Bounds, truth

aten = torch.ops.aten

VERSION = 1
HOST_SHARE = 0.5  # of the machine's free memory: what one CPU tensor may take for real
HOST_FREE = 64 << 20  # bytes of a CPU tensor that is made without looking
MOST_STEPS = 64  # that a trace tells apart
SPARSE = "sparse tensors on the card (sparse gradients of an embedding among them) are not simulated"
NO_END = (1 << 63) - 1  # of a slice
PHASES = ("load", "input", "forward", "backward", "optimizer")

# Numbers of torch/_export/serde/schema.py, which the library uses too.
DTYPES = {torch.uint8: 1, torch.int8: 2, torch.int16: 3, torch.int32: 4, torch.int64: 5, torch.float16: 6, torch.float32: 7,
          torch.float64: 8, torch.complex32: 9, torch.complex64: 10, torch.complex128: 11, torch.bool: 12, torch.bfloat16: 13,
          torch.uint16: 28, torch.float8_e4m3fn: 29, torch.float8_e5m2: 30}

# Operators whose temporaries depend on more than their tensors: their other arguments are written too.
WITH_ATTRIBUTES = {
    "convolution", "convolution_backward", "sum", "mean", "_softmax", "_log_softmax", "_softmax_backward_data",
    "_log_softmax_backward_data", "native_layer_norm", "native_layer_norm_backward", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_efficient_attention_backward", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_cudnn_attention_backward", "_cudnn_rnn", "_cudnn_rnn_backward", "roll", "amax", "amin", "max", "min", "argmax",
    "argmin", "prod", "var", "var_mean", "std", "std_mean", "linalg_vector_norm", "norm", "all", "any", "logsumexp", "index_put",
    "index_put_", "_index_put_impl_", "embedding_dense_backward", "sort", "topk", "native_batch_norm", "cudnn_batch_norm", "cumsum",
    "native_group_norm", "native_group_norm_backward", "_fused_rms_norm", "_fused_rms_norm_backward",
}

# Made of tensors as many as the parameters: what goes in need not be written, nothing depends on it.
WITHOUT_INPUTS = ("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad", "_amp_foreach")


class _Kind:
    """What is known of an operator, found once."""

    __slots__ = ("name", "attributes", "inputs", "view", "quiet", "arguments", "writes", "in_place", "random", "factory", "sizes", "collective",
                 "body")

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.name = str(func)
        short = schema.name.split("::")[-1]
        self.attributes = short in WITH_ATTRIBUTES
        self.inputs = not short.startswith(WITHOUT_INPUTS)
        self.quiet = schema.name.startswith(("prim::", "profiler::"))
        # name, default, and whether it holds tensors: None is then a tensor that is not there
        self.arguments = [(a.name, a.default_value, "Tensor" in str(a.type)) for a in schema.arguments]
        returns = schema.returns
        self.view = bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
        written = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
        self.writes = [(i, a.name) for i, a in enumerate(schema.arguments) if written[i]]
        self.in_place = bool(self.writes) and all(r.alias_info is not None and r.alias_info.is_write for r in returns)
        self.collective = schema.name.startswith(("c10d::", "_c10d_functional"))  # every rank has the numbers that this one has
        self.body = body_of(schema.name)
        self.random = torch.Tag.nondeterministic_seeded in func.tags
        self.factory = not any(holds for _, _, holds in self.arguments)
        # Arguments that are sizes or indices, or lists of them. The bounds of random numbers are neither.
        bounds = ("low", "high", "from", "to", "seed") if self.random else ("dtype", "layout", "memory_format")
        whole = ("int", "List[int]", "Optional[int]", "Optional[List[int]]", *(("number",) if short == "arange" else ()))
        self.sizes = [(i, a.name) for i, a in enumerate(schema.arguments) if a.name not in bounds and str(a.real_type) in whole]


def _plain(value: Any) -> Any:
    """An argument that is no tensor, as JSON has it; what it has not is null."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(v, (bool, int, float)) for v in value):
        return list(value)
    return None


def local(tensor: Any) -> Any:
    """What this rank holds of a tensor: a DTensor's own part, any other itself."""
    return getattr(tensor, "_local_tensor", tensor)


class _Flags(threading.local):
    """What a piece of code asks for while it runs, which is no matter of other threads."""

    paused = 0  # operators are not written down
    all_fake = False  # CPU tensors too, however small


class Recording(TorchDispatchMode):
    """Records while it is entered; what was seen is in its lists."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: list[list[Any]] = []  # [bytes, kind], and the stream where it is not the default one
        self.card = Card()  # whose streams and devices these are
        self.live: dict[int, Any] = {}  # a storage's address: (its number, weak reference)
        self.tensors: list[Any] = []
        self.tensor_ids: dict[Any, int] = {}
        self.names: dict[str, int] = {}
        self.nodes: dict[str, int] = {}
        self.events: list[Any] = []
        self.marks: list[list[Any]] = []
        self.modules: list[list[Any]] = []
        self.module_ids: dict[str, int] = {}
        self.stack: list[int] = []
        self.by_sequence: dict[int, int] = {}  # autograd's number of a function: the module it was made in
        self.kinds: dict[Any, _Kind] = {}
        self.warnings: list[str] = []
        self.phase, self.step = "load", 0
        self.open = True
        self._flags = _Flags()
        self.holders: dict[int, int] = {}  # a storage's number: how many fake storages stand for it, where not one
        self.alone: tuple[int, int] | None = None  # use counts of a tensor and of its storage that nobody else holds
        self.probing = False
        self.wrappers: set[type] = set()  # subclasses that hold other tensors (DTensor)
        self.known = Known()
        self.faults = _values.Faults()
        self.bounds = Bounds(self.known)
        self.spoilt: dict[int, Any] = {}  # a real CPU storage's address: numbers that were not computed went into it
        self.searching = False  # inside LBFGS, which ends when its numbers say so
        self.reads = 0
        self.on_write: Callable[[torch.Tensor], None] | None = None  # told of every tensor that is written to outside of backward
        self.made_forward = 0  # bytes that forward passes with gradients have made so far
        self.room: Full | None = None  # what a card of so many bytes would say
        self.beyond = 0  # bytes by which later steps may take more
        self.assumed: dict[str, bool] = {}  # what the library widens its interval for

    @property
    def paused(self) -> int:
        return self._flags.paused

    @paused.setter
    def paused(self, value: int) -> None:
        self._flags.paused = value

    @property
    def all_fake(self) -> bool:
        return self._flags.all_fake

    @all_fake.setter
    def all_fake(self, value: bool) -> None:
        self._flags.all_fake = value

    def learn_counts(self) -> None:
        """What the use counts of an unshared gradient are here, seen in a sum of two that are."""
        self.paused, self.probing, fake = self.paused + 1, True, self.all_fake
        self.all_fake = True
        try:
            with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cuda", enabled=False):
                x = torch.empty(4, 4, device="cuda", requires_grad=True)
                y = x * 2
                (y.sin() * 2 + y.cos() * 2).sum().backward()
        finally:
            self.paused, self.probing, self.all_fake = self.paused - 1, False, fake

    # ---- people ----

    def warn(self, text: str) -> None:
        if text not in self.warnings and len(self.warnings) < 100:
            self.warnings.append(text)

    def mark(self, phase: str, at: int | None = None) -> None:
        self.phase = phase
        at = len(self.events) if at is None else at
        self.marks.append([max(at, self.marks[-1][0]) if self.marks else at, PHASES.index(phase), min(self.step, MOST_STEPS)])

    # ---- storages and tensors ----

    def storage(self, tensor: torch.Tensor) -> tuple[int, bool]:
        """Its storage's number, and whether it is new."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        known = self.live.get(address)
        if known is not None:
            return known[0], False
        number, size = len(self.storages), storage.nbytes()
        if tensor.device.index not in (None, self.card.index):
            self.other_card(tensor.device)
        self.storages.append([size, "", self.card.stream] if self.card.stream else [size, ""])
        self.watch(storage, number)
        self.card.take(size)
        if torch.is_grad_enabled() and torch._C._current_autograd_node() is None:
            self.made_forward += size
        if self.room is not None:
            self.room.check(self.card.alive, size)
        return number, True

    def other_card(self, device: torch.device) -> None:
        self.assumed["cards"] = True
        self.warn("tensors are on cuda:%s and on cuda:%d: what several cards hold is added up, as if it were all on one" % (
            device.index, self.card.index))

    def watch(self, storage: Any, number: int) -> None:
        """Writes down the number's death when the last storage that stands for it goes."""
        address = storage._cdata

        def gone(_: Any) -> None:
            if self.live.pop(address, None) is None:
                return
            left = self.holders.get(number, 1) - 1
            self.holders[number] = left
            if left == 0:
                self.died(number)

        self.live[address] = (number, weakref.ref(storage, gone))

    def resized(self, storage: Any) -> None:
        """storage.resize_() is about to change its bytes (FSDP's gathered parameters): what was there dies, and what comes is born
        with its first use."""
        known = self.live.pop(storage._cdata, None)
        if known is None:
            return
        self.holders[known[0]] = left = self.holders.get(known[0], 1) - 1
        if left == 0:
            self.died(known[0])

    def died(self, number: int) -> None:
        self.card.give(self.storages[number][0])
        if self.open:
            self.events.append(number)

    def held(self, tensor: torch.Tensor) -> tuple[int, int]:
        return tensor._use_count(), torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)

    def sums_in_place(self, args: Any, out: Any) -> int:
        """Which of two gradients the autograd engine would have added the other to, -1: neither. It adds in place to
        what nobody else holds (input_buffer.cpp), but never to a subclass, so that fake gradients are always added to
        a new tensor; a sum of two alike tensors outside the formulas of a backward function is such a sum."""
        if len(args) != 2 or self.alone is None or not all(isinstance(a, FakeTensor) for a in args):
            return -1
        for i, a in enumerate(args):
            if (a.shape == out.shape and a.dtype == out.dtype and self.held(a) == self.alone
                    and torch.ops.aten.is_non_overlapping_and_dense.default(a)):
                return i
        return -1

    def number(self, tensor: torch.Tensor) -> int:
        """The number of a tensor on the card: its place in the trace's table."""
        storage, fresh = self.storage(tensor)
        key = (storage, tensor.dtype, tuple(tensor.shape), tensor.stride())
        known = self.tensor_ids.get(key)
        if known is None:
            known = self.tensor_ids[key] = len(self.tensors)
            self.tensors.append([storage, DTYPES.get(tensor.dtype, 0), list(tensor.shape), list(tensor.stride())])
        if fresh:
            self.fresh = True
        return known

    def say_kind(self, tensor: Any, kind: str) -> None:
        """weights, gradients, optimizer or inputs: what a storage is; the first word counts."""
        tensor = local(tensor)
        if not isinstance(tensor, FakeTensor) or tensor.fake_device.type != "cuda":
            return
        known = self.live.get(tensor.untyped_storage()._cdata)
        if known is not None and not self.storages[known[0]][1]:
            self.storages[known[0]][1] = kind

    # ---- operators ----

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind in self.wrappers for kind in types):
            return NotImplemented  # its own dispatch comes first; the operators on what it holds come here
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if self.card.index and device is not None and device.type == "cuda" and not device.index:
            # "cuda" is the current device; C++ asks the driver which that is, and is told 0.
            kwargs = {**kwargs, "device": torch.device("cuda", self.card.index)}
            if func is aten._to_copy.default and self.stays(args[0], kwargs):
                return aten.alias.default(args[0])
        if func is torch.ops.prim.device.default and isinstance(args[0], FakeTensor):
            return args[0].fake_device
        if func is aten._local_scalar_dense.default:
            return self.scalar(args[0])
        if func is aten._to_copy.default and args[0].layout != torch.strided and device is not None and device.type == "cuda":
            raise self.faults.fail(SPARSE)
        kind = self.kinds.get(func)
        if kind is None:
            kind = self.kinds[func] = _Kind(func)
        self.check_sizes(kind, args, kwargs)
        if not self.all_fake and self.runs_on_cpu(kind, args, kwargs):
            return self.on_cpu(func, kind, args, kwargs)
        most = self.bounds.of_operator(func, args)
        own = KERNELS.get(func)
        if kind.body is not None:
            with self:
                return kind.body(*args, **kwargs)
        if own is not None:
            out = own(self.known, *args, **kwargs)
        else:
            try:
                out = func(*args, **kwargs)
            except (DynamicOutputShapeException, DataDependentOutputException):
                out = self.dynamic(func, kind, args, kwargs)
        if isinstance(out, FakeTensor) and out.layout != torch.strided and out.fake_device.type == "cuda":
            raise self.faults.fail(SPARSE)
        if not kind.view and not kind.collective:
            out = self.known.follow(func, kind, args, kwargs, out)
            if kind.writes:
                out = self.written(kind, args, kwargs, out)
                if self.on_write is not None and torch._C._current_autograd_node() is None:
                    self.tell_writes(kind, args, kwargs)
        if most is not None:
            self.bounds.keep(args[0] if kind.in_place else out, most)
        known = TRUTHS.get(func)
        if known is not None:
            known(out, *args)
        elif func in COMPARISONS and isinstance(out, FakeTensor):
            # A number that was not computed is 1; inside LBFGS of the sign that lets it go on.
            truth(out, COMPARISONS[func](-1.0 if self.searching and args[1] < 0 else 1.0, args[1]))
        if func is aten.add.Tensor and torch._C._current_autograd_node() is not None:
            if self.probing:
                self.alone = self.held(args[0])
            elif self.open and not self.paused:
                target = self.sums_in_place(args, out)
                if target >= 0:
                    number = self.storage(args[target])[0]
                    self.holders[number] = self.holders.get(number, 1) + 1
                    self.watch(out.untyped_storage(), number)
                    return out
        if self.open and not kind.quiet and not kind.view and not self.paused:
            self.write(kind, args, kwargs, out)
        return out

    @staticmethod
    def stays(tensor: Any, kwargs: Any) -> bool:
        """Whether a tensor is already where and what `to` would make it."""
        return (isinstance(tensor, FakeTensor) and tensor.fake_device == kwargs["device"] and kwargs.get("dtype") in (None, tensor.dtype)
                and kwargs.get("memory_format") in (None, torch.preserve_format))

    def write(self, kind: _Kind, args: Any, kwargs: Any, out: Any) -> None:
        ins: list[int] = []
        attributes: list[Any] = []
        seen = False
        self.fresh = False
        if kind.inputs:
            given = len(args)
            for i, (name, default, holds_tensors) in enumerate(kind.arguments):
                value = args[i] if i < given else kwargs.get(name, default)
                if holds_tensors:
                    seen |= self.put(value, ins)
                elif kind.attributes:
                    attributes.append(_plain(value))
            unborn = self.fresh
        else:
            unborn = False
        outs: list[int] = []
        seen |= self.put(out, outs)
        if not seen:
            return
        name = self.names.setdefault(kind.name, len(self.names))
        node = torch._C._current_autograd_node()
        module = self.stack[-1] if self.stack else -1
        function = -1
        if node is not None:
            function = self.nodes.setdefault(node.name(), len(self.nodes))
            if module < 0:
                module = self.by_sequence.get(node._sequence_nr(), -1)
        elif module >= 0:
            self.by_sequence[torch.autograd._get_sequence_nr() - 1] = module
        if unborn:  # storages made where the dispatcher does not look: born before their first use
            self.events.append([-1, module, function, [], [t for t in ins if t >= 0]])
        event: list[Any] = [name, module, function, ins, outs]
        if kind.attributes:
            event.append(attributes)
        self.events.append(event)

    def empty_cache(self) -> None:
        """torch.cuda.empty_cache(): what the allocator holds beyond tensors goes back."""
        if self.open and not self.paused:
            self.events.append([self.names.setdefault("plimsoll.empty_cache", len(self.names)), -1, -1, [], []])

    def put(self, value: Any, tensors: list[int]) -> bool:
        """Tensors on the card as their numbers, -1 for None and for those elsewhere; whether there was one."""
        if isinstance(value, FakeTensor) and value.fake_device.type == "cuda":
            tensors.append(self.number(value))
            return True
        if isinstance(value, (list, tuple)):
            return any([self.put(v, tensors) for v in value])
        if value is None or isinstance(value, torch.Tensor):
            tensors.append(-1)
        return False

    # ---- numbers that do not exist ----

    def check_sizes(self, kind: _Kind, args: Any, kwargs: Any) -> None:
        """No size or index may come from a number that was not computed: those are beyond any tensor (_values.HUGE)."""
        for i, name in kind.sizes:
            value = args[i] if i < len(args) else kwargs.get(name)
            for number in value if isinstance(value, (list, tuple)) else (value,):
                if type(number) is int and not -_values.LEAST_HUGE < number < _values.LEAST_HUGE and number != NO_END:
                    raise self.faults.fail(f"{kind.name}, {name}: {_values.NOT_COMPUTED}")

    def runs_on_cpu(self, kind: _Kind, args: Any, kwargs: Any) -> bool:
        """Whether a call has only real CPU tensors, or makes one: it then runs for real, as the rest of the script does. A
        tensor that takes more than its share of the machine's memory is fake."""
        device = kwargs.get("device")
        if device is not None and device.type != "cpu":
            return False
        seen = False
        stack = [*args, *kwargs.values()]
        while stack:
            value = stack.pop()
            if isinstance(value, torch.Tensor):
                if isinstance(value, FakeTensor) or value.device.type != "cpu":
                    return False
                seen = True
            elif isinstance(value, (list, tuple)):
                stack.extend(value)
        if seen:
            return True
        size = 1
        for value in args[0] if args and isinstance(args[0], (list, tuple)) else args:
            if isinstance(value, int):
                size *= max(abs(value), 1)
        size *= (kwargs.get("dtype") or torch.get_default_dtype()).itemsize
        if size <= HOST_FREE or size <= HOST_SHARE * free_memory():
            return True
        self.warn(f"a CPU tensor of {size / 2 ** 30:.1f} GiB was not made, for lack of memory here: its numbers are made up")
        return False

    def on_cpu(self, func: Any, kind: _Kind, args: Any, kwargs: Any) -> Any:
        """An operator on real tensors, as it is without a recorder."""
        if func is aten.rand.default and self.stack and torch.Size(args[0]).numel() == 1:
            self.warn("the code draws a single random number (to drop a layer, mostly): it was given almost 1, so that none is dropped")
            with torch._C._DisableTorchDispatch():
                return torch.full(args[0], 1 - 2 ** -24, dtype=kwargs.get("dtype"))
        if kwargs.get("pin_memory"):
            kwargs = {k: v for k, v in kwargs.items() if k != "pin_memory"}
        with torch._C._DisableTorchDispatch():
            out = func(*args, **kwargs)
        if self.spoilt and not kind.view and any(map(self.is_spoilt, [*args, *kwargs.values()])):
            self.spoil(out)
        return out

    # ---- CPU tensors into which a number went that was not computed ----

    def spoil(self, tensor: Any) -> None:
        if isinstance(tensor, (list, tuple)):
            for t in tensor:
                self.spoil(t)
        elif isinstance(tensor, FakeTensor):
            self.known.drop(tensor)
        elif isinstance(tensor, torch.Tensor):
            storage = tensor.untyped_storage()
            address = storage._cdata
            self.spoilt[address] = weakref.ref(storage, lambda _: self.spoilt.pop(address, None))

    def is_spoilt(self, value: Any) -> bool:
        if isinstance(value, (list, tuple)):
            return any(map(self.is_spoilt, value))
        return isinstance(value, torch.Tensor) and value.untyped_storage()._cdata in self.spoilt

    def is_known(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor's numbers are true."""
        if isinstance(tensor, FakeTensor):
            return tensor.constant is not None or (tensor.numel() <= MOST and self.known.has(tensor))
        return not self.spoilt or not self.is_spoilt(tensor)

    def real(self, tensor: torch.Tensor) -> Any:
        """A tensor's numbers on the CPU; None: not known."""
        if not isinstance(tensor, FakeTensor):
            return tensor
        return self.known.real(tensor) if tensor.constant is None else tensor.constant

    def written(self, kind: _Kind, args: Any, kwargs: Any, out: Any) -> Any:
        """An operator that writes to a real CPU tensor, of which another argument is not: what a card gave arrives there."""
        for i, name in kind.writes:
            value = args[i] if i < len(args) else kwargs.get(name)
            if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor) and value.device.type == "cpu":
                if not all(not isinstance(a, torch.Tensor) or self.is_known(a) for a in args):
                    self.spoil(value)
                if isinstance(out, torch.Tensor):
                    out = value
        return out

    def tell_writes(self, kind: _Kind, args: Any, kwargs: Any) -> None:
        for i, name in kind.writes:
            value = args[i] if i < len(args) else kwargs.get(name)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, FakeTensor):
                    self.on_write(tensor)  # type: ignore[misc]

    def scalar(self, tensor: torch.Tensor) -> Any:
        real = self.real(tensor)
        if real is not None:
            with torch._C._DisableTorchDispatch():
                return real.item()
        self.read()
        if tensor.dtype == torch.bool:
            truth = getattr(tensor, "_plimsoll_truth", None)
            return True if truth is None else truth
        return 1.0 if tensor.is_floating_point() else _values.HUGE

    def read(self) -> None:
        self.warn("the code reads a number that was not computed (.item(), float(), if tensor): it was given 1, or True")

    def dynamic(self, func: Any, kind: _Kind, args: Any, kwargs: Any) -> Any:
        """An operator whose result's size depends on numbers: the size that they give, else the largest it can be."""
        real = self.known.compute(func, kind, args, kwargs)
        if real is not MISSING:
            return self.like(real, args[0].device)
        first = args[0]
        if func is aten.index.Tensor:
            return self.by_mask(func, first, args[1])
        if func is aten.masked_select.default:
            mask = self.known.real(args[1]) if isinstance(args[1], FakeTensor) else args[1]
            if mask is not None:
                with torch._C._DisableTorchDispatch():
                    count = int(mask.expand(torch.broadcast_shapes(first.shape, mask.shape)).sum())
                return torch.empty((count,), dtype=first.dtype, device=first.device)
        self.assume_size(func)
        if func is aten.nonzero.default:
            return torch.empty((self.bounds.of(first), first.dim()), dtype=torch.int64, device=first.device)
        if func is aten.masked_select.default:
            whole = torch.broadcast_shapes(first.shape, args[1].shape).numel()
            return torch.empty((self.bounds.of(args[1]) * whole // max(args[1].numel(), 1),), dtype=first.dtype, device=first.device)
        if func in (aten.unique_consecutive.default, aten._unique2.default, aten.unique_dim.default, aten._unique.default):
            flat = torch.empty((first.numel(),), dtype=first.dtype, device=first.device)
            return (flat, torch.empty(first.shape, dtype=torch.int64, device=first.device),
                    torch.empty((first.numel(),), dtype=torch.int64, device=first.device))[:len(func._schema.returns)]
        if func is aten.equal.default:
            return True
        if func is aten.repeat_interleave.Tensor:
            size = kwargs.get("output_size") or first.numel()
            return torch.empty((size,), dtype=torch.int64, device=first.device)
        if func is aten.bincount.default:
            return torch.empty((max(1, kwargs.get("minlength", 0) or (args[2] if len(args) > 2 else 0)),), dtype=torch.int64, device=first.device)
        if kind.name == "torchvision.nms.default":
            return torch.empty((first.size(0),), dtype=torch.int64, device=first.device)
        raise  # noqa: PLE0704  (called where the exception was caught)

    def assume_size(self, func: Any) -> None:
        self.assumed["sizes"] = True
        self.warn(f"{func}: a size depends on numbers that were not computed; the largest it can have was taken")

    def like(self, real: Any, device: Any) -> Any:
        """Fake tensors on the card of the shapes that real ones have."""
        if isinstance(real, torch.Tensor):
            return torch.empty_strided(tuple(real.shape), real.stride(), dtype=real.dtype, device=device)
        return type(real)(self.like(r, device) for r in real) if isinstance(real, (list, tuple)) else real

    def by_mask(self, func: Any, tensor: torch.Tensor, indices: Any) -> Any:
        """tensor[mask]: as many rows as the mask has true places, or places where its numbers are not known."""
        places: list[Any] = []
        for index in indices:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                places.append(index)
                continue
            mask = self.known.real(index) if isinstance(index, FakeTensor) else index
            if mask is None:
                self.assume_size(func)
                count = self.bounds.of(index)
            else:
                with torch._C._DisableTorchDispatch():
                    count = int((mask != 0).sum())
            places += [torch.empty((count,), dtype=torch.int64, device=tensor.device) for _ in range(max(index.dim(), 1))]
        if any(i is not None and i.dim() == 0 for i in indices if i is not None and i.dtype in (torch.bool, torch.uint8)):
            raise  # noqa: PLE0704  (a truth value as an index: left to PyTorch)
        return func(tensor, places)


def free_memory() -> int:
    """Bytes of main memory that a process could still take; a little where the system does not say."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    return 8 << 30


def dump(recording: Recording, head: dict[str, Any]) -> bytes:
    """The trace as JSON. head: what goes before the tables (job, parameters, layers, ...)."""
    r = recording
    trace = {"plimsoll_trace": VERSION, "torch": torch.__version__, **head, "warnings": r.warnings, "assumed": sorted(r.assumed),
             "beyond": r.beyond,
             "modules": r.modules, "operators": list(r.names), "functions": list(r.nodes), "storages": r.storages, "tensors": r.tensors,
             "marks": r.marks, "events": r.events}
    return json.dumps(trace, separators=(",", ":")).encode()
