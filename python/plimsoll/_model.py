"""A model the library holds: opened from a file, from bytes, or from what torch.export or a trace gave.

It may be asked many times, by several threads at once. What a job is made of, its settings and their
names, is put into a pl_job here.
"""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _cards, _library
from ._errors import UsageError
from ._library import ErrorStruct, FitStruct, Job, ReportStruct, fail, known, library, rows, sized, text
from ._report import Report

# What a traced step has in it already: asked of the tracer, not of the library.
TRACED = ("batch", "seq", "precision", "optimizer", "loss", "checkpoint", "accumulate", "channels_last")

DEFAULTS: Dict[str, Any] = dict(
    optimizer="adamw", precision=None, gpu="h200", batch=None, seq=None, loss="auto", checkpoint=False, accumulate=1,
    channels_last=False, cudnn_benchmark=False, alloc_conf=None, parallel=None, estimator="hybrid", train=None,
    host_speed=None, copy_gbps=None, load=None, risk=None, gpus=None)


class Symbol(NamedTuple):
    """A dimension left open at export."""

    name: str
    hint: Optional[int]
    least: int
    most: int
    role: str  #: "batch", "seq" or ""


def _names(function: Any) -> str:
    return ", ".join(text(name) or "" for name in rows(function))


def _whole(value: Any, name: str, most: int = (1 << 62) - 1) -> int:
    if isinstance(value, (bool, type)) or not hasattr(value, "__index__"):
        raise UsageError("a whole number, not %s" % _shown(value), name)
    number = int(value.__index__())
    if not 0 < number <= most:
        raise UsageError("from 1 to %d, not %s" % (most, _shown(number)), name)
    return number


def _shown(value: Any) -> str:
    """A value as a message shows it, however long or odd it is."""
    try:
        shown = repr(value)
    except Exception:  # an integer too long to be written, an object whose __repr__ fails
        shown = "a value of type %s" % type(value).__name__
    shown = shown.encode("utf-8", "backslashreplace").decode("utf-8")
    return shown if len(shown) <= 200 else shown[:197] + "..."


def _text(value: Any, name: str) -> bytes:
    """A string for the library, which ends at a zero byte and is UTF-8."""
    if not isinstance(value, str) or "\0" in value:
        raise UsageError("a string, not %s" % _shown(value), name)
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UsageError("a string of Unicode, not %s" % _shown(value), name) from None


def _path(value: Any) -> bytes:
    """A path for the library."""
    try:
        path = os.fsencode(value)
    except (TypeError, UnicodeEncodeError) as problem:
        raise UsageError("a path, not %s: %s" % (_shown(value), problem), "model") from problem
    if b"\0" in path:
        raise UsageError("a path with a zero byte", "model")
    return path


def _flag(value: Any, name: str) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise UsageError("true or false, not %s" % _shown(value), name)


def precision_name(value: Any) -> Optional[str]:
    """The library's name of a precision: one of its own, PyTorch's or Lightning's, or a torch.dtype. None stays None."""
    if value is None:
        return None
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        value = str(value)
    number, err = ctypes.c_int(), ErrorStruct()
    if library().pl_precision_read(ctypes.byref(number), _text(value, "precision"), ctypes.byref(err)):
        raise fail(err)
    return text(library().pl_precision_name(number.value))


def optimizer_name(value: str) -> str:
    """The library's name of an optimizer, which may be written as Hugging Face's Trainer does."""
    found, err = ctypes.c_char_p(), ErrorStruct()
    if library().pl_optimizer_read(ctypes.byref(found), _text(value, "optimizer"), ctypes.byref(err)):
        raise fail(err)
    return text(found.value) or ""


