"""Training steps without a card: run on fake tensors, written as a trace that libplimsoll replays.

Two ways in. `trace_step(model, inputs, ...)` runs the training loop of a model that torch.export refuses;
`Recorder` is a context in which a whole script runs, up to its first optimizer steps. Both run PyTorch's own
forward, autograd and optimizer on tensors that say "cuda" and hold nothing, so that operators come in the order
of a real run and every tensor lives exactly as long; what only kernels know (workspaces, temporaries) the
library adds when it replays the trace. No CUDA device is needed or touched. docs/formats.md describes the trace.
"""
from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.modules import module as _module

from . import _compiled, _fallback, _flex, _loads, _reads, _triton, _values, _words
from ._fakegpu import CaptureUnavailable, FakeGPU
from ._line import Line
from ._optimizer import name_of
from ._inputs import batch_of
from ._known import MOST
from ._record import DTYPES, MOST_STEPS, Recording, dump, local
from ._steer import Steer
from ._steps import Steps, missing_pairs
from ._truths import limit_samples

_optimizer = sys.modules["torch.optim.optimizer"]  # torch.optim hides the name

__all__ = ["CaptureUnavailable", "Recorder", "StepDone", "trace_step"]

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "amp-bf16", "amp-fp16")


class StepDone(BaseException):
    """Raised out of a script when the recorder has seen the steps it wanted. Not an Exception, so that a
    script's own `except Exception` lets it through."""


def _sgd(**kw: Any) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda params: torch.optim.SGD(params, lr=1e-3, **kw)


def _of(name: str, **kw: Any) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda params: getattr(torch.optim, name)(params, **kw)


# The library's names (`plimsoll estimate --optimizer`) and what they are in torch.optim.
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": _sgd(), "sgd-decay": _sgd(weight_decay=1e-4), "sgd-fused": _sgd(fused=True), "sgd-momentum": _sgd(momentum=0.9),
    "sgd-momentum-decay": _sgd(momentum=0.9, weight_decay=1e-4), "sgd-momentum-fused": _sgd(momentum=0.9, fused=True),
    "sgd-nesterov": _sgd(momentum=0.9, nesterov=True, weight_decay=1e-4), "adam": _of("Adam"), "adam-decay": _of("Adam", weight_decay=0.01),
    "adam-fused": _of("Adam", fused=True), "adam-single": _of("Adam", foreach=False), "adamw": _of("AdamW"),
    "adamw-amsgrad": _of("AdamW", amsgrad=True), "adamw-fused": _of("AdamW", fused=True), "adamw-single": _of("AdamW", foreach=False),
    "rmsprop": _of("RMSprop"), "rmsprop-centered": _of("RMSprop", centered=True, momentum=0.9), "adagrad": _of("Adagrad"),
    "adagrad-fused": _of("Adagrad", fused=True), "adadelta": _of("Adadelta"), "adamax": _of("Adamax"), "nadam": _of("NAdam"),
    "radam": _of("RAdam"), "adafactor": _of("Adafactor"), "asgd": _of("ASGD"), "rprop": _of("Rprop"), "muon": _of("Muon"),
}


def _map(value: Any, f: Callable[[torch.Tensor], Any]) -> Any:
    """f of every tensor in tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return f(value)
    if isinstance(value, Mapping):
        return {k: _map(v, f) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_map(v, f) for v in value) if not hasattr(value, "_fields") else type(value)(*(_map(v, f) for v in value))
    return value


def _has_values(t: torch.Tensor) -> bool:
    return not isinstance(t, FakeTensor) and t.device.type != "meta" and t.layout == torch.strided


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_in(inner)


def _first_tensor(value: Any, floating: bool = False) -> torch.Tensor | None:
    return next((t for t in tensors_in(value) if t.is_floating_point() or not floating), None)


def _optimizer_name(optimizer: torch.optim.Optimizer) -> str:
    """The library's word for an optimizer, where it has one; else its class."""
    return name_of(optimizer) or type(optimizer).__name__.lower()


