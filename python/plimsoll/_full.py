"""A card that is full, for scripts that ask it: those that try a batch, catch the error and try a smaller one.

Most scripts are told of no limit: what they need is answered, and whether the card has it. Where something on the stack
looks for an out-of-memory, or a line of the script's own may catch any RuntimeError, one is raised as soon as tensors alone take
what a card of that size can give them. A real card may say it a little earlier, for what the allocator leaves over and for
workspaces. A script that trains no further then is run once more without a limit (__main__.py).
"""
from __future__ import annotations

import functools
import os
import sys
from types import CodeType
from typing import Any, Callable

import torch

from ._card import OUTSIDE

# Names and words in code that handles an out-of-memory: scripts' own, accelerate's, Lightning's.
NAMES = ("OutOfMemoryError", "should_reduce_batch_size", "is_oom_error", "is_out_of_cuda_memory")
WORDS = ("out of memory", "memory", "oom")  # in lower case; the first anywhere in a string
BROAD = ("RuntimeError", "Exception", "BaseException")  # of files that are no library's
SPARE = 0.05  # of the card, for what the allocator leaves over


_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_PASSED_OVER = tuple(os.path.dirname(os.path.abspath(f)) + os.sep for f in (torch.__file__, __file__))


@functools.lru_cache(maxsize=None)
def handles(code: CodeType) -> bool:
    if code.co_filename.startswith(_PASSED_OVER):
        return False
    if any(name in NAMES for name in code.co_names):
        return True
    words = [c.lower() for c in code.co_consts if isinstance(c, str) and len(c) < 200]
    if any(word in WORDS or WORDS[0] in word for word in words):
        return True
    own = "site-packages" not in code.co_filename and "dist-packages" not in code.co_filename and not code.co_filename.startswith((_STDLIB, "<"))
    return own and any(name in BROAD for name in code.co_names)


def awaited() -> bool:
    """Whether something that is running looks for an out-of-memory."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if handles(frame.f_code):
            return True
        frame = frame.f_back
    return False


class Full:
    """memory: the card's bytes. told: called when the script is told."""

    def __init__(self, memory: int, told: Callable[[], None]) -> None:
        self.memory, self.told = memory, told
        self._room = int((memory - OUTSIDE) * (1 - SPARE))

    def check(self, alive: int, size: int) -> None:
        """Tensors take so much now, the last of them `size`."""
        if alive > self._room and awaited():
            self.told()
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate %.2f MiB. GPU 0 has a total capacity of %.2f GiB" % (
                size / 2 ** 20, self.memory / 2 ** 30))
