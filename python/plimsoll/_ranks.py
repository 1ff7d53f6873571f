"""One rank of a job of several processes, run alone: torch.distributed without the others.

Whatever backend a script asks for, its process groups are PyTorch's "fake" ones (FakeProcessGroup), which communicate
nothing: the tensors that collectives need are allocated as on a card, and arrive as they were sent. Every rank is taken
to hold what this one holds, so a sum of real numbers on the CPU is this rank's times the world, and objects that are
gathered are this rank's own. Processes that a script starts for its ranks (torch.multiprocessing.spawn, one Process per
rank) are not started: the rank that was asked for runs here. DDP's reducer is _reducer.py.

Left out: the memory that NCCL takes for itself, tensors that wait for a collective to end, RPC.
"""
from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from typing import Any, Callable
from urllib.parse import parse_qs, urlparse

import torch

from ._launch import Launch
from ._reducer import Logger, Reducer, note_sent, register_builtin_comm_hook, register_comm_hook

# What a script finds where it reads os.environ["RANK"] and nobody set it; `in` and .get() still say that it is not there.
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


class _Environ(os._Environ):  # type: ignore[type-arg]
    """os.environ, with ALONE behind it."""

    def __getitem__(self, key: Any) -> Any:
        try:
            return super().__getitem__(key)
        except KeyError:
            if key in ALONE:
                _asked.append(key)
                return ALONE[key]
            raise

    def get(self, key: Any, default: Any = None) -> Any:
        return os._Environ.__getitem__(self, key) if key in self else default

    def __contains__(self, key: object) -> bool:
        try:
            os._Environ.__getitem__(self, key)
        except (KeyError, TypeError):
            return False
        return True


_asked: list[str] = []