@contextlib.contextmanager
def paused(recording: Recording) -> Any:
    """Operators run and are not written down."""
    recording.paused += 1
    try:
        yield
    finally:
        recording.paused -= 1


@contextlib.contextmanager
def all_fake(recording: Recording) -> Any:
    """CPU tensors are fake too, however small."""
    recording.all_fake, before = True, recording.all_fake
    try:
        yield
    finally:
        recording.all_fake = before


class Recorder:
    """A context in which training runs on fake CUDA tensors and is recorded.

        recorder = Recorder(steps=2)
        try:
            with recorder:
                runpy.run_path("train.py", run_name="__main__")
        except StepDone:
            pass
        trace = recorder.trace()

    Inside it: models are built, moved with .cuda() and .to("cuda"), batches come from DataLoaders, autocast,
    GradScaler, backward and any torch.optim optimizer run, all without a card. torch.cuda says that there is
    one. Reading a number (.item(), float(loss), a print) gives a plausible one, and the trace says so in its
    warnings; loops that run until a number is small would not end.

    steps: how many optimizer steps to see; StepDone leaves the `with` after the last of them (None: never).
    capability: compute capability of the card that is imagined, since attention's kernels depend on it.
    memory, device_name: what torch.cuda says of it.

    optimizer_steps: how many it has seen. warnings: what was assumed, for people. trace(): the JSON, as bytes. Not
    for use by several threads.
    """

    def __init__(self, *, steps: int | None = 2, capability: tuple[int, int] = (9, 0), memory: int = 141 << 30,
                 device_name: str = "NVIDIA H200", name: str = "", job: Mapping[str, Any] | None = None) -> None:
        self.steps, self.capability, self.name = steps, capability, name
        self.job: dict[str, Any] = dict(job or {})
        self.recording = Recording()
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._gpu = FakeGPU(capability, memory, device_name)
        self._steer = Steer(capability)
        self._stack = contextlib.ExitStack()
        self._names: dict[int, str] = {}  # a module's identity: its path
        self._roots: list[torch.nn.Module] = []
        self._layers: list[list[Any]] = []
        self._seen_layers: set[int] = set()
        self._parameters: list[list[Any]] = []
        self._history = (0, 0)  # of LBFGS: pairs, and bytes of those that are still to come
        self._boundary = 0  # event where the present step's inputs begin
        self._moving = 0
        self._in_forward = 0
        self.progress = Steps(self.recording, steps)
        self.ranks: Any = None  # _ranks.Ranks, where the script may be of several processes
        self._batch = 0
        self.line = Line(self.job)

    @property
    def optimizer_steps(self) -> int:
        return self.progress.done

    @property
    def warnings(self) -> list[str]:
        return self.recording.warnings

    def patch(self, owner: Any, name: str, value: Any) -> None:
        """Sets owner.name for as long as the recorder is entered."""
        self._gpu.patch(owner, name, value)

    # ---- entering ----

    def __enter__(self) -> "Recorder":
        stack, r = self._stack, self.recording
        stack.enter_context(self._gpu)
        stack.enter_context(self._steer)
        stack.enter_context(self.mode)
        stack.enter_context(r)
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))  # backward in this thread, where the modes are
        r.learn_counts()
        r.mark("load")
        gpu = self._gpu
        new_parameter = torch.nn.Parameter.__new__
        run_backward, apply, init = torch.autograd.graph._engine_run_backward, torch.nn.Module._apply, torch.optim.Optimizer.__init__

        def backward(*args: Any, **kwargs: Any) -> Any:
            if self._in_forward == 0:
                r.mark("backward")
                self.line.backward()
            held, r.stack = r.stack, []
            try:
                return run_backward(*args, **kwargs)
            finally:
                r.stack = held
                self._boundary = len(r.events)

        def moved(module: Any, fn: Any, recurse: bool = True) -> Any:
            self._moving += 1
            try:
                return apply(module, fn, recurse)
            finally:
                self._moving -= 1
                if self._moving == 0:
                    self._boundary = len(r.events)

        def made(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            init(optimizer, *args, **kwargs)
            self.progress.made.append(optimizer)
            self._boundary = len(r.events)

        def parameter(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
            if data is not None and not isinstance(data, FakeTensor) and type(data) is torch.Tensor:
                with torch.no_grad(), all_fake(r):
                    data = torch.empty_strided(data.size(), data.stride(), dtype=data.dtype, device=data.device)
            elif isinstance(data, FakeTensor):
                r.known.drop(data)  # a weight: what it was set to is not followed
            return new_parameter(cls, data, requires_grad)

        resize = torch.UntypedStorage.resize_

        def resized(storage: Any, size: int) -> Any:
            if storage.nbytes() != size:
                r.resized(storage)
            return resize(storage, size)

        r.card = gpu.card
        gpu.patch(torch.UntypedStorage, "resize_", resized)
        _triton.stand_in(gpu.patch, r.known)
        gpu.patch(torch.nn.Parameter, "__new__", parameter)
        make = FakeTensor.__new__

        def fake(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], torch.Tensor):  # type(parameter)(tensor, requires_grad=...), as accelerate has it
                return torch.nn.Parameter(args[0], requires_grad=kwargs.get("requires_grad", True))
            return make(cls, *args, **kwargs)

        gpu.patch(FakeTensor, "__new__", staticmethod(fake))
        for owner in (torch.autograd.graph, torch.autograd):
            if hasattr(owner, "_engine_run_backward"):
                gpu.patch(owner, "_engine_run_backward", backward)
        gpu.patch(torch.nn.Module, "_apply", moved)
        gpu.patch(torch.optim.Optimizer, "__init__", made)
        call = torch.nn.Module._call_impl

        def called(module: Any, *args: Any, **kwargs: Any) -> Any:
            if self._in_forward == 0 and torch._C._current_autograd_node() is None:
                self._receive(module, args, kwargs)
            return call(module, *args, **kwargs)

        gpu.patch(torch.nn.Module, "_call_impl", called)
        _compiled.install(r, gpu.patch, gpu.tell_script)
        _fallback.install(r.warn, gpu.patch)
        _flex.install(r, gpu.patch)
        accelerator = getattr(torch, "accelerator", None)
        for owner in (torch.cuda, torch.cuda.memory, accelerator, getattr(accelerator, "memory", None)):
            if hasattr(owner, "empty_cache"):
                gpu.patch(owner, "empty_cache", r.empty_cache)
        gpu.patch(torch.backends.mha, "get_fastpath_enabled", lambda: False)  # fused layers of an evaluation have no fake kernel
        stack.callback(_values.install(r.faults, gpu.patch))
        _reads.install(r, gpu.patch)
        _loads.install(r, gpu.patch)
        stack.callback(_module.register_module_forward_pre_hook(self._before_module).remove)
        stack.callback(_module.register_module_forward_hook(self._after_module, always_call=True).remove)
        stack.callback(_optimizer.register_optimizer_step_pre_hook(self._before_step).remove)
        stack.callback(_optimizer.register_optimizer_step_post_hook(self._after_step).remove)
        return self

    def finish(self) -> None:
        """No more is recorded; what there is gets its names."""
        self.recording.open = False
        self._describe()
        if self.ranks is not None:
            self.job.update(self.ranks.finish(self._roots))
            self.recording.warnings.extend(self.ranks.sentences())

    def __exit__(self, *exc: Any) -> None:
        self.finish()
        self._roots.clear()
        self.progress.made.clear()
        self._stack.close()

    # ---- modules ----

    def _know(self, root: torch.nn.Module) -> None:
        """Paths of a model that is called for the first time."""
        self._roots.append(root)
        for path, module in root.named_modules():
            self._names.setdefault(id(module), path)
            limit_samples(module)

    def _receive(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """What a model is called with: its first tensor has the batch, and has something in it."""
        tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, torch.Tensor)]
        if not self._batch or not self.line.trained:
            self._batch = self.line.called(self._batch, batch_of((*args, *kwargs.values())) or 0)
        if not tensors:
            return
        first = tensors[0]
        if first.numel() == 0 and next(module.parameters(), None) is not None:
            raise self.recording.faults.fail(
                "an empty tensor of shape %s enters %s: the figures would be of a model that computes nothing. Was a batch cut by a number that "
                "was not computed?" % (tuple(first.shape), type(module).__name__))

    def _before_module(self, module: torch.nn.Module, args: Any) -> None:
        r = self.recording
        if self._in_forward == 0 and torch._C._current_autograd_node() is None:
            if id(module) not in self._names:
                self._know(module)
            if r.phase != "forward":
                r.mark("input", self._boundary)
                r.mark("forward")
        within = torch._C._current_autograd_node() is not None
        self.line.module(module if self._in_forward == 0 and not within else None, within)
        self._in_forward += 1
        path = self._names.get(id(module), type(module).__name__)
        index = r.module_ids.get(path)
        if index is None:
            index = r.module_ids[path] = len(r.modules)
            kind = type(module)
            r.modules.append([path, f"{kind.__module__}.{kind.__qualname__}", r.stack[-1] if r.stack else -1])
        r.stack.append(index)

    def _after_module(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        r = self.recording
        self._in_forward -= 1
        if r.stack:
            r.stack.pop()
        if id(module) in self._seen_layers or next(module.children(), None) is not None:
            return
        self._seen_layers.add(id(module))
        out = _first_tensor(output) if output is not None else None
        count = out.numel() // max(self._batch, 1) if out is not None else 0
        self._layers.append([type(module).__name__, count, sum(p.numel() for p in module.parameters(recurse=False))])

    # ---- steps ----

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if callable(closure):
            self.recording.mark("input", self._boundary)
        self.progress.begin(optimizer)
        self._say_gradients(optimizer)
        if not callable(closure):
            return None
        inner = self.progress.wrapped(closure)

        def called(*a: Any, **k: Any) -> Any:
            self._boundary = len(self.recording.events)
            value = inner(*a, **k)
            self._say_gradients(optimizer)
            return value

        return ((args[0], called, *args[2:]), kwargs) if len(args) > 1 else (args, {**kwargs, "closure": called})

    def _say_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        r = self.recording
        for group in optimizer.param_groups:
            for p in group["params"]:
                r.say_kind(p, "weights")
                r.say_kind(p.grad, "gradients")
        for root in self._roots:
            for p in root.parameters():  # those of no optimizer too
                r.say_kind(p.grad, "gradients")

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        r = self.recording
        for state in optimizer.state.values():
            if isinstance(state, Mapping):
                for value in state.values():
                    for one in value if isinstance(value, list) else (value,):
                        r.say_kind(one, "optimizer")
        if isinstance(optimizer, torch.optim.LBFGS):
            self._say_history(optimizer)
        self.job.setdefault("optimizer", _optimizer_name(optimizer))
        self.job.setdefault("cudnn_benchmark", bool(torch.backends.cudnn.benchmark))
        self.line.step()
        enough = self.progress.finish(optimizer)
        if enough:
            r.faults.late = self._end_late
        self._boundary = len(r.events)
        if enough or not self._parameters:
            self._describe()
        if enough:
            r.open = False  # what dies while the script is left does not count
            raise StepDone

    def _end_late(self, fault: _values.MadeUp) -> BaseException:
        """After the steps (an evaluation that looks a name up by what was predicted): their figures stand, the rest is not simulated."""
        r = self.recording
        r.warn("%s: what comes after the steps was simulated up to here: %s" % (fault.where, fault.message))
        r.open = False
        return StepDone()

    def _say_history(self, optimizer: Any) -> None:
        """LBFGS keeps pairs of directions, more with every iteration: its first steps do not show them all."""
        size = sum(p.numel() * p.element_size() for group in optimizer.param_groups for p in group["params"])
        self._history = (optimizer.param_groups[0].get("history_size", 0), 2 * size * missing_pairs(optimizer))

    # ---- the end ----

    def _describe(self) -> None:
        """Names of parameters and buffers, while they live and are on the card: frameworks move them away at their end."""
        r = self.recording
        seen: set[int] = set()
        found: list[list[Any]] = []
        for root in self._roots:
            for kind, named in (("parameter", root.named_parameters()), ("buffer", root.named_buffers())):
                for path, whole in named:
                    tensor = local(whole)
                    if id(tensor) in seen or not isinstance(tensor, FakeTensor) or tensor.fake_device.type != "cuda":
                        continue
                    seen.add(id(tensor))
                    r.say_kind(tensor, "weights")
                    known = r.live.get(tensor.untyped_storage()._cdata)
                    if known is not None:
                        found.append([path, known[0], DTYPES.get(tensor.dtype, 0), list(whole.shape), kind,
                                      bool(whole.requires_grad)])
        self._parameters = found or self._parameters
        if not self.name and self._roots:
            self.name = type(self._roots[0]).__name__

    def trace(self) -> bytes:
        """What was recorded, as JSON; after the `with`. Raises _values.MadeUp where the script made a size or an index of a
        number that was not computed, whatever it did with the exception."""
        if self.recording.faults.first is not None:
            raise self.recording.faults.first
        if not self.recording.events:
            raise RuntimeError("nothing ran on the card: no model was moved to cuda")
        if self._history[1]:
            self.recording.warn("LBFGS keeps up to %d pairs of directions: %s more than the steps that were run show"
                                % (self._history[0], _words.size(self._history[1])))
        job = {"batch": self._batch, "steps": min(self.optimizer_steps, MOST_STEPS), **self.job}
        return dump(self.recording, {"name": self.name, "capability": list(self.capability), "job": job, "parameters": self._parameters,
                                     "layers": self._layers})


# ---- one model ----


@contextlib.contextmanager
def _fake_weights(model: torch.nn.Module) -> Any:
    """The model with fake CPU tensors in place of its parameters and large buffers, copies of the small ones, put back at the
    end."""
    saved: list[tuple[dict[str, Any], dict[str, Any]]] = []
    memo: dict[int, torch.Tensor] = {}

    def fake(t: Any) -> Any:
        if not isinstance(t, torch.Tensor):
            return t
        if id(t) not in memo:
            if not isinstance(t, torch.nn.Parameter) and _has_values(t) and t.numel() <= MOST:
                with torch._C._DisableTorchDispatch():
                    memo[id(t)] = t.detach().cpu().clone()
                return memo[id(t)]
            with torch.no_grad():
                made = torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device="cpu")
            memo[id(t)] = torch.nn.Parameter(made, requires_grad=t.requires_grad) if isinstance(t, torch.nn.Parameter) else made
        return memo[id(t)]

    modules = list(model.modules())
    for module in modules:
        for store in (module._parameters, module._buffers):
            saved.append((store, dict(store)))
            for key, tensor in store.items():
                store[key] = fake(tensor)
        plain = {k: v for k, v in module.__dict__.items() if isinstance(v, torch.Tensor) and not isinstance(v, FakeTensor)}
        saved.append((module.__dict__, plain))
        for key, tensor in plain.items():
            module.__dict__[key] = fake(tensor)
        if isinstance(module, torch.nn.RNNBase):
            saved.append((module.__dict__, {"_flat_weights": module._flat_weights}))
            module._flat_weights = [fake(w) for w in module._flat_weights]
    try:
        yield
    finally:
        for store, values in reversed(saved):
            store.update(values)


