"""What libraries ask of the card beside torch.cuda's first questions: which device is current, on which stream, torch.accelerator, NVML.

A `Card` is the state behind the answers; `answers` and the tables below it are put in place by _fakegpu.FakeGPU.
Streams have numbers, since the caching allocator keeps the memory of each apart: what is allocated inside `with
torch.cuda.stream(s)` is recorded with the number of s (FSDP2's gathers and reductions, prefetching loaders). PyTorch
hands out 32 streams per priority in turn (c10/cuda/CUDAStream.cpp).

Left out: waiting. Nothing runs on a stream, so every event is done; a tensor that record_stream keeps for another
stream goes when its last reference does.
"""
from __future__ import annotations

import collections
from typing import Any, Callable

import torch

POOL = 32  # streams per priority
UNIT = 512  # bytes: the allocator's
SEGMENT = 2 << 20  # what it takes from the driver, at least
OUTSIDE = 700 << 20  # of a process, that no tensor has: context and kernels (742 MiB on an H200)

_generator = torch.Generator


class Card:
    """index: the current device. count: how many torch.cuda says there are. stream: the current stream's number, 0 the default.
    alive, most: bytes of the tensors on it, now and at most; most_since: since a script last reset that."""

    def __init__(self, count: int = 1, index: int = 0) -> None:
        self.count, self.index, self.stream = count, index, 0
        self.made = 0
        self.alive = self.most = self.most_since = 0

    def take(self, size: int) -> None:
        self.alive += -(-size // UNIT) * UNIT
        self.most, self.most_since = max(self.most, self.alive), max(self.most_since, self.alive)

    def give(self, size: int) -> None:
        self.alive -= -(-size // UNIT) * UNIT

    def next_stream(self) -> int:
        self.made += 1
        return 1 + (self.made - 1) % (2 * POOL)


def _index_of(device: Any, card: Card) -> int:
    """A device's number, of what torch.cuda takes: a number, a name, a device, None."""
    if isinstance(device, int) and not isinstance(device, bool):
        return device if device >= 0 else card.index
    if isinstance(device, str):
        device = torch.device(device)
    index = getattr(device, "index", None)
    return card.index if index is None else index


class Event:
    """An event that is always done."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = torch.device("cuda", 0)
        self.event_id = self.cuda_event = 0

    def record(self, stream: Any = None) -> None: ...

    def wait(self, stream: Any = None) -> None: ...

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...

    def elapsed_time(self, end: Any) -> float:
        return 1.0

    def ipc_handle(self) -> bytes:
        return b""


def _stream_class(card: Card) -> type:
    class Stream:
        """A stream on which nothing runs; its number tells allocations apart."""

        def __init__(self, device: Any = None, priority: int = 0, *, stream_id: int | None = None, **kwargs: Any) -> None:
            self.device = torch.device("cuda", _index_of(device, card))
            self.device_index, self.device_type, self.priority = self.device.index, 1, priority
            self.stream_id = self.cuda_stream = card.next_stream() if stream_id is None else stream_id
            self._before: list[int] = []

        def wait_stream(self, stream: Any) -> None: ...

        def wait_event(self, event: Any) -> None: ...

        def record_event(self, event: Any = None) -> Any:
            return event or Event()

        def query(self) -> bool:
            return True

        def synchronize(self) -> None: ...

        def native_handle(self) -> int:
            return self.stream_id

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return 0, -5

        def __enter__(self) -> "Stream":
            self._before.append(card.stream)
            card.stream = self.stream_id
            return self

        def __exit__(self, *exc: Any) -> None:
            card.stream = self._before.pop()

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Stream) and other.stream_id == self.stream_id

        def __hash__(self) -> int:
            return hash(self.stream_id)

    return Stream


class _Nothing:
    """`with torch.cuda.stream(None)`."""

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: Any) -> None: ...


def _device_class(card: Card, of: Callable[[Any], Any]) -> type:
    class Device:
        """`with torch.cuda.device(i)`, `with torch.cuda.device_of(tensor)`."""

        def __init__(self, device: Any) -> None:
            self.idx, self.prev_idx = _index_of(of(device), card), -1

        def __enter__(self) -> "Device":
            self.prev_idx, card.index = card.index, self.idx
            return self

        def __exit__(self, *exc: Any) -> None:
            card.index = self.prev_idx

    return Device


def _streams(card: Card) -> dict[str, Any]:
    kind = _stream_class(card)

    def stream(stream: Any) -> Any:  # called by name, too: the arguments are torch.cuda's
        return stream if stream is not None else _Nothing()

    def set_stream(stream: Any) -> None:
        if stream is not None:
            card.stream = getattr(stream, "stream_id", 0)

    return {"Stream": kind, "ExternalStream": lambda pointer=0, device=None, **k: kind(device), "Event": Event, "stream": stream,
            "set_stream": set_stream,
            "current_stream": lambda device=None: kind(device, stream_id=card.stream),
            "default_stream": lambda device=None: kind(device, stream_id=0)}


def cuda_answers(card: Card) -> dict[str, Any]:
    """torch.cuda's members that depend on the state; they stand over those of _fakegpu.py."""

    def set_device(device: Any) -> None:
        index = _index_of(device, card)
        if index >= card.count:
            raise RuntimeError("CUDA error: invalid device ordinal: cuda:%d, of %d (python -m plimsoll --world N says how many there are)"
                               % (index, card.count))
        card.index = index

    def exchange(device: Any) -> int:
        before = card.index
        card.index = _index_of(device, card)
        return before

    def nothing(*args: Any, **kwargs: Any) -> None: ...

    return {"_record_memory_history": nothing, "_dump_snapshot": nothing, "_snapshot": lambda *a, **k: {"segments": [], "device_traces": []},
            **_streams(card), "device_count": lambda: card.count, "_device_count_nvml": lambda: card.count, "current_device": lambda: card.index,
            "set_device": set_device, "device": _device_class(card, lambda d: d),
            "device_of": _device_class(card, lambda t: t.device if isinstance(t, torch.Tensor) and t.device.type == "cuda" else -1),
            "_exchange_device": exchange, "_maybe_exchange_device": exchange}


def memory_answers(card: Card, memory: int) -> dict[str, Any]:
    """How much is taken: what the script's tensors take, without what the allocator and libraries add."""

    def reserved(size: int) -> int:
        return -(-size // SEGMENT) * SEGMENT

    def stats(device: Any = None) -> dict[str, int]:
        found: dict[str, int] = collections.defaultdict(int)
        for name, now, most in (("allocated", card.alive, card.most_since), ("active", card.alive, card.most_since),
                                ("requested", card.alive, card.most_since), ("reserved", reserved(card.alive), reserved(card.most_since))):
            for pool in ("all", "large_pool"):
                found["%s_bytes.%s.current" % (name, pool)], found["%s_bytes.%s.peak" % (name, pool)] = now, most
        return found

    def nested(device: Any = None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in stats().items():
            kind, pool, when = name.split(".")
            found.setdefault(kind, {}).setdefault(pool, {})[when] = value
        return found

    def reset(device: Any = None) -> None:
        card.most_since = card.alive

    return {"memory_allocated": lambda device=None: card.alive, "max_memory_allocated": lambda device=None: card.most_since,
            "memory_reserved": lambda device=None: reserved(card.alive), "max_memory_reserved": lambda device=None: reserved(card.most_since),
            "memory_cached": lambda device=None: reserved(card.alive), "max_memory_cached": lambda device=None: reserved(card.most_since),
            "mem_get_info": lambda device=None: (max(memory - OUTSIDE - reserved(card.alive), 0), memory), "memory_stats": stats,
            "memory_stats_as_nested_dict": nested,
            "reset_peak_memory_stats": reset, "reset_max_memory_allocated": reset, "reset_max_memory_cached": reset}


def accelerator_answers(card: Card, cuda: dict[str, Any]) -> dict[str, Any]:
    """torch.accelerator's members: of the same card."""
    found = {"is_available": lambda: True, "device_count": lambda: card.count,
             "current_accelerator": lambda check_available=False: torch.device("cuda"),
             "current_device_index": lambda: card.index, "current_device_idx": lambda: card.index, "set_device_index": cuda["set_device"],
             "set_device_idx": cuda["set_device"], "set_stream": cuda["set_stream"], "current_stream": cuda["current_stream"],
             "synchronize": lambda device=None: None, "device_index": cuda["device"],
             "get_memory_info": lambda device=None: cuda["mem_get_info"](device),
             "empty_cache": lambda: None}
    for name in ("memory_stats", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
                 "reset_peak_memory_stats", "reset_accumulated_memory_stats"):
        found[name] = cuda[name]
    return found


class _AnyGenerator(type(_generator)):  # type: ignore[misc]
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _generator)


class _Generator(_generator, metaclass=_AnyGenerator):  # type: ignore[misc, valid-type]
    """A generator of the card is one of the CPU: nothing is drawn on the card."""

    def __new__(cls, device: Any = "cpu") -> Any:
        made = _generator.__new__(cls, "cpu")
        made._plimsoll_device = torch.device(device)
        return made

    @property
    def device(self) -> torch.device:
        return self._plimsoll_device


def nvml_answers(card: Card, memory: int, name: str) -> dict[str, Any]:
    """pynvml's functions (nvidia-ml-py), where a library asks NVML itself."""
    from types import SimpleNamespace

    def whole(handle: Any, *args: Any) -> Any:
        used = min(OUTSIDE + card.alive, memory)
        return SimpleNamespace(total=memory, free=memory - used, used=used)

    return {"nvmlInit": lambda *a: None, "nvmlInitWithFlags": lambda *a: None, "nvmlShutdown": lambda: None, "nvmlDeviceGetCount": lambda: card.count,
            "nvmlDeviceGetHandleByIndex": lambda index: index, "nvmlDeviceGetName": lambda handle: name,
            "nvmlDeviceGetMemoryInfo": whole,
            "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=0, memory=0), "nvmlDeviceGetPowerUsage": lambda handle: 0,
            "nvmlDeviceGetTemperature": lambda handle, sensor=0: 0, "nvmlSystemGetDriverVersion": lambda: "580.0",
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: [], "nvmlSystemGetCudaDriverVersion": lambda: 13000}


def install(patch: Callable[[Any, str, Any], None], card: Card, cuda: dict[str, Any], memory: int, name: str) -> None:
    """The rest of the answers, each where torch's own code looks for it. cuda: those of torch.cuda that are in place."""
    accelerator = getattr(torch, "accelerator", None)
    for holder in (accelerator, getattr(accelerator, "memory", None)):
        for key, answer in accelerator_answers(card, cuda).items():
            if holder is not None and key in vars(holder):
                patch(holder, key, answer)
    patch(torch._C, "_get_accelerator", lambda *a: torch.device("cuda"))
    patch(torch, "Generator", _Generator)
    for key in ("Stream", "Event"):
        if hasattr(torch, key):
            patch(torch, key, cuda[key])
    try:
        import pynvml as nvml
    except ImportError:
        nvml = None
    if nvml is not None:
        for key, answer in nvml_answers(card, memory, name).items():
            if hasattr(nvml, key):
                patch(nvml, key, answer)
