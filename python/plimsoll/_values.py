"""Numbers that were not computed, and what may be done with them.

Under fake tensors a model's output has no numbers. A script that reads one (.item(), float(), .tolist(), .numpy()) is
given a made-up one, which it may print, add up, compare and write to a log. What it may not do is make a size, an
index or a count of it, since the figure would then follow from nothing: that raises MadeUp with the line of the
script, and the recorder remembers it, so that no `except Exception` of the script turns it into an answer.

A floating-point number is a float that keeps its mark through arithmetic. A whole number is an object that does all
that an int does but __index__. Where Python insists on an exact int (int(x)), it is HUGE: no tensor has such a size,
and the recorder refuses every size or index beyond LEAST_HUGE. Arrays of numpy are marked by their class.

Not marked: what float(x) gives, and what native code (scipy, scikit-learn) computes of an array.
"""
from __future__ import annotations

import json
import numbers
import operator
import os
import sys
import sysconfig
from typing import Any, Callable, Optional

from ._errors import InputError

HUGE = 1 << 61
LEAST_HUGE = 1 << 45  # what is left of HUGE after a division by a batch, a world or a hundred


class MadeUp(InputError):
    """A size, an index or an input that follows from a number that was not computed. where: the script's line."""


# ---- where the script is ----

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = tuple({os.path.abspath(p) + os.sep for p in (sysconfig.get_paths().get("stdlib"), sysconfig.get_paths().get("platstdlib")) if p})


def _foreign(filename: str) -> bool:
    """Not a file of the user's: a library's, Python's or this package's."""
    if filename.startswith("<"):
        return not filename.startswith("<ipython")
    path = os.path.abspath(filename)
    return path.startswith((_OWN, *_LIBRARIES)) or "site-packages" in path or "dist-packages" in path


def place() -> str:
    """The innermost line of the user's own code, "train.py, line 12"; with the library's line that it called, where it did."""
    frame: Any = sys._getframe(1)
    library = ""
    while frame is not None:
        name = frame.f_code.co_filename
        if not _foreign(name):
            return "%s, line %d%s" % (os.path.basename(name), frame.f_lineno, library and " (%s)" % library)
        path = os.path.abspath(name)
        if not library and not path.startswith((_OWN, *_LIBRARIES)) and not name.startswith("<") and os.sep + "torch" + os.sep not in path:
            library = "in %s, line %d" % (os.sep.join(path.split(os.sep)[-2:]), frame.f_lineno)
        elif not library and "site-packages" in path and os.sep + "torch" + os.sep not in path:
            library = "in %s, line %d" % (os.sep.join(path.split(os.sep)[-2:]), frame.f_lineno)
        frame = frame.f_back
    return library.replace("in ", "", 1)


# ---- who is told ----

class Faults:
    """What a script did with numbers that were not computed. first: what the answer fails with."""

    def __init__(self) -> None:
        self.first: Optional[MadeUp] = None
        self.late: Optional[Callable[[MadeUp], BaseException]] = None  # set when the steps are over: what ends the rest

    def fail(self, message: str) -> BaseException:
        """Remembers the fault and gives it back, to be raised."""
        fault = MadeUp(message, place())
        if self.late is not None:
            return self.late(fault)
        if self.first is None:
            self.first = fault
        return fault


_faults: list[Faults] = []  # those of the recorders entered, the innermost last


NOT_COMPUTED = ("a number that was not computed (it is read from what a model gave, which has no numbers without a card) became a size, "
                "an index or a count: what follows cannot be known")


def index_fault(what: str = "") -> BaseException:
    """The fault to be raised; what: the operator."""
    message = what + NOT_COMPUTED
    return _faults[-1].fail(message) if _faults else MadeUp(message, place())


# ---- numbers ----

