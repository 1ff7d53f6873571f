"""Paths and entries of folders as _scratch.py sees them: what os.scandir would give of a file that lies elsewhere."""
from __future__ import annotations

import errno
import os
import stat
from typing import Any, Callable, Optional, Sequence

_lstat, _readlink = os.lstat, os.readlink  # the functions themselves, whatever stands in their place later

Path = Any  # str, bytes or os.PathLike, as os takes them


def below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def no_file(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def joined(path: Path, dir_fd: Optional[int]) -> Path:
    """A path that is meant from an open folder on, from the root on; others as they are."""
    if dir_fd is None or dir_fd < 0 or isinstance(path, int) or os.path.isabs(os.fsdecode(path)):
        return path
    return os.path.join(_readlink("/proc/self/fd/%d" % dir_fd), os.fsdecode(path))


def of_open_file(fd: int) -> Optional[str]:
    """The path of an open file; None where it has none."""
    try:
        path = _readlink("/proc/self/fd/%d" % fd)
    except OSError:
        return None
    return path if path.startswith("/") else None


def copy_with_holes(source: str, target: str) -> None:
    """A new file with the content of that one; holes are left open."""
    with open(source, "rb") as a, open(target, "wb") as b:
        at, size = 0, os.fstat(a.fileno()).st_size
        b.truncate(size)
        while at < size:
            try:
                at = os.lseek(a.fileno(), at, os.SEEK_DATA)
            except OSError as problem:
                if problem.errno == errno.ENXIO:  # a hole up to the end
                    return
                raise
            end = os.lseek(a.fileno(), at, os.SEEK_HOLE)
            os.lseek(b.fileno(), at, os.SEEK_SET)
            while at < end:
                done = os.sendfile(b.fileno(), a.fileno(), at, min(end - at, 1 << 30))
                if not done:  # cut short meanwhile
                    return
                at += done


class Entry:
    """An os.DirEntry of a file that lies in the scratch folder. path: as the script names it."""

    def __init__(self, path: Any, scratch: str) -> None:
        self.name, self.path, self._scratch = os.path.basename(path), path, scratch

    def __fspath__(self) -> Any:
        return self.path

    def _is(self, kind: Callable[[int], bool], follow: bool) -> bool:
        try:
            return kind(self.stat(follow_symlinks=follow).st_mode)
        except OSError:
            return False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_ISDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_ISREG, follow_symlinks)

    def is_symlink(self) -> bool:
        return self._is(stat.S_ISLNK, False)

    def is_junction(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self.path) if follow_symlinks else _lstat(self._scratch)

    def inode(self) -> int:
        return _lstat(self._scratch).st_ino


class Listing:
    """What os.scandir returns: an iterator that may be closed."""

    def __init__(self, entries: Sequence[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> "Listing":
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> "Listing":
        return self

    def __exit__(self, *exc: Any) -> None: ...

    def close(self) -> None: ...
