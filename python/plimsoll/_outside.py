"""The process that waits for a script: it starts the one in which the script runs (_inside.py), passes on what that
prints, shows how far it is, and reports on whatever becomes of it.

The script's descriptors 1 and 2 are a pipe that is read here and written to stderr, so that nothing of the script or of
what it starts mixes with the answer, and PyTorch's own log can be kept back. Its stdin is this process's. A script that
is killed, crashes or takes too long is told for what it is, with the line it was in (Python's faulthandler). Processes
that it leaves behind are ended with it.
"""
from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import json
import os
import re
import select
import shutil
import signal
import stat
import sys
import tempfile
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _overlay, _words
from ._errors import CLASSES, Error, InputError, LimitError
from ._inside import HAND_OVER, TELL, Job, Session, leave
from ._scratch import Scratch, caches
from ._watch import Watch, listed

GRACE_S = 5.0  # for a script to hand over what it has
AFTER_S = 60.0  # for what comes after the steps
DEATH, SUBREAPER = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER
# Lines of PyTorch's log: "[W1116 18:20:41.1 file.cpp:1] ..." of C++, "W1116 18:20:41.1 12345 torch/..." of Python.
LOG = re.compile(rb"\[?[VIWEF]\d{4} \d\d:\d\d:\d\d")
LOG_BEGINS = re.compile(rb"\[?[VIWEF]?\d{0,4}$")


class Outcome(NamedTuple):
    """What became of a script."""

    trace: bytes
    end: Dict[str, Any]  #: the session's last message
    warnings: List[str]
    held: Optional[Dict[str, Any]]


class _Output:
    """What the script prints, passed on; a line below it, on a terminal, that says how far it is."""

    def __init__(self, name: str) -> None:
        self.name, self.phase, self.begin = name, "starting", time.monotonic()
        self.shows = sys.stderr.isatty()
        self.noise: List[str] = []
        self._rest = b""
        self._fresh, self._drawn = True, ""

    def write(self, content: bytes) -> None:
        if not content:
            return
        self.clear()
        self._fresh = content.endswith((b"\n", b"\r"))
        with contextlib.suppress(OSError):
            while content:
                content = content[os.write(2, content):]

    def take(self, content: bytes) -> None:
        """Some more of the script's output: log lines of PyTorch are kept back."""
        *lines, rest = (self._rest + content).split(b"\n")
        out = b""
        for line in lines:
            if LOG.match(line):
                if len(self.noise) < 200:
                    self.noise.append(line.decode("utf-8", "replace") + "\n")
            else:
                out += line + b"\n"
        if rest and not LOG_BEGINS.match(rest) and not LOG.match(rest):
            out, rest = out + rest, b""
        self._rest = rest
        self.write(out)

    def draw(self) -> None:
        if not self.shows or not self._fresh:
            return
        line = "%s: %s, %d s" % (self.name, self.phase, time.monotonic() - self.begin)
        line = line[:max(shutil.get_terminal_size().columns - 1, 20)]
        if line != self._drawn:
            with contextlib.suppress(OSError):
                os.write(2, b"\r\x1b[K" + line.encode("utf-8", "replace"))
            self._drawn = line

    def clear(self) -> None:
        if self._drawn:
            self._drawn = ""
            with contextlib.suppress(OSError):
                os.write(2, b"\r\x1b[K")

    def close(self) -> None:
        rest, self._rest = self._rest, b""
        self.write(rest)
        self.clear()