class MadeFloat(float):
    """A float that was not computed."""

    __slots__ = ()

    def __int__(self) -> int:
        return HUGE

    def __trunc__(self) -> Any:
        return MadeInt(int(float(self)))

    __floor__ = __ceil__ = __trunc__

    def __round__(self, digits: Any = None) -> Any:
        return MadeInt(round(float(self))) if digits is None else MadeFloat(round(float(self), digits))

    def item(self) -> Any:  # what numpy's numbers have
        return self

    def __reduce__(self) -> Any:
        return float, (float(self),)


class MadeInt:
    """A whole number that was not computed: all that an int is, but no index."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        raise index_fault()

    def __int__(self) -> int:
        return HUGE

    def __float__(self) -> float:
        return float(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __round__(self, digits: Any = None) -> Any:
        return MadeInt(round(self.value, digits))

    def __trunc__(self) -> Any:
        return self

    __floor__ = __ceil__ = __trunc__

    def __reduce__(self) -> Any:
        return int, (self.value,)

    @property
    def real(self) -> Any:
        return self

    @property
    def imag(self) -> int:
        return 0

    numerator = real
    denominator = 1

    def conjugate(self) -> Any:
        return self

    def bit_length(self) -> Any:
        return MadeInt(self.value.bit_length())

    def is_integer(self) -> bool:
        return True

    def item(self) -> Any:
        return self


numbers.Integral.register(MadeInt)


def is_made(value: Any) -> bool:
    """Whether a number, or an array, was not computed."""
    return isinstance(value, (MadeFloat, MadeInt)) or (_Array is not None and isinstance(value, _Array))


def plain(value: Any) -> Any:
    """The number without its mark."""
    return value.value if isinstance(value, MadeInt) else float(value) if isinstance(value, MadeFloat) else value


def mark(value: Any) -> Any:
    """A number as one that was not computed; truth values and what is no number stay."""
    if isinstance(value, bool) or is_made(value):
        return value
    return MadeInt(value) if isinstance(value, int) else MadeFloat(value) if isinstance(value, float) else value


def _binary(name: str, function: Callable[[Any, Any], Any]) -> None:
    def forward(a: Any, b: Any) -> Any:
        if not isinstance(b, (int, float, MadeInt)):
            return _beside(function, a, b, False)
        return mark(function(plain(a), plain(b)))

    def backward(a: Any, b: Any) -> Any:
        if not isinstance(b, (int, float, MadeInt)):
            return _beside(function, a, b, True)
        return mark(function(plain(b), plain(a)))

    for kind in (MadeFloat, MadeInt):
        setattr(kind, "__%s__" % name, forward)
        setattr(kind, "__r%s__" % name, backward)


def _beside(function: Callable[[Any, Any], Any], made: Any, other: Any, swapped: bool) -> Any:
    """Arithmetic with what is no number of Python's: a tensor takes an int that is none only plain."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(made, MadeInt) and isinstance(other, torch.Tensor):
        return function(other, plain(made)) if swapped else function(plain(made), other)
    if type(other).__module__ == "numpy" and isinstance(made, MadeInt):
        return function(other, plain(made)) if swapped else function(plain(made), other)
    return NotImplemented


for _name, _function in (("add", operator.add), ("sub", operator.sub), ("mul", operator.mul), ("truediv", operator.truediv),
                         ("floordiv", operator.floordiv), ("mod", operator.mod), ("pow", operator.pow), ("divmod", divmod)):
    _binary(_name, _function)
for _name, _function in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor), ("lshift", operator.lshift),
                         ("rshift", operator.rshift)):
    _binary(_name, _function)
    for _side in ("__%s__", "__r%s__"):
        delattr(MadeFloat, _side % _name)


def _unary(name: str, function: Callable[[Any], Any]) -> None:
    for kind in (MadeFloat, MadeInt):
        setattr(kind, "__%s__" % name, lambda a: mark(function(plain(a))))


for _name, _one in (("neg", operator.neg), ("pos", operator.pos), ("abs", abs)):
    _unary(_name, _one)
