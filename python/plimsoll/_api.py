"""estimate, fits, max_batch: what the package is asked, and how a model finds its way to the library."""
from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, TypeVar, Union, cast

from . import _cards, _optimizer, _words
from ._errors import Error, InputError, MissingError, UsageError
from ._library import READING, laboratory, library, rows, text
from ._model import DEFAULTS, Model, _Job, _shown, _whole, optimizer_name, precision_name
from ._report import Gpu, Report, gpu_of

MOST = 65536  # the largest batch that max_batch tries
ROADS = ("auto", "export", "trace")


# ---- tables ----

class Estimator(NamedTuple):
    """One way to find the peak."""

    name: str
    kind: str  #: "simulation", "formula" or "learned"
    title: str
    source: str
    leaves_out: str
    needs_graph: bool
    has_weights: bool  #: False: learnt, and there is nothing learnt in the library


def gpus(file: Any = None) -> List[Gpu]:
    """The cards of the catalogue; of a file: those of one's own in it, which estimate(gpus=file) takes."""
    if file is not None:
        return _cards.Catalogue(file).cards()
    return [gpu_of(row) for row in rows(library().pl_gpu_at)]


def estimators() -> List[Estimator]:
    """The ways to find the peak: the library's, and the laboratory's where it is installed."""
    laboratory()
    kinds = ("simulation", "formula", "learned")
    return [Estimator(text(e.name) or "", kinds[e.kind], text(e.title) or "", text(e.source) or "", text(e.leaves_out) or "",
                      bool(e.needs_graph), bool(e.has_weights) or kinds[e.kind] != "learned")
            for e in (row.contents for row in rows(library().pl_estimator_at))]


def optimizers() -> List[str]:
    """The names that optimizer= takes."""
    return [text(name) or "" for name in rows(library().pl_optimizer_name)]


# ---- what was given ----

def _torch() -> Any:
    """PyTorch if the caller has it loaded; a module of its cannot be there without."""
    return sys.modules.get("torch")


def _is_module(model: Any) -> bool:
    torch = _torch()
    return torch is not None and isinstance(model, torch.nn.Module)


def _is_program(model: Any) -> bool:
    torch = _torch()
    return torch is not None and hasattr(torch, "export") and isinstance(model, torch.export.ExportedProgram)


def _is_config(model: Any) -> bool:
    return hasattr(model, "to_dict") and isinstance(getattr(model, "model_type", None), str)


def _config_bytes(config: Any, model: Any = None) -> bytes:
    """A PretrainedConfig as its config.json would be, whole; of a model, with the class that it is."""
    try:
        made = json.loads(config.to_json_string(use_diff=False))
    except (AttributeError, TypeError):
        made = config.to_dict()
    if model is not None:
        made["architectures"] = [type(model).__name__]
    return json.dumps(made, default=str).encode("utf-8")


def _attention(config: Any) -> Dict[str, str]:
    """What the reader is given of a configuration that says how its attention is computed."""
    named = getattr(config, "_attn_implementation", None)
    known = {"eager": "eager", "sdpa": "sdpa", "flash_attention_2": "flash2"}
    return {"attention": known[named]} if named in known else {}


def _optimizer_name(optimizer: Any, traceable: bool) -> str:
    """The library's name of an optimizer given by name, or as one of torch.optim's or its class. Where none covers it
    and it can be traced, what people call it."""
    known = optimizers()
    if optimizer is None:
        return "none"
    if isinstance(optimizer, str):
        return optimizer_name(optimizer)
    if not _optimizer.is_optimizer(optimizer):
        raise UsageError("a name or an optimizer of PyTorch, not %s" % _shown(optimizer), "optimizer")
    name = _optimizer.label_of(optimizer)
    if name not in known and not traceable:
        raise UsageError("%s is none of %s, and can only be traced, which needs a torch.nn.Module and example_inputs"
                         % (name, ", ".join(known)), "optimizer")
    return name


