"""libplimsoll through ctypes: where it is found, its structs and its functions.

Structs and prototypes follow include/plimsoll/plimsoll.h, member by member, as far as this package
uses them; tests/test_library.py holds them against what a C compiler makes of the header. A call through
CDLL lets other Python threads run meanwhile, which the library allows: a model may be shared by
threads that only estimate. Left out: training and evaluation on measured jobs, which the command has.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
import threading
from ctypes import POINTER, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any, Iterator, List, Optional, Tuple

from ._errors import CLASSES, Error, MissingError

VERSION = "0.2"  # of the library that the structs below belong to: major and minor
UNKNOWN = -1
LIMITS = {"memory_limit": "memory_bytes", "timeout_ms": "timeout_ms"}  # what a caller may set: member of pl_limits
WHOLE = {"memory_limit": (1 << 62) - 1, "timeout_ms": (1 << 62) - 1, "depth_limit": (1 << 31) - 1}  # whole numbers: the most
READING = ("depth_limit", "task", "attention", *LIMITS)  # and of pl_model_settings

KINDS = ("weights", "gradients", "optimizer", "activations", "inputs", "workspace", "temporary", "fragmentation", "context")
MOMENT_KINDS = KINDS[:7]  # those that lie in the allocator
COLUMN_KIND = 16  # of pl_report_column: PL_COLUMN_KIND; allocated, reserved, phase and step are 0 to 3
PHASES = ("load", "input", "forward", "backward", "optimizer")
COUNTERS = ("smact", "smocc", "drama", "tensor")
FAMILIES = ("mlp", "cnn", "transformer", "rnn")
LEVELS = ("low", "medium", "high")
SHARINGS = ("slices", "mps")


class ErrorStruct(ctypes.Structure):
    c_name = "pl_error"
    _fields_ = [("size", c_size_t), ("code", c_int), ("message", c_char * 512), ("where", c_char * 256), ("position", c_int64)]


class Limits(ctypes.Structure):
    c_name = "pl_limits"
    _fields_ = [("size", c_size_t), ("memory_bytes", c_size_t), ("operators", c_int64), ("events", c_int64),
                ("timeout_ms", c_int64), ("deadline_ns", c_int64), ("cancelled", c_void_p), ("cancel_context", c_void_p)]


class ModelSettings(ctypes.Structure):
    c_name = "pl_model_settings"
    _fields_ = [("size", c_size_t), ("limits", POINTER(Limits)), ("depth_limit", c_int), ("task", c_char_p), ("attention", c_char_p),
                ("first", c_void_p), ("map", c_bool)]


class Symbol(ctypes.Structure):
    c_name = "pl_symbol"
    _fields_ = [("name", c_char_p), ("hint", c_int64), ("least", c_int64), ("most", c_int64), ("role", c_char_p)]


class ModelInfo(ctypes.Structure):
    c_name = "pl_model_info"
    _fields_ = [("name", c_char_p), ("torch_version", c_char_p), ("parameters", c_int64), ("trainable", c_int64),
                ("parameter_bytes", c_int64), ("buffer_bytes", c_int64), ("operators", c_int64), ("batch", c_int64),
                ("seq", c_int64), ("symbol_count", c_size_t), ("recorded", c_char_p), ("as_exported", c_char_p)]


class Job(ctypes.Structure):
    c_name = "pl_job"
    _fields_ = [("size", c_size_t), ("limits", POINTER(Limits)), ("batch", c_int64), ("seq", c_int64), ("precision", c_int),
                ("optimizer", c_char_p), ("train", c_char_p),
                ("loss", c_int), ("checkpoint", c_bool), ("accumulate", c_int), ("channels_last", c_bool),
                ("cudnn_benchmark", c_bool), ("alloc_conf", c_char_p), ("parallel", c_int), ("world", c_int), ("stage", c_int),
                ("parallel_mixed", c_bool), ("gpu", c_char_p), ("estimator", c_char_p), ("weights", c_void_p),
                ("want_timeline", c_bool), ("want_alive", c_bool), ("want_times", c_bool), ("host_speed", c_double),
                ("copy_gbps", c_double), ("load", c_int), ("risk", c_double), ("catalogue", c_void_p), ("snapshot", c_char_p)]


class EstimatorInfo(ctypes.Structure):
    c_name = "pl_estimator_info"
    _fields_ = [("name", c_char_p), ("kind", c_int), ("title", c_char_p), ("source", c_char_p), ("leaves_out", c_char_p),
                ("needs_graph", c_bool), ("learns", c_bool), ("has_weights", c_bool), ("slow", c_bool)]


class GpuStruct(ctypes.Structure):
    c_name = "pl_gpu"
    _fields_ = [("name", c_char_p), ("title", c_char_p), ("capacity_bytes", c_int64), ("cc_major", c_int), ("cc_minor", c_int),
                ("sms", c_int), ("threads", c_int), ("bandwidth_gbps", c_double), ("fp32_tflops", c_double),
                ("tf32_tflops", c_double), ("fp16_tflops", c_double), ("bf16_tflops", c_double), ("context_bytes", c_int64),
                ("calibrated", c_bool), ("source", c_char_p), ("l2_mib", c_double), ("part_of", c_char_p)]


class MomentStruct(ctypes.Structure):
    c_name = "pl_moment"
    _fields_ = [("allocated", c_int64), ("reserved", c_int64), ("phase", c_int),
                ("step", c_int), ("operator_name", c_char_p), ("module", c_char_p)]


class AliveStruct(ctypes.Structure):
    c_name = "pl_alive"
    _fields_ = [("bytes", c_int64), ("kind", c_int), ("born", c_int), ("operator_name", c_char_p), ("module", c_char_p),
                ("tensor", c_char_p)]


class FigureStruct(ctypes.Structure):
    c_name = "pl_figure"
    _fields_ = [("value", c_double), ("low", c_double), ("high", c_double)]


class TimeStruct(ctypes.Structure):
    c_name = "pl_time"
    _fields_ = [("module", c_char_p), ("operator_name", c_char_p), ("phase", c_int), ("calls", c_int64), ("launches", c_int64),
                ("device_ms", c_double), ("host_ms", c_double), ("flops", c_double), ("bytes", c_double)]


class ReportStruct(ctypes.Structure):
    c_name = "pl_report"
    _fields_ = [("gpu", POINTER(GpuStruct)), ("estimator", c_char_p), ("peak_bytes", c_int64), ("low_bytes", c_int64),
                ("high_bytes", c_int64), ("coverage", c_double), ("allocated_bytes", c_int64), ("reserved_bytes", c_int64),
                ("overhead_bytes", c_int64), ("peak_phase", c_int),
                ("flops_per_step", c_double), ("flop_rate", c_double),
                ("moved_bytes", c_double), ("launches", c_double), ("step_ms", FigureStruct), ("device_ms", c_double),
                ("host_ms", c_double), ("copy_ms", c_double), ("host_bound", c_bool),
                ("time_coverage", c_double), ("family", c_int), ("time_count", c_size_t),
                ("peak_step", c_int), ("peak_operator", c_char_p), ("peak_module", c_char_p), ("fits", c_bool),
                ("out_of_memory", c_bool), ("retries", c_int64), ("batch", c_int64), ("seq", c_int64), ("events", c_int64),
                ("elapsed_us", c_int64), ("unknown_operators", POINTER(c_char_p)), ("unknown_count", c_size_t),
                ("warnings", POINTER(c_char_p)), ("warning_count", c_size_t), ("moment_count", c_size_t),
                ("alive_count", c_size_t), ("load_peak_bytes", c_int64), ("steps_peak_bytes", c_int64),
                ("verdict", c_int), ("risk", c_double), ("upper_bytes", c_int64), ("usable_bytes", c_int64),
                ("trainable", c_int64), ("host_speed", c_double), ("copy_gbps", c_double), ("host_assumed", c_bool)]


class FitStruct(ctypes.Structure):
    c_name = "pl_fit"
    _fields_ = [("size", c_size_t), ("batch", c_int64), ("high_at", c_int64), ("high_above", c_int64), ("tried", c_int64), ("found", c_int64)]


class RemedyStruct(ctypes.Structure):
    c_name = "pl_remedy"
    _fields_ = [("job", POINTER(Job)), ("peak_bytes", c_int64), ("low_bytes", c_int64), ("high_bytes", c_int64), ("upper_bytes", c_int64),
                ("usable_bytes", c_int64), ("verdict", c_int), ("step_ms", FigureStruct), ("time_ratio", c_double),
                ("communicates", c_bool), ("weight", c_int)]


class RemediesStruct(ctypes.Structure):
    c_name = "pl_remedies"
    _fields_ = [("fits", c_bool), ("count", c_size_t), ("nearest", POINTER(RemedyStruct)), ("tried", c_int64), ("complete", c_bool)]


class DemandStruct(ctypes.Structure):
    c_name = "pl_demand"
    _fields_ = [("size", c_size_t), ("name", c_char * 128), ("gpu", c_char * 64), ("peak_bytes", c_int64), ("high_bytes", c_int64),
                ("step_ms", c_double), ("device_ms", c_double), ("host_ms", c_double),
                ("launches", c_double), *((name, c_double) for name in COUNTERS), ("calibrated", c_bool),
                ("low_bytes", c_int64), ("upper_bytes", c_int64)]


class PairStruct(ctypes.Structure):
    c_name = "pl_pair"
    _fields_ = [("size", c_size_t), ("sharing", c_int), ("needed_bytes", c_int64), ("usable_bytes", c_int64), ("fits", c_bool),
                ("slowdown", FigureStruct * 2), ("coverage", c_double), ("gain", FigureStruct), ("worth_it", c_bool),
                ("advice", c_char_p), ("calibrated", c_bool), ("verdict", c_int)]


STRUCTS = (ErrorStruct, Limits, ModelSettings, Symbol, ModelInfo, Job, EstimatorInfo, GpuStruct, MomentStruct, AliveStruct,
           FigureStruct, TimeStruct, ReportStruct, FitStruct, RemedyStruct, RemediesStruct, DemandStruct, PairStruct)

# name: (result, arguments)
_MODEL, _REPORT, _ERR = c_void_p, POINTER(ReportStruct), POINTER(ErrorStruct)
FUNCTIONS = {
    "pl_version": (c_char_p, []),
    "pl_limits_default_sized": (None, [POINTER(Limits), c_size_t]),
    "pl_model_settings_default_sized": (None, [POINTER(ModelSettings), c_size_t]),
    "pl_model_open": (c_int, [POINTER(_MODEL), c_char_p, POINTER(ModelSettings), _ERR]),
    "pl_model_open_memory": (c_int, [POINTER(_MODEL), c_char_p, c_size_t, c_char_p, POINTER(ModelSettings), _ERR]),
    "pl_model_close": (None, [POINTER(_MODEL)]),
    "pl_model_describe": (POINTER(ModelInfo), [_MODEL]),
    "pl_model_type_name": (c_char_p, [c_size_t]),
    "pl_model_symbol": (POINTER(Symbol), [_MODEL, c_size_t]),
    "pl_job_default_sized": (None, [POINTER(Job), c_size_t]),
    "pl_job_check": (c_int, [POINTER(Job), _ERR]),
    "pl_optimizer_name": (c_char_p, [c_size_t]),
    "pl_precision_name": (c_char_p, [c_size_t]),
    "pl_precision_read": (c_int, [POINTER(c_int), c_char_p, _ERR]),
    "pl_optimizer_read": (c_int, [POINTER(c_char_p), c_char_p, _ERR]),
    "pl_precision_parse": (c_bool, [c_char_p, POINTER(c_int)]),
    "pl_loss_parse": (c_bool, [c_char_p, POINTER(c_int)]),
    "pl_load_parse": (c_bool, [c_char_p, POINTER(c_int)]),
    "pl_parallel_parse": (c_bool, [c_char_p, POINTER(Job)]),
    "pl_estimator_at": (POINTER(EstimatorInfo), [c_size_t]),
    "pl_gpu_at": (POINTER(GpuStruct), [c_size_t]),
    "pl_gpu_find": (POINTER(GpuStruct), [c_char_p]),
    "pl_gpu_open": (c_int, [POINTER(POINTER(GpuStruct)), c_char_p, c_void_p, POINTER(ErrorStruct)]),
    "pl_gpu_close": (None, [POINTER(POINTER(GpuStruct))]),
    "pl_catalogue_open": (c_int, [POINTER(c_void_p), c_char_p, POINTER(ErrorStruct)]),
    "pl_catalogue_at": (POINTER(GpuStruct), [c_void_p, c_size_t]),
    "pl_catalogue_close": (None, [POINTER(c_void_p)]),
    "pl_gpu_usable": (c_int64, [POINTER(GpuStruct)]),
    "pl_kind_name": (c_char_p, [c_int]),
    "pl_phase_name": (c_char_p, [c_int]),
    "pl_counter_name": (c_char_p, [c_int]),
    "pl_family_name": (c_char_p, [c_int]),
    "pl_level_name": (c_char_p, [c_int]),
    "pl_level_of": (c_int, [c_int, c_int, c_double]),
    "pl_estimate": (c_int, [POINTER(_REPORT), _MODEL, POINTER(Job), _ERR]),
    "pl_report_close": (None, [POINTER(_REPORT)]),
    "pl_report_json": (c_char_p, [_REPORT, _MODEL]),
    "pl_report_bytes": (c_int64, [_REPORT, c_int]),
    "pl_report_flops": (c_double, [_REPORT, c_int]),
    "pl_report_counter": (FigureStruct, [_REPORT, c_int]),
    "pl_report_time": (POINTER(TimeStruct), [_REPORT, c_size_t]),
    "pl_report_moment": (POINTER(MomentStruct), [_REPORT, c_size_t]),
    "pl_report_alive": (POINTER(AliveStruct), [_REPORT, c_size_t]),
    "pl_report_column": (c_bool, [_REPORT, c_int, POINTER(c_int64), c_size_t]),
    "pl_fit_batch": (c_int, [POINTER(FitStruct), _MODEL, POINTER(Job), c_int64, _ERR]),
    "pl_fit_find": (c_int, [POINTER(FitStruct), _MODEL, POINTER(Job), c_int, c_int64, _ERR]),
    "pl_fit_gpu": (c_int, [POINTER(POINTER(GpuStruct)), _MODEL, POINTER(Job), _ERR]),
    "pl_remedies_find": (c_int, [POINTER(POINTER(RemediesStruct)), _MODEL, POINTER(Job), c_void_p, _ERR]),
    "pl_remedies_at": (POINTER(RemedyStruct), [POINTER(RemediesStruct), c_size_t]),
    "pl_remedies_close": (None, [POINTER(POINTER(RemediesStruct))]),
    "pl_remedy_member": (c_char_p, [POINTER(RemedyStruct), c_size_t]),
    "pl_remedy_value": (c_char_p, [POINTER(RemedyStruct), c_size_t]),
    "pl_sharing_name": (c_char_p, [c_int]),
    "pl_verdict_name": (c_char_p, [c_int]),
    "pl_demand_open": (c_int, [POINTER(DemandStruct), c_char_p, _ERR]),
    "pl_collocate": (c_int, [POINTER(PairStruct), POINTER(DemandStruct), POINTER(DemandStruct), POINTER(GpuStruct), c_int, _ERR]),
}


# ---- finding it ----

def file_names() -> List[str]:
    """What the library's file is called here, most wanted first."""
    if sys.platform == "darwin":
        return ["libplimsoll.dylib", "libplimsoll.1.dylib"]
    if sys.platform == "win32":
        return ["plimsoll-1.dll", "libplimsoll-1.dll", "plimsoll.dll"]
    return ["libplimsoll.so", "libplimsoll.so.1"]


