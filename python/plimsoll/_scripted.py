"""The steps of a script that are simulated, and what follows them.

A recorder that says in which phase the script is, and when it has seen the optimizer steps that were asked for. The
script then goes on with its DataLoaders cut short, so that evaluations between epochs, later phases and the last, smaller
batch are seen too: as far as its next training step where a number of steps was asked for, else for a while, longer where
steps differ from each other (_onward.py). It is stopped before it starts a program or sends anything in that stretch: by then
it may be about to publish what it trained, which is made up.

A script without an optimizer of torch.optim that writes to its parameters after a backward pass makes a step by that.
"""
from __future__ import annotations

import contextlib
import itertools
import math
import os
import socket
import sys
import time
import weakref
from typing import Any, Callable

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes

from . import _fakegpu
from ._errors import MissingError
from ._full import Full
from ._onward import Onward
from .capture import Recorder, StepDone, tensors_in

BATCHES, MANY_BATCHES = 2, 8  # of each DataLoader after the steps, and where steps differ
MOST_STEPS = 60  # that the library takes for steps of their own
MOST_PASSES = 500  # backward passes without a step, until a script is taken for one that makes none
WAIT_PASSES = 3  # backward passes that an optimizer of the script's is waited for, before it counts as one that is not used
AFTER = 8  # times the events of the steps, that may follow a step, where they take longer than ALIKE_S
STILL = 0.9  # of the most that was alive: an evaluation that holds so much when it is stopped may come to hold more
# How far a script goes on: steps and seconds of this process, where steps are alike and where they are not.
ALIKE_STEPS, ALIKE_S = 200, 5.0
OTHER_STEPS, OTHER_S = 200, 12.0
_CHECKPOINT = os.path.join("torch", "utils", "checkpoint.py")
LOOK_BATCHES, LOOK_S = 500, 5.0  # that are looked at for the largest, where batches differ
FAR_LARGER = 1.3  # times the elements of the batches that come first: a larger one is simulated too
MOST_SAMPLES = 5_000_000  # of a dataset whose last batch is looked for


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
        self.onward = Onward(self.recording)
        self.cut_off = False  # the script ended for that
        self.cut = self.shortened = False  # loaders are cut short; one was
        self.whole = False  # the script ended by itself
        self._limit, self._further, self._prepared = 0, 0, False
        self._size = self._done = 0  # events and steps, when the steps were done
        self._since = 0.0
        self._trains = True  # the last model that was called keeps what backward needs
        self._iterators: Any = weakref.WeakSet()  # DataLoaders'
        self._not_given = 0  # batches of training that loaders have beyond those that they gave
        self._told = -1  # steps that were done when the script was last told that the card is full
        self._by_hand = False  # parameters were written to after a backward pass: a step, where there is no optimizer
        self._weights: tuple[int, set[int]] = (-1, set())  # addresses of the parameters of so many models
        self._mark, self._said = self.recording.mark, ""
        setattr(self.recording, "mark", self._marked)

    def seen(self) -> dict[str, Any]:
        """What the report says of it."""
        return {"after": self.after, "gave_up": self._told >= self.optimizer_steps, "cut_off": self.cut_off, "shortened": self.shortened,
                "evaluated": self.evaluated, "stopped": self.stopped,
                "batches": BATCHES if self.onward.steady else MANY_BATCHES}

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
        self.recording.on_write = self._written
        if self.session.job.full:
            self.recording.room = Full(self.session.job.gpu.capacity_bytes, self._told_full)
        self.patch(torch.cuda, "set_per_process_memory_fraction", self._limited)
        for owner in (torch.autograd.graph, torch.autograd):
            if hasattr(owner, "_engine_run_backward"):
                self._gpu.patch(owner, "_engine_run_backward", self._backward(owner._engine_run_backward))
        kind = torch.utils.data.dataloader._BaseDataLoaderIter
        begin = kind.__init__

        def begun(iterator: Any, *args: Any, **kwargs: Any) -> None:
            begin(iterator, *args, **kwargs)
            self._iterators.add(iterator)

        setattr(kind, "__init__", begun)
        building = torch.nn.modules.module.register_module_parameter_registration_hook(lambda *_: built())

        def built() -> None:
            building.remove()
            self.session.say("building the model")

        return self

    def _backward(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._prepare()
            if self._in_forward or torch._C._current_autograd_node() is not None:
                return real(*args, **kwargs)
            self._end_by_hand()
            if self.after and self._enough():
                self.session.finish("steps")
            if not self.optimizer_steps and self.onward.backwards >= MOST_PASSES:
                self.session.finish("steps")
            self.onward.backward()
            try:
                return real(*args, **kwargs)
            finally:
                self.onward.anew()
        return call

    def _prepare(self) -> None:
        if self._prepared:
            return
        self._prepared = True
        self._in_forward += 1  # these backward passes are not the script's: no mark, and not counted
        try:
            with temporarily_clear_interpreter_stack(), _disable_current_modes(), torch.inference_mode(False), torch.enable_grad():
                setattr(_fakegpu, "_engine_ready", False)
                _fakegpu.prepare_engine()
        except _fakegpu.CaptureUnavailable as problem:
            self.session.finish("error", error=MissingError(str(problem), self.session.job.name))
        with temporarily_clear_interpreter_stack(), torch.inference_mode(False), torch.enable_grad():
            type(self.recording).learn_counts(self.recording)
        self._in_forward -= 1

    def _marked(self, phase: str, at: int | None = None) -> None:
        self._mark(phase, at)
        said = "what comes after the steps" if self.after else "%s of step %d" % (phase, self.optimizer_steps + 1)
        if phase != "load" and said != self._said:
            self._said = said
            self.session.say(said)

    def ending(self, whole: bool) -> None:
        """The script is over; whole: by itself."""
        self.whole = whole
        self._end_by_hand()
        if not self.optimizer_steps and self.onward.backwards:
            self.recording.warn("nothing stepped in %d backward pass%s (no optimizer of torch.optim, no parameter that was written to): they are "
                                "taken for one step" % (self.onward.backwards, "es" if self.onward.backwards > 1 else ""))
            self.progress.by_hand()
            self._stepped()

    def finish(self) -> None:
        if self.shortened and ("pytorch_lightning" in sys.modules or "lightning.pytorch" in sys.modules):
            self.recording.warn("Lightning runs no validation after a loader that gave fewer batches: of validation its sanity check alone was "
                                "simulated; --until-exit runs it")
        if self.whole:
            self.onward.ahead = self._not_given
        if not self.whole or self.shortened:
            self.recording.beyond = self.onward.beyond()
            for sentence in self.onward.sentences():
                self.recording.warn(sentence)
        super().finish()

    def _before_module(self, module: torch.nn.Module, args: Any) -> None:
        if self._in_forward == 0 and torch._C._current_autograd_node() is None:
            self._trains = torch.is_grad_enabled()
            self.onward.forward(self._trains)
            if torch.is_grad_enabled():
                self._end_by_hand()
            elif not self.evaluated and not _in_checkpoint():
                self.evaluated = self.session.here()
        if self.after and len(self.recording.events) > self._limit:
            self._long_after(time.process_time() - self._since)
        super()._before_module(module, args)

    def _long_after(self, seconds: float) -> None:
        """What follows a step takes many operators: an evaluation that holds more and more is waited for longest."""
        grows = not torch.is_grad_enabled() and self.recording.card.alive > STILL * self.recording.card.most
        if seconds > (OTHER_S if grows else ALIKE_S):
            if grows:
                self.recording.assumed["unfinished"] = True
                self.recording.warn("an evaluation held more and more when it was stopped: the interval's upper end is twice as high for that; "
                                    "--until-exit runs it to its end")
            self.stop("it runs more than %d times the operators of the steps" % AFTER)

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
        if self.after and self._enough():
            self.session.finish("steps")
        return super()._before_step(optimizer, args, kwargs)

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        done, enough = self.optimizer_steps, False
        try:
            super()._after_step(optimizer, args, kwargs)
        except StepDone:
            enough = self.recording.open = True
        if self.optimizer_steps > done:
            self._stepped()
        if enough:
            self._further -= 1
            self._go_on()

    def _stepped(self) -> None:
        self.onward.stepped()
        self._limit = len(self.recording.events) + AFTER * self._size

    # ---- steps without an optimizer ----

    def _written(self, tensor: torch.Tensor) -> None:
        """An operator wrote to a tensor, outside of backward."""
        r = self.recording
        if self.progress.counts or self.progress.running or (self.progress.made and self.onward.backwards < WAIT_PASSES):
            return
        if r.phase not in ("backward", "optimizer") or not self._is_weight(tensor):
            return
        if not self._by_hand:
            self._by_hand = True
            r.mark("optimizer")
            for root in self._roots:
                for p in root.parameters():
                    r.say_kind(p, "weights")
                    r.say_kind(p.grad, "gradients")
        if tensor.is_leaf and tensor.requires_grad:
            r.say_kind(tensor, "weights")
            r.say_kind(tensor.grad, "gradients")
        self._boundary = len(r.events) + 1  # the write itself is not in yet

    def _is_weight(self, tensor: torch.Tensor) -> bool:
        if tensor.requires_grad and tensor.is_leaf:
            return True
        if self._weights[0] != len(self._roots):
            self._weights = len(self._roots), {p.untyped_storage()._cdata for root in self._roots for p in root.parameters()}
        return tensor.untyped_storage()._cdata in self._weights[1]

    def _end_by_hand(self) -> None:
        if not self._by_hand:
            return
        self._by_hand = False
        self.progress.by_hand()
        self.job.setdefault("cudnn_benchmark", bool(torch.backends.cudnn.benchmark))
        self.line.step()
        self._describe()
        self._stepped()
        if self.steps is not None and self.optimizer_steps >= self.steps:
            self.recording.faults.late = self._end_late
            self._go_on()

    # ---- a card that is full ----

    def _limited(self, fraction: float, device: Any = None) -> None:
        """torch.cuda.set_per_process_memory_fraction."""
        if self.session.job.full:
            self.recording.room = Full(int(self.session.job.gpu.capacity_bytes * fraction), self._told_full)
        self.recording.warn("%s: the script allows itself %g %% of the card; the verdict is of the whole" % (self.session.here(), 100 * fraction))

    def _told_full(self) -> None:
        self.onward.anew()
        self.recording.empty_cache()  # the allocator gives back what it can before it says so
        self._told = self.optimizer_steps
        self.recording.warn("%s: the script's tensors took all of the card, and it was told that it is out of memory, which it looks for; a "
                            "card may say so a little earlier" % self.session.here())

    # ---- after the steps ----

    def _go_on(self) -> None:
        if self.after:
            return
        self.after, self.job["steps"] = True, min(self.optimizer_steps, MOST_STEPS)
        self._size, self._done, self._since = len(self.recording.events), self.optimizer_steps, time.process_time()
        self._limit = self._size * (AFTER + 1)
        self.onward.settled = self.optimizer_steps
        self.session.send(after=True)
        self._further = 1 if self._cut_loaders() else 0  # some loaders have a batch ready before it is asked for
        self._stop_before_sending()

    def _enough(self) -> bool:
        """Whether the next training step need not be seen."""
        if self._further > 0:
            return False
        if not self.session.job.onward:
            return True
        steps, seconds = (ALIKE_STEPS, ALIKE_S) if self.onward.steady else (OTHER_STEPS, OTHER_S)
        return self.optimizer_steps - self._done >= steps or time.process_time() - self._since > seconds

    def stop(self, why: str) -> None:
        self.stopped = why
        self.session.finish("steps", self.session.here())

    def _cut_loaders(self) -> bool:
        """Each DataLoader's iterator gives a few batches more; those of the steps a far larger one too, where there is one, and in the
        end their last one, where it is smaller. Whether there was one."""
        kind = torch.utils.data.dataloader._BaseDataLoaderIter
        old, self._iterators = self._iterators, weakref.WeakSet()
        counts: Any = weakref.WeakKeyDictionary()
        alive: Any = weakref.WeakKeyDictionary()  # bytes on the card, when the last two batches were asked for
        waiting: Any = weakref.WeakKeyDictionary()  # batches that were looked at, to be given
        if not self.session.job.cut:
            return len(old) > 0
        self.cut = True

        def cut(real: Callable[..., Any]) -> Callable[..., Any]:
            def following(iterator: Any) -> Any:
                counts[iterator] = count = counts.get(iterator, 0) + 1
                ahead = iterator in old and self.session.job.onward
                if ahead and count == 1:
                    waiting[iterator], more, samples = _look(real, iterator)
                    self.shortened |= more > 0
                    self.onward.looked_at(samples > 1, more)
                alive[iterator] = (alive.get(iterator, (0, 0))[1], self.recording.card.alive)
                most = 0 if iterator in old and not ahead else BATCHES if self.onward.steady else MANY_BATCHES
                if count > most and not waiting.get(iterator):
                    self.shortened = True
                    if not getattr(iterator, "_plimsoll_last", False) and self._trains:
                        self._not_given += _left(iterator, count - 1)
                    if iterator not in old and count > 2 and not self._trains:
                        self.onward.gathered(alive[iterator][1] - alive[iterator][0], _left(iterator, count - 1))
                    if not ahead or not _to_the_last(iterator):
                        raise StopIteration
                    self.onward.last_batch()
                return waiting[iterator].pop(0) if waiting.get(iterator) else real(iterator)
            return following

        def begun_again(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(iterator: Any, *args: Any, **kwargs: Any) -> Any:  # of a loader whose workers stay
                counts.pop(iterator, None)
                waiting.pop(iterator, None)
                old.discard(iterator)
                return real(iterator, *args, **kwargs)
            return call

        for owner in [kind, *kind.__subclasses__()]:
            if "__next__" in vars(owner):
                setattr(owner, "__next__", cut(owner.__next__))
        setattr(kind, "_reset", begun_again(kind._reset))
        return len(old) > 0

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


def _left(iterator: Any, given: int) -> int:
    """Batches that a loader's iterator has beyond those that it gave."""
    try:
        return max(len(iterator) - given, 0)
    except TypeError:
        return 0


def _in_checkpoint() -> bool:
    """Whether torch.utils.checkpoint runs, whose reentrant form goes forward without gradients."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_CHECKPOINT):
            return True
        frame = frame.f_back
    return False


def _look(real: Callable[..., Any], iterator: Any) -> tuple[list[Any], float, int]:
    """The next batches, as many as are given; two where they are alike. Where they are not, many more are looked at, and one that is far
    larger than the others is given too. How much larger the largest of those that are not given is than the largest that is, 0 where
    all are given; and in how many shapes of a sample they come."""
    given: list[Any] = []
    largest: Any = None
    sizes: list[int] = []
    shapes, samples = set(), set()
    end = time.process_time() + LOOK_S
    for count in range(LOOK_BATCHES):
        try:
            batch = real(iterator)
        except StopIteration:
            if not count:
                raise
            break
        dims = tuple(tuple(t.shape) for t in tensors_in(batch))
        shapes.add(dims)
        samples.add(tuple(size[1:] for size in dims))
        sizes.append(sum(math.prod(size) for size in dims))
        if len(given) < MANY_BATCHES:
            given.append(batch)
        elif sizes[-1] == max(sizes):
            largest = batch
        if (count >= 1 and len(shapes) == 1) or time.process_time() > end:
            break
    most = max(max(sizes[:MANY_BATCHES]), 1)
    share = max(sizes) / most if len(sizes) > MANY_BATCHES else 0.0
    if largest is not None and share > FAR_LARGER:
        given.append(largest)
        share = 1.0
    return given, share, len(samples)


def _to_the_last(iterator: Any) -> bool:
    """Leaves a loader's iterator just before its last batch, once, where that is smaller than the others."""
    if getattr(iterator, "_plimsoll_last", False):
        return False
    iterator._plimsoll_last = True
    batches: Any = getattr(iterator, "_index_sampler", None)
    if not isinstance(batches, torch.utils.data.BatchSampler):
        return False
    try:
        samples = len(batches.sampler)
        if batches.drop_last or samples % batches.batch_size == 0 or samples > MOST_SAMPLES:
            return False
        left = list(itertools.islice(iterator._sampler_iter, len(batches)))
    except (TypeError, AttributeError, NotImplementedError, ZeroDivisionError):
        return False
    iterator._sampler_iter = iter(left[-1:])
    return bool(left)
