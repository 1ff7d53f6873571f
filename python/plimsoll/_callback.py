"""What the callbacks for transformers' Trainer and for Lightning share: the card that is there, the estimate of a live model
before its first step, and what was predicted against what was taken after the last.

The estimate is of a copy without weights, called as the first batch calls the model: nothing is taken from a data loader,
random numbers go on as if nothing had been, and the model, its optimizer and its hooks stay as they are. Whatever fails in
here is a warning; the one exception is a job that does not fit where the user asked for that to be refused.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import random
import sys
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import _export, _inputs, _words
from ._api import check_settings, estimate, gpus
from ._cards import card_of
from ._errors import Error, MissingError, UsageError
from ._report import Gpu, Report

MOST_VALUES = 1 << 22  # integers of an input that keep their values


class DoesNotFit(Error):
    """Raised before the first step by a callback with on_no_fit="refuse"; report is the estimate."""

    code = 10

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report


# ---- the card ----

class Card:
    """The card that the job is for: as the library names it, and what CUDA says of it (total is None where there is none)."""

    def __init__(self, gpu: Optional[str], device: Any = None) -> None:
        import torch
        self.device, self.total, self.title = device, None, ""  # type: Any, Optional[int], str
        self.said: List[str] = []
        self.here = bool(torch.cuda.is_available())
        self.asked = gpu is not None
        if self.here:
            self.device = torch.cuda.current_device() if device is None else device
            properties = torch.cuda.get_device_properties(self.device)
            self.total, self.title = int(properties.total_memory), str(properties.name)
        if gpu is not None or not self.here:
            self.gpu = gpu or "h200"
            return
        assert self.total is not None
        try:
            near = card_of(self.title)
            if abs(near.capacity_bytes / self.total - 1) < 0.03:
                self.gpu = near.name
                return
        except UsageError:
            near = _nearest((properties.major, properties.minor), self.total)
        self.gpu = "%s,memory=%dMiB" % (near.name, self.total >> 20)
        self.said.append("%s is not in the catalogue with %s: taken as %s with that memory" % (self.title, _words.size(self.total), near.title))

    def others(self, overhead: int) -> int:
        """Bytes of the card that other processes hold; overhead: what this one takes outside of PyTorch's allocator."""
        import torch
        if not self.here or self.asked:
            return 0
        free, total = torch.cuda.mem_get_info(self.device)
        used = total - free - int(torch.cuda.memory_reserved(self.device)) - overhead
        return used if used > 1 << 30 else 0  # less is the driver's share and the estimate of the context


def _nearest(capability: Tuple[int, int], total: int) -> Gpu:
    """The catalogue's card of the same generation, or of any where there is none, with the nearest memory."""
    every = gpus()
    alike = [g for g in every if g.compute_capability == capability] or every
    return min(alike, key=lambda g: abs(g.capacity_bytes - total))


# ---- what the process takes of it ----

class _Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


def nvml_used(device: Any) -> Optional[int]:
    """Bytes that NVML, and so nvidia-smi, shows for this process; None where it cannot tell."""
    import torch
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2():
            return None
        try:
            handle = ctypes.c_void_p()
            uuid = str(torch.cuda.get_device_properties(device).uuid)
            named = uuid if uuid.startswith(("GPU-", "MIG-")) else "GPU-" + uuid
            if nvml.nvmlDeviceGetHandleByUUID(named.encode(), ctypes.byref(handle)):
                return None
            count, table = ctypes.c_uint(64), (_Process * 64)()
            if nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), table):
                return None
            every = {row.pid: int(row.used) for row in table[:count.value] if row.used < 1 << 63}
            # A container has numbers of its own: the only process is this one.
            return every.get(os.getpid(), next(iter(every.values())) if len(every) == 1 else None)
        finally:
            nvml.nvmlShutdown()
    except (OSError, AttributeError, RuntimeError):
        return None


# ---- the model as it is called ----

