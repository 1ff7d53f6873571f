"""The process in which a script runs: it is begun as Python would begin it, watched, and handed over when it is done.

A `Session` runs in a child process (_outside.py waits for it, and reports on whatever becomes of it). The script ends
where it ends by itself, or is cut off: what was recorded is written to a file that the parent has open, a message says
how it ended, and the process goes by os._exit, so that nothing of the script runs after that (no `finally`, no exit
handlers) and nothing of the script can hold it up. Whoever is first hands over: the script's own thread, another one,
or a process that it forked.

_scripted.py says when the steps are done and what follows them, _scratch.py where the script writes.
"""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from typing import Any, List, NamedTuple, Optional, Sequence

from ._errors import Error, InputError, MissingError
from ._launch import Launch
from ._report import Gpu
from ._scratch import Scratch

HAND_OVER = signal.SIGRTMAX - 1  # the parent wants what there is
TELL = signal.SIGRTMAX - 2  # the parent wants to know where the script is

# Services that a script reports to: what it would send is made up.
OFFLINE = {"WANDB_MODE": "offline", "COMET_MODE": "offline", "NEPTUNE_MODE": "offline", "CLEARML_OFFLINE_MODE": "1",
           "HF_HUB_DISABLE_TELEMETRY": "1"}
# Weights are loaded one after the other: threads would only wait for each other here, and the card sees no difference.
LOADING = {"HF_DEACTIVATE_ASYNC_LOAD": "1"}

leave = os._exit  # the function itself


class Job(NamedTuple):
    """What is run, and how."""

    launch: Launch
    steps: Optional[int]  #: None: until the script ends
    gpu: Gpu
    cut: bool = True  #: DataLoaders give fewer batches after the steps
    full: bool = True  #: told that it is out of memory, where it looks for that
    onward: bool = False  #: as far beyond the steps as they differ, not to the next one alone

    @property
    def name(self) -> str:
        """For people: train.py."""
        return os.path.basename(self.launch.script.rstrip("/"))

    @property
    def source(self) -> Optional[str]:
        """Where its text is: of a module, as it lies below the current folder."""
        path = os.path.join(*self.launch.script.split(".")) if self.launch.module else self.launch.script
        return next((p for p in (path, path + ".py", os.path.join(path, "__main__.py")) if os.path.isfile(p)), None)

    @property
    def script(self) -> Optional[str]:
        """Its path; None of a module."""
        return None if self.launch.module else self.launch.script


