"""Threads and processes of a script: both are recorded as the script itself is.

The modes that make tensors fake belong to a thread, so each thread that is started enters them, and one operator is
recorded at a time. A forked process has them from its parent. `multiprocessing` is made to fork whatever start method a
script asks for: a new interpreter would have neither the card nor the scratch folder. What such processes train is
recorded in each of them; the first that has seen the steps hands over (_inside.py).

Left out: other programs, Python ones among them; the report names them.
"""
from __future__ import annotations

import _thread
import multiprocessing.context
import os
import threading
from typing import Any, Callable

import torch

from ._record import Recording


class _Stack(threading.local):
    """A list per thread: FakeTensorMode keeps there what was entered before it."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def append(self, entry: Any) -> None:
        self.entries.append(entry)

    def pop(self) -> Any:
        return self.entries.pop()

    def __len__(self) -> int:
        return len(self.entries)


class Workers:
    """`Workers(recorder).install()` while the recorder is entered."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self._lock = threading.RLock()
        self._several = False

    def install(self) -> None:
        for owner in (_thread, threading):
            for name in ("start_new_thread", "_start_new_thread", "start_joinable_thread", "_start_joinable_thread"):
                if hasattr(owner, name):
                    setattr(owner, name, self._starter(getattr(owner, name)))
        contexts = vars(multiprocessing.context)["_concrete_contexts"]
        for name in ("spawn", "forkserver"):
            if name in contexts:
                contexts[name] = type("Forked", (multiprocessing.context.ForkContext,), {"_name": name})()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self._lock = threading.RLock()  # another thread may have held it, which the child has not
        torch.set_num_threads(1)  # nor has it OpenMP's

    def _starter(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def start(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            self._one_at_a_time()
            return real(self._within(function), *args, **kwargs)
        return start

    def _within(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with self.recorder.mode, self.recorder.recording, torch.autograd.set_multithreading_enabled(False):
                return function(*args, **kwargs)
        return run

    def _one_at_a_time(self) -> None:
        """From the first thread on."""
        if self._several:
            return
        self._several = True
        stack = _Stack()
        stack.entries = list(self.recorder.mode.enter_stack)
        self.recorder.mode.enter_stack = stack
        dispatch = Recording.__torch_dispatch__

        def locked(recording: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with self._lock:
                return dispatch(recording, func, types, args, kwargs)

        setattr(Recording, "__torch_dispatch__", locked)