class Work:
    """A collective that is over; its future holds what it gave."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def result(self) -> Any:
        return self._result

    def get_future(self) -> Any:
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(self._result)
        return future


class Process:
    """A process of mp.spawn(join=False) whose rank has run, or runs elsewhere."""

    processes: list[Any] = []

    def join(self, timeout: Any = None, grace_period: Any = None) -> bool:
        return True

    def pids(self) -> list[int]:
        return []


class Ranks:
    """launch: which rank of how many. warn: takes a sentence for the report."""

    def __init__(self, launch: Launch, warn: Callable[[str], None]) -> None:
        self.launch, self.warn = launch, warn
        self.world = launch.world or 1
        self.rank = launch.rank
        self.grouped = False  # a process group was made
        self.backend = ""
        self._started: dict[Any, int] = {}  # a Process's target: how many were started
        self._wrappers: set[type] = set()
        self._spawned = 0
        self._environ: Any = None
        self._note: Callable[[torch.Tensor], None] = lambda tensor: None

    # ---- putting it there ----

    def install(self, recorder: Any) -> None:
        """Into a capture.Recorder that is entered, for as long as it is."""
        patch, recording = recorder.patch, recorder.recording
        recorder.ranks = self
        recording.card.count = max(recording.card.count, self.launch.local_world)
        self._wrappers = recording.wrappers
        self._note = lambda tensor: recording.say_kind(tensor, "gradients")
        del _asked[:]
        if self.launch.world is None:
            self._environ = type(os.environ)
            os.environ.__class__ = _Environ
        if not torch.distributed.is_available():
            return
        self._patch_groups(patch)
        import multiprocessing.process
        import torch.multiprocessing as mp
        for holder in (mp, sys.modules["torch.multiprocessing.spawn"]):
            patch(holder, "spawn", self._spawn)
            patch(holder, "start_processes", self._spawn)
        self._start = multiprocessing.process.BaseProcess.start
        patch(multiprocessing.process.BaseProcess, "start", lambda process: self._start_process(process))
        self._data_parallel(patch)
        with contextlib.suppress(ImportError):  # another version's: a DTensor's random numbers ask the card for its state
            tracker = importlib.import_module("torch.distributed.tensor._random").OffsetBasedRNGTracker
            patch(tracker, "_get_device_state", lambda tracker: torch.zeros(16, dtype=torch.uint8))

    def _patch_groups(self, patch: Callable[[Any, str, Any], None]) -> None:
        dist, c10d = torch.distributed, torch.distributed.distributed_c10d
        importlib.import_module("torch.testing._internal.distributed.fake_pg")  # registers the backend "fake"
        self._helper, self._init, self._all_reduce = c10d._new_process_group_helper, c10d.init_process_group, c10d.all_reduce
        patch(c10d, "_new_process_group_helper", self._new_group)
        table: dict[str, Any] = {
            "init_process_group": self._init_process_group, "all_reduce": self._reduce_all, "all_gather_object": self._all_gather_object,
            "gather_object": self._gather_object, "broadcast_object_list": lambda *a, **k: None, "scatter_object_list": self._scatter_object_list,
            "monitored_barrier": lambda *a, **k: None, "barrier": self._barrier, "is_nccl_available": lambda: True,
            "is_gloo_available": lambda: True, "is_backend_available": lambda backend: True, "_verify_params_across_processes": lambda *a, **k: None,
            "Reducer": functools.partial(Reducer, note=self._note), "Logger": Logger,
            "_register_comm_hook": register_comm_hook, "_register_builtin_comm_hook": register_builtin_comm_hook,
            "TCPStore": self._store, "FileStore": self._store,
        }
        # A device mesh makes the group where the script does not.
        for holder in (dist, c10d, importlib.import_module("torch.distributed.device_mesh")):
            for name, value in table.items():
                if hasattr(holder, name):
                    patch(holder, name, value)

    # ---- process groups ----

    @staticmethod
    def _store(*args: Any, **kwargs: Any) -> Any:
        """A store of this process alone. What only another rank would put there is not waited for."""
        from datetime import timedelta
        store = torch.distributed.HashStore()
        store.set_timeout(timedelta(seconds=2))
        return store

    def _numbers(self, rank: int, world: int, method: Any) -> tuple[int, int]:
        """Rank and world of a group, of what the script says and else of the environment, as torch/distributed/rendezvous.py has it."""
        query = parse_qs(urlparse(method).query) if isinstance(method, str) else {}
        found = []
        for given, key, name, else_ in ((rank, "rank", "RANK", self.rank), (world, "world_size", "WORLD_SIZE", self.world)):
            if given < 0 and key in query:
                given = int(query[key][0])
            if given < 0 and os.environ.get(name, "").isdigit():
                given = int(os.environ[name])
            found.append(else_ if given < 0 else given)
        return found[0], max(found[1], found[0] + 1)

    def _init_process_group(self, backend: Any = None, init_method: Any = None, timeout: Any = None, world_size: int = -1, rank: int = -1,
                            store: Any = None, group_name: str = "", pg_options: Any = None, device_id: Any = None, **kwargs: Any) -> None:
        rank, world = self._numbers(rank, world_size, init_method)
        self.backend = str(backend or "nccl").lower()
        torch.distributed.set_debug_level(torch.distributed.DebugLevel.OFF)
        hook = sys.excepthook
        self._init(backend="fake", rank=rank, world_size=world, store=self._store())
        sys.excepthook = hook
        if self.launch.world not in (None, world):
            self.warn("the script makes a process group of %d, where %s says %d" % (world, self.launch.source, self.launch.world))
        self.rank, self.world, self.grouped = rank, world, True
        from torch.distributed import tensor
        self._wrappers.add(tensor.DTensor)
        functional = sys.modules.get("torch.distributed._functional_collectives")
        if hasattr(functional, "AsyncCollectiveTensor"):
            self._wrappers.add(functional.AsyncCollectiveTensor)  # type: ignore[union-attr]

    def _new_group(self, group_size: Any, group_rank: Any, global_ranks: Any, backend: Any, store: Any, group_name: Any, *args: Any,
                   **kwargs: Any) -> Any:
        """A group of any backend is a fake one, and says that it is what was asked for."""
        c10d = torch.distributed.distributed_c10d
        asked = self.backend if str(backend) == "fake" else str(backend)
        kept = {key: kwargs[key] for key in ("timeout", "pg_tag", "group_desc") if key in kwargs}
        group, made = self._helper(group_size, group_rank, global_ranks, c10d.Backend("fake"), store, group_name, **kept)
        simple = asked.split(",")[0].split(":")[-1]
        if group in c10d._world.pg_map and simple in ("nccl", "gloo", "mpi", "ucc", "xccl"):
            c10d._world.pg_map[group] = (c10d.Backend(simple), c10d._world.pg_map[group][1])
        return group, made

    # ---- collectives whose numbers are real ----

    def _size(self, group: Any) -> int:
        return int(torch.distributed.get_world_size(group))

    def _reduce_all(self, tensor: torch.Tensor, op: Any = None, group: Any = None, async_op: bool = False) -> Any:
        """Every rank adds the same: on the CPU the sum is the number times the world."""
        kind = torch.distributed.ReduceOp.SUM if op is None else op
        self._all_reduce(tensor, kind, group, False)
        if type(tensor) is torch.Tensor and tensor.device.type == "cpu" and kind == torch.distributed.ReduceOp.SUM:
            with torch.no_grad():
                tensor.mul_(self._size(group))
        if not async_op:
            return None
        note_sent(tensor)
        return Work([tensor])

    def _all_gather_object(self, object_list: Any, obj: Any, group: Any = None) -> None:
        object_list[:] = [obj] * len(object_list)

    def _gather_object(self, obj: Any, object_gather_list: Any = None, *args: Any, **kwargs: Any) -> None:
        if object_gather_list:
            object_gather_list[:] = [obj] * len(object_gather_list)

    def _scatter_object_list(self, output: Any, given: Any = None, *args: Any, **kwargs: Any) -> None:
        if given:
            output[0] = given[self.rank % len(given)]

    def _barrier(self, group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
        return Work(None) if async_op else None

    # ---- processes ----

    def _spawn(self, fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn") -> Any:
        """mp.spawn: the rank that was asked for, here."""
        rank = min(self.rank, max(nprocs, 1) - 1)
        self._spawned = nprocs
        if self.launch.world is None:
            self.world = nprocs
        fn(rank, *args)
        return None if join else Process()

    def _start_process(self, process: Any) -> Any:
        """One Process per rank, as torch.distributed's tutorial starts them: an argument counts them. The others are not started."""
        target, args = getattr(process, "_target", None), getattr(process, "_args", ())
        kwargs = getattr(process, "_kwargs", {})
        count = self._started.get(target, 0)
        numbers = [v for v in (*args, *kwargs.values()) if isinstance(v, int) and not isinstance(v, bool)]
        if target is None or count not in numbers or not _trains(target):
            return self._start(process)
        self._started[target] = count + 1
        ended = type("Ended", (), {"poll": lambda self, *a: 0, "wait": lambda self, *a: 0, "pid": 0, "returncode": 0, "sentinel": 0,
                                   "terminate": lambda self: None, "kill": lambda self: None, "close": lambda self: None})()
        process._popen, process._parent_pid = ended, os.getpid()
        if count == self.rank:
            target(*args, **kwargs)
        return None

    # ---- what is said ----

    def _data_parallel(self, patch: Callable[[Any, str, Any], None]) -> None:
        """nn.DataParallel: the module itself, on one card."""
        kind = torch.nn.DataParallel
        init = kind.__init__

        def made(module: Any, inner: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
            cards = len(device_ids) if device_ids else torch.cuda.device_count()
            if cards > 1:
                self.warn("nn.DataParallel over %d cards: simulated on one alone, with the whole batch, of which it would take a part" % cards)
            init(module, inner, [torch.cuda.current_device()], output_device, dim)

        patch(kind, "__init__", made)

    def sentences(self) -> list[str]:
        """What the report says of ranks; none where the script is of one process."""
        said = []
        if self.grouped:
            source = self.launch.source or ("the script starts %d processes" % self._spawned if self._spawned else "")
            if not source:
                source = "the script's own numbers" if self.world > 1 else "world 1 was taken: neither torchrun's arguments nor --world say more"
            said.append("rank %d of %d (%s), over a process group that communicates nothing: %s" % (
                self.rank, self.world, source, "the other ranks are not run, and memory that NCCL takes for itself is not simulated"
                if self.world > 1 else "--world N asks for one of N"))
        elif _asked:
            said.append("the script reads %s from its environment, where nobody set it: it ran as rank 0 of 1 (--world N asks for one of N)"
                        % ", ".join(dict.fromkeys(_asked)))
        return said

    def finish(self, roots: Any) -> dict[str, Any]:
        """What a trace's job says of them, at the end of the run."""
        if self._environ is not None:
            os.environ.__class__ = self._environ
        if not self.grouped:
            return {}
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        return {"world": self.world, "rank": self.rank, "backend": self.backend, "parallel": self._kind(roots)}

    def _kind(self, roots: Any) -> str:
        """ddp, fsdp2 or fsdp: how the models are spread; "" where they are not."""
        fsdp2 = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", ())
        fsdp = getattr(sys.modules.get("torch.distributed.fsdp"), "FullyShardedDataParallel", ())
        for root in roots:
            for module in root.modules():
                if isinstance(module, fsdp2):
                    return "fsdp2"
                if isinstance(module, fsdp):
                    return "fsdp"
                if isinstance(module, torch.nn.parallel.DistributedDataParallel):
                    return "ddp"
        return ""


def _trains(target: Any) -> bool:
    """Whether a process's function is the script's own, or of a module it imports, and not of a library's machinery."""
    module = getattr(target, "__module__", "") or ""
    return not module.startswith(("torch.utils.data", "multiprocessing", "concurrent"))
