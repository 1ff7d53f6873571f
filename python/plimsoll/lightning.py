"""A callback for PyTorch Lightning: the estimate before the first step, predicted against real after the last.

    from plimsoll.lightning import PlimsollCallback
    Trainer(..., callbacks=[PlimsollCallback(on_no_fit="refuse")])

What is captured is training_step with the first batch, on a copy of the module; what it logs goes nowhere. Not simulated: manual
optimization, several optimizers, strategies other than one card, DDP and FSDP.
"""
from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Mapping
from typing import Any, Dict, Iterator, List, Optional

from ._callback import DoesNotFit, Watch, is_fake, parallel_of
from ._errors import MissingError, UsageError



def _base() -> Any:
    """The Callback of the package that is in use: Lightning goes by two names, of which a program has mostly one."""
    every = sorted(("lightning.pytorch", "pytorch_lightning"), key=lambda name: name not in sys.modules)
    for name in every:
        try:
            return importlib.import_module(name).Callback
        except ImportError:
            continue
    raise MissingError("plimsoll.lightning needs lightning or pytorch_lightning", "lightning")


_Callback: Any = _base()

# Of Trainer(precision=...): plimsoll's; absent: the module's own types.
PRECISIONS = {"bf16-mixed": "amp-bf16", "16-mixed": "amp-fp16"}


class _Trainer:
    """The trainer as a copy of the module sees it: not copied itself, and without loggers."""

    def __init__(self, trainer: Any) -> None:
        self.__dict__["_own"] = trainer

    def __getattr__(self, name: str) -> Any:
        if name == "logger":
            return None
        if name == "loggers":
            return []
        return getattr(self.__dict__["_own"], name)

    def __deepcopy__(self, memo: Any) -> "_Trainer":
        return self

    def __reduce__(self) -> Any:
        raise TypeError("the trainer is not copied")


@contextlib.contextmanager
def _apart(module: Any, trainer: _Trainer) -> Iterator[None]:
    """The module as one that can be copied and called: its trainer stands aside, and what it logs goes nowhere."""
    own = module.__dict__
    put = {"log": lambda *args, **kwargs: None, "log_dict": lambda *args, **kwargs: None, "_trainer": trainer}
    kept = {name: own[name] for name in put if name in own}
    own.update(put)
    try:
        yield
    finally:
        for name in put:
            own.pop(name, None)
        own.update(kept)


def _step_of(module: Any, trainer: _Trainer) -> Any:
    """training_step as a module: the batch in, the loss out."""
    import torch
    wanted = len([p for p in inspect.signature(module.training_step).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)])

    def forward(self: Any, batch: Any) -> Any:
        self.module.__dict__["_trainer"] = self.trainer  # a copy of the module has lost it
        out = self.module.training_step(*(batch, 0)[:wanted])
        return out["loss"] if isinstance(out, Mapping) else out

    made = type(type(module).__name__, (torch.nn.Module,), {"forward": forward})()
    made.module, made.trainer = module, trainer
    made.training = module.training
    return made


class PlimsollCallback(_Callback):
    """Prints what the training will take of the card before its first step, and predicted against real after its last.

    on_no_fit: "warn", or "refuse": plimsoll.lightning.DoesNotFit is raised before the first step where it does not fit.
        Where it may not fit, both warn.
    gpu: a card of plimsoll.gpus(); None: the one that is there. On a machine without a card the estimate is printed alone.
    risk: the chance of an out-of-memory that is accepted (0.025 where None).
    settings: others of plimsoll.estimate() than the Trainer's own say, such as alloc_conf or precision.

    report is the estimate (a plimsoll.Report), None until the first step. Whatever fails in a training is a warning;
    settings that estimate() would refuse whatever the model is are a UsageError at once.
    """

    def __init__(self, on_no_fit: str = "warn", gpu: Optional[str] = None, risk: Optional[float] = None, **settings: Any) -> None:
        super().__init__()
        self._watch = Watch(on_no_fit, gpu, risk, settings)
        self._seen = False

    @property
    def report(self) -> Any:
        return self._watch.report

    def _settings(self, trainer: Any, said: List[str]) -> Dict[str, Any]:
        made: Dict[str, Any] = dict(accumulate=max(1, int(trainer.accumulate_grad_batches)), loss="own")
        precision = PRECISIONS.get(str(trainer.precision))
        if precision:
            made["precision"] = precision
        world, strategy = int(trainer.world_size), type(trainer.strategy).__name__
        kind = "fsdp2" if strategy in ("FSDPStrategy", "ModelParallelStrategy") else "ddp" if strategy == "DDPStrategy" else ""
        if kind == "fsdp2":
            raise UsageError("%s has split the module already; python -m plimsoll train.py simulates it" % strategy, "strategy")
        if world > 1 and not kind:
            raise UsageError("%s is not simulated" % strategy, "strategy")
        made["parallel"] = parallel_of(kind, world)
        return {key: value for key, value in made.items() if key not in self._watch.settings}

    # ---- events ----

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._seen = False
        self._watch.report, self._watch.evaluated = None, False
        self._watch.first = bool(trainer.is_global_zero)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self._seen:
            return
        self._seen = True
        with self._watch.guarded("no estimate"):
            if is_fake(batch) or (not self._watch.first and self._watch.on_no_fit == "warn"):
                return
            if not pl_module.automatic_optimization or len(trainer.optimizers) != 1:
                raise UsageError("manual optimization and several optimizers are not simulated", "optimizer")
            said: List[str] = []
            settings = self._settings(trainer, said)
            aside = _Trainer(trainer)
            self._watch.before(_step_of(pl_module, aside), (batch,), trainer.optimizers[0], settings, said, lambda: _apart(pl_module, aside),
                               pl_module.device if pl_module.device.type == "cuda" else None)

    def on_validation_batch_end(self, *args: Any, **kwargs: Any) -> None:
        self._watch.evaluated = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._watch.after()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if "out of memory" in str(exception) and not isinstance(exception, DoesNotFit):
            self._watch.after()


__all__ = ["DoesNotFit", "PlimsollCallback"]