def places() -> Iterator[Tuple[str, str]]:
    """(path, where that is, in words), in the order in which they are tried."""
    named = os.environ.get("PLIMSOLL_LIBRARY")
    if named:
        if os.path.isdir(named):
            for name in file_names():
                yield os.path.join(named, name), "PLIMSOLL_LIBRARY"
        else:
            yield named, "PLIMSOLL_LIBRARY"
        return  # who names one wants that one
    here = Path(__file__).resolve().parent
    for name in file_names():
        yield str(here / name), "beside the package"
    root = here.parent.parent
    if (root / "include" / "plimsoll" / "plimsoll.h").exists():
        for name in file_names():
            yield str(root / "build" / name), "the repository's build folder"
    found = ctypes.util.find_library("plimsoll")
    for name in ([found] if found else []) + file_names():
        yield name, "the system's loader"


def _open() -> Tuple[ctypes.CDLL, str]:
    tried = []
    for path, where in places():
        local = where != "the system's loader"
        if local and not os.path.exists(path):
            tried.append("%s: no %s" % (where, path))
            continue
        try:
            return ctypes.CDLL(path), path
        except OSError as problem:
            tried.append("%s: %s" % (where, problem))
    raise MissingError("libplimsoll was not found; build it (meson setup build && ninja -C build), install it, or name its "
                       "file in PLIMSOLL_LIBRARY. Tried: " + "; ".join(tried), "libplimsoll")