def _check(asked: Dict[str, Any]) -> Gpu:
    """Settings are looked at before a model is captured, which takes seconds. The card they name."""
    passed = dict(asked)
    if callable(passed["loss"]):
        passed["loss"] = "own"
    for name in ("estimator", "gpu"):
        if not isinstance(passed[name], str):
            raise UsageError("a string, not %s" % _shown(passed[name]), name)
    _Job({k: v for k, v in passed.items() if k != "optimizer"})
    _Job({k: passed.get(k) for k in ("host_speed", "copy_gbps", "risk", "accumulate")}).check()
    if passed["estimator"].lower() not in ("sim", "hybrid") and passed["estimator"].lower() not in {e.name for e in estimators()}:
        raise UsageError("%s is none of %s" % (_shown(passed["estimator"]), ", ".join(e.name for e in estimators())), "estimator")
    return _cards.card_of(passed["gpu"], passed.get("gpus"))


def _check_reading(reading: Dict[str, Any]) -> None:
    """What is no setting of a job must be one of the reader's: no misspelt one goes unseen."""
    for key in reading:
        if key not in READING:
            raise UsageError("no such setting; there are %s" % ", ".join([*DEFAULTS, "targets", "via", *READING]), key)


def check_settings(settings: Dict[str, Any]) -> None:
    """UsageError where estimate() would refuse one of them whatever the model is."""
    _check_reading({k: v for k, v in settings.items() if k not in DEFAULTS and k not in ("targets", "via")})
    _check(dict(DEFAULTS, **{k: v for k, v in settings.items() if k in DEFAULTS}))


# ---- a family that the library does not know ----

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _of_families_too(function: _Function) -> _Function:
    """The function, for configurations too whose family the library does not know: asked of the model that transformers builds
    of them (_family). Where that cannot be done, and of anything else, it is asked as it stands."""

    @functools.wraps(function)
    def asked(model: Any, example_inputs: Any = None, **settings: Any) -> Any:
        from . import _family
        module = _is_module(model)
        config: Any = getattr(model, "config", None) if module else model
        if example_inputs is None and isinstance(config, (str, os.PathLike)):
            config = _family.config_of(config)
        if example_inputs is not None or not _is_config(config) or _family.known(config.model_type):
            return function(model, example_inputs, **settings)
        batch, seq = (None if settings.get(name) is None else _whole(settings[name], name) for name in ("batch", "seq"))
        try:
            built = _family.inputs_of(model, batch, seq) if module else _family.build(config, batch, seq, settings)
            answer = function(built.module, built.inputs, **{k: v for k, v in settings.items() if k not in ("task", "attention")})
            answer.warnings[:0] = built.said
            return answer
        except (_family.Unable, InputError, ImportError) as problem:
            why = str(problem)
        try:
            answer = function(model, **settings)
        except InputError as problem:
            raise InputError("%s; and %s" % (problem.message, why), problem.where, problem.position) from None
        answer.warnings.insert(0, "not built by transformers: " + why)
        return answer

    return cast(_Function, asked)


# ---- the ways to capture a module ----

def _plain(model: Any, said: List[str]) -> Any:
    """The module inside wrappers that the simulation does without."""
    while True:
        kind = type(model).__name__
        if kind == "OptimizedModule" and hasattr(model, "_orig_mod"):
            said.append("torch.compile is not simulated: the figures are of the model without it")
            model = model._orig_mod
        elif kind in ("DistributedDataParallel", "DataParallel") and hasattr(model, "module"):
            said.append("%s was taken off; parallel=\"ddp:N\" simulates one rank of it" % kind)
            model = model.module
        else:
            return model


def _precision(model: Any) -> str:
    """The precision that a module's own types are: that of most of its weights."""
    sizes: Dict[str, int] = {}
    for p in model.parameters():
        if p.is_floating_point():
            sizes[str(p.dtype)] = sizes.get(str(p.dtype), 0) + p.numel()
    most = max(sizes, key=lambda k: sizes[k]) if sizes else ""
    return {"torch.bfloat16": "bf16", "torch.float16": "fp16"}.get(most, "fp32")


def _trace(model: Any, inputs: Any, asked: Dict[str, Any], optimizer: Any, targets: Any, gpu: Gpu) -> bytes:
    """Training steps under fake tensors, as bytes that the library replays."""
    from . import capture
    loss = asked["loss"]
    if callable(loss) and targets is None:
        given, loss = loss, lambda output, _: given(output)
    precision = (asked["precision"] or "as-exported").lower()
    # A model that checkpoints by itself does so under the tracer too.
    checkpoint = asked["checkpoint"] and not getattr(model, "is_gradient_checkpointing", False)
    return capture.trace_step(model, inputs, loss=loss, optimizer=optimizer, targets=targets, checkpoint=checkpoint,
                              precision=_precision(model) if precision == "as-exported" else precision,
                              accumulate=asked["accumulate"], channels_last=asked["channels_last"],
                              capability=gpu.compute_capability)


