"""A model of PyTorch as the bytes of a .pt2 archive: torch.export on meta tensors.

Nothing is run and no weight is copied: the module is copied with meta tensors in place of its own, so that
a model of any size takes a few megabytes, and the user's is left as it was. Stack traces stay in the
archive; the library reads from them how long Python keeps a tensor. What torch.export refuses (control
flow that depends on data, mostly) is Refused here, and traced by capture.py.
"""
from __future__ import annotations

import contextlib
import copy
import inspect
import io
import logging
import os
import traceback
import warnings
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from ._errors import UsageError
from ._inputs import Call, batch_of, map_tensors, to_meta

MOST_BATCH = 1 << 20  # of a symbolic batch


class Refused(Exception):
    """torch.export cannot capture the model; the text says why, in a line."""


def reason_of(problem: BaseException) -> str:
    """An exception in one line: its class and the first words of what it says, or where it was raised."""
    said = next((line.strip() for line in str(problem).splitlines() if line.strip()), "")
    if not said and problem.__traceback__ is not None:
        last = traceback.extract_tb(problem.__traceback__)[-1]
        said = "%s:%s: %s" % (os.path.basename(last.filename), last.lineno, last.line)
    return "%s%s" % (type(problem).__name__, ": " + said[:240] if said else "")


# ---- a copy without weights ----

def _empty(parameter: Any) -> Any:
    import torch
    if isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin):
        raise UsageError("the model has lazy parameters; call it once, so that they get their shapes", "model")
    made = torch.empty_like(parameter, device="meta", requires_grad=False)
    if isinstance(parameter, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=parameter.requires_grad)
    return made


def _own_tensors(model: Any) -> Iterator[Tuple[Dict[str, Any], str, Any]]:
    for module in model.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    yield table, name, tensor


@contextlib.contextmanager
def weightless(model: Any) -> Iterator[Any]:
    """The model with meta tensors in place of its parameters and buffers, in the mode (training or not) it is in.

    A deep copy where Python can make one; else the model itself, whose tensors are put back in the end.
    Tied parameters stay tied.
    """
    import torch
    from torch.overrides import TorchFunctionMode
    made: Dict[int, Any] = {}
    for _, _, tensor in _own_tensors(model):
        if id(tensor) not in made:
            made[id(tensor)] = _empty(tensor)

    class Others(TorchFunctionMode):
        """Tensors that a module holds besides parameters and buffers are not copied either."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.__deepcopy__:
                tensor, memo = args
                if id(tensor) not in memo:
                    memo[id(tensor)] = to_meta(tensor)
                return memo[id(tensor)]
            return func(*args, **(kwargs or {}))

    try:
        with Others():
            twin = copy.deepcopy(model, dict(made))
    except Exception:  # locks, generators, handles: not every module can be copied
        twin = None
    if twin is not None:
        yield twin
        return
    before = [(table, name, tensor) for table, name, tensor in _own_tensors(model)]
    try:
        for table, name, tensor in before:
            table[name] = made[id(tensor)]
        yield model
    finally:
        for table, name, tensor in before:
            table[name] = tensor


def with_loss(model: Any, loss: Callable[..., Any], targets: Any) -> Tuple[Any, Callable[[Call], Call]]:
    """The model and a loss of the user's as one module, and how its inputs are made of the model's."""
    import torch

    class WithLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.loss = model, loss
            self.training = model.training

        def forward(self, args: Any, kwargs: Any, targets: Any = None) -> Any:
            output = self.model(*args, **kwargs)
            value = self.loss(output) if targets is None else self.loss(output, targets)
            return value

    def join(call: Call) -> Call:
        args, kwargs = call
        return ((args, kwargs) if targets is None else (args, kwargs, targets)), {}

    return WithLoss(), join


# ---- export ----

@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without warnings, logs and the graph that PyTorch prints where it refuses: the reason is given in one line."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.ERROR))
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _dynamic(model: Any, call: Call) -> Any:
    """dynamic_shapes with one symbol for dimension 0 of every tensor that has the batch there."""
    import torch
    from torch.utils import _pytree
    args, kwargs = call
    size = batch_of((args, kwargs))
    symbol = torch.export.Dim("batch", min=1, max=MOST_BATCH)

    def spec(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return None
        return {0: symbol} if leaf.dim() and leaf.shape[0] == size else {}

    bound = inspect.signature(model.forward).bind(*args, **kwargs).arguments
    return {name: _pytree.tree_map(spec, value) for name, value in bound.items()}


def archive(program: Any) -> bytes:
    """The program as torch.export.save writes it, weights left out where they can be."""
    import torch
    bare = program
    try:
        bare = copy.copy(program)
        bare._state_dict = {k: _empty(v) for k, v in program.state_dict.items()}
        bare._constants = {k: to_meta(v) if isinstance(v, torch.Tensor) else v for k, v in program.constants.items()}
    except Exception:  # another version's ExportedProgram
        bare = program
    out = io.BytesIO()
    torch.export.save(bare, out)
    return out.getvalue()


def _register_outputs(program: Any) -> None:
    """Named tuples that a model returns have no name in the archive unless they get one."""
    from torch.utils import _pytree

    def visit(spec: Any) -> None:
        if spec.type is not None and getattr(spec.type, "__name__", "") == "namedtuple":
            kind = spec.context
            with contextlib.suppress(Exception):
                _pytree._register_namedtuple(kind, serialized_type_name=kind.__module__ + "." + kind.__qualname__)
        for child in getattr(spec, "children_specs", None) or spec.children():
            visit(child)

    with contextlib.suppress(Exception):
        visit(program.call_spec.out_spec)


def export(model: Any, call: Call, dynamic: bool, channels_last: bool = False, loss: Optional[Callable[..., Any]] = None,
           targets: Any = None, cacheless: bool = False) -> bytes:
    """The archive of the model's forward pass (and its loss, where a function is given). dynamic: with a
    symbolic batch. cacheless: a model of transformers without its cache of keys and values, which torch.export
    cannot return. Raises Refused."""
    import torch
    with weightless(model) as twin, quiet():
        if getattr(twin, "is_gradient_checkpointing", False) and twin is not model:
            with contextlib.suppress(Exception):
                twin.gradient_checkpointing_disable()
        if cacheless and twin is not model and getattr(getattr(twin, "config", None), "use_cache", False):
            twin.config.use_cache = False  # the copy's own
        meta: Call = map_tensors(to_meta, call)
        if channels_last:
            twin = twin.to(memory_format=torch.channels_last) if twin is not model else twin
            meta = map_tensors(lambda t: t.to(memory_format=torch.channels_last) if t.dim() == 4 else t, meta)
        try:
            if loss is not None:
                twin, join = with_loss(twin, loss, map_tensors(to_meta, targets))
                meta = join(meta)
            program = torch.export.export(twin, meta[0], meta[1], strict=False,
                                          dynamic_shapes=_dynamic(twin, meta) if dynamic else None)
            _register_outputs(program)
            return archive(program)
        except UsageError:
            raise
        except Exception as problem:
            raise Refused(reason_of(problem)) from problem
