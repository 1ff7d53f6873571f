"""A callback for transformers' Trainer (and TRL's, which are Trainers): the estimate before the first step, predicted against
real after the last.

    from plimsoll.hf import PlimsollCallback
    Trainer(..., callbacks=[PlimsollCallback(on_no_fit="refuse")])

The first batch is seen where the model is called with it, before anything of the step is allocated. Not simulated: DeepSpeed.
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional

from . import _export
from ._callback import DoesNotFit, Watch, bare, is_fake, parallel_of, weights_of
from ._errors import MissingError

try:
    from transformers import TrainerCallback
except ImportError as problem:
    raise MissingError("plimsoll.hf needs transformers: %s" % problem, "transformers") from problem

DROPPED = ("num_items_in_batch",)  # what Trainer gives the model besides the batch: a divisor of the loss


class PlimsollCallback(TrainerCallback):
    """Prints what the training will take of the card before its first step, and predicted against real after its last.

    on_no_fit: "warn", or "refuse": plimsoll.hf.DoesNotFit is raised before the first step where it does not fit. Where it
        may not fit, both warn.
    gpu: a card of plimsoll.gpus(); None: the one that is there. On a machine without a card the estimate is printed alone.
    risk: the chance of an out-of-memory that is accepted (0.025 where None).
    settings: others of plimsoll.estimate() than Trainer's own arguments say, such as alloc_conf or precision.

    report is the estimate (a plimsoll.Report), None until the first step. Whatever fails in a training is a warning;
    settings that estimate() would refuse whatever the model is are a UsageError at once.
    """

    def __init__(self, on_no_fit: str = "warn", gpu: Optional[str] = None, risk: Optional[float] = None, **settings: Any) -> None:
        self._watch = Watch(on_no_fit, gpu, risk, settings)
        self._hook: Any = None
        self._whole: Any = None  # FSDP: a copy of the model, without weights, from before it was split

    @property
    def report(self) -> Any:
        return self._watch.report

    def _settings(self, args: Any, model: Any, said: List[str]) -> Dict[str, Any]:
        made: Dict[str, Any] = dict(accumulate=max(1, int(args.gradient_accumulation_steps)))
        if weights_of(model) == "torch.float32":
            if args.bf16 or args.fp16:
                made["precision"] = "amp-bf16" if args.bf16 else "amp-fp16"
        elif args.bf16 or args.fp16:
            said.append("the weights are %s: what autocast adds is not counted" % weights_of(model))
        if getattr(args, "torch_compile", False):
            said.append("torch.compile is simulated as eager")
        world = int(getattr(args, "world_size", 1))
        made["parallel"] = parallel_of("fsdp2" if getattr(args, "fsdp", None) else "ddp", world)
        if int(getattr(args, "n_gpu", 1)) > 1 and world == 1:
            said.append("DataParallel over %d cards is not simulated: the figures are those of the whole batch on one" % args.n_gpu)
        if getattr(args, "gradient_checkpointing", False):
            made["checkpoint"] = True
        return {key: value for key, value in made.items() if key not in self._watch.settings}

    # ---- events ----

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        with self._watch.guarded("no estimate"):
            if getattr(args, "fsdp", None) and kwargs.get("model") is not None:
                with _export.weightless(kwargs["model"]) as twin:
                    self._whole = None if twin is kwargs["model"] else twin

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._watch.report, self._watch.evaluated = None, False
        self._remove()
        with self._watch.guarded("no estimate"):
            self._watch.first = bool(getattr(state, "is_world_process_zero", True))
            if not self._watch.first and self._watch.on_no_fit == "warn":
                return
            model = kwargs["model"]
            if getattr(args, "deepspeed", None):
                self._watch.say("no estimate: DeepSpeed is not simulated")
                return
            optimizer = kwargs.get("optimizer")
            optimizer = getattr(optimizer, "optimizer", optimizer)  # Accelerate's, which holds PyTorch's
            import torch

            def seen(module: Any, given: Any, named: Any) -> None:
                if not (module.training and torch.is_grad_enabled()):  # an evaluation before the first step
                    return
                self._remove()
                if is_fake((given, named)):
                    return
                inputs: Any = given if given else {k: v for k, v in named.items() if k not in DROPPED and v is not None}
                if given and named:
                    self._watch.say("no estimate: the model is called with inputs by place and by name")
                    return
                said: List[str] = []
                asked = self._settings(args, module, said)
                subject, worker = (module, optimizer) if self._whole is None else (self._whole, type(optimizer))
                self._watch.before(subject, inputs, worker or "adamw", asked, said, lambda: bare(subject), getattr(args, "device", None))

            # Not to be compiled with the model.
            self._hook = model.register_forward_pre_hook(torch.compiler.disable(seen), with_kwargs=True)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._watch.evaluated = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._remove()
        self._watch.after()

    def _remove(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None


__all__ = ["DoesNotFit", "PlimsollCallback"]
