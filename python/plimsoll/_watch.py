"""What a script's run did to the files of its folders, found by looking: each file before and after.

_scratch.py holds back what goes through Python's functions. What native code and other programs write passes it by, so
the report says that nothing was changed only where that was looked at: mode, size, time, inode and kind of every file in
the folder of the script and in the one it was started in, up to MOST of them, the nearest first, and of every file that
a save was held back from. Programs that the script started are named beside.
"""
from __future__ import annotations

import os
import stat
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

MOST = 10000  # files and folders that are looked at
SHOWN = 4  # that a sentence names

_lstat, _scandir = os.lstat, os.scandir
State = Optional[Tuple[int, ...]]


def state(path: str) -> State:
    """What tells a changed file from an unchanged one; of a folder, that it is one; None: nothing is there."""
    try:
        s = _lstat(path)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(s.st_mode):
        return (s.st_mode,)
    return s.st_mode, s.st_size, s.st_mtime_ns, s.st_ino, s.st_uid, s.st_gid, s.st_nlink


def _look(folders: Iterable[str]) -> Tuple[Dict[str, State], bool]:
    """Every file below the folders, the nearest first, and whether those were all."""
    found: Dict[str, State] = {}
    waiting = list(dict.fromkeys(folders))
    for folder in waiting:  # grows as it is gone through
        try:
            with _scandir(folder) as entries:
                for entry in entries:
                    if entry.path in found:
                        continue
                    if len(found) >= MOST:
                        return found, False
                    found[entry.path] = state(entry.path)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return found, True


def listed(names: List[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" and %d more" % (len(names) - SHOWN) if len(names) > SHOWN else "")


class Watch:
    """Made before the script runs; `finish` after it."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._folders = list(folders)
        self._before, self.all = _look(self._folders)
        self.programs: List[str] = []
        self.changed: List[str] = []

    def file(self, path: str) -> None:
        """A file that is looked at too, as it is now."""
        if path not in self._before:
            self._before[path] = state(path)

    def program(self, command: Any) -> None:
        """A program that the script starts: its command, or its arguments."""
        words = [command] if isinstance(command, (str, bytes, os.PathLike)) else list(command or ())
        shown = " ".join(os.fsdecode(w) if isinstance(w, (str, bytes, os.PathLike)) else str(w) for w in words)
        shown = " ".join(shown.split())[:60] or "?"
        if shown not in self.programs:
            self.programs.append(shown)

    def finish(self, expected: Callable[[str], bool]) -> None:
        """Which files are other ones now; expected: the new ones that the script may make."""
        after, whole = _look(self._folders)
        for path, was in self._before.items():
            now = state(path)
            if now != was and not (was is None and expected(path)):
                self.changed.append("%s (%s)" % (path, "deleted" if now is None else "new" if was is None else "changed"))
        if self.all and whole:
            self.changed += ["%s (new)" % path for path in after if path not in self._before and not expected(path)]
        self.all = self.all and whole

    @property
    def untouched(self) -> bool:
        """Whether it is known that no file of the folders is another one now."""
        return self.all and not self.changed

    def warnings(self) -> List[str]:
        said = []
        if self.changed:
            said.append("files that were changed while the script ran, past what is held back (by native code, or by another "
                        "program): %s" % listed(self.changed))
        if self.programs:
            said.append("the script started another program, whose writes are not held back: %s" % listed(self.programs))
        return said