@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Random numbers afterwards are as if nothing had been drawn within."""
    import torch
    plain, cpu = random.getstate(), torch.get_rng_state()
    cards = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    numpy = sys.modules.get("numpy")
    arrays = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(plain)
        torch.set_rng_state(cpu)
        if cards is not None:
            torch.cuda.set_rng_state_all(cards)
        if numpy is not None:
            numpy.random.set_state(arrays)


@contextlib.contextmanager
def bare(model: Any) -> Iterator[None]:
    """The model with its own forward: Accelerate puts one that casts in its place, and the estimate has the precision already."""
    own = model.__dict__
    kept = {name: own[name] for name in ("forward", "_original_forward") if name in own and "_original_forward" in own}
    for name in kept:
        del own[name]
    try:
        yield
    finally:
        own.update(kept)


def light(tree: Any) -> Any:
    """The inputs without what is large: integers keep their values, on the CPU; of the rest the shapes are enough."""

    def one(tensor: Any) -> Any:
        if tensor.is_floating_point() or tensor.is_complex() or tensor.numel() > MOST_VALUES:
            return _inputs.to_meta(tensor.detach())
        return tensor.detach().cpu()

    return _inputs.map_tensors(one, tree)


def is_fake(tree: Any) -> bool:
    """Under `python -m plimsoll`, which answers for the script as a whole."""
    return any(type(leaf).__name__ == "FakeTensor" or leaf.device.type == "meta" for leaf in _inputs.leaves(tree))


def weights_of(model: Any) -> str:
    """The type of most of the floating point weights: "torch.float32"."""
    sizes: Dict[str, int] = {}
    for parameter in model.parameters():
        if parameter.is_floating_point():
            sizes[str(parameter.dtype)] = sizes.get(str(parameter.dtype), 0) + parameter.numel()
    return max(sizes, key=lambda k: sizes[k]) if sizes else ""


# ---- the callback's own part ----

class Watch:
    """One run: asked before its first step and after its last."""

    def __init__(self, on_no_fit: str, gpu: Optional[str], risk: Optional[float], settings: Dict[str, Any]) -> None:
        if on_no_fit not in ("warn", "refuse"):
            raise UsageError('"warn" or "refuse", not %r' % (on_no_fit,), "on_no_fit")
        with contextlib.suppress(MissingError):  # no library: a warning, when it is asked
            # A card that is misspelt would let every training through.
            check_settings(dict(settings, gpu=gpu if gpu is not None else "h200", risk=risk))
        self.on_no_fit, self.gpu, self.risk, self.settings = on_no_fit, gpu, risk, settings
        self.first = True  # rank 0, which prints
        self.report: Optional[Report] = None
        self.card: Optional[Card] = None
        self.evaluated = False

    def say(self, line: str) -> None:
        if self.first:
            print("plimsoll: " + line, flush=True)

    @contextlib.contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """A training is never broken by its estimate."""
        try:
            yield
        except DoesNotFit:
            raise
        except Exception as problem:
            message = str(problem) if isinstance(problem, Error) else _export.reason_of(problem)
            warnings.warn("plimsoll: %s: %s" % (what, message), RuntimeWarning, stacklevel=3)

    def _asked(self, module: Any, inputs: Any, settings: Dict[str, Any], optimizer: Any) -> Report:
        """With the optimizer that there is; where the library neither knows it nor can trace it, as AdamW."""
        try:
            return estimate(module, inputs, optimizer=optimizer, **settings)
        except Error as problem:
            if "parallel" in settings and settings["parallel"] and problem.where == "parallel":
                alone = self._asked(module, inputs, {k: v for k, v in settings.items() if k != "parallel"}, optimizer)
                alone.warnings.insert(0, "%s is not simulated, since %s: the figures are those of one process alone"
                                      % (settings["parallel"], problem.message))
                return alone
            if isinstance(optimizer, str):
                raise
            made = estimate(module, inputs, optimizer="adamw", **settings)
            made.warnings.insert(0, "the optimizer %s is taken as adamw (%s)" % (type(optimizer).__name__, problem.message))
            return made

    def before(self, module: Any, inputs: Any, optimizer: Any, settings: Dict[str, Any], said: List[str], around: Callable[[], Any],
               device: Any = None) -> None:
        """Prints the estimate; a warning, or DoesNotFit, where the card is too small. around(): a context in which the module can
        be copied and called."""
        with self.guarded("no estimate"):
            with undisturbed(), around():
                with _export.weightless(module) as twin:
                    if twin is module:
                        raise UsageError("the model cannot be copied", "model")
                self.card = Card(self.gpu, device)
                asked = dict(settings, gpu=self.card.gpu, risk=self.risk, **self.settings)
                self.report = self._asked(module, light(inputs), asked, optimizer)
            self._tell(self.report, self.card, said)

    def _tell(self, report: Report, card: Card, said: List[str]) -> None:
        head, job = report._lines_of_model()
        if not (card.here or card.asked):  # the card is not the job's
            job = job.rsplit(", on ", 1)[0]
        self.say(head)
        self.say(job)
        self.say("peak %s%s" % (_words.size(report.peak_bytes), report._interval()))
        if card.here or card.asked:
            self.say(report._line_of_fit())
        else:
            self.say("there is no card here: nothing to fit; gpu= names one")
        held = card.others(report.overhead_bytes or 0)
        if held:
            self.say("other processes hold %s of the card" % _words.size(held))
        for line in [*card.said, *said, *report.warnings]:
            self.say("warning: " + _words.clean(line))
        if not (card.here or card.asked):
            return
        room = report.gpu.usable_bytes - held
        least = report.peak_bytes if report.low_bytes is None else report.low_bytes
        most = report.peak_bytes if report.high_bytes is None else report.high_bytes
        if report.verdict == "does not fit" or least > room:
            verdict = "does not fit"
        elif report.verdict == "may not fit" or most > room:
            verdict = "may not fit"
        else:
            return
        line = "this training %s %s: %s is predicted, up to %s, and %s can be had" % (
            verdict, report.gpu.title, _words.size(report.peak_bytes), _words.size(most), _words.size(room))
        if verdict == "does not fit" and self.on_no_fit == "refuse":
            raise DoesNotFit(line, report)
        warnings.warn("plimsoll: " + line, RuntimeWarning, stacklevel=4)

    def after(self) -> None:
        """Predicted against real."""
        with self.guarded("no comparison"):
            import torch
            if self.report is None or self.card is None:
                return
            report, card = self.report, self.card
            if not card.here:
                self.say("predicted a peak of %s; there is no card here, and nothing to compare it with" % _words.size(report.peak_bytes))
                return
            reserved, now = int(torch.cuda.max_memory_reserved(card.device)), int(torch.cuda.memory_reserved(card.device))
            if not reserved:
                self.say("predicted a peak of %s; nothing ran on the card, and there is nothing to compare it with" % _words.size(report.peak_bytes))
                return
            used = nvml_used(card.device)
            outside, by = (used - now, "as NVML shows") if used is not None and used > now else (report.overhead_bytes or 0, "as predicted")
            real = reserved + outside
            self.say("predicted a peak of %s%s; real %s (%s reserved, %s outside the allocator, %s): predicted %+.1f %%" % (
                _words.size(report.peak_bytes), report._interval(), _words.size(real), _words.size(reserved), _words.size(outside), by,
                100 * (report.peak_bytes / real - 1)))
            if self.evaluated:
                self.say("an evaluation ran too: what it took is in the real figure, and not in the predicted one")


def parallel_of(kind: str, world: int) -> Optional[str]:
    """The library's parallel= of a run of so many processes."""
    return "%s:%d" % (kind, world) if world > 1 else None