def _control(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def _children(of: int) -> List[int]:
    """Processes that descend from one."""
    parents: Dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open("/proc/%s/stat" % name) as file:
                    parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
    found, waiting = [], [of]
    for process in waiting:
        for child, parent in parents.items():
            if parent == process and child not in found:
                found.append(child)
                waiting.append(child)
    return found


def _end_writing(own: Sequence[int]) -> None:
    """Files that this process was given open for writing (3>>log, <>data on standard input) are not written by a script; own: but
    these. What could only be written takes everything and keeps nothing."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            how = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
            if fd in own or how == os.O_RDONLY or not stat.S_ISREG(os.fstat(fd).st_mode):
                continue
            try:
                instead = os.open("/proc/self/fd/%d" % fd if how == os.O_RDWR else os.devnull, os.O_RDONLY if how == os.O_RDWR else how)
                if how == os.O_RDWR:
                    os.lseek(instead, os.lseek(fd, 0, os.SEEK_CUR), os.SEEK_SET)
            except OSError:
                instead = os.open(os.devnull, how)
            os.dup2(instead, fd, os.get_inheritable(fd))
            os.close(instead)


class Run:
    """One script, run once. kernel: whether the kernel may be asked to hold back what is written."""

    def __init__(self, job: Job, timeout: Optional[float], kernel: bool = True) -> None:
        self.job, self.timeout, self.kernel = job, timeout, kernel
        script = [os.path.dirname(os.path.realpath(job.script))] if job.script else []
        self.homes = list(dict.fromkeys([*script, os.path.realpath(os.getcwd())]))
        self.output = _Output(job.name)
        self.end: Optional[Dict[str, Any]] = None
        self.made: List[str] = []
        self.overlaid = False
        self._after: Optional[float] = None  # when the steps were done
        self._pending = b""
        self._signalled = 0

    # ---- the child ----

    def _start(self, scratch: Scratch, messages: Tuple[int, int], output: Tuple[int, int], trace: int, stacks: int) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child:
            os.close(messages[1])
            os.close(output[1])
            return child
        try:
            os.close(messages[0])
            os.close(output[0])
            _control(SUBREAPER, 0)
            _control(DEATH, signal.SIGKILL)
            os.dup2(output[1], 1)
            os.dup2(output[1], 2)
            os.close(output[1])
            _end_writing((trace, stacks))
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(AttributeError, ValueError):
                    stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            faulthandler.enable(file=stacks, all_threads=True)
            faulthandler.register(TELL, file=stacks, all_threads=True, chain=False)
            session = Session(self.job, scratch, messages[1], trace)
            if self.kernel:
                try:
                    scratch.cover = _overlay.enter(scratch.folder, self.homes, caches())
                    session.send(overlaid=True)
                except OSError as problem:
                    session.send(overlaid=False, why=str(problem))
                    leave(0)
            scratch.on_folder = lambda path: session.send(made=path)
            session.run()
        finally:
            leave(70)

    # ---- waiting ----

    def run(self) -> Outcome:
        watch = Watch(self.homes, [1, 2])  # before there is anything of this program's in them
        folder = tempfile.mkdtemp(prefix="plimsoll-")
        scratch = Scratch(self.homes, folder)
        _control(SUBREAPER, 1)
        try:
            with tempfile.TemporaryFile() as trace, tempfile.TemporaryFile() as stacks:
                status, timed_out = self._attempt(scratch, trace.fileno(), stacks.fileno())
                if self.kernel and not self.overlaid and self.end is None:
                    self.kernel = False
                    status, timed_out = self._attempt(scratch, trace.fileno(), stacks.fileno())
                stacks.seek(0)
                stack = stacks.read().decode("utf-8", "replace")
                content = b""
                if self.end is not None:
                    trace.seek(0)
                    content = trace.read()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            for made in reversed(self.made):
                with contextlib.suppress(OSError):
                    if not scratch._cached(made):
                        os.rmdir(made)
            self.output.close()
        end = self.end if self.end is not None and not self._signalled else self._crashed(status, timed_out, stack)
        watch.told(end.get("watched") or {}, end.get("programs") or [])
        if not self.overlaid:
            watch.finish(scratch._cached)
        return Outcome(content, end, self._said(end, watch), end.get("held"))

    def _attempt(self, scratch: Scratch, trace: int, stacks: int) -> Tuple[int, bool]:
        messages, output = os.pipe(), os.pipe()
        os.set_inheritable(messages[1], False)
        child = self._start(scratch, messages, output, trace, stacks)
        timed_out, interrupted = False, 0

        def caught(number: int, frame: Any) -> None:
            nonlocal interrupted
            interrupted = interrupted or number

        before = {number: signal.signal(number, caught) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        status: Optional[int] = None
        deadline = None if self.timeout is None else time.monotonic() + self.timeout
        asked: Optional[float] = None
        try:
            while status is None:
                self._listen(messages[0], output[0], 0.1)
                done, code = os.waitpid(child, os.WNOHANG)
                if done:
                    status = code
                    break
                if self.end is not None:  # a process that the script forked handed over
                    os.kill(child, signal.SIGKILL)
                    continue
                now = time.monotonic()
                if interrupted:
                    break
                late = deadline is not None and now > deadline
                if asked is None and (late or (self._after is not None and now > self._after + AFTER_S)):
                    asked, timed_out = now, late
                    os.kill(child, TELL)
                    time.sleep(0.1)
                    os.kill(child, HAND_OVER)
                elif asked is not None and now > asked + GRACE_S:
                    os.kill(child, signal.SIGKILL)
                self.output.draw()
            self._signalled = interrupted
            if status is None:
                os.kill(child, TELL)
                time.sleep(0.1)
                os.kill(child, signal.SIGKILL)
                status = os.waitpid(child, 0)[1]
            self._end_all()
            while self._listen(messages[0], output[0], 0):
                pass
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(messages[0])
            os.close(output[0])
        return status, timed_out

    def _end_all(self) -> None:
        """Processes that the script left behind."""
        for _ in range(100):
            left = _children(os.getpid())
            if not left:
                return
            for process in left:
                with contextlib.suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.01)

    def _listen(self, messages: int, output: int, wait: float) -> bool:
        """Whether there was something."""
        try:
            ready, _, _ = select.select([messages, output], [], [], wait)
        except InterruptedError:
            return True
        seen = False
        if output in ready:
            content = os.read(output, 1 << 16)
            seen |= bool(content)
            self.output.take(content)
        if messages in ready:
            content = os.read(messages, 1 << 16)
            seen |= bool(content)
            *lines, self._pending = (self._pending + content).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError):
                    message = json.loads(line)
                    if isinstance(message, dict):  # a script may write to every descriptor that it finds
                        self._hear(message)
        if ready and not seen and wait:
            time.sleep(wait)  # both are closed, and the process is not done yet
        return seen

    def _hear(self, message: Dict[str, Any]) -> None:
        if "end" in message:
            self.end = self.end or message
        elif "phase" in message:
            self.output.phase = message["phase"]
        elif "made" in message:
            self.made.append(message["made"])
        elif "overlaid" in message:
            self.overlaid = message["overlaid"]
        elif "after" in message:
            self._after = time.monotonic()

    # ---- what became of it ----

    def _line(self, stack: str) -> str:
        """Where the script was, by faulthandler's stacks: the innermost line of the user's own code, of the thread that was
        running where it is known."""
        for thread in re.split(r"^(?=Current thread|Thread)", stack, flags=re.M)[1:] or [stack]:
            for path, line in re.findall(r'^  File "(.+)", line (\d+) in ', thread, flags=re.M):
                if self.job.script is not None and os.path.realpath(path) == os.path.realpath(self.job.script):
                    return "%s, line %s" % (self.job.name, line)
                if any(path.startswith(home + "/") for home in self.homes) and "-packages" not in path:
                    return "%s, line %s" % (os.path.basename(path), line)
        return self.job.name

    def _crashed(self, status: int, timed_out: bool, stack: str) -> Dict[str, Any]:
        """An end that the script's process could not tell."""
        where = self._line(stack)
        error: Error
        if self._signalled:
            error = InputError("ended by %s; the script was here" % signal.Signals(self._signalled).name, where)
            error.code = 128 + self._signalled
        elif timed_out:
            error = LimitError("the script was not done after %s, and did not answer; it was here. --timeout gives it longer"
                               % _words.time(1e3 * (self.timeout or 0)), where)
        elif os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = signal.Signals(number).name if number in list(signal.Signals) else str(number)
            more = ": the machine may have run out of memory" if number == signal.SIGKILL else ""
            error = InputError("the script's process was ended by %s%s" % (name, more), where)
        else:
            error = InputError("the script's process ended with %d, and told nothing" % os.WEXITSTATUS(status), where)
        return {"end": "crash", "where": where, "fault": "", "steps": 0, "seen": {}, "noise": [],
                "error": [error.code, error.message, error.where, None]}

    def _said(self, end: Dict[str, Any], watch: Watch) -> List[str]:
        """What was held back and what was not, in sentences for the report."""
        said, held = [], end.get("held") or {}
        unharmed = ", no file of its folder was written or changed" if self.overlaid or watch.untouched else ""
        if held:
            parts = ["%s (%s%s)" % (function, path, ", %d times" % count if count > 1 else "") for path, (function, count) in held.items()]
            total = sum(count for _, count in held.values())
            said.append("%s of the script held back (numbers are made up in this run)%s: %s" % (
                "1 save" if total == 1 else "%d saves" % total, unharmed, listed(parts, "files")))
        if end.get("more"):
            said.append("held back too, of native code and other processes: %s" % listed(end["more"], "files"))
        if watch.changed:
            said.append("files that were changed while the script ran, past what is held back (by native code, or by another "
                        "program): %s" % listed(watch.changed, "files"))
        if watch.programs:
            said.append("the script started another program, whose writes %s: %s" % (
                "outside of caches were held back too" if self.overlaid else "are not held back", listed(watch.programs, "programs")))
        return said


def error_of(end: Dict[str, Any]) -> Optional[Error]:
    """The error that a run ended with."""
    told = end.get("error")
    if told is None:
        return None
    code, message, where, position = told
    error = CLASSES.get(code, InputError)(message, where, position)
    error.code = code
    return error