class _Job:
    """A pl_job and the strings it points to."""

    def __init__(self, settings: Dict[str, Any]) -> None:
        lib = library()
        self.job = Job()
        lib.pl_job_default_sized(ctypes.byref(self.job), ctypes.sizeof(Job))
        for name in ("batch", "seq"):
            if settings.get(name) is not None:
                setattr(self.job, name, _whole(settings[name], name))
        if settings.get("accumulate") is not None:
            self.job.accumulate = _whole(settings["accumulate"], "accumulate", (1 << 31) - 1)
        for name in ("optimizer", "gpu", "estimator", "alloc_conf", "train"):
            value = settings.get(name)
            if value is None:
                continue
            value = _text(value, name)  # bytes, which lower() takes for ASCII
            # The case of a name does not matter, as in the command.
            value = value.lower() if name in ("optimizer", "gpu", "estimator") else value
            setattr(self.job, name, value)
        self.cards = _cards.Catalogue(settings["gpus"]) if settings.get("gpus") is not None else None
        if self.cards is not None:
            self.job.catalogue = self.cards.pointer
        if self.job.estimator not in (b"sim", b"hybrid"):
            _library.laboratory()
        for name in ("host_speed", "copy_gbps", "risk"):
            value = settings.get(name)
            if value is None:
                continue
            # Below 0 is the library's word for unknown.
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
                raise UsageError("a number from 0 on, not %s" % _shown(value), name)
            try:
                setattr(self.job, name, float(value))
            except OverflowError:
                raise UsageError("a number, not %s" % _shown(value), name) from None
        for name in ("checkpoint", "channels_last", "cudnn_benchmark"):
            setattr(self.job, name, _flag(settings.get(name), name))
        self._parse("precision", dict(settings, precision=precision_name(settings.get("precision"))), lib.pl_precision_parse,
                    lambda: _names(lib.pl_precision_name))
        self._parse("loss", settings, lib.pl_loss_parse, lambda: "auto, ce, mse, own, none")
        self._parse("load", settings, lib.pl_load_parse, lambda: "auto, full, sharded")
        parallel = settings.get("parallel")
        if parallel is not None and not lib.pl_parallel_parse(_text(parallel, "parallel"), ctypes.byref(self.job)):
            raise UsageError("%s is neither ddp:N nor fsdp2:N[:STAGE[:mp]]" % _shown(parallel), "parallel")

    def check(self) -> None:
        """What the library refuses of any model."""
        err = ErrorStruct()
        if library().pl_job_check(ctypes.byref(self.job), ctypes.byref(err)):
            raise fail(err)

    def _parse(self, name: str, settings: Dict[str, Any], parse: Any, names: Any) -> None:
        value = settings.get(name)
        if value is None:
            return
        number = ctypes.c_int()
        if not parse(_text(value, name).lower(), ctypes.byref(number)):
            raise UsageError("%s is none of %s" % (_shown(value), names()), name)
        setattr(self.job, name, number.value)


