"""A report: what the library says of a job, as Python values, as text, as a notebook's card.

Figures are copied when it is made. The timeline, which can be long, stays the library's until it is asked
for; a report that is pickled takes it along.
"""
from __future__ import annotations

import ctypes
import json
import math
import os
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _draw, _seen, _words
from ._errors import MissingError, UsageError
from ._library import COLUMN_KIND, COUNTERS, KINDS, MOMENT_KINDS, PHASES, GpuStruct, known, library, text


USUAL_RISK = 0.025  # whose upper end is high_bytes
COUNTERS_EXPLAINED = ("shares of the step: SMACT multiprocessors with work, SMOCC their places for warps that are taken, "
                      "DRAMA memory interface in use, tensor tensor cores in use")


class Gpu(NamedTuple):
    """A card of the catalogue. Rates are None where the card has no such unit."""

    name: str
    title: str
    capacity_bytes: int  #: as nvidia-smi reports memory.total
    usable_bytes: int  #: what a process can have of it
    compute_capability: Tuple[int, int]
    sms: int
    bandwidth_gbps: float
    fp32_tflops: Optional[float]
    tf32_tflops: Optional[float]
    fp16_tflops: Optional[float]
    bf16_tflops: Optional[float]
    context_bytes: int
    calibrated: bool  #: measured, not taken from data sheets
    source: str


class Moment(NamedTuple):
    """One instant of the simulated steps: bytes after an allocation or a free."""

    allocated: int
    reserved: int
    weights: int
    gradients: int
    optimizer: int
    activations: int
    inputs: int
    workspace: int
    temporary: int
    phase: str
    step: int  #: from 0
    operator: Optional[str]
    module: Optional[str]


class Alive(NamedTuple):
    """One tensor's storage that is alive at the peak."""

    bytes: int
    kind: str
    born: str  #: phase
    operator: Optional[str]
    module: Optional[str]
    tensor: Optional[str]


class Figure(NamedTuple):
    """A prediction and its interval; None: not known."""

    value: Optional[float]
    low: Optional[float]
    high: Optional[float]


class Time(NamedTuple):
    """Part of a step: one operator of one module in one phase."""

    module: str
    operator: str
    phase: str
    calls: int
    launches: int  #: kernels
    device_ms: float  #: the kernels' time
    host_ms: float  #: the host's, for launching them
    flops: float
    bytes: float  #: read and written


def real(value: float) -> Optional[float]:
    return value if math.isfinite(value) else None


def figure_of(struct: Any) -> Figure:
    return Figure(real(struct.value), real(struct.low), real(struct.high))


def gpu_of(pointer: Any) -> Gpu:
    g: GpuStruct = pointer.contents
    return Gpu(text(g.name) or "", text(g.title) or "", g.capacity_bytes, library().pl_gpu_usable(pointer),
               (g.cc_major, g.cc_minor), g.sms, g.bandwidth_gbps, real(g.fp32_tflops), real(g.tf32_tflops),
               real(g.fp16_tflops), real(g.bf16_tflops), g.context_bytes, bool(g.calibrated), text(g.source) or "")


class _Owned:
    """A pl_report of the library, given back when the last that holds it goes."""

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer

    def __del__(self) -> None:
        if self.pointer and not sys.is_finalizing():  # at the end, modules are gone already
            library().pl_report_close(ctypes.byref(self.pointer))