setattr(MadeInt, "__invert__", lambda a: mark(~a.value))


def _ordering(name: str, function: Callable[[Any, Any], Any]) -> None:
    def compare(a: Any, b: Any) -> Any:
        return function(a.value, plain(b)) if isinstance(b, (int, float, MadeInt)) else NotImplemented

    setattr(MadeInt, "__%s__" % name, compare)


for _name, _function in (("lt", operator.lt), ("le", operator.le), ("gt", operator.gt), ("ge", operator.ge), ("eq", operator.eq),
                         ("ne", operator.ne)):
    _ordering(_name, _function)


# ---- arrays of numpy ----

_Array: Any = None  # made when numpy is first wanted
_BY_VALUE = ("nonzero", "flatnonzero", "argwhere", "unique", "extract", "compress", "trim_zeros", "repeat")  # sizes that depend on numbers


def _array_class() -> Any:
    global _Array
    if _Array is not None:
        return _Array
    import numpy as np

    def strip(value: Any) -> Any:
        if isinstance(value, Made):
            return value.view(np.ndarray)
        if isinstance(value, (list, tuple)):
            return type(value)(strip(v) for v in value) if not hasattr(value, "_fields") else value
        return {k: strip(v) for k, v in value.items()} if isinstance(value, dict) else value

    def wrap(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.view(Made) if value.dtype.kind in "biufc" else value
        if isinstance(value, np.generic) and value.dtype.kind in "iufb":
            return mark(value.item())
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(wrap(v) for v in value)
        return value

    class Made(np.ndarray):
        """An array whose numbers were not computed."""

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
            if out is not None:
                kwargs["out"] = strip(out)
            return wrap(getattr(ufunc, method)(*strip(inputs), **strip(kwargs)))

        def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            if getattr(func, "__name__", "") in _BY_VALUE:
                raise index_fault()
            return wrap(func(*strip(args), **strip(kwargs)))

        def __getitem__(self, key: Any) -> Any:
            if isinstance(key, Made) and key.dtype.kind == "b":
                raise index_fault()
            return wrap(self.view(np.ndarray)[strip(key)])

        def __iter__(self) -> Any:
            return (self[i] for i in range(len(self)))

        def nonzero(self) -> Any:
            raise index_fault()

        def item(self, *args: Any) -> Any:
            return mark(self.view(np.ndarray).item(*args))

        def tolist(self) -> Any:
            def each(value: Any) -> Any:
                return [each(v) for v in value] if isinstance(value, list) else mark(value)
            return each(self.view(np.ndarray).tolist())

        def __index__(self) -> int:
            raise index_fault()

        def __int__(self) -> int:
            return HUGE

        def __reduce__(self) -> Any:
            return self.view(np.ndarray).__reduce__()

    def reduction(name: str) -> None:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return wrap(getattr(self.view(np.ndarray), name)(*strip(args), **strip(kwargs)))
        setattr(Made, name, method)

    for name in ("sum", "mean", "max", "min", "argmax", "argmin", "prod", "std", "var", "any", "all", "argsort", "cumsum", "round", "clip", "dot"):
        reduction(name)
    _Array = Made
    return Made


def array(shape: Any, kind: str) -> Any:
    """Zeros of that shape and type, marked."""
    import numpy as np
    return np.zeros(shape, dtype=kind).view(_array_class())


# ---- while a recorder is entered ----

def install(faults: Faults, patch: Callable[[Any, str, Any], None]) -> Callable[[], None]:
    """Who is told from now on; json writes whole numbers. Gives back what ends it."""
    _faults.append(faults)
    default = json.JSONEncoder.default

    def encode(self: Any, o: Any) -> Any:
        return o.value if isinstance(o, MadeInt) else default(self, o)

    patch(json.JSONEncoder, "default", encode)
    return lambda: _faults.remove(faults)