def _load_module(model: Any, example_inputs: Any, asked: Dict[str, Any], optimizer: Any, targets: Any, via: str,
                 dynamic: bool, reading: Dict[str, Any]) -> Model:
    from . import _export, _inputs
    gpu = _check(asked)
    _check_reading(reading)
    said: List[str] = []
    model = _plain(model, said)
    if example_inputs is None:
        config = getattr(model, "config", None)
        if not _is_config(config):
            raise UsageError("a module needs example_inputs: a tensor, a tuple or a dict, of which only the shapes count",
                             "example_inputs")
        return Model(_config_bytes(config, model), type(model).__name__, "config",
                     [*said, "read from the model's configuration, since there are no example inputs"],
                     **dict(_attention(config), **reading))
    if via not in ROADS:
        raise UsageError("%r is none of %s" % (via, ", ".join(ROADS)), "via")
    inputs = _inputs.resize(example_inputs, asked["batch"], asked["seq"])
    name, why = type(model).__name__, ""
    worker = _optimizer.choose(optimizer, model)
    said += worker.said
    loss = asked["loss"] if callable(asked["loss"]) else None
    # A trace is of one job: what changes the job itself needs a graph.
    changed = next((key for key in ("train", "parallel") if asked[key]), "")
    caching = bool(getattr(getattr(model, "config", None), "use_cache", False))
    if worker.why:
        why = worker.why
        if via == "export":
            raise UsageError("%s, and can only be traced" % why, "optimizer")
    elif via != "trace":
        evaluating = [] if model.training else [_words.EVALUATING]
        call = _inputs.call_of(inputs)
        for symbolic in ((True, False) if dynamic else (False,)):
            given = call
            if symbolic and _inputs.batch_of(call) == 1:  # torch.export takes a 1 for a constant
                given = _inputs.resize(call, 2, None)
            try:
                archive = _export.export(model, given, symbolic, asked["channels_last"], loss, targets, bool(changed))
                if changed and caching:
                    said.append("use_cache is taken as off")
                return Model(archive, name, "export", said + evaluating, **reading)
            except _export.Refused as problem:
                why = "torch.export refuses the model (%s)" % problem
            except InputError as problem:
                why = "what torch.export wrote could not be read (%s)" % problem
        if via == "export":
            raise InputError(why, name)
        if caching and "Cache" in why:
            why += "; with model.config.use_cache = False it could be exported, which is faster"
    if changed:
        raise UsageError("it needs a model that torch.export takes%s" % ("; " + why if why else ""), changed)
    also = "; " + why if why else ""
    try:
        with _export.quiet():
            taped = _trace(model, inputs, asked, worker.make or asked["optimizer"], targets, gpu)
    except Error:
        raise
    except Exception as problem:
        message = "training steps under fake tensors failed: %s%s" % (_export.reason_of(problem), also)
        unable = type(problem).__name__ == "CaptureUnavailable" or isinstance(problem, ImportError)
        raise (MissingError if unable else InputError)(message, name) from problem
    if why:
        said.append("traced under fake tensors, since " + why)
    made = Model(taped, name, "trace", said, **reading)
    made._traced = {key: asked[key] for key in ("precision", "optimizer", "loss", "checkpoint", "accumulate", "channels_last")}
    return made


