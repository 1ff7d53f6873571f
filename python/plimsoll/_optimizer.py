"""What the library calls an optimizer of PyTorch, and how one like the user's is made over other parameters.

A name of the library stands for one way to use memory: state and temporaries (src/tape/optimizer.c). Settings that
change neither are not looked at (rates, betas); for those that do, read in torch/optim (2.11), the table below has
the names that cover them exactly. What it lacks has no name and can only be traced.
"""
from __future__ import annotations

import contextlib
import inspect
import sys
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

# Class, settings that change memory and are on: the library's name.
_ROWS = (
    ("SGD", "", "sgd"), ("SGD", "single", "sgd"), ("SGD", "weight_decay", "sgd-decay"), ("SGD", "fused", "sgd-fused"),
    ("SGD", "momentum", "sgd-momentum"), ("SGD", "momentum single", "sgd-momentum"),
    ("SGD", "momentum nesterov", "sgd-momentum"),  # adds into the gradients; only decay makes temporaries of them
    ("SGD", "momentum weight_decay", "sgd-momentum-decay"), ("SGD", "momentum nesterov weight_decay", "sgd-nesterov"),
    ("SGD", "momentum fused", "sgd-momentum-fused"),
    ("Adam", "", "adam"), ("Adam", "weight_decay", "adam-decay"), ("Adam", "fused", "adam-fused"), ("Adam", "single", "adam-single"),
    ("AdamW", "", "adamw"), ("AdamW", "amsgrad", "adamw-amsgrad"), ("AdamW", "fused", "adamw-fused"), ("AdamW", "single", "adamw-single"),
    ("RMSprop", "", "rmsprop"), ("RMSprop", "centered momentum", "rmsprop-centered"),
    ("Adagrad", "", "adagrad"), ("Adagrad", "fused", "adagrad-fused"),
    ("Adadelta", "", "adadelta"), ("Adamax", "", "adamax"), ("NAdam", "", "nadam"), ("RAdam", "", "radam"),
    ("Adafactor", "", "adafactor"), ("ASGD", "", "asgd"), ("Rprop", "", "rprop"), ("Muon", "momentum nesterov", "muon"),
)
NAMES: Dict[Tuple[str, FrozenSet[str]], str] = {(kind, frozenset(on.split())): name for kind, on, name in _ROWS}

SWITCHES = ("momentum", "nesterov", "weight_decay", "amsgrad", "centered", "maximize", "capturable", "differentiable", "fused")
IN_KERNEL = {"weight_decay", "maximize", "nesterov", "capturable"}  # of fused ones: done without memory
DECOUPLED = ("AdamW", "Adafactor", "Muon")  # decay scales the parameters in place
# Those without a whole set of temporaries: it does not matter in how many groups they work.
ONE_BY_ONE = ("sgd", "sgd-fused", "sgd-momentum", "sgd-momentum-fused", "adam-fused", "adam-single", "adamw-fused", "adamw-single",
              "adagrad-fused", "adafactor", "muon")
MOST_IN_ONE = 0.95  # a group with that share of the values counts as all of them


class Choice(NamedTuple):
    """An optimizer as export and trace take it."""

    make: Optional[Callable[[Any], Any]]  #: one like the user's, of the trained parameters in the model's order; None: by name
    why: str  #: why it can only be traced; "" where the library's name covers it
    said: List[str]  #: what to know


def is_optimizer(optimizer: Any) -> bool:
    """Whether it is an optimizer of PyTorch or a class of them."""
    torch = sys.modules.get("torch")
    base = torch.optim.Optimizer if torch is not None else ()
    return issubclass(optimizer, base) if isinstance(optimizer, type) else isinstance(optimizer, base)


def _kind(optimizer: Any) -> type:
    return optimizer if isinstance(optimizer, type) else type(optimizer)


def _groups(optimizer: Any) -> List[Dict[str, Any]]:
    """The settings of each group of parameters; of a class, its defaults."""
    if not isinstance(optimizer, type):
        return [dict(optimizer.defaults, **group) for group in optimizer.param_groups]
    with contextlib.suppress(TypeError, ValueError):
        parameters = inspect.signature(optimizer).parameters.values()
        return [{p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}]
    return [{}]


