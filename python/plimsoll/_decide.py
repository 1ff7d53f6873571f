"""remedies, max_seq, min_gpus, smallest_gpu: what would make a job fit, and the most or the least that fits.

A thin layer over the library's searches; each of their answers was simulated.
"""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _api, _words
from ._errors import UsageError
from ._library import ErrorStruct, FitStruct, GpuStruct, RemediesStruct, RemedyStruct, fail, known, library, sized, text
from ._model import DEFAULTS, Model, _Job, _whole
from ._report import Figure, Gpu, figure_of, gpu_of, real

BATCH, SEQ, WORLD = range(3)  # pl_fit_what


class Remedy(NamedTuple):
    """A change of a job, or several together; estimate(..., **remedy.settings) is the job with it."""

    settings: Dict[str, Any]  #: what changes: {"checkpoint": True, "batch": 4, "accumulate": 2}
    peak_bytes: int
    low_bytes: Optional[int]
    high_bytes: Optional[int]
    upper_bytes: Optional[int]
    verdict: str
    step_ms: Optional[Figure]
    time_ratio: Optional[float]  #: time per sample and token, over that of the job as given
    communicates: bool  #: that time leaves out what ranks send each other
    weight: int  #: how much it changes; the smallest come first

    def __str__(self) -> str:
        changes = ", ".join("%s=%r" % (key, value) for key, value in self.settings.items())
        cost = "time not known" if self.time_ratio is None else "%+.0f %% time%s" % (100 * (self.time_ratio - 1),
                                                                                   ", communication left out" if self.communicates else "")
        return "%s: up to %s, %s" % (changes, _words.size(self.upper_bytes or self.peak_bytes), cost)


class Remedies(List[Remedy]):
    """What makes a job fit, the smallest change first; empty where it fits already, or nothing does."""

    fits: bool  #: the job fits as it is
    nearest: Optional[Remedy]  #: where nothing makes it fit: what misses by the least
    tried: int  #: simulations made
    complete: bool  #: False: there was more to try

    def __str__(self) -> str:
        if self.fits:
            return "it fits as it is"
        if not self:
            return "nothing of what was tried makes it fit" + ("; the nearest: " + str(self.nearest) if self.nearest else "")
        return "\n".join(str(r) for r in self)


def _value(member: str, value: str) -> Any:
    if member in ("batch", "accumulate", "seq"):
        return int(value)
    return True if value == "true" else value


def _remedy(pointer: Any) -> Remedy:
    lib, r = library(), pointer.contents
    settings: Dict[str, Any] = {}
    index = 0
    while True:
        member = text(lib.pl_remedy_member(pointer, index))
        if member is None:
            break
        settings[member] = _value(member, text(lib.pl_remedy_value(pointer, index)) or "")
        index += 1
    return Remedy(settings, r.peak_bytes, known(r.low_bytes), known(r.high_bytes), known(r.upper_bytes),
                  text(lib.pl_verdict_name(r.verdict)) or "", figure_of(r.step_ms), real(r.time_ratio), bool(r.communicates), r.weight)


def _loaded(model: Any, example_inputs: Any, settings: Dict[str, Any]) -> Tuple[Model, _Job]:
    """The model, read or captured once with its batch open where that can be, and the job."""
    asked: Dict[str, Any] = dict(DEFAULTS)
    via, targets = settings.pop("via", "auto"), settings.pop("targets", None)
    reading = {key: settings.pop(key) for key in list(settings) if key not in DEFAULTS}
    asked.update(settings)
    optimizer = asked["optimizer"]
    asked["optimizer"] = _api._optimizer_name(optimizer, _api._is_module(model) and example_inputs is not None)
    if isinstance(model, Model):
        loaded = model
    elif _api._is_module(model):
        asked["checkpoint"] = asked["checkpoint"] or bool(getattr(model, "is_gradient_checkpointing", False))
        loaded = _api._load_module(model, example_inputs, asked, optimizer, targets, via, True, reading)
        if callable(asked["loss"]):
            asked["loss"] = "own"
        if loaded.via == "export":
            asked["seq"] = None
    else:
        loaded = _api.load(model, **reading)
    passed = {k: v for k, v in asked.items() if k not in loaded._traced}
    return loaded, loaded._job(passed)[0]


def remedies(model: Any, example_inputs: Any = None, **settings: Any) -> Remedies:
    """What makes a job fit that does not: checkpointing, another form of its optimizer, precision, a smaller batch with as many
    more backward passes, adapters, a shorter sequence, sharding, another card; one of them, or several together.

    Arguments as in estimate(), or a Model of load(). Of a module, example_inputs have the batch and the sequence.
    """
    loaded, job = _loaded(model, example_inputs, settings)
    lib, err, out = library(), ErrorStruct(), ctypes.POINTER(RemediesStruct)()
    if lib.pl_remedies_find(ctypes.byref(out), loaded._pointer, ctypes.byref(job.job), None, ctypes.byref(err)):
        raise fail(err)
    try:
        found = out.contents
        made = Remedies(_remedy(lib.pl_remedies_at(out, i)) for i in range(found.count))
        made.fits, made.tried, made.complete = bool(found.fits), found.tried, bool(found.complete)
        made.nearest = _remedy(ctypes.cast(found.nearest, ctypes.POINTER(RemedyStruct))) if found.nearest else None
    finally:
        lib.pl_remedies_close(ctypes.byref(out))
    return made


class Found(NamedTuple):
    """The most or the least that fits; value is 0 where nothing does."""

    value: int
    high_bytes: Optional[int]  #: the interval's end there, which fits
    high_bytes_next: Optional[int]  #: one further, which does not
    tried: int  #: simulations made

    def __bool__(self) -> bool:
        return self.value > 0

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value


def _find(what: int, model: Any, example_inputs: Any, most: int, settings: Dict[str, Any]) -> Found:
    loaded, job = _loaded(model, example_inputs, settings)
    lib, err, fit = library(), ErrorStruct(), sized(FitStruct)
    if lib.pl_fit_find(ctypes.byref(fit), loaded._pointer, ctypes.byref(job.job), what, _whole(most, "most"), ctypes.byref(err)):
        raise fail(err)
    return Found(fit.found, known(fit.high_at), known(fit.high_above), fit.tried)


def max_seq(model: Any, example_inputs: Any = None, *, most: int = 1 << 20, **settings: Any) -> Found:
    """The longest sequence that fits the card at the job's batch; arguments as in estimate()."""
    if settings.get("seq") is not None:
        raise UsageError("it is what max_seq looks for", "seq")
    return _find(SEQ, model, example_inputs, most, settings)


def min_gpus(model: Any, example_inputs: Any = None, *, most: int = 1024, parallel: str = "fsdp2:2", **settings: Any) -> Found:
    """The fewest cards over which the job, sharded by FSDP2, fits; of parallel the number does not count."""
    return _find(WORLD, model, example_inputs, most, dict(settings, parallel=parallel))


def smallest_gpu(model: Any, example_inputs: Any = None, **settings: Any) -> Optional[Gpu]:
    """The card of the catalogue with the least memory that the job fits; None where it fits none."""
    loaded, job = _loaded(model, example_inputs, settings)
    lib, err, out = library(), ErrorStruct(), ctypes.POINTER(GpuStruct)()
    if lib.pl_fit_gpu(ctypes.byref(out), loaded._pointer, ctypes.byref(job.job), ctypes.byref(err)):
        raise fail(err)
    return gpu_of(out) if out else None
