"""What goes wrong, as exceptions: one class per status of the library (pl_status in plimsoll.h)."""
from __future__ import annotations

from typing import Optional


class Error(Exception):
    """A question the library could not answer.

    code: the status, which is the command's exit code too (2 to 5).
    message: what is wrong. where: the file, archive member or setting, "" where there is none.
    position: the byte in it, or None.
    """

    code = 0

    def __init__(self, message: str, where: str = "", position: Optional[int] = None) -> None:
        self.message, self.where, self.position = message, where, position
        super().__init__(message, where, position)

    def __str__(self) -> str:
        place = self.where + ": " if self.where else ""
        if self.position is not None:
            place += "at byte %d: " % self.position
        return place + self.message


class UsageError(Error):
    """A setting that makes no sense, or not for this model."""

    code = 2


class InputError(Error):
    """A model or file that cannot be read or understood."""

    code = 3


class MissingError(Error):
    """Something the machine lacks: the library, PyTorch, memory."""

    code = 4


class LimitError(Error):
    """More than the request was given: memory_limit, timeout_ms."""

    code = 5


CLASSES = {kind.code: kind for kind in (UsageError, InputError, MissingError, LimitError)}
