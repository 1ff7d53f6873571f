"""The steps of a script that are simulated, and what follows them.

A recorder that says in which phase the script is, and when it has seen the optimizer steps that were asked for. The
script then goes on as far as its next training step, with its DataLoaders cut short, so that an evaluation after the
loop is seen too. It is stopped before it starts a program or sends anything in that stretch: by then it may be about to
publish what it trained, which is made up.
"""
from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import weakref
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import _disable_current_modes

from . import _fakegpu
from ._errors import MissingError
from .capture import Recorder, StepDone

BATCHES = 2  # of each DataLoader after the steps
MOST_STEPS = 60  # that the library takes for steps of their own
AFTER = 8  # times the events of the steps, that may follow them


class Scripted(Recorder):
    """session: an _inside.Session, which is told, and ends the process."""

    def __init__(self, session: Any) -> None:
        gpu = session.job.gpu
        super().__init__(capability=gpu.compute_capability, memory=gpu.capacity_bytes, device_name=gpu.title, steps=session.job.steps,
                         name=os.path.splitext(session.job.name)[0])
        self.session = session
        self.after = False  # the steps are done
        self.evaluated = ""  # where a model first ran without gradients
        self.stopped = ""  # why the script was not let go on after the steps
        self._limit, self._further, self._prepared = 0, 0, False
        self._mark, self._said = self.recording.mark, ""
        setattr(self.recording, "mark", self._marked)

    def seen(self) -> dict[str, Any]:
        """What the report says of it."""
        return {"after": self.after, "evaluated": self.evaluated, "stopped": self.stopped, "batches": BATCHES}

    def trace(self) -> bytes:
        self.job.setdefault("steps", min(self.optimizer_steps, MOST_STEPS))
        for mark in self.recording.marks:
            mark[2] = min(mark[2], MOST_STEPS)
        return super().trace()

    def __enter__(self) -> "Scripted":
        """As the recorder's, but for what runs a backward: autograd's engine does not survive a fork, so that is put off to the
        process that trains."""
        setattr(_fakegpu, "_engine_ready", True)
        setattr(self.recording, "learn_counts", lambda: None)
        super().__enter__()
        for owner in (torch.autograd.graph, torch.autograd):
            if hasattr(owner, "_engine_run_backward"):
                self._gpu.patch(owner, "_engine_run_backward", self._backward(owner._engine_run_backward))
        building = torch.nn.modules.module.register_module_parameter_registration_hook(lambda *_: built())

        def built() -> None:
            building.remove()
            self.session.say("building the model")

        return self

    def _backward(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._prepare()
            return real(*args, **kwargs)
        return call

    def _prepare(self) -> None:
        if self._prepared:
            return
        self._prepared = True
        self._in_forward += 1  # these backward passes are not the script's: no mark, and not counted
        try:
            with _disable_current_modes(), torch.inference_mode(False), torch.enable_grad():
                setattr(_fakegpu, "_engine_ready", False)
                _fakegpu.prepare_engine()
        except _fakegpu.CaptureUnavailable as problem:
            self.session.finish("error", error=MissingError(str(problem), self.session.job.name))
        with torch.inference_mode(False), torch.enable_grad():
            type(self.recording).learn_counts(self.recording)
        self._in_forward -= 1

    def _marked(self, phase: str, at: int | None = None) -> None:
        self._mark(phase, at)
        said = "what comes after the steps" if self.after else "%s of step %d" % (phase, self.optimizer_steps + 1)
        if phase != "load" and said != self._said:
            self._said = said
            self.session.say(said)

    def _before_module(self, module: torch.nn.Module, args: Any) -> None:
        if self._in_forward == 0 and torch._C._current_autograd_node() is None:
            if not torch.is_grad_enabled():
                self.evaluated = self.evaluated or self.session.here()
            elif self.after and module.training and self._further <= 0:
                self.session.finish("steps")
        if self.after and len(self.recording.events) > self._limit:
            self.stop("it runs more than %d times the operators of the steps" % AFTER)
        super()._before_module(module, args)

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
        if self.after and self._further <= 0:
            self.session.finish("steps")
        return super()._before_step(optimizer, args, kwargs)

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        try:
            super()._after_step(optimizer, args, kwargs)
        except StepDone:
            self.recording.open = True
            self._further -= 1
            if self.after:
                return
            self.after, self.job["steps"] = True, min(self.optimizer_steps, MOST_STEPS)
            self._limit = len(self.recording.events) * (AFTER + 1)
            self.session.send(after=True)
            self._further = 1 if self._cut_loaders() else 0  # some loaders have a batch ready before it is asked for
            self._stop_before_sending()

    # ---- after the steps ----

    def stop(self, why: str) -> None:
        self.stopped = why
        self.session.finish("steps", self.session.here())

    def _cut_loaders(self) -> bool:
        """Iterators of the steps end; later ones do after a few batches. Whether there was one."""
        kind = torch.utils.data.dataloader._BaseDataLoaderIter
        ended = weakref.WeakSet(o for o in gc.get_objects() if isinstance(o, kind))
        counts: Any = weakref.WeakKeyDictionary()

        def cut(real: Callable[..., Any]) -> Callable[..., Any]:
            def following(iterator: Any) -> Any:
                counts[iterator] = counts.get(iterator, 0) + 1
                if iterator in ended or counts[iterator] > BATCHES:
                    raise StopIteration
                return real(iterator)
            return following

        for owner in [kind, *kind.__subclasses__()]:
            if "__next__" in vars(owner):
                setattr(owner, "__next__", cut(owner.__next__))
        return len(ended) > 0

    def _stop_before_sending(self) -> None:
        def audit(event: str, args: Any) -> None:
            if event in ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"):
                self.stop("it starts a program")
            elif event == "socket.connect" and getattr(args[0], "family", None) != socket.AF_UNIX:
                self.stop("it goes to the network")

        def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(this: Any, *args: Any, **kwargs: Any) -> Any:
                if getattr(this, "family", None) in (socket.AF_INET, socket.AF_INET6):
                    with contextlib.suppress(OSError):
                        peer = str(this.getpeername()[0])
                        if not peer.startswith("127.") and peer != "::1":
                            self.stop("it goes to the network")
                return real(this, *args, **kwargs)
            return call

        sys.addaudithook(audit)
        for kind in [socket.socket, *([sys.modules["ssl"].SSLSocket] if "ssl" in sys.modules else [])]:
            for name in ("send", "sendall", "write"):
                if hasattr(kind, name):
                    setattr(kind, name, guarded(getattr(kind, name)))