@_of_families_too
def load(model: Any, example_inputs: Any = None, *, optimizer: Any = "adamw", precision: Any = None,
         loss: Union[str, Callable[..., Any]] = "auto", targets: Any = None, batch: Optional[int] = None,
         seq: Optional[int] = None, checkpoint: bool = False, accumulate: int = 1, channels_last: bool = False,
         gpu: str = "h200", gpus: Any = None, via: str = "auto", dynamic: bool = True, **reading: Any) -> Model:
    """Reads a model once, to be asked many times (Model.estimate).

    Arguments as in estimate(). Of a module, dynamic leaves the batch open where torch.export can; the other
    settings matter only where the module has to be traced, since a traced step has them in it (of the card, the
    compute capability). reading: settings of the library's reader, such as memory_limit in bytes.
    """
    if _is_module(model):
        asked = dict(DEFAULTS, optimizer=_optimizer_name(optimizer, example_inputs is not None), precision=precision_name(precision), loss=loss,
                     batch=batch, seq=seq, checkpoint=checkpoint, accumulate=accumulate, channels_last=channels_last, gpu=gpu,
                     gpus=gpus)
        return _load_module(model, example_inputs, asked, optimizer, targets, via, dynamic, reading)
    _check_reading(reading)
    if _is_program(model):
        from . import _export
        return Model(_export.archive(model), "program", "export", (), **reading)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return Model(bytes(model), "model", "file", (), **reading)
    if isinstance(model, (str, os.PathLike)):
        return Model(model, via="file", **reading)
    if _is_config(model):
        return Model(_config_bytes(model), model.model_type, "config", (), **dict(_attention(model), **reading))
    raise UsageError("a torch.nn.Module, an ExportedProgram, a PretrainedConfig, a path or bytes, not %s"
                     % type(model).__name__, "model")


_read: Callable[..., Model] = getattr(load, "__wrapped__")  # estimate() has a setting of that name


def _ask(loaded: Model, asked: Dict[str, Any]) -> Report:
    """What is not in a captured module already, to the library."""
    settings = dict(asked)
    if loaded.via in ("export", "trace"):
        settings["batch"] = settings["seq"] = None  # the inputs have them
        if callable(settings["loss"]):
            settings["loss"] = "own"
    return loaded.estimate(**{k: v for k, v in settings.items() if k not in loaded._traced})


@_of_families_too
def estimate(model: Any, example_inputs: Any = None, *, optimizer: Any = "adamw", precision: Any = None,
             gpu: str = "h200", batch: Optional[int] = None, seq: Optional[int] = None,
             loss: Union[str, Callable[..., Any]] = "auto", checkpoint: bool = False, accumulate: int = 1,
             channels_last: bool = False, cudnn_benchmark: bool = False, alloc_conf: Optional[str] = None,
             parallel: Optional[str] = None, estimator: str = "hybrid", train: Optional[str] = None, targets: Any = None,
             via: str = "auto", host_speed: Optional[float] = None, copy_gbps: Optional[float] = None,
             load: Optional[str] = None, risk: Optional[float] = None, gpus: Any = None, **reading: Any) -> Report:
    """What training the model will take of a GPU. Needs no GPU, and runs nothing on one.

    model: a torch.nn.Module; or a path, or the bytes, of a file that the library reads; or a PretrainedConfig
        of transformers; or a torch.export.ExportedProgram. A module is copied without its weights and left as
        it is.
    example_inputs: of a module: what forward takes. A tensor is its one argument, a tuple its arguments, a
        mapping its keyword arguments. Only shapes and types count: real, meta and fake tensors do.
    optimizer: a name (optimizers() lists them), or an optimizer of PyTorch or its class.
    precision: None: the module's weights as they are, no autocast; "fp32", "tf32", "bf16", "fp16"; "amp-bf16"
        and "amp-fp16" are autocast over fp32 weights. PyTorch's types and Lightning's names ("16-mixed") are known too.
    gpu: a card of gpus(), or as nvidia-smi prints its name; with another size of memory "a100-80gb,memory=40GiB".
    gpus: a file with cards of one's own, in the form of the command's --gpus; gpu may name one of them.
    batch, seq: another batch or sequence length than the file's or the example inputs'.
    loss: "auto" (the model's own where it returns a scalar, else cross-entropy), "ce", "mse", "own", "none"; of a
        module also a function: loss(output), or loss(output, targets) where targets are given.
    checkpoint: activation checkpointing of the repeated blocks. accumulate: backward passes per step.
    channels_last, cudnn_benchmark, alloc_conf (PYTORCH_CUDA_ALLOC_CONF): as PyTorch has them.
    parallel: "ddp:8", "fsdp2:8", "fsdp2:8:2", "fsdp2:8:3:mp": one rank of as many.
    load: how the model comes to the card: "full", whole; "sharded", with fsdp2 alone, where it is the default: from
        the CPU or the meta device, a block at a time.
    estimator: how the peak is found; estimators() lists them.
    train: which part is trained: "lora-r16", "head", ...; None: all that requires a gradient.
    via: of a module: "auto" tries torch.export and, where that refuses, traces one training step under fake
        tensors; "export" or "trace" for one of them alone. report.via says which it was.
    host_speed: the speed of the host that launches the kernels, that of the ground truth's being 1 (0.1 to 10; None: as
        hosts usually are, 0.86, and the step time's interval is of any host).
    copy_gbps: copies of the batch to the card, in GB/s, while the step waits (None: as hosts usually have it, 6.4);
        math.inf: it is there when the step begins.
    risk: the chance of an out-of-memory that is accepted, 0.005 to 0.5 (0.025 where None); report.upper_bytes and
        report.verdict follow it.
    reading: settings of the library's reader, such as memory_limit in bytes.

    Raises UsageError for settings, InputError for models that cannot be read or captured, MissingError for what
    the machine lacks.
    """
    traceable = _is_module(model) and example_inputs is not None
    asked = dict(optimizer=_optimizer_name(optimizer, traceable), precision=precision_name(precision), gpu=gpu, batch=batch, seq=seq, loss=loss,
                 checkpoint=checkpoint, accumulate=accumulate, channels_last=channels_last, cudnn_benchmark=cudnn_benchmark,
                 alloc_conf=alloc_conf, parallel=parallel, estimator=estimator, train=train, host_speed=host_speed,
                 copy_gbps=copy_gbps, load=load, risk=risk, gpus=gpus)
    if callable(loss) and not _is_module(model):
        raise UsageError("a function can be the loss of a torch.nn.Module alone", "loss")
    if _is_module(model):
        asked["checkpoint"] = checkpoint or bool(getattr(model, "is_gradient_checkpointing", False))
        return _ask(_load_module(model, example_inputs, asked, optimizer, targets, via, False, reading), asked)
    return _read(model, **reading).estimate(**asked)