def _restore_modes(modes: Sequence[tuple[torch.nn.Module, bool]]) -> None:
    for module, training in modes:
        module.training = training


def _checkpoint_blocks(model: torch.nn.Module, stack: contextlib.ExitStack) -> None:
    """Non-reentrant checkpointing of every repeated block: the children of the outermost ModuleLists."""
    enable = getattr(model, "gradient_checkpointing_enable", None)
    if enable is not None:
        enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        stack.callback(model.gradient_checkpointing_disable)
        return
    from torch.utils.checkpoint import checkpoint
    lists = [(n, m) for n, m in model.named_modules() if isinstance(m, torch.nn.ModuleList) and len(m) > 1]
    for path, blocks in lists:
        if any(path.startswith(other + ".") for other, _ in lists):
            continue
        for block in blocks:
            forward = block.forward
            block.forward = lambda *a, _forward=forward, **k: checkpoint(_forward, *a, use_reentrant=False, **k)
            stack.callback(block.__dict__.pop, "forward", None)


def _own_loss(output: Any) -> torch.Tensor | None:
    if isinstance(output, Mapping) and isinstance(output.get("loss"), torch.Tensor):
        return output["loss"]
    if isinstance(output, Mapping) and output and all(isinstance(v, torch.Tensor) and v.dim() == 0 and v.is_floating_point()
                                                      for v in output.values()):
        return sum(output.values())  # detection: a loss per part
    loss = getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss
    first = output if isinstance(output, torch.Tensor) else _first_tensor(output, floating=True)
    return first if first is not None and first.dim() == 0 else None


