"""collocate: two jobs on one card, from two reports or what makes them. The library decides."""
from __future__ import annotations

import ctypes
import math
import os
from typing import Any, Dict, NamedTuple, Optional, Tuple

from . import _words
from ._api import estimate
from ._cards import Catalogue
from ._errors import InputError, UsageError
from ._library import COUNTERS, SHARINGS, UNKNOWN, DemandStruct, ErrorStruct, GpuStruct, PairStruct, fail, library, sized, text
from ._model import _path, _shown, _text
from ._report import Figure, Gpu, Report, figure_of, gpu_of, real


class Pair(NamedTuple):
    """What comes of running two jobs together. Slowdowns are step times together over step times alone."""

    gpu: Gpu
    sharing: str  #: "slices" or "mps"
    names: Tuple[str, str]
    step_ms: Tuple[Optional[float], Optional[float]]  #: alone
    fits: bool
    needed_bytes: int  #: both upper_bytes, contexts counted twice
    usable_bytes: int
    slowdown: Tuple[Figure, Figure]
    gain: Figure  #: work done per second together, over one after the other
    coverage: Optional[float]  #: of the intervals
    worth_it: bool
    advice: str
    calibrated: bool  #: the card was measured
    verdict: str  #: "fits", "may not fit" or "does not fit"

    def __str__(self) -> str:
        out = ["two jobs on %s, %s" % (self.gpu.title, "under MPS" if self.sharing == "mps" else "in time slices")]
        for name, step, slower in zip(self.names, self.step_ms, self.slowdown):
            out.append("  %s: a step of %s alone, %s" % (_words.clean(name), _words.time(step), _slower(slower)))
        out.append("%s: both take up to %s of the %s that processes can have" % (
            self.verdict, _words.size(self.needed_bytes), _words.size(self.usable_bytes)))
        if self.gain.value is not None:
            out.append("work per second: %.2f times that of one after the other%s" % (self.gain.value, _range(self.gain)))
        return "\n".join([*out, self.advice])


def _range(figure: Figure) -> str:
    return "" if figure.low is None or figure.high is None else " (%.2f to %.2f)" % (figure.low, figure.high)


def _slower(figure: Figure) -> str:
    if figure.value is None:
        return "together not known"
    return "together %.2f times that%s" % (figure.value, _range(figure))


def _demand_of(answer: Dict[str, Any]) -> DemandStruct:
    """The library's demand, of an estimate's JSON."""

    def number(group: str, key: str) -> float:
        value = answer[group].get(key)
        return math.nan if value is None else float(value)

    try:
        demand: DemandStruct = sized(DemandStruct)
        demand.name = answer["model"]["name"].encode("utf-8")[:127]
        demand.gpu = answer["gpu"]["name"].encode("utf-8")[:63]
        demand.calibrated = bool(answer["gpu"]["calibrated"])
        for key in ("peak_bytes", "high_bytes", "low_bytes", "upper_bytes"):
            value = answer["memory"].get(key)
            value = UNKNOWN if value is None else int(value)
            if not UNKNOWN <= value < 1 << 62:
                raise ValueError("%s %s" % (key, _shown(value)))
            setattr(demand, key, value)
        for key in ("step_ms", "device_ms", "host_ms", "launches"):
            setattr(demand, key, number("compute", key))
        for key in COUNTERS:
            setattr(demand, key, number("utilization", key))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as problem:
        raise InputError("not the JSON of an estimate: %r" % (problem,), "collocate") from problem
    return demand


def _read(path: Any) -> Optional[DemandStruct]:
    """The demand of a file that estimate --json wrote; None: it is something else."""
    demand: DemandStruct = sized(DemandStruct)
    err = ErrorStruct()
    name = os.fsdecode(path)
    if not library().pl_demand_open(ctypes.byref(demand), _path(path), ctypes.byref(err)):
        return demand
    try:
        with open(path, "rb") as file:
            start = file.read(256).split()
    except OSError:
        raise fail(err, name) from None
    joined = b"".join(start[:2])
    if joined.startswith((b'{"schema"', b'{"compute"')):  # an estimate, and a broken one
        raise fail(err, name)
    return None


def _demand(job: Any) -> Optional[DemandStruct]:
    """None: a model, to be estimated once the card is known."""
    if isinstance(job, Report):
        return _demand_of(job.json)
    if isinstance(job, dict):
        return _demand_of(job)
    if isinstance(job, (str, os.PathLike)) and os.path.isfile(job):
        return _read(job)
    return None


def collocate(a: Any, b: Any, *, gpu: Optional[str] = None, sharing: str = "slices", **settings: Any) -> Pair:
    """Two jobs on one card: whether both fit, how much slower each gets, and what is won.

    a, b: reports; or the JSON of estimates, as dicts or paths; or models that estimate() takes, which are
        estimated with the settings (a module with its example inputs: estimate it first).
    gpu: a card of gpus(); None: that of the reports, else "h200".
    sharing: "slices", the driver's time slices, or "mps", NVIDIA's multi-process service.
    """
    if not isinstance(sharing, str) or sharing.lower() not in SHARINGS:
        raise UsageError("%s is none of %s" % (_shown(sharing), ", ".join(SHARINGS)), "sharing")
    if gpu is not None and not isinstance(gpu, str):
        raise UsageError("a string, not %s" % _shown(gpu), "gpu")
    lib, err, out = library(), ErrorStruct(), sized(PairStruct)
    found = [_demand(job) for job in (a, b)]
    card = gpu or next((text(d.gpu) for d in found if d is not None), None) or "h200"
    pointer = ctypes.POINTER(GpuStruct)()
    cards = Catalogue(settings["gpus"]) if settings.get("gpus") is not None else None
    if lib.pl_gpu_open(ctypes.byref(pointer), _text(card, "gpu"), cards.pointer if cards else None, ctypes.byref(err)):
        raise fail(err)
    on = gpu_of(pointer)
    both = [d if d is not None else _demand_of(estimate(job, gpu=card, **settings).json) for d, job in zip(found, (a, b))]
    failed = lib.pl_collocate(ctypes.byref(out), ctypes.byref(both[0]), ctypes.byref(both[1]), pointer,
                              SHARINGS.index(sharing.lower()), ctypes.byref(err))
    lib.pl_gpu_close(ctypes.byref(pointer))
    if failed:
        raise fail(err)
    return Pair(on, SHARINGS[out.sharing], (text(both[0].name) or "", text(both[1].name) or ""),
                (real(both[0].step_ms), real(both[1].step_ms)), bool(out.fits), out.needed_bytes, out.usable_bytes,
                (figure_of(out.slowdown[0]), figure_of(out.slowdown[1])), figure_of(out.gain), real(out.coverage),
                bool(out.worth_it), text(out.advice) or "", bool(out.calibrated), text(lib.pl_verdict_name(out.verdict)) or "")
