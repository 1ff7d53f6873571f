"""A script's files while it runs under fake tensors: what it writes goes to a scratch folder, what exists stays as it is.

Numbers are made up in such a run, so nothing it writes is worth keeping, and a checkpoint that exists must not be
replaced. While a `Scratch` is entered, Python's functions that open, rename or delete files are replaced by ones that
write to a scratch folder instead, under the same names: the script reads back what it wrote, finds it with os.stat
and os.listdir, and no longer sees what it deleted. Folders are made for real, since native code may write into them;
those that are empty at the end are removed again. New files in caches and in the folder for temporary files are real
too: downloads stay, and native code reads them.

Code that bound a function before the run (`from builtins import open`) passes by the replacements; for it an audit
hook of the interpreter refuses to open for writing, rename or delete a file that was there before the run.

Left out: what native code and other processes write (h5py, cv2.imwrite, sqlite3, subprocess). What _saves.py knows of
them (torch.jit.save, safetensors) is held back there.
"""
from __future__ import annotations

import builtins
import contextlib
import errno
import functools
import io
import os
import shutil
import stat
import sys
import tempfile
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

# The functions themselves, whatever stands in their place later.
_open, _os_open, _stat, _lstat = builtins.open, os.open, os.stat, os.lstat
_remove, _rename, _mkdir, _rmdir, _listdir, _scandir = os.remove, os.rename, os.mkdir, os.rmdir, os.listdir, os.scandir
_readlink, _symlink = os.readlink, os.symlink

_CACHES = ("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "TRANSFORMERS_CACHE", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR",
           "TRITON_CACHE_DIR", "MPLCONFIGDIR", "XDG_CACHE_HOME")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
_SHOWN = 4  # files that the warning names