def _logits(output: Any) -> list[torch.Tensor]:
    """What the loss is taken of: the output, or a segmentation model's "out", or logits and auxiliary classifiers."""
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, Mapping):
        for key in ("logits", "out"):
            if isinstance(output.get(key), torch.Tensor):
                return [output[key]]
        first = _first_tensor(output, floating=True)
        return [first] if first is not None else []
    if isinstance(output, (tuple, list)):
        if hasattr(output, "_fields"):
            return [t for t in output if isinstance(t, torch.Tensor) and t.is_floating_point()]
        first = _first_tensor(output, floating=True)
        return [first] if first is not None else []
    logits = getattr(output, "logits", None)
    return [logits] if isinstance(logits, torch.Tensor) else []


def _target_shape(logits: torch.Tensor) -> list[int]:
    """One class per item: [N], [N * S] for [N, S, C], [N, H, W] for [N, C, H, W]."""
    sizes = list(logits.shape)
    if len(sizes) == 3:
        return [sizes[0] * sizes[1]]
    return sizes[:1] + sizes[2:] if len(sizes) > 1 else sizes


def _loss_of(loss: Any, output: Any, target: Any) -> torch.Tensor:
    functional = torch.nn.functional
    if callable(loss):
        return loss(output, target)
    if loss == "own":
        own = _own_loss(output)
        if own is None:
            raise ValueError('loss="own": the model returns no loss')
        return own
    logits = _logits(output)
    if not logits:
        raise ValueError("the model returns no floating-point tensor to take a loss of")
    if loss == "none":
        return logits[0].sum() if logits[0].dim() else logits[0]
    if loss == "mse":
        return functional.mse_loss(logits[0], target)
    terms = [functional.cross_entropy(t.reshape(-1, t.size(-1)) if t.dim() == 3 else t, target) for t in logits]
    total = terms[0]
    for term in terms[1:]:
        total = total + 0.3 * term
    return total