def _on(kind: str, group: Dict[str, Any]) -> FrozenSet[str]:
    """The settings of a group that are on and change memory."""
    torch = sys.modules["torch"]
    on = set()
    for name in SWITCHES:
        value = group.get(name)
        if isinstance(value, torch.Tensor) or value:
            on.add(name)
    if kind in DECOUPLED or group.get("decoupled_weight_decay"):
        on.discard("weight_decay")
    if "fused" in on:
        on -= IN_KERNEL
    elif kind == "Adafactor":
        on |= {"foreach"} if group.get("foreach") else set()
    elif group.get("foreach") is False:
        on.add("single")
    # A rate that is a tensor changes the implementation PyTorch takes.
    if any(isinstance(v, torch.Tensor) for k, v in group.items() if k not in ("params", "initial_lr")):
        on.add("tensors")
    return frozenset(on)


def name_of(optimizer: Any) -> Optional[str]:
    """The library's name that covers an optimizer of PyTorch, or its class with its defaults; None where there is none."""
    kind = _kind(optimizer)
    torch = sys.modules["torch"]
    if kind is not getattr(torch.optim, kind.__name__, None):
        return None  # another's, of the same name perhaps
    names = {NAMES.get((kind.__name__, _on(kind.__name__, group))) for group in _groups(optimizer)}
    return names.pop() if len(names) == 1 else None


def label_of(optimizer: Any) -> str:
    """The name, or for people what it is: "adam (amsgrad)"."""
    kind = _kind(optimizer).__name__
    on = sorted(frozenset().union(*(_on(kind, group) for group in _groups(optimizer))))
    return name_of(optimizer) or kind.lower() + (" (%s)" % ", ".join(on) if on else "")


def _arguments(optimizer: Any) -> Dict[str, Any]:
    """What the user's optimizer was made with, as far as its defaults have it."""
    if isinstance(optimizer, type):
        return {}
    given = dict(optimizer.defaults)
    with contextlib.suppress(TypeError, ValueError):
        parameters = inspect.signature(type(optimizer)).parameters
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            given = {k: v for k, v in given.items() if k in parameters}
    return given


def choose(optimizer: Any, model: Any) -> Choice:
    """How an optimizer given by name, as an object or as a class trains that model."""
    if optimizer is None or isinstance(optimizer, str):
        return Choice(None, "", [])
    kind, given, name = _kind(optimizer), _arguments(optimizer), name_of(optimizer)
    why = "" if name else "the library has no rules for the optimizer %s" % label_of(optimizer)
    whole: Callable[[Any], Any] = lambda params: kind(params, **given)
    if isinstance(optimizer, type):
        return Choice(whole, why, [])
    trained = [p for p in model.parameters() if p.requires_grad]
    place = {id(p): n for n, p in enumerate(trained)}
    groups: List[Tuple[List[int], Dict[str, Any]]] = []
    for group in optimizer.param_groups:
        own = {k: v for k, v in group.items() if k not in ("params", "param_names")}
        groups.append(([place[id(p)] for p in group["params"] if id(p) in place], own))
    groups = [(places, own) for places, own in groups if places]
    held = sum(len(places) for places, _ in groups)
    if not held:
        return Choice(whole, why, ["the optimizer holds none of the model's trained parameters: one like it over all of "
                                   "them is taken"] if trained else [])
    if held < len(trained):
        why = why or "the optimizer holds %d of the model's %d trained parameters" % (held, len(trained))
    elif len(groups) > 1 and name not in ONE_BY_ONE:
        largest = max(sum(trained[n].numel() for n in places) for places, _ in groups)
        if largest < MOST_IN_ONE * sum(p.numel() for p in trained):
            why = why or "the optimizer works in %d groups, one after another" % len(groups)

    def parts(params: Any) -> Any:
        return kind([dict(own, params=[params[n] for n in places]) for places, own in groups], **given)

    return Choice(parts, why, [])