class Report:
    """What a training job will take of a GPU. Bytes are integers; what is not known is None.

    peak_bytes is what nvidia-smi will show for the process, low_bytes and high_bytes the interval that is
    meant to hold the share `coverage` of jobs. verdict is "fits" where upper_bytes, which is exceeded with a chance
    of `risk`, is no more than usable_bytes, "does not fit" where low_bytes is more, else "may not fit". breakdown is the
    peak instant by kind and adds up to peak_bytes. step_ms is how long a step takes, utilization how busy the
    card is meanwhile, in percent, by NVML's counters; their intervals hold the share time_coverage. via says
    how the model was read: "file", "config", "export" (torch.export) or "trace" (a training step under fake tensors); warnings what to know of the
    figures.
    """

    name: str  #: the model's
    torch_version: Optional[str]  #: PyTorch that exported it
    parameters: Optional[int]
    trainable: Optional[int]
    operators: Optional[int]
    unknown_operators: List[str]  #: treated on the safe side
    batch: Optional[int]  #: as simulated
    seq: Optional[int]
    gpu: Gpu
    estimator: str
    peak_bytes: int
    low_bytes: Optional[int]
    high_bytes: Optional[int]
    coverage: Optional[float]
    allocated_bytes: Optional[int]  #: peak of torch.cuda.max_memory_allocated
    reserved_bytes: Optional[int]  #: peak of torch.cuda.max_memory_reserved
    load_peak_bytes: Optional[int]  #: what the process holds at the most before the first step
    steps_peak_bytes: Optional[int]  #: what the steps take by themselves: below peak_bytes where loading is the peak
    overhead_bytes: Optional[int]  #: outside the allocator: context, kernels, library handles
    breakdown: Dict[str, Optional[int]]
    peak_phase: Optional[str]
    peak_step: Optional[int]
    peak_operator: Optional[str]
    peak_module: Optional[str]
    flops_per_step: Optional[float]  #: as PyTorch's FlopCounterMode counts them
    flops: Dict[str, Optional[float]]  #: all of them, by phase
    step_ms: Optional[float]
    step_ms_low: Optional[float]
    step_ms_high: Optional[float]
    device_ms: Optional[float]  #: sum of the kernels' times
    host_ms: Optional[float]  #: the host's, for launching them
    copy_ms: Optional[float]  #: of the batch to the card, which the step waits for
    host_speed: Optional[float]  #: the host's that the step is of; the ground truth's being 1
    copy_gbps: Optional[float]  #: how fast the batch comes to the card
    host_assumed: bool  #: one of them was not told of: the step time's interval is of any host
    bound: Optional[str]  #: "host", "device" or "copy" (of the batch): what a step waits for
    launches: Optional[float]  #: kernels per step
    moved_bytes: Optional[float]  #: read and written by kernels, per step
    utilization: Dict[str, Figure]  #: "smact", "smocc", "drama", "tensor"; percent
    levels: Dict[str, Optional[str]]  #: of the same: "low", "medium" or "high", by paper 3's bins
    family: Optional[str]  #: whose bins are meant: "mlp", "cnn", "transformer", "rnn"
    time_coverage: Optional[float]
    fits: bool  #: verdict is "fits"
    verdict: str  #: "fits", "may not fit" or "does not fit"
    risk: float  #: chance of an out-of-memory that is accepted
    upper_bytes: Optional[int]  #: more is taken with a chance of risk; at 0.025 high_bytes
    usable_bytes: int  #: what a process can have of the card
    oom_probability: Optional[float]  #: chance that more than usable_bytes is taken: 0.005 (or less) to 0.995 (or more)
    out_of_memory: bool  #: the card is too small; figures as if it were not
    retries: Optional[int]
    events: Optional[int]
    elapsed_us: int  #: of the simulation alone
    warnings: List[str]
    via: str
    settings: Dict[str, Any]  #: the job as it was asked for
    recorded: Optional[str]  #: of a trace: how it was trained, "amp-bf16, adamw"
    as_exported: Optional[str]  #: the weights' type where no precision is asked for: "bf16, as the config says"
    seen: Optional[Dict[str, Any]]  #: of a script: how many optimizer steps were simulated, and what was not
    json: Dict[str, Any]  #: the command's --json (docs/formats.md), with via and seen

    def __init__(self, pointer: Any, model: Any, settings: Dict[str, Any], via: str, warnings: Sequence[str],
                 recorded: Optional[str] = None, as_exported: Optional[str] = None, seen: Optional[Dict[str, Any]] = None) -> None:
        """Takes the library's report over. Use estimate()."""
        self._owned: Optional[_Owned] = _Owned(pointer)
        self._kept: Optional[List[Moment]] = None
        self._kept_times: Optional[List[Time]] = None
        lib, r = library(), pointer.contents
        raw = lib.pl_report_json(pointer, model)
        if raw is None:
            raise MissingError("out of memory")
        self.json = json.loads(raw.decode("utf-8"))
        about = self.json["model"]
        self.name, self.torch_version = about["name"], about["torch_version"]
        self.parameters, self.trainable, self.operators = about["parameters"], about["trainable"], about["operators"]
        self.unknown_operators = about["unknown_operators"]
        self.batch, self.seq = known(r.batch), known(r.seq)
        self.gpu, self.estimator = gpu_of(r.gpu), text(r.estimator) or ""
        self.peak_bytes, self.low_bytes, self.high_bytes = r.peak_bytes, known(r.low_bytes), known(r.high_bytes)
        self.coverage = real(r.coverage)
        self.allocated_bytes, self.reserved_bytes = known(r.allocated_bytes), known(r.reserved_bytes)
        self.load_peak_bytes, self.steps_peak_bytes = known(r.load_peak_bytes), known(r.steps_peak_bytes)
        self.overhead_bytes = known(r.overhead_bytes)
        self.breakdown = {kind: known(lib.pl_report_bytes(pointer, i)) for i, kind in enumerate(KINDS)}
        self.peak_phase = PHASES[r.peak_phase] if 0 <= r.peak_phase < len(PHASES) else None
        self.peak_step = known(r.peak_step)
        self.peak_operator, self.peak_module = text(r.peak_operator) or None, text(r.peak_module) or None
        self.flops_per_step = real(r.flops_per_step)
        compute, use = self.json["compute"], self.json["utilization"]
        self.flops = {phase: real(lib.pl_report_flops(pointer, PHASES.index(phase))) for phase in compute["flops"]}
        self.step_ms, self.step_ms_low, self.step_ms_high = figure_of(r.step_ms)
        self.device_ms, self.host_ms, self.copy_ms = real(r.device_ms), real(r.host_ms), real(r.copy_ms)
        self.host_speed, self.copy_gbps, self.host_assumed = real(r.host_speed), real(r.copy_gbps), bool(r.host_assumed)
        self.bound = compute["bound"]
        self.launches, self.moved_bytes = real(r.launches), real(r.moved_bytes)
        self.utilization = {name: figure_of(lib.pl_report_counter(pointer, i)) for i, name in enumerate(COUNTERS)}
        self.levels, self.family, self.time_coverage = use["levels"], use["family"], real(r.time_coverage)
        self.fits, self.out_of_memory = bool(r.fits), bool(r.out_of_memory)
        self.verdict, self.risk = text(lib.pl_verdict_name(r.verdict)) or "", r.risk
        self.upper_bytes, self.usable_bytes = known(r.upper_bytes), r.usable_bytes
        self.oom_probability = self.json["oom_probability"]
        self.retries, self.events, self.elapsed_us = known(r.retries), known(r.events), r.elapsed_us
        self.warnings = list(dict.fromkeys([*warnings, *self.json["warnings"]]))
        self.via, self.settings, self.recorded, self.as_exported = via, settings, recorded, as_exported
        self.seen = seen
        self.json["warnings"], self.json["via"] = self.warnings, via
        if seen is not None:
            self.json["seen"] = seen
        self.alive: Optional[List[Alive]] = None  #: largest first
        if r.alive_count:
            every = (lib.pl_report_alive(pointer, i).contents for i in range(r.alive_count))
            self.alive = [Alive(a.bytes, KINDS[a.kind], PHASES[a.born] if 0 <= a.born < len(PHASES) else "",
                                text(a.operator_name), text(a.module), text(a.tensor)) for a in every]

    # ---- figures ----

    @property
    def headroom_bytes(self) -> int:
        """usable_bytes less upper_bytes; negative where so much is missing."""
        return self.usable_bytes - (self.peak_bytes if self.upper_bytes is None else self.upper_bytes)

    @property
    def has_breakdown(self) -> bool:
        return all(count is not None for count in self.breakdown.values())

    @property
    def compute(self) -> Dict[str, Any]:
        """Time and operations of a step, as the command's JSON has them."""
        made: Dict[str, Any] = self.json["compute"]
        return made

    @property
    def times(self) -> Optional[List[Time]]:
        """Where a step's time goes, the longest first; None for estimators that do not simulate."""
        if self._kept_times is None and self._owned is not None and self._owned.pointer.contents.time_count:
            pointer = self._owned.pointer
            every = (library().pl_report_time(pointer, i).contents for i in range(pointer.contents.time_count))
            self._kept_times = [Time(text(t.module) or "", text(t.operator_name) or "",
                                     PHASES[t.phase] if 0 <= t.phase < len(PHASES) else "", t.calls, t.launches, t.device_ms,
                                     t.host_ms, t.flops, t.bytes) for t in every]
        return self._kept_times

    @property
    def has_timeline(self) -> bool:
        if self._owned is None:
            return bool(self._kept)
        return bool(self._owned.pointer.contents.moment_count)

    @property
    def timeline(self) -> Optional[List[Moment]]:
        """Every allocation and free of the simulated steps; None for estimators that do not simulate."""
        if self._kept is None and self._owned is not None and self.has_timeline:
            pointer, lib = self._owned.pointer, library()
            names: Dict[Optional[bytes], Optional[str]] = {None: None}

            def name(value: Optional[bytes]) -> Optional[str]:
                if value not in names:
                    names[value] = text(value)
                return names[value]

            kept = []
            for i, (allocated, reserved, kinds, phase, step) in enumerate(self._moments()):
                m = lib.pl_report_moment(pointer, i).contents
                kept.append(Moment._make((allocated, reserved, *kinds, PHASES[phase], step, name(m.operator_name),
                                          name(m.module))))
            self._kept = kept
        return self._kept

    def _moments(self) -> List[Tuple[int, int, Sequence[int], int, int]]:
        """(allocated, reserved, kinds, phase, step) of each, for the picture."""
        if self._kept is not None:
            return [(m[0], m[1], m[2:9], PHASES.index(m.phase), m.step) for m in self._kept]
        assert self._owned is not None
        # By column: an attribute at a time takes ten times as long.
        pointer, count = self._owned.pointer, self._owned.pointer.contents.moment_count
        column = (ctypes.c_int64 * count)()

        def read(number: int) -> List[int]:
            library().pl_report_column(pointer, number, column, count)
            return list(column)

        kinds = [read(COLUMN_KIND + i) for i in range(len(MOMENT_KINDS))]
        return list(zip(read(0), read(1), zip(*kinds), read(2), read(3)))

    def __getstate__(self) -> Dict[str, Any]:
        state = dict(self.__dict__)
        state["_kept"], state["_kept_times"], state["_owned"] = self.timeline, self.times, None
        return state

    # ---- text ----

    def _lines_of_model(self) -> Tuple[str, str]:
        s = self.settings
        head = "%s: %s parameters" % (_words.clean(self.name), _words.number(self.parameters))
        if self.operators is not None:
            head += ", %d operators" % self.operators
        if self.torch_version:
            head += ", %s PyTorch %s" % ("traced under" if self.recorded else "exported by", _words.clean(self.torch_version))
        parts = []
        if self.batch is not None:
            parts.append("batch %d" % self.batch)
        if self.seq is not None:
            parts.append("sequence %d" % self.seq)
        if self.recorded:
            parts.append("as recorded: " + _words.clean(self.recorded))
        else:
            asked = str(s.get("precision") or "as-exported").lower()
            parts += [self.as_exported or "precision as exported" if asked == "as-exported" else asked, str(s["optimizer"]).lower()]
        if s.get("train"):
            parts.append(_words.clean(str(s["train"])))
        if self.trainable is not None and self.trainable != self.parameters:
            trained = "%s of %s trained" % (_words.number(self.trainable), _words.number(self.parameters))
            parts = [*parts[:-1], "%s (%s)" % (parts[-1], trained)] if s.get("train") else [*parts, trained]
        if s.get("accumulate", 1) > 1:
            parts.append("%d backward passes per step" % s["accumulate"])
        parts += [word for key, word in (("checkpoint", "checkpointing"), ("channels_last", "channels last"),
                                         ("cudnn_benchmark", "cudnn benchmark")) if s.get(key)]
        if s.get("alloc_conf"):
            parts.append(_words.clean(str(s["alloc_conf"])))
        if s.get("parallel"):
            kind, world, *more = str(s["parallel"]).split(":")
            how = [kind] if kind == "ddp" else [kind, "stage %s" % (more[0] if more[:1] in (["2"], ["3"]) else "3")]
            how += ["mixed precision"] * ("mp" in more) + ["loaded whole"] * (s.get("load") == "full")
            parts.append("one rank of %s (%s)" % (world, ", ".join(how)))
        return head, ", ".join(parts) + ", on " + self.gpu.title

    def _interval(self) -> str:
        if self.low_bytes is None or self.high_bytes is None:
            return ", no interval"
        low, high = _words.size(self.low_bytes), _words.size(self.high_bytes)
        return ", between %s and %s (%.0f %% of jobs)" % (low, high, 100 * (self.coverage or 0))

    def _line_of_fit(self) -> str:
        usable, no = self.usable_bytes, self.verdict == "does not fit"
        end, words = self.peak_bytes, "a peak of "
        if self.upper_bytes is not None and self.low_bytes is not None:
            end, words = (self.low_bytes, "at least ") if no else (self.upper_bytes, "up to ")
        share = "the driver's share" if usable >= self.gpu.usable_bytes else "what per_process_memory_fraction keeps back"
        line = "%s %s: %s%s usable (%s less %s)" % (self.verdict, self.gpu.title, words, _words.part(end, usable),
                                                    _words.size(self.gpu.capacity_bytes), share)
        if self.fits:
            line += ", %s to spare" % _words.size(self.headroom_bytes)
        elif end > usable:
            line += ", %s too much" % _words.size(end - usable)
        if self.upper_bytes is None:
            line += "; by the peak alone, there is no interval"
        if self.out_of_memory and end <= usable:
            line += "; the allocator runs out of memory all the same"
        if self.verdict == "may not fit" and self.oom_probability is not None:
            line += "; about %s of such jobs run out of memory, %s are accepted" % (_words.risk(self.oom_probability), _words.risk(self.risk))
        elif self.upper_bytes is not None and self.risk != USUAL_RISK:
            line += "; at a risk of " + _words.risk(self.risk)
        return line

    def _lines_of_use(self) -> List[str]:
        """A step's time and compute, and how busy the card is, as the command shows them."""
        if self.step_ms is None:
            learnt = [_words.scaled(self.flops_per_step, "FLOP") + " per step" if self.flops_per_step is not None else "",
                      _words.scaled(self.compute["flops_per_s"], "FLOP/s") if self.compute["flops_per_s"] is not None else ""]
            line = ", ".join(words for words in learnt if words)
            return ["", "compute, as learnt: " + line] if line else []
        line = "step " + _words.time(self.step_ms)
        if self.step_ms_low is not None and self.step_ms_high is not None:
            line += ", between %s and %s" % (_words.time(self.step_ms_low), _words.time(self.step_ms_high))
            if self.time_coverage is not None:
                line += " (%.0f %% of jobs%s)" % (100 * self.time_coverage, " and hosts" if self.host_assumed else "")
        out = ["", line + ("" if self.gpu.calibrated else "; by the card's rates, it was not measured")]
        if self.device_ms is not None and self.host_ms is not None:
            kernels = "the kernels" if self.launches is None else "%.0f kernels" % self.launches
            device, host = _words.time(self.device_ms), _words.time(self.host_ms)
            copy = _words.time(self.copy_ms or 0)
            if self.bound == "copy":
                out.append("  bound by the batch's copy, which takes %s: %s of %s, which the host takes %s to launch" % (copy, kernels, device, host))
            elif self.bound == "host":
                out.append("  bound by the host: it takes %s to launch %s of %s" % (host, kernels, device))
            else:
                out.append("  bound by the card: %s of %s, which the host takes %s to launch" % (kernels, device, host))
            if self.bound != "copy" and (self.copy_ms or 0) > 0.05 * self.step_ms:
                out.append("  waits %s for the batch to be copied" % copy)
        seconds, rates = self.step_ms / 1e3, []
        if self.batch and seconds > 0:
            samples = self.batch * (self.settings.get("accumulate") or 1)
            rates.append(_words.rate(samples / seconds) + " samples/s")
            if self.seq:
                rates.append(_words.rate(samples * self.seq / seconds) + " tokens/s")
        every: List[Any] = [self.flops[phase] for phase in ("forward", "backward", "optimizer")]
        flops = self.flops_per_step  # as FlopCounterMode counts them, unless it leaves out a good part (recurrent layers)
        if None not in every and flops is not None and sum(every) > 1.2 * flops:
            flops = sum(every)
        if flops is not None:
            rates.append(_words.scaled(flops, "FLOP") + " per step")
            if self.step_ms:
                rates.append(_words.scaled(flops / (self.step_ms / 1e3), "FLOP/s"))
        if self.moved_bytes is not None:
            rates.append(_words.size(int(self.moved_bytes)) + " moved")
        if rates:
            out.append("  " + ", ".join(rates))
        rows = [(name, figure) for name, figure in self.utilization.items() if figure.value is not None]
        for name, figure in rows:
            value = figure.value or 0.0
            title = name if name == "tensor" else name.upper()
            interval = "" if figure.low is None or figure.high is None else "%.1f to %.1f" % (figure.low, figure.high)
            out.append("  %-6s %6.1f %%  %-13s  %-6s  %s" % (title, value, interval, self.levels.get(name) or "",
                                                            _words.bar(value / 100, 32)))
        if rows:
            out.insert(len(out) - len(rows), "")
            out.append("  " + COUNTERS_EXPLAINED)
        return out

    def __str__(self) -> str:
        out = [*self._lines_of_model(), "", "peak %s%s" % (_words.size(self.peak_bytes), self._interval())]
        if not self.has_breakdown:
            out[-1] += ", as estimator %s has it" % self.estimator
        if self.peak_phase is not None and self.peak_step is not None:
            when = "before the first step" if self.peak_phase == "load" else "in step %d" % (self.peak_step + 1)
            where = "  most is allocated %s, %s" % (when, self.peak_phase)
            if self.peak_operator:
                where += ", " + _words.clean(self.peak_operator)
            if self.peak_module:
                where += " of " + _words.clean(self.peak_module)
            out.append(where)
        if self.peak_bytes is not None and (self.steps_peak_bytes or self.peak_bytes) < self.peak_bytes:
            out.append("  loading is the peak: the steps by themselves take %s" % _words.size(self.steps_peak_bytes))
        if self.has_breakdown:
            out.append("")
            counts = {kind: count or 0 for kind, count in self.breakdown.items()}
            largest = max(1, *counts.values())
            for kind, count in counts.items():
                if count:
                    out.append("  %-13s %10s %7s  %s" % (kind, _words.size(count), "%.1f %%" % (100 * count / self.peak_bytes),
                                                         _words.bar(count / largest, 32)))
        parts = [("allocated", self.allocated_bytes), ("reserved", self.reserved_bytes),
                 ("outside the allocator", self.overhead_bytes)]
        out.append("")
        out += filter(None, [", ".join("%s %s" % (name, _words.size(count)) for name, count in parts if count is not None)])
        out.append(self._line_of_fit())
        if self.seen is not None:
            out.append(_words.clean(_seen.sentence(self.seen)))
        out += self._lines_of_use()
        out += ["warning: " + _words.clean(warning) for warning in self.warnings]
        return "\n".join(line for i, line in enumerate(out) if line or i + 1 < len(out))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _draw.card(self)

    # ---- files ----

    def timeline_svg(self, width: int = 1200, height: int = 620) -> str:
        """The memory of the simulated steps as an SVG picture. UsageError where there is no timeline."""
        self._need_timeline()
        return _draw.timeline_svg(self, width, height)

    def save_timeline(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the memory of the simulated steps: a picture (.svg) or numbers (.csv), by the path's ending."""
        name = os.fspath(path)
        if not name.endswith((".svg", ".csv")):
            raise UsageError("%s ends neither in .svg nor in .csv" % name, "path")
        self._need_timeline()
        written = _draw.timeline_csv(self) if name.endswith(".csv") else _draw.timeline_svg(self)
        with open(name, "w", encoding="utf-8", newline="\n") as out:
            out.write(written)

    def _need_timeline(self) -> None:
        if not self.has_timeline:
            raise UsageError("estimator %s has no timeline: it does not simulate" % self.estimator, "timeline")