def trace_step(model: torch.nn.Module, example_inputs: Any, *, loss: Any = "auto", optimizer: Any = "adamw", precision: str = "amp-bf16",
               targets: Any = None, checkpoint: bool = False, accumulate: int = 1, channels_last: bool = False, steps: int = 2,
               capability: tuple[int, int] = (9, 0), name: str = "") -> bytes:
    """The trace of `steps` training steps of model, as JSON; no card and no weights are needed. Two are enough: the
    first makes the optimizer's state, and the library repeats the second.

    model: on the CPU or on meta, with or without values; its parameters are replaced while it runs and put back. It and
        its modules stay in the mode they are in: frozen batch norms in evaluation, a model to be trained in training.
    example_inputs: a tuple (positional) or dict (by name) of tensors, or one tensor. Shapes and types count, and of small
        tensors the numbers: targets, masks, lengths.
    loss: "auto" (the model's own where it returns one, else cross-entropy), "own", "ce", "mse", "none" (the sum
        of the output), or a function (output, targets) -> scalar.
    optimizer: a name of `plimsoll estimate --optimizer`, or a function that makes one of the list of
        parameters that require a gradient, in the model's order.
    precision: fp32, tf32, bf16, fp16 (weights and inputs), amp-bf16, amp-fp16 (autocast, the latter with a
        GradScaler).
    targets: a tensor for the loss; made up to fit the output where it is None and the loss wants one.
    checkpoint: activation checkpointing of every repeated block. accumulate: forwards and backwards per step.
    capability: compute capability of the card; attention's kernels depend on it.

    The loop: the model is moved to the card; a step is zero_grad(set_to_none=True), the batch copied to the
    card, forward and loss under autocast, backward, optimizer.step(); its tensors die at its end.

    Raises CaptureUnavailable where this PyTorch cannot, ValueError for wrong arguments, and whatever the model
    raises when it runs.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision {precision!r}: one of {', '.join(PRECISIONS)}")
    if not callable(optimizer) and optimizer not in OPTIMIZERS and optimizer != "none":
        raise ValueError(f"optimizer {optimizer!r}: one of {', '.join(OPTIMIZERS)}, or a function of the parameters")
    if not callable(loss) and loss not in ("auto", "own", "ce", "mse", "none"):
        raise ValueError(f"loss {loss!r}: auto, own, ce, mse, none, or a function of output and targets")
    make = optimizer if callable(optimizer) else OPTIMIZERS.get(optimizer)
    word = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    low = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}.get(precision)
    job = {"precision": precision, "optimizer": optimizer if isinstance(optimizer, str) else "", "loss": loss if isinstance(loss, str) else "own",
           "checkpoint": checkpoint, "accumulate": accumulate, "channels_last": channels_last}
    recorder = Recorder(steps=None, capability=capability, name=name or type(model).__name__, job=job)
    r = recorder.recording
    with contextlib.ExitStack() as stack:
        stack.callback(_restore_modes, [(module, module.training) for module in model.modules()])
        stack.enter_context(torch.random.fork_rng(devices=[]))  # layers dropped at random: the same ones each time
        torch.manual_seed(0)
        stack.enter_context(recorder)
        recorder._know(model)
        recorder._batch = batch_of(example_inputs) or 1
        with paused(r), all_fake(r):
            stack.enter_context(_fake_weights(model))
        if not model.training:
            r.warn(_words.EVALUATING)
        if checkpoint:
            _checkpoint_blocks(model, stack)
        model.to("cuda", word) if word is not None else model.to("cuda")
        if channels_last:
            model.to(memory_format=torch.channels_last)
        trained = [p for p in model.parameters() if p.requires_grad]
        worker = make(trained) if make is not None and trained else None
        scaler = torch.amp.GradScaler("cuda") if precision == "amp-fp16" else None
        if worker is not None and callable(optimizer):
            recorder.job["optimizer"] = name_of(worker) or ""
        loop = _Loop(recorder, model, example_inputs, targets, loss, worker, scaler, word, low, accumulate, channels_last)
        loop.run(steps)
        if isinstance(loop.loss, str):
            recorder.job["loss"] = loop.loss
        recorder._describe()
        recorder._roots.clear()
        r.open = False
        del worker, scaler, trained, loop
    return recorder.trace()


class _Loop:
    """The measured loop, one step per call so that what it made dies with it."""

    def __init__(self, recorder: Recorder, model: Any, inputs: Any, targets: Any, loss: Any, optimizer: Any, scaler: Any, word: Any, low: Any,
                 accumulate: int, channels_last: bool) -> None:
        self.recorder, self.model, self.loss, self.optimizer, self.scaler = recorder, model, loss, optimizer, scaler
        self.word, self.low, self.accumulate, self.channels_last = word, low, accumulate, channels_last
        self.inputs = _map(dict(inputs) if isinstance(inputs, Mapping) else inputs, self._given)
        self.target = _map(targets, self._given) if targets is not None else None

    def _given(self, t: torch.Tensor) -> torch.Tensor:
        """An example input on the CPU: with its numbers where they can matter, and ones for whole numbers without any."""
        dtype = torch.float32 if t.is_floating_point() and t.dtype != torch.float64 else t.dtype
        if t.numel() <= MOST and _has_values(t):
            with torch._C._DisableTorchDispatch():
                return t.detach().to("cpu", dtype, copy=True)
        if t.numel() <= MOST and not t.is_floating_point() and not t.is_complex():
            return torch.ones(tuple(t.shape), dtype=dtype)
        with all_fake(self.recorder.recording):
            return torch.empty(tuple(t.shape), dtype=dtype)

    def _call(self, inputs: Any) -> Any:
        if isinstance(inputs, Mapping):
            return self.model(**inputs)
        return self.model(*inputs) if isinstance(inputs, (list, tuple)) else self.model(inputs)

    def _find_target(self) -> None:
        """The output's shape is not known before a forward: one that is not recorded shows it."""
        if callable(self.loss) or self.loss in ("own", "none") or self.target is not None:
            return
        with paused(self.recorder.recording), torch.no_grad(), self._autocast():
            output = self._call(_map(_map(self.inputs, self._to_card), self._finish))
        if self.loss == "auto":
            self.loss = "own" if _own_loss(output) is not None else "ce"
        if self.loss == "own":
            return
        logits = _logits(output)
        if logits and self.loss == "mse":
            self.target = self._given(torch.empty(tuple(logits[0].shape), dtype=self.word or torch.float32, device="meta"))
        elif logits:
            self.target = self._given(torch.empty(_target_shape(logits[0]), dtype=torch.int64, device="meta"))

    def _autocast(self) -> Any:
        return torch.autocast("cuda", self.low) if self.low is not None else contextlib.nullcontext()

    def _to_card(self, t: torch.Tensor) -> torch.Tensor:
        return t.to("cuda")

    def _finish(self, t: torch.Tensor) -> torch.Tensor:
        if self.word is not None and t.is_floating_point():
            t = t.to(self.word)
        return t.to(memory_format=torch.channels_last) if self.channels_last and t.dim() == 4 else t

    def step(self) -> None:
        r = self.recorder.recording
        r.mark("input")
        if self.optimizer is not None:
            self.optimizer.zero_grad(set_to_none=True)
        inputs: Any = None
        target: Any = None
        loss: Any = None
        for turn in range(self.accumulate):
            if turn:
                inputs = target = loss = None
                r.mark("input")
            inputs = _map(self.inputs, self._to_card)
            target = None if self.target is None else _map(self.target, self._to_card)
            inputs = _map(inputs, self._finish)
            _map(inputs, lambda t: r.say_kind(t, "inputs"))
            r.mark("forward")
            with self._autocast():
                loss = _loss_of(self.loss, self._call(inputs), target)
            if loss.requires_grad:
                (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        if self.optimizer is None:
            r.step += 1
        elif self.scaler is None:
            self.optimizer.step()
        else:
            r.mark("optimizer")
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def run(self, steps: int) -> None:
        self._find_target()
        for _ in range(steps):
            self.step()