class Session:
    """messages: a pipe to the parent, one JSON object per line. trace: a file for what was recorded."""

    def __init__(self, job: Job, scratch: Scratch, messages: int, trace: int) -> None:
        self.job, self.scratch, self.messages, self.trace = job, scratch, messages, trace
        self.recorder: Any = None
        self.noise: List[str] = []
        self._process = os.getpid()
        self.before_fork = 0  # steps that were made before this process was forked
        self._over = threading.RLock()
        self._torch = ""

    # ---- to the parent ----

    def send(self, **message: Any) -> None:
        content = json.dumps(message).encode() + b"\n"
        while content:
            content = content[os.write(self.messages, content):]

    def say(self, phase: str) -> None:
        self.send(phase=phase)

    def finish(self, how: str, where: str = "", fault: str = "", error: Optional[Error] = None) -> None:
        """Hands over and ends the process. how: steps, exit, exception, timeout."""
        with self._over:
            fcntl.lockf(self.trace, fcntl.LOCK_EX)  # of several processes, the first
            steps, content, seen = 0, b"", {}
            if self.recorder is not None:
                self.recorder.ending(how == "exit" and not fault)
                steps, seen = self.recorder.optimizer_steps, self.recorder.seen()
                try:
                    error = error or self.recorder.recording.faults.first  # whatever the script did with it
                    content = self._recorded() if steps and error is None else b""
                except Exception as problem:
                    error = self._as_error(problem)
            at = 0
            while at < len(content):
                at += os.pwrite(self.trace, content[at:at + (1 << 26)], at)
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            with contextlib.suppress(Exception):
                sys.stderr.flush()
            self.send(end=how, where=where, fault=fault, steps=steps, seen=seen, noise=self.noise, forked=os.getpid() != self._process,
                      error=None if error is None else [error.code, error.message, error.where, error.position], **self.scratch.told())
            leave(0)

    def _recorded(self) -> bytes:
        recorder = self.recorder
        recorder.finish()
        made: bytes = recorder.trace()
        return made

    def _as_error(self, problem: BaseException) -> Error:
        if isinstance(problem, Error):
            return problem
        return InputError(str(problem), self.job.name)

    # ---- where the script is ----

    def _own(self, filename: str) -> bool:
        """Whether a file is the user's own: no library and nothing of this package."""
        path = os.path.abspath(filename)
        if self.job.script is not None and path == os.path.abspath(self.job.script):
            return True
        return (not filename.startswith("<") and "site-packages" not in path and "dist-packages" not in path
                and not path.startswith((os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__)))))

    def line_of(self, frames: Sequence[Any]) -> str:
        """The last of the frames that is the user's own code: "train.py, line 12"."""
        for frame in reversed(frames):
            if self._own(frame.filename):
                return "%s, line %s" % (os.path.basename(frame.filename), frame.lineno)
        return self.job.name

    def here(self) -> str:
        return self.line_of(traceback.extract_stack())

    # ---- the run ----

    def run(self) -> None:
        """Does not return."""
        try:
            self._run()
        except Error as problem:
            self.finish("error", error=problem)
        except BaseException as problem:
            traceback.print_exc()
            self.finish("error", error=InputError("%s: %s" % (type(problem).__name__, problem), self.job.name))

    def _run(self) -> None:
        os.environ.update({**OFFLINE, **LOADING, **self.job.launch.environment()})
        self._keep_back()
        self.say("starting PyTorch")
        try:
            import torch
        except ImportError as problem:
            raise MissingError("the script is run with PyTorch, which this Python does not have: %s" % problem,
                               sys.executable) from problem
        self._torch = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
        from . import _scripted, _workers
        from ._fakegpu import CaptureUnavailable
        from ._ranks import Ranks
        from ._saves import Saves
        self.recorder = _scripted.Scripted(self)
        self.scratch.enter()
        try:
            self.recorder.__enter__()
        except CaptureUnavailable as problem:
            raise MissingError(str(problem), self.job.name) from problem
        _workers.Workers(self.recorder).install()
        os.register_at_fork(after_in_child=self._forked)
        Saves(self.scratch).install()
        Ranks(self.job.launch, self.recorder.recording.warn).install(self.recorder)
        signal.signal(HAND_OVER, lambda *_: self.finish("timeout", self.here()))
        setattr(os, "_exit", self._os_exit)
        self.say("importing")
        raised: Optional[BaseException] = None
        try:
            self.job.launch.run()
        except BaseException as problem:
            raised = problem
        if raised is None or isinstance(raised, SystemExit):
            self._wait_for_others()
        self._ended(raised)

    def _wait_for_others(self) -> None:
        """Threads and processes that Python itself would wait for."""
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        if "multiprocessing.util" in sys.modules:
            sys.modules["multiprocessing.util"]._exit_function()

    def _ended(self, raised: Optional[BaseException]) -> None:
        from . import _values
        from .capture import StepDone
        if raised is None:
            self.finish("exit")
        if isinstance(raised, StepDone):
            self.finish("steps")
        if self.recorder.cut and raised is not None and isinstance(raised.__cause__ or raised, StopIteration):
            self.recorder.cut_off = True
            self.finish("steps", self.line_of(traceback.extract_tb(raised.__traceback__)))  # a loader that was cut short
        frames = traceback.extract_tb(raised.__traceback__) if raised is not None else []
        if isinstance(raised, SystemExit):
            code = raised.code
            self.finish("exit", self.line_of(frames), "" if code in (None, 0) else "exited with %s" % (code,))
        assert raised is not None
        if isinstance(raised, Error):
            self.finish("error", error=raised)
        if isinstance(raised, (IndexError, KeyError)) and str(_values.HUGE) in str(raised):  # a table of Python's, an index that PyTorch checks
            made_up = _values.MadeUp("something is looked up by a number that was not computed (it is read from what a model gave, which has no "
                                     "numbers without a card)", self.line_of(frames))
            if not self.recorder.optimizer_steps:
                self.finish("error", error=made_up)
            self.recorder.recording.warn("%s: the script was simulated up to here: %s" % (made_up.where, made_up.message))
            self.finish("steps", made_up.where or "")
        first = str(raised).strip().splitlines()[:1]
        fault = "raised %s%s" % (type(raised).__name__, "".join(" (%s)" % line[:200] for line in first))
        if not self.recorder.after:
            sys.stderr.write("".join(traceback.format_exception(type(raised), raised, raised.__traceback__)))
        self.finish("exception", self.line_of(frames), fault)

    def _forked(self) -> None:
        self.before_fork = self.recorder.optimizer_steps

    def _os_exit(self, status: int) -> None:
        if os.getpid() != self._process and not (self.recorder.optimizer_steps > self.before_fork and self.recorder.recording.open):
            leave(status)
        self.finish("exit", self.here(), "called os._exit(%s)" % (status,))

    def _keep_back(self) -> None:
        """Warnings of PyTorch's own files, which talk about a card that is not there, are told only where the run fails."""
        show = warnings.showwarning

        def shown(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
            own = os.path.dirname(os.path.abspath(__file__)) + os.sep
            path = os.path.abspath(filename)
            if file is None and ((self._torch and path.startswith(self._torch)) or path.startswith(own) or "/torch/" in path):
                if len(self.noise) < 100:
                    self.noise.append(warnings.formatwarning(message, category, filename, lineno, line))
                return
            show(message, category, filename, lineno, file, line)

        setattr(warnings, "showwarning", shown)