class Model:
    """A model the library has read; see load(). Closed when it goes out of use."""

    via: str  #: how it was read: "file", "config", "export" or "trace"
    warnings: List[str]  #: what to know of how it was read

    def __init__(self, source: Union[str, "os.PathLike[str]", bytes], name: str = "model", via: str = "file",
                 warnings: Sequence[str] = (), **settings: Any) -> None:
        """source: a path, or the bytes of such a file; name: for messages, of bytes.
        settings: how it is read, such as memory_limit in bytes (see READING)."""
        lib, err = library(), ErrorStruct()
        self._pointer = ctypes.c_void_p()
        self.via, self.warnings = via, list(warnings)
        self._traced: Dict[str, Any] = {}
        self._seen: Optional[Dict[str, Any]] = None  # of a script: what a run saw of it
        self._texts: List[bytes] = []
        options = self._options(settings)
        if isinstance(source, (bytes, bytearray, memoryview)):
            content = bytes(source)
            status = lib.pl_model_open_memory(ctypes.byref(self._pointer), content, len(content),
                                              name.encode("utf-8", "replace").replace(b"\0", b"?"), options, ctypes.byref(err))
        else:
            path = _path(source)
            name = os.fsdecode(path)
            status = lib.pl_model_open(ctypes.byref(self._pointer), path, options, ctypes.byref(err))
        if status:
            raise fail(err, name)

    def _options(self, settings: Dict[str, Any]) -> Any:
        options, limits = _library.ModelSettings(), _library.Limits()
        library().pl_model_settings_default_sized(ctypes.byref(options), ctypes.sizeof(options))
        library().pl_limits_default_sized(ctypes.byref(limits), ctypes.sizeof(limits))
        options.limits = ctypes.pointer(limits)
        for key, value in settings.items():
            if value is None:
                continue
            if key not in _library.READING:
                raise UsageError("no such setting; there are " + ", ".join(_library.READING), key)
            if key in _library.WHOLE:
                value = _whole(value, key, _library.WHOLE[key])
            else:
                value = _text(value, key)
                self._texts.append(value)
            if key in _library.LIMITS:
                setattr(limits, _library.LIMITS[key], value)
            else:
                setattr(options, key, value)
        return ctypes.byref(options)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            library().pl_model_close(ctypes.byref(self._pointer))

    @property
    def _info(self) -> Any:
        return library().pl_model_describe(self._pointer).contents

    @property
    def name(self) -> str:
        return text(self._info.name) or ""

    @property
    def parameters(self) -> Optional[int]:
        return known(self._info.parameters)

    @property
    def trainable(self) -> Optional[int]:
        return known(self._info.trainable)

    @property
    def operators(self) -> Optional[int]:
        return known(self._info.operators)

    @property
    def batch(self) -> Optional[int]:
        """As exported; of a symbol, its hint."""
        return known(self._info.batch)

    @property
    def seq(self) -> Optional[int]:
        return known(self._info.seq)

    @property
    def symbols(self) -> Tuple[Symbol, ...]:
        every = (row.contents for row in rows(lambda index: library().pl_model_symbol(self._pointer, index)))
        return tuple(Symbol(text(s.name) or "", known(s.hint), s.least, s.most, text(s.role) or "") for s in every)

    @property
    def has_open_batch(self) -> bool:
        """Whether estimate(batch=...) and largest() can choose the batch."""
        return any(symbol.role == "batch" for symbol in self.symbols)

    def __repr__(self) -> str:
        return "<plimsoll.Model %s, via %s>" % (self.name, self.via)

    def _job(self, settings: Dict[str, Any]) -> Tuple[_Job, Dict[str, Any]]:
        """The library's job, and the settings as a report shows them."""
        unknown = sorted(set(settings) - set(DEFAULTS))
        if unknown:
            raise UsageError("no such setting; there are " + ", ".join(DEFAULTS), unknown[0])
        merged = dict(DEFAULTS, **settings)
        if self.via != "trace":
            return _Job(merged), merged
        for name in TRACED:
            if name in settings and settings[name] != self._traced.get(name, DEFAULTS[name]):
                raise UsageError("the traced step has %r; trace another one" % (self._traced.get(name),), name)
        merged.update(self._traced)
        return _Job({k: v for k, v in merged.items() if k not in TRACED}), merged

    def estimate(self, **settings: Any) -> Report:
        """A report on a job with this model; settings as in plimsoll.estimate."""
        job, shown = self._job(settings)
        job.job.want_timeline = job.job.want_alive = job.job.want_times = True
        lib, err, out = library(), ErrorStruct(), ctypes.POINTER(ReportStruct)()
        if lib.pl_estimate(ctypes.byref(out), self._pointer, ctypes.byref(job.job), ctypes.byref(err)):
            raise fail(err)
        return Report(out, self._pointer, shown, self.via, self.warnings, text(self._info.recorded), text(self._info.as_exported),
                      self._seen)

    def largest(self, most: int = 65536, **settings: Any) -> Tuple[int, Optional[int], Optional[int], int]:
        """(largest batch that fits, high_bytes there, high_bytes one above, simulations made) of a model with an
        open batch; UsageError of another."""
        job, _ = self._job(settings)
        lib, err, fit = library(), ErrorStruct(), sized(FitStruct)
        if lib.pl_fit_batch(ctypes.byref(fit), self._pointer, ctypes.byref(job.job), _whole(most, "most"), ctypes.byref(err)):
            raise fail(err)
        return fit.batch, known(fit.high_at), known(fit.high_above), fit.tried