# ---- does it fit ----

class Fit:
    """Whether a job fits; true or false where a condition is wanted."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.fits = report.fits
        self.verdict = report.verdict  #: "fits", "may not fit" or "does not fit"
        self.headroom_bytes = report.headroom_bytes

    def __bool__(self) -> bool:
        return self.fits

    def __repr__(self) -> str:
        return "%s: %s" % (_words.clean(self.report.name), self.report._line_of_fit())

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def fits(model: Any, example_inputs: Any = None, **settings: Any) -> Fit:
    """Whether the job fits the card; arguments as in estimate(). Of jobs that it says it of, no more than the share
    `risk` (0.025) are to run out of memory.

    The answer is true or false in a condition, true for "fits" alone; fits(...).verdict has all three words and
    fits(...).report the report.
    """
    return Fit(estimate(model, example_inputs, **settings))


class Batch:
    """The largest batch that fits. batch is 0 where not even the smallest does; int(...) is the batch."""

    def __init__(self, batch: int, high_bytes: Optional[int], high_bytes_above: Optional[int], tried: int, most: int,
                 report: Report) -> None:
        self.batch = batch
        self.high_bytes = high_bytes  #: at that batch: the interval's end, which fits
        self.high_bytes_above = high_bytes_above  #: at one more, which does not; None where it was not tried
        self.tried = tried  #: simulations made
        self.most = most  #: the largest that was to be tried
        self.report = report  #: of that batch; of the smallest where none fits
        self.via, self.warnings = report.via, report.warnings

    def __int__(self) -> int:
        return self.batch

    __index__ = __int__

    def __bool__(self) -> bool:
        return self.batch > 0

    def __repr__(self) -> str:
        on = self.report.gpu.title
        if not self.batch:
            return "not even the smallest batch fits %s (up to %s)" % (on, _words.size(self.high_bytes_above))
        if self.high_bytes_above is None:
            return "batch %d fits %s (up to %s), the largest that was to be tried" % (self.batch, on,
                                                                                      _words.size(self.high_bytes))
        return "largest batch %d on %s: up to %s; a batch of %d up to %s" % (
            self.batch, on, _words.size(self.high_bytes), self.batch + 1, _words.size(self.high_bytes_above))

    def _repr_html_(self) -> str:
        return "<div>%s</div>%s" % (_words.xml(repr(self)), self.report._repr_html_())


def _search(ask: Callable[[int], Report], first: int, most: int) -> Batch:
    """The largest batch whose report fits, where every question is a capture of seconds. Memory is close to a
    straight line in the batch, so each guess is where the line through the last two reports meets the card;
    a batch that fits and the next one, which does not, end it."""
    seen: Dict[int, Report] = {}

    def high(batch: int) -> int:
        report = seen[batch]
        return report.peak_bytes if report.upper_bytes is None else report.upper_bytes

    def tell(batch: int) -> bool:
        if batch not in seen:
            seen[batch] = ask(batch)
        return seen[batch].fits

    good, bad, guess = 0, most + 1, min(first, most)
    while bad - good > 1:
        if tell(guess):
            good = guess
        else:
            bad = guess
        if len(seen) < 2:
            guess = guess * 2 if good else max(1, guess // 2)
        else:
            ordered = sorted(seen)
            low, top = (good, bad) if good in seen and bad in seen else (ordered[-2], ordered[-1]) if good else ordered[:2]
            slope = (high(top) - high(low)) / (top - low)
            room = seen[top].usable_bytes
            guess = int(low + (room - high(low)) / slope) if slope > 0 else (good * 2 if good else bad // 2)
            if good and bad > most:
                guess = min(guess, good * 16)  # two small batches say little of a large one
            if len(seen) > 12:  # a line that does not hold: halves
                guess = (good + bad) // 2
            elif bad in seen and good in seen and guess == good:
                guess = good + 1  # is the next one too much?
        guess = min(max(guess, good + 1), bad - 1)
    at = seen.get(good)
    above = seen.get(good + 1)
    shown = at if at is not None else seen[min(seen)]
    return Batch(good, high(good) if at else None, high(good + 1) if above else None, len(seen), most, shown)


@_of_families_too
def max_batch(model: Any, example_inputs: Any = None, *, gpu: str = "h200", most: int = MOST, via: str = "auto",
              targets: Any = None, **settings: Any) -> Batch:
    """The largest batch that fits the card, up to `most`; other arguments as in estimate().

    Where the batch can be left open, one capture is simulated at many batches; else the module is captured
    anew at each, at most a dozen or so times. The example inputs' first dimension is taken for the batch.
    """
    asked: Dict[str, Any] = dict(DEFAULTS, gpu=gpu)
    reading = {key: settings.pop(key) for key in list(settings) if key not in DEFAULTS}
    asked.update(settings)
    asked["precision"] = precision_name(asked["precision"])
    optimizer = asked["optimizer"]
    asked["optimizer"] = _optimizer_name(optimizer, _is_module(model) and example_inputs is not None)
    most = _whole(most, "most")
    if asked["batch"] is not None:
        raise UsageError("it is what max_batch looks for", "batch")
    module = _is_module(model)
    passed = dict(asked)
    if module:
        asked["checkpoint"] = passed["checkpoint"] = asked["checkpoint"] or bool(getattr(model, "is_gradient_checkpointing", False))
        loaded = _load_module(model, example_inputs, asked, optimizer, targets, via, True, reading)
        if loaded.via != "config":
            passed["seq"] = None
        if callable(passed["loss"]):
            passed["loss"] = "own"
    else:
        loaded = _read(model, **reading)
    if loaded.has_open_batch:
        batch, high, above, tried = loaded.largest(most, **passed)
        least = min(s.least for s in loaded.symbols if s.role == "batch")
        report = loaded.estimate(**dict(passed, batch=batch or max(1, least)))
        return Batch(batch, high, None if batch >= most else above, tried, most, report)
    if not module or loaded.via == "config":
        raise UsageError("the batch of this model is fixed; export it with a dynamic one: "
                         "torch.export.export(model, args, dynamic_shapes=({0: torch.export.Dim(\"batch\")},))", "model")
    from . import _inputs
    first = _inputs.batch_of(example_inputs) or 1
    # Captured at the example inputs' batch, unless with an open one that was then no batch.
    kept = {} if loaded.symbols else {first: _ask(loaded, asked)}

    def ask(batch: int) -> Report:
        if batch not in kept:
            at = dict(asked, batch=batch)
            resized = _inputs.resize_to(targets, first, batch)
            way = "trace" if loaded.via == "trace" else via
            kept[batch] = _ask(_load_module(model, example_inputs, at, optimizer, resized, way, False, reading), at)
            if loaded.via == "trace":  # why it is traced was found out once
                kept[batch].warnings[:0] = [w for w in loaded.warnings if w not in kept[batch].warnings]
        return kept[batch]

    return _search(ask, first, most)
