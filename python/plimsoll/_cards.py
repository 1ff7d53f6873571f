"""Cards: one by its name as people and tools write it, and files with cards of one's own.

Both are looked up by the library, so that names mean the same here and in the command.
"""
from __future__ import annotations

import ctypes
import os
from typing import Any, List, Optional

from ._errors import UsageError
from ._library import ErrorStruct, GpuStruct, fail, library, rows
from ._report import Gpu, gpu_of


class Catalogue:
    """A pl_catalogue: the cards of a file, given back when it goes out of use."""

    def __init__(self, path: Any) -> None:
        self.pointer = ctypes.c_void_p()
        err = ErrorStruct()
        try:
            name = os.fsencode(path)
        except (TypeError, UnicodeEncodeError):
            raise UsageError("the path of a file, not %r" % type(path).__name__, "gpus") from None
        if b"\0" in name:
            raise UsageError("a path with a zero byte", "gpus")
        if library().pl_catalogue_open(ctypes.byref(self.pointer), name, ctypes.byref(err)):
            raise fail(err, os.fsdecode(name))

    def cards(self) -> List[Gpu]:
        return [gpu_of(row) for row in rows(lambda index: library().pl_catalogue_at(self.pointer, index))]

    def __del__(self) -> None:
        if self.pointer:
            library().pl_catalogue_close(ctypes.byref(self.pointer))


def card_of(text: str, file: Any = None) -> Gpu:
    """The card that text names: a row's name or alias, with another size of memory "a100-80gb,memory=40GiB".
    file: cards of one's own, looked at first. UsageError names the nearest where there is none."""
    own: Optional[Catalogue] = Catalogue(file) if file is not None else None
    found, err = ctypes.POINTER(GpuStruct)(), ErrorStruct()
    try:
        name = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        name = text.encode("utf-8", "replace")
    if library().pl_gpu_open(ctypes.byref(found), name.replace(b"\0", b"?"), own.pointer if own else None, ctypes.byref(err)):
        raise fail(err)
    card = gpu_of(found)
    library().pl_gpu_close(ctypes.byref(found))
    return card
