"""Numbers and strings as people read them, like the command's (cli/text.c): 2.42 GiB, 25.6 M, bars."""
from __future__ import annotations

from typing import Optional

_UNITS = ((1 << 30, "GiB", 2), (1 << 20, "MiB", 1), (1 << 10, "KiB", 1), (1, "B", 0))


# Of a captured module.
EVALUATING = ("the model is in evaluation mode, and is taken as it is: dropout and the like keep nothing for backward; "
              "model.train() is how it is trained")


def size(count: Optional[int]) -> str:
    """Bytes in the unit that suits them; "?" where they are not known."""
    if count is None:
        return "?"
    if count < 0:
        return "-" + size(-count)
    for unit, name, decimals in _UNITS:
        if count >= unit:
            break
    if name == "GiB" and count >= 99.995 * unit:
        decimals = 1
    return "%.*f %s" % (decimals, count / unit, name)


def part(count: int, whole: int) -> str:
    """78.79 of 78.77 GiB: in as many digits as tell them apart."""
    for unit, name, decimals in _UNITS:
        if whole >= unit:
            break
    if count < unit:
        return "%s of %s" % (size(count), size(whole))
    most = 99.995 * unit if name == "GiB" else float("inf")
    for digits in range(1 if min(count, whole) >= most else decimals, 5):
        a, b = ("%.*f" % (1 if digits == decimals and figure >= most else digits, figure / unit) for figure in (count, whole))
        if a != b or count == whole:
            return "%s of %s %s" % (a, b, name)
    return "%d of %d B" % (count, whole)


def risk(share: float) -> str:
    """A chance: 2.5 %."""
    return "%.2g %%" % (100 * share)


def number(count: Optional[int]) -> str:
    """A count: 25.6 M, 11.2 k, 512."""
    if count is None:
        return "?"
    for least, unit, name in ((1e12, 1e12, "T"), (1e9, 1e9, "B"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if count >= least:
            return "%.1f %s" % (count / unit, name)
    return str(count)


def _three(value: float, unit: str) -> str:
    return "%.*f %s" % (2 if value < 9.995 else 1 if value < 99.95 else 0, value, unit)


def time(ms: Optional[float]) -> str:
    """Milliseconds in the unit that suits them: 12.3 ms, 85.0 us, 2.40 s."""
    if ms is None:
        return "?"
    if ms >= 1000:
        return _three(ms / 1000, "s")
    return _three(ms, "ms") if ms >= 1 or ms <= 0 else _three(1000 * ms, "us")


def scaled(value: float, unit: str) -> str:
    """An amount with a prefix: 83.2 GFLOP."""
    prefixes = ("", "k", "M", "G", "T", "P", "E")
    at = 0
    while value >= 999.5 and at + 1 < len(prefixes):
        value, at = value / 1000, at + 1
    return _three(value, prefixes[at] + unit)


def rate(value: float) -> str:
    """So many per second: 3.4, 341, 27.9 k."""
    return "%.1f" % value if value < 100 else number(int(value))


def clean(string: str) -> str:
    """A string from a model's file, fit for a terminal: control characters become question marks."""
    return "".join("?" if ord(c) < 32 or 127 <= ord(c) < 160 else c for c in string)


def bar(share: float, cells: int) -> str:
    """A bar of that share of the cells, in eighths of one; never nothing for more than 0."""
    units = max(round(min(share, 1.0) * cells * 8), 1 if share > 0 else 0)
    return "█" * (units // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[units % 8]


def xml(string: str) -> str:
    """A string as text or attribute of HTML and SVG; what XML 1.0 cannot hold becomes U+FFFD."""
    out = []
    for c in string:
        code = ord(c)
        if c in "<>&\"'":
            out.append("&#%d;" % code)
        elif code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000 or code in (0xFFFE, 0xFFFF):
            out.append("\ufffd")
        else:
            out.append(c)
    return "".join(out)