Path = Any  # str, bytes or os.PathLike, as os takes them


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class _Entry:
    """An os.DirEntry of a file that lies in the scratch folder."""

    def __init__(self, folder: str, name: str, scratch: str) -> None:
        self.name, self.path, self._scratch = name, os.path.join(folder, name), scratch

    def __fspath__(self) -> str:
        return self.path

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return False

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return True

    def is_symlink(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return _stat(self._scratch)

    def inode(self) -> int:
        return _stat(self._scratch).st_ino


class _Listing:
    """What os.scandir returns: an iterator that may be closed."""

    def __init__(self, entries: Sequence[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> "_Listing":
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> "_Listing":
        return self

    def __exit__(self, *exc: Any) -> None: ...

    def close(self) -> None: ...


class Scratch:
    """Entered once in a process, around the script; its replacements stay for threads that the script left running, and
    no longer apply to the thread that left the `with`.

    homes: folders whose new files are the script's own and go to the scratch folder, even below a cache: where the
    script lies and where it was started.
    """

    def __init__(self, homes: Sequence[str]) -> None:
        self.files: Dict[str, str] = {}  # real path: the file in the scratch folder that stands for it
        self.gone: Set[str] = set()  # real paths that the script deleted, and that exist
        self.made: Set[str] = set()  # real files that the script made
        self.made_folders: List[str] = []
        self.held: Dict[str, List[Any]] = {}  # path as the script names it: [function, how many]
        self.folder = ""
        self._homes = [os.path.realpath(h) for h in homes]
        caches = [tempfile.gettempdir(), os.path.expanduser("~/.cache"), *(os.environ.get(name, "") for name in _CACHES)]
        self._caches = [os.path.realpath(c) for c in caches if c]
        self._on, self._left_by, self._count = False, 0, 0
        self._thread = threading.local()
        self._lock = threading.RLock()

    # ---- entering ----

    def __enter__(self) -> "Scratch":
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="plimsoll-"))
        self._on = True
        sys.addaudithook(self._audit)
        sys.dont_write_bytecode = True
        for module, name, mine in (
                (builtins, "open", self.open), (io, "open", self.open), (os, "open", self.os_open), (os, "remove", self.remove),
                (os, "unlink", self.remove), (os, "rename", self.rename), (os, "replace", self.rename), (os, "mkdir", self.mkdir),
                (os, "rmdir", self.rmdir), (os, "listdir", self.listdir), (os, "scandir", self.scandir),
                (os, "symlink", self.symlink), (os, "link", self.link), (os, "truncate", self.truncate)):
            self.replace(module, name, mine)
        for name in ("stat", "lstat", "access", "chmod", "utime", "getxattr", "setxattr", "listxattr", "removexattr"):
            if hasattr(os, name):
                self.replace(os, name, functools.partial(self._mapped, getattr(os, name)))
        for library, bound in (("bz2", "_builtin_open"), ("tarfile", "bltn_open")):
            module = __import__(library)
            if hasattr(module, bound):
                self.replace(module, bound, self.open)
        for name in ("rmtree", "move"):
            self.replace(shutil, name, self.named("shutil." + name, getattr(shutil, name)))
        setattr(shutil, "_use_fd_functions", False)  # rmtree by names, not by descriptors of folders
        accessor = getattr(__import__("pathlib"), "_NormalAccessor", None)  # Python 3.10: pathlib binds os' functions
        for name in ("open", "stat", "listdir", "scandir", "mkdir", "unlink", "rmdir", "rename", "replace", "symlink", "chmod"):
            if accessor is not None and hasattr(accessor, name):
                setattr(accessor, name, staticmethod(getattr(io if name == "open" else os, name)))
        return self

    def __exit__(self, *exc: Any) -> None:
        self._left_by = threading.get_ident()
        for folder in reversed(self.made_folders):
            with contextlib.suppress(OSError):
                if not self._cached(folder):
                    _rmdir(folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def applies(self) -> bool:
        return self._on and self._left_by != threading.get_ident() and not getattr(self._thread, "inside", 0)

    def replace(self, owner: Any, name: str, mine: Callable[..., Any]) -> None:
        """owner.name becomes mine where the scratch folder applies, and stays what it is elsewhere."""
        real = getattr(owner, name)

        @functools.wraps(real)
        def either(*args: Any, **kwargs: Any) -> Any:
            return (mine if self.applies() else real)(*args, **kwargs)

        setattr(owner, name, either)

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """Calls made in here are this file's own, and go where they say."""
        self._thread.inside = getattr(self._thread, "inside", 0) + 1
        try:
            yield
        finally:
            self._thread.inside -= 1

    # ---- what is held back ----

    @contextlib.contextmanager
    def calling(self, function: str, path: Path = None, forced: bool = False) -> Iterator[None]:
        """What is held back in here goes by this function's name and, where it is given, that path; the outermost one
        counts. forced: new files go to the scratch folder wherever they are."""
        before = getattr(self._thread, "name", None), getattr(self._thread, "forced", False)
        if before[0] is None:
            self._thread.name, self._thread.noted = (function, path), []
        self._thread.forced = before[1] or forced
        try:
            yield
        finally:
            self._thread.name, self._thread.forced = before

    def named(self, function: str, real: Callable[..., Any], forced: bool = False) -> Callable[..., Any]:
        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            first = next(iter([*args, *kwargs.values()]), None)
            with self.calling(function, first if isinstance(first, (str, os.PathLike)) else None, forced):
                return real(*args, **kwargs)
        return call

    def note(self, function: str, path: Path) -> None:
        """One more that was held back; inside of `calling`, one for each time that is entered."""
        outer = getattr(self._thread, "name", None)
        if outer is not None:
            if outer in self._thread.noted:
                return
            self._thread.noted.append(outer)
            function, path = outer[0], path if outer[1] is None else outer[1]
        with self._lock:
            seen = self.held.setdefault(os.fsdecode(path), [function, 0])
            seen[1] += 1

    def saved_to(self, function: str, file: Any) -> None:
        """An open file that something was saved to goes by the function that did."""
        name = getattr(file, "name", None)
        with self._lock:
            if isinstance(name, (str, bytes, os.PathLike)) and os.fsdecode(name) in self.held:
                self.held[os.fsdecode(name)][0] = function

    def warning(self) -> Optional[str]:
        """What was held back, in one sentence for the report; None where nothing was."""
        if not self.held:
            return None
        parts = ["%s (%s%s)" % (function, path, ", %d times" % count if count > 1 else "")
                 for path, (function, count) in list(self.held.items())[:_SHOWN]]
        if len(self.held) > _SHOWN:
            parts.append("and %d more files" % (len(self.held) - _SHOWN))
        total = sum(count for _, count in self.held.values())
        return "%s of the script held back, no file was written or changed (numbers are made up in this run): %s" % (
            "1 save" if total == 1 else "%d saves" % total, ", ".join(parts))

    # ---- paths ----

    def _real(self, path: Path, follow: bool = True) -> str:
        """The path by which files are known here; follow: the file that a link leads to."""
        name = os.path.abspath(os.fsdecode(path))
        with self._inside():
            if follow:
                return os.path.realpath(name)
            return os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))

    def _cached(self, real: str) -> bool:
        """Whether a new file may be real: the innermost of the folders that hold it is a cache."""
        home = max((len(h) for h in self._homes if _below(real, h)), default=-1)
        return max((len(c) for c in self._caches if _below(real, c)), default=-2) >= home

    @staticmethod
    def _lexists(real: str) -> bool:
        try:
            _lstat(real)
        except (OSError, ValueError):
            return False
        return True

    def _seen(self, real: str) -> bool:
        """Whether the script sees something there."""
        return real in self.files or (real not in self.gone and self._lexists(real))

    @staticmethod
    def _special(path: str) -> bool:
        return path.startswith(("/dev/", "/proc/", "/sys/")) and not path.startswith("/dev/shm/")

    def _protected(self, real: str) -> bool:
        """Whether something is there that was there before the run."""
        if real in self.made or _below(real, self.folder) or not self._lexists(real):
            return False
        return not any(_below(real, folder) for folder in self.made_folders)

    def _mapped(self, function: Callable[..., Any], path: Path, *args: Any, **kwargs: Any) -> Any:
        """A function of os on the file that stands for path."""
        if (self.files or self.gone) and not isinstance(path, int) and kwargs.get("dir_fd") is None:
            follow = kwargs.get("follow_symlinks", True) and function is not _lstat
            real = self._real(path, follow)
            if real in self.files:
                return function(self.files[real], *args, **kwargs)
            if real in self.gone:
                if function.__name__ == "access":
                    return False
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return function(path, *args, **kwargs)

    def _new(self, real: str, content: Optional[str] = None) -> str:
        """A file in the scratch folder that stands for real from now on, with the content of that file or none."""
        self._count += 1
        scratch = os.path.join(self.folder, "%d-%s" % (self._count, os.path.basename(real)[-100:]))
        if content is not None:
            with self._inside():
                shutil.copyfile(content, scratch)
        self.files[real] = scratch
        return scratch

    def _place(self, path: Path, writing: bool, keeps: bool, creates: bool, function: str) -> str:
        """Where an open of that path goes: the path itself, or its file in the scratch folder."""
        with self._lock:
            return self._place_locked(os.fsdecode(path), writing, keeps, creates, function)

    def _place_locked(self, name: str, writing: bool, keeps: bool, creates: bool, function: str) -> str:
        if self._special(os.path.abspath(name)):
            return name
        real = self._real(name)
        if real in self.files:
            if writing:
                self.note(function, name)
            return self.files[real]
        there = self._lexists(real)
        if real in self.gone:
            if not creates:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            there = False
        if not writing:
            return name
        if there:
            if not stat.S_ISREG(_stat(real).st_mode) or not self._protected(real):
                return name
            if not os.access(real, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        elif not creates or not os.path.isdir(os.path.dirname(real)):
            return name  # the open says what is wrong
        elif real not in self.gone and self._cached(real) and not getattr(self._thread, "forced", False):
            self.made.add(real)
            return name
        self.note(function, name)
        return self._new(real, real if there and keeps else None)

    # ---- the functions ----

    def open(self, file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None,
             newline: Any = None, closefd: bool = True, opener: Any = None) -> Any:
        if isinstance(file, int) or not isinstance(mode, str):
            return _open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if opener is not None:  # it opens by os.open, which is watched too
            return _open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        writing = any(c in mode for c in "wax+")
        real = self._real(file)
        if "x" in mode and self._seen(real):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file)
        place = self._place(file, writing, "a" in mode or "r" in mode, "r" not in mode, "open")
        if place == os.fsdecode(file):
            return _open(file, mode, buffering, encoding, errors, newline, closefd)
        with self._inside():  # the name that the file object has is the script's
            return _open(file, mode, buffering, encoding, errors, newline, closefd,
                         lambda _, flags: _os_open(place, flags, 0o666))

    def os_open(self, path: Path, flags: int, mode: int = 0o777, *, dir_fd: Optional[int] = None) -> int:
        if dir_fd is not None and not os.path.isabs(os.fsdecode(path)):
            path = os.path.join(_readlink("/proc/self/fd/%d" % dir_fd), os.fsdecode(path))
        real = self._real(path)
        if flags & os.O_CREAT and flags & os.O_EXCL and self._seen(real):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        writing = bool(flags & _WRITES) or bool(flags & os.O_CREAT and not self._lexists(real))
        if getattr(os, "O_TMPFILE", 0) and flags & os.O_TMPFILE == os.O_TMPFILE:
            writing = False  # a file without a name
        return _os_open(self._place(path, writing, not flags & os.O_TRUNC, bool(flags & os.O_CREAT), "open"), flags, mode)

    def truncate(self, path: Path, length: int) -> None:
        with self.open(path, "r+b") if not isinstance(path, int) else _open(path, "r+b", closefd=False) as file:
            file.truncate(length)

    def remove(self, path: Path, *, dir_fd: Optional[int] = None) -> None:
        if dir_fd is not None:
            path = os.path.join(_readlink("/proc/self/fd/%d" % dir_fd), os.fsdecode(path))
        real = self._real(path, follow=False)
        if real in self.files:
            scratch = self.files.pop(real)
            if scratch not in self.files.values():
                _remove(scratch)
            if self._lexists(real):
                self.gone.add(real)
        elif real in self.gone:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        elif self._protected(real) and not stat.S_ISDIR(_lstat(real).st_mode):
            self.note("os.remove", path)
            self.gone.add(real)
        else:
            _remove(path)
            self.made.discard(real)

    def rename(self, src: Path, dst: Path, *, src_dir_fd: Optional[int] = None, dst_dir_fd: Optional[int] = None) -> None:
        a, b = self._real(src, follow=False), self._real(dst, follow=False)
        if not self._seen(a):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), src)
        if a not in self.files and stat.S_ISDIR(_lstat(a).st_mode):
            self._rename_folder(src, dst, a, b)
            return
        if os.path.isdir(b):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), dst)
        if a == b:
            return
        if a not in self.files and not self._protected(a) and not self._protected(b) and self._cached(b) and b not in self.gone:
            _rename(src, dst)
            self.made.discard(a)
            self.made.add(b)
            self.files.pop(b, None)
            return
        self.note("os.rename", dst)
        if a in self.files:
            self.files[b] = self.files.pop(a)
        else:
            self._new(b, a)
        if self._protected(a):
            self.gone.add(a)
        elif self._lexists(a):
            _remove(a)

    def _rename_folder(self, src: Path, dst: Path, a: str, b: str) -> None:
        if self._protected(a) or self._protected(b):
            raise PermissionError(errno.EROFS, "plimsoll holds back renaming a folder that was there before", src, None, dst)
        _rename(a, b)
        self.made_folders[:] = [b + f[len(a):] if _below(f, a) else f for f in self.made_folders]
        self.made = {b + f[len(a):] if _below(f, a) else f for f in self.made}
        self.files = {b + f[len(a):] if _below(f, a) else f: s for f, s in self.files.items()}

    def mkdir(self, path: Path, mode: int = 0o777, *, dir_fd: Optional[int] = None) -> None:
        real = self._real(path, follow=False)
        if real in self.gone and stat.S_ISDIR(_lstat(real).st_mode):
            self.gone.discard(real)  # what it held stays gone
            return
        _mkdir(path, mode, dir_fd=dir_fd) if dir_fd is not None else _mkdir(path, mode)
        self.made_folders.append(real)

    def rmdir(self, path: Path, *, dir_fd: Optional[int] = None) -> None:
        real = self._real(path, follow=False)
        if not self._protected(real):
            _rmdir(path, dir_fd=dir_fd) if dir_fd is not None else _rmdir(path)
            if real in self.made_folders:
                self.made_folders.remove(real)
        elif real in self.gone:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        elif self.listdir(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        else:
            self.note("os.rmdir", path)
            self.gone.add(real)

    def symlink(self, src: Path, dst: Path, target_is_directory: bool = False, *, dir_fd: Optional[int] = None) -> None:
        self._link(src, dst, os.path.join(os.path.dirname(os.fsdecode(dst)), os.fsdecode(src)), "os.symlink")

    def link(self, src: Path, dst: Path, **kwargs: Any) -> None:
        self._link(src, dst, os.fsdecode(src), "os.link")

    def _link(self, src: Path, dst: Path, target: str, function: str) -> None:
        real, leads = self._real(dst, follow=False), self._real(target)
        if self._seen(real):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), dst)
        if self._cached(real) and real not in self.gone and leads not in self.files:
            (_symlink if function == "os.symlink" else os.link)(src, dst)
            self.made.add(real)
            return
        self.note(function, dst)
        if leads in self.files:
            self.files[real] = self.files[leads]
        elif os.path.isfile(leads):
            self._new(real, leads)

    def _names(self, path: Path) -> Tuple[str, Dict[str, str], Set[str]]:
        """A folder, its files that lie in the scratch folder, and its names that are gone."""
        folder = self._real(path)
        added = {os.path.basename(f): s for f, s in self.files.items() if os.path.dirname(f) == folder}
        return folder, added, {os.path.basename(f) for f in self.gone if os.path.dirname(f) == folder}

    def listdir(self, path: Path = ".") -> Any:
        found = _listdir(path)
        if isinstance(path, (int, bytes)) or not (self.files or self.gone):
            return found
        _, added, gone = self._names(path)
        return [n for n in found if n not in gone and n not in added] + list(added)

    def scandir(self, path: Path = ".") -> Any:
        if isinstance(path, (int, bytes)) or not (self.files or self.gone):
            return _scandir(path)
        _, added, gone = self._names(path)
        with _scandir(path) as entries:
            left: List[Any] = [e for e in entries if e.name not in gone and e.name not in added]
        return _Listing(left + [_Entry(os.fspath(path), n, s) for n, s in added.items()])

    # ---- what passed by the functions above ----

    def _audit(self, event: str, args: Tuple[Any, ...]) -> None:
        if event not in ("open", "os.remove", "os.rename", "os.rmdir", "os.truncate") or not self.applies():
            return
        if event == "open":
            wanted = [args[0]] if isinstance(args[2], int) and args[2] & _WRITES else []
        elif event == "os.rename":
            wanted = [args[0], args[1]]
        else:
            wanted = [args[0]]
        for path in wanted:
            if path is None or isinstance(path, int):
                continue
            name = os.fsdecode(path)
            fd = args[1] if event in ("os.remove", "os.rmdir") else -1
            if isinstance(fd, int) and fd >= 0 and not os.path.isabs(name):
                name = os.path.join(_readlink("/proc/self/fd/%d" % fd), name)
            real = self._real(name, follow=event in ("open", "os.truncate"))
            if self._special(os.path.abspath(name)) or not self._protected(real):
                if event == "open" and not self._lexists(real):
                    self.made.add(real)
                continue
            if event == "open" and not stat.S_ISREG(_stat(real).st_mode):
                continue
            raise PermissionError(errno.EROFS, "plimsoll holds back changing a file that was there before", path)