def _check(lib: Any, path: str) -> None:
    """The structs above must be the library's: by its version, and by defaults that are known."""
    version = text(lib.pl_version()) or ""
    job = Job()
    lib.pl_job_default_sized(ctypes.byref(job), ctypes.sizeof(job))
    seen = (job.batch, job.seq, job.precision, job.loss, job.accumulate, job.parallel, job.world, job.stage)
    if version.rsplit(".", 1)[0] != VERSION or seen != (UNKNOWN, UNKNOWN, 0, 0, 1, 0, 1, 3):
        raise MissingError("this is plimsoll %s, and the package is made for %s: install both from the same sources"
                           % (version, VERSION), path)


_lock = threading.Lock()
_lib: Any = None
_lab: Any = None
_path = ""


def library() -> Any:
    """The library, loaded when first asked for. MissingError where there is none."""
    global _lib, _path
    with _lock:
        if _lib is None:
            lib, path = _open()
            for name, (result, arguments) in FUNCTIONS.items():
                try:
                    function = getattr(lib, name)
                except AttributeError:
                    raise MissingError("it has no %s: another version, or not plimsoll's" % name, path) from None
                function.restype, function.argtypes = result, arguments
            _check(lib, path)
            _lib, _path = lib, path
    return _lib


def laboratory() -> bool:
    """Adds the estimators of libplimsoll-lab to the library's, where that lies beside it: False where it does not."""
    global _lab
    library()
    folder, name = os.path.split(_path)
    base = name.split("plimsoll", 1)[0] + "plimsoll"
    with _lock:
        if _lab is None:
            try:
                _lab = ctypes.CDLL(os.path.join(folder, base + "-lab" + name[len(base):]))
                _lab.pl_lab_register.restype, _lab.pl_lab_register.argtypes = None, []
            except (OSError, AttributeError):
                return False
        _lab.pl_lab_register()
    return True


def library_path() -> str:
    """The file that was loaded, or the name the system's loader took."""
    library()
    return _path


# ---- values ----

def text(value: Optional[bytes]) -> Optional[str]:
    """A C string; bytes that are no UTF-8 become U+FFFD."""
    return None if value is None else value.decode("utf-8", "replace")


def known(value: int) -> Optional[int]:
    return None if value == UNKNOWN else value


def fail(err: ErrorStruct, where: str = "") -> Error:
    """The exception of a filled pl_error."""
    kind, place, position = CLASSES.get(err.code, Error), text(err.where) or where, known(err.position)
    if place.startswith("--"):  # a setting, which has another form here, and no bytes
        place, position = place[2:].replace("-", "_"), None
    return kind(text(err.message) or "", place, position)


def sized(struct: Any) -> Any:
    """A struct that begins with its size, as the library wants it of its callers."""
    made = struct()
    made.size = ctypes.sizeof(struct)
    return made


def rows(function: Any) -> Iterator[Any]:
    """A table of the library: function(0), function(1), ... up to NULL."""
    index = 0
    while True:
        row = function(index)
        if not row:
            return
        yield row
        index += 1
