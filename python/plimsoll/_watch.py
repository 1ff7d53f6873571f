"""What a script's run did to the files of its folders, found by looking: each file before and after.

_scratch.py holds back what goes through Python's functions. What native code and other programs write passes it by, so
the report says that nothing was changed only where that was looked at: mode, size, time, inode and kind of every file in
the folder of the script and in the one it was started in, up to MOST of them, the nearest first, and of every file that
a save was held back from. Programs that the script started are named beside.
"""
from __future__ import annotations

import contextlib
import os
import stat
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

MOST = 10000  # files and folders that are looked at
SHOWN = 4  # that a sentence names
SYSTEM = ("/proc", "/sys", "/dev", "/run")  # not the user's, and never twice the same

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
                    if entry.path in found or entry.path in SYSTEM:
                        continue
                    if len(found) >= MOST:
                        return found, False
                    found[entry.path] = state(entry.path)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return found, True


def listed(names: List[str], what: str) -> str:
    return ", ".join(names[:SHOWN]) + (" and %d more %s" % (len(names) - SHOWN, what) if len(names) > SHOWN else "")


class Watch:
    """Made before the script runs; `finish` after it."""

    def __init__(self, folders: Iterable[str], own: Iterable[int] = ()) -> None:
        """own: open files that this program writes to itself."""
        self._folders = list(folders)
        self._own = set()
        for fd in own:
            with contextlib.suppress(OSError):
                self._own.add(os.fstat(fd).st_ino)
        self._before, self.all = _look(self._folders)
        self.added: Dict[str, State] = {}  # what `file` was told
        self.programs: List[str] = []
        self.changed: List[str] = []

    def file(self, path: str) -> None:
        """A file that is looked at too, as it is now."""
        if path not in self._before:
            self._before[path] = self.added[path] = state(path)

    def told(self, added: Dict[str, Any], programs: List[str]) -> None:
        """What the process in which the script ran looked at and saw."""
        for path, was in added.items():
            self._before.setdefault(path, None if was is None else tuple(was))
        self.programs += [p for p in programs if p not in self.programs]

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
            if now != was and not self._is_own(now) and not (was is None and expected(path)):
                self.changed.append("%s (%s)" % (path, "deleted" if now is None else "new" if was is None else "changed"))
        if self.all and whole:
            self.changed += ["%s (new)" % path for path, now in after.items()
                             if path not in self._before and not expected(path) and not self._is_own(now)]
        self.all = self.all and whole

    def _is_own(self, now: State) -> bool:
        return now is not None and len(now) > 3 and now[3] in self._own

    @property
    def untouched(self) -> bool:
        """Whether it is known that no file of the folders is another one now."""
        return self.all and not self.changed
