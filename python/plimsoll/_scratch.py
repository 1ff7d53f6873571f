"""A script's files while it runs under fake tensors: what it writes goes to a scratch folder, what exists stays as it is.

Numbers are made up in such a run, so nothing it writes is worth keeping, and a checkpoint that exists must not be
replaced. While a `Scratch` is entered, Python's functions that open, rename, link or delete files or change their
attributes are replaced by ones that write to a scratch folder instead, under the same names: the script reads back what
it wrote, finds it with os.stat and os.listdir, and no longer sees what it deleted. A file that is only renamed is read
where it lies, and copied when it is opened for writing. Folders are made for real, since native code may write into
them; those that are empty at the end are removed again. New files in caches and in the folder for temporary files are
real too: downloads stay, and native code reads them.

Code that bound a function before the run (`from builtins import open`) passes by the replacements; for it an audit
hook of the interpreter refuses to open for writing, rename, delete or change a file that was there before the run.

Left out: what native code and other programs write (h5py, cv2.imwrite, subprocess). What _saves.py knows of them
(torch.jit.save, safetensors, sqlite3) is held back there; of the rest _watch.py says what it changed.
"""
from __future__ import annotations

import builtins
import contextlib
import errno
import functools
import io
import os
import shutil
import signal
import stat
import sys
import tempfile
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ._entries import Entry, Listing, below, copy_with_holes, joined, no_file, of_open_file
from ._overlay import Cover
from ._watch import Watch

# The functions themselves, whatever stands in their place later.
_open, _os_open, _stat, _lstat = builtins.open, os.open, os.stat, os.lstat
_remove, _rename, _mkdir, _rmdir, _listdir, _scandir = os.remove, os.rename, os.mkdir, os.rmdir, os.listdir, os.scandir
_readlink, _symlink, _link = os.readlink, os.symlink, os.link

CACHES = ("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "TRANSFORMERS_CACHE", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR",
           "TRITON_CACHE_DIR", "MPLCONFIGDIR", "XDG_CACHE_HOME")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
_LINKS = 40  # that lead on to one another
_MOST = 100000  # files that something stands for
_ATTRIBUTES = ("chmod", "utime", "chown", "lchown", "lchmod", "fchmod", "fchown", "setxattr", "removexattr")

Path = Any  # str, bytes or os.PathLike, as os takes them


def caches() -> List[str]:
    """Folders in which new files are kept, so that a download is made once."""
    named = [os.path.expanduser("~/.cache"), *(os.environ.get(name, "") for name in CACHES)]
    return [os.path.realpath(c) for c in named if c]


class Scratch:
    """Entered once in the process in which the script runs, for as long as that lives.

    homes: folders whose new files are the script's own and go to the scratch folder, even below a cache: where the
    script lies and where it was started. folder: the scratch folder; who made it removes it.
    cover: where the kernel holds back what is written (_overlay.py): there the functions only count, and do what they say.
    """

    cover: Optional[Cover] = None

    def __init__(self, homes: Sequence[str], folder: str) -> None:
        # real path: the file that stands for it, in the scratch folder; outside of it, one that is only read
        self.files: Dict[str, str] = {}
        self.links: Dict[str, str] = {}  # of those, symbolic links: where they lead
        self.gone: Set[str] = set()  # real paths that the script deleted, and that exist
        self.made: Set[str] = set()  # real files that the script made
        self.made_folders: List[str] = []
        self.held: Dict[str, List[Any]] = {}  # path as the script names it: [function, how many]
        self.touched: Set[str] = set()  # real paths that the kernel was let change
        self.folder = os.path.realpath(folder)
        self._homes = [os.path.realpath(h) for h in homes]
        self._caches = [os.path.realpath(tempfile.gettempdir()), *caches()]
        self._on, self._count = False, 0
        self._thread = threading.local()
        self._lock = threading.RLock()
        self.watch = Watch([])
        self.on_folder: Callable[[str], None] = lambda path: None  # told of each that is made for real

    # ---- entering ----

    def enter(self) -> None:
        self._on = True
        sys.addaudithook(self._audit)
        sys.dont_write_bytecode = True
        for module, name, mine in (
                (builtins, "open", self.open), (io, "open", self.open), (os, "open", self.os_open), (os, "remove", self.remove),
                (os, "unlink", self.remove), (os, "rename", self.rename), (os, "replace", self.rename), (os, "mkdir", self.mkdir),
                (os, "rmdir", self.rmdir), (os, "listdir", self.listdir), (os, "scandir", self.scandir),
                (os, "symlink", self.symlink), (os, "link", self.link), (os, "truncate", self.truncate)):
            self.replace(module, name, mine)
        for name in ("stat", "lstat", "access", "readlink", "getxattr", "listxattr"):
            if hasattr(os, name):
                self.replace(os, name, functools.partial(self._mapped, getattr(os, name)))
        for name in _ATTRIBUTES:
            if hasattr(os, name):
                self.replace(os, name, functools.partial(self._attribute, getattr(os, name)))
        for library, bound in (("bz2", "_builtin_open"), ("tarfile", "bltn_open")):
            module = __import__(library)
            if hasattr(module, bound):
                self.replace(module, bound, self.open)
        for name in ("rmtree", "move"):
            self.replace(shutil, name, self.named("shutil." + name, getattr(shutil, name)))
        self._signals()
        setattr(shutil, "_use_fd_functions", False)  # rmtree by names, not by descriptors of folders
        accessor = getattr(__import__("pathlib"), "_NormalAccessor", None)  # Python 3.10: pathlib binds os' functions
        for name in ("open", "stat", "listdir", "scandir", "mkdir", "unlink", "rmdir", "rename", "replace", "symlink", "link",
                     "link_to", "readlink", "chmod", "lchmod", "utime"):
            if accessor is not None and hasattr(accessor, name):
                setattr(accessor, name, staticmethod(getattr(io if name == "open" else os, "link" if name == "link_to" else name)))

    def told(self) -> Dict[str, Any]:
        """What the process that waits for this one needs to know."""
        with self.inside():
            changed = [] if self.cover is None else self.cover.changed()
            more = [path for path in changed if path not in self.touched and not self._made(path)]
        return {"held": self.held, "more": more, "made": self.made_folders, "programs": self.watch.programs, "watched": self.watch.added}

    def _made(self, real: str) -> bool:
        """Whether it is one of the files that nobody is told of: caches, temporary files, Python's own."""
        return self._cached(real) or real in self.made or real.endswith(".pyc") or any(real == f for f in self.made_folders)

    def applies(self) -> bool:
        return self._on and not getattr(self._thread, "inside", 0)

    def replace(self, owner: Any, name: str, mine: Callable[..., Any]) -> None:
        """owner.name becomes mine where the scratch folder applies, and stays what it is elsewhere."""
        setattr(owner, name, self.either(getattr(owner, name), mine))

    def either(self, real: Callable[..., Any], mine: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            return (mine if self.applies() else real)(*args, **kwargs)

        return call

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Calls made in here are this file's own, and go where they say."""
        self._thread.inside = getattr(self._thread, "inside", 0) + 1
        try:
            yield
        finally:
            self._thread.inside -= 1

    def _signals(self) -> None:
        """A handler may be called in the midst of any call in here, and what it opens is the script's."""
        real_set, real_get = signal.signal, signal.getsignal

        def handler_of(handler: Any) -> Any:
            return getattr(handler, "plimsoll_handler", handler)

        def set_handler(number: Any, handler: Any) -> Any:
            if not callable(handler):
                return handler_of(real_set(number, handler))

            def call(*args: Any) -> None:
                mine = dict(vars(self._thread))
                vars(self._thread).clear()
                try:
                    handler(*args)
                finally:
                    vars(self._thread).clear()
                    vars(self._thread).update(mine)

            setattr(call, "plimsoll_handler", handler)
            return handler_of(real_set(number, call))

        setattr(signal, "signal", functools.wraps(real_set)(set_handler))
        setattr(signal, "getsignal", functools.wraps(real_get)(lambda number: handler_of(real_get(number))))

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

    # ---- paths ----

    def _real(self, path: Path, follow: bool = True) -> str:
        """The path by which files are known here, with every link on the way resolved, those that were held back among
        them; follow: the last name too."""
        rest = os.path.abspath(os.fsdecode(path)).split("/")[::-1]
        done, links = "/", 0
        while rest:
            part = rest.pop()
            if part in ("", "."):
                continue
            if part == "..":
                done = os.path.dirname(done)
                continue
            at = os.path.join(done, part)
            if not rest and not follow:
                return at
            target = self.links.get(at)
            if target is None and at not in self.files and at not in self.gone:
                try:
                    target = _readlink(at)
                except (OSError, ValueError):
                    target = None
            if target is None:
                done = at
                continue
            links += 1
            if links > _LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            rest += target.split("/")[::-1]
            done = "/" if target.startswith("/") else done
        return done

    def _cached(self, real: str) -> bool:
        """Whether a new file may be real: the innermost of the folders that hold it is a cache."""
        home = max((len(h) for h in self._homes if below(real, h)), default=-1)
        return max((len(c) for c in self._caches if below(real, c)), default=-2) >= home

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
        if real in self.made or below(real, self.folder) or not self._lexists(real):
            return False
        return not any(below(real, folder) for folder in self.made_folders)

    def _passes(self, function: str, path: Path, *reals: str) -> bool:
        """Whether the kernel holds back what is about to be done to these; what is the user's is counted."""
        if self.cover is None or not all(self.cover.holds(real) for real in reals):
            return False
        if any(self._protected(real) or not self._cached(real) for real in reals):
            self.note(function, path)
            self.touched.update(reals)
        else:
            self.made.update(real for real in reals if not self._lexists(real))
        return True

    def _leaves(self, path: Path, real: str) -> bool:
        """Whether a path below /proc or /dev (/proc/self/cwd, /dev/fd/3) leads to a file elsewhere, which real is."""
        return self._special(os.path.abspath(os.fsdecode(path))) and not self._special(real) and self._seen(real)

    def _through(self, path: Path, real: str) -> Path:
        """The path to give to the system for one that nothing stands for: a link of the way may be held back, and one of
        /proc may lead past what the kernel holds back."""
        if not self._leaves(path, real) and (not self.links or self._special(os.path.abspath(os.fsdecode(path)))):
            return path
        return os.fsencode(real) if isinstance(path, bytes) else real

    def _mapped(self, function: Callable[..., Any], path: Path = ".", *args: Any, **kwargs: Any) -> Any:
        """A function of os that reads, on the file that stands for path."""
        if not (self.files or self.gone) or path is None or isinstance(path, int):
            return function(path, *args, **kwargs)
        path = joined(path, kwargs.pop("dir_fd", None))
        real = self._real(path, kwargs.get("follow_symlinks", True) and function.__name__ not in ("lstat", "readlink"))
        if real in self.files:
            found = function(self.files[real], *args, **kwargs)
            return os.fsencode(found) if isinstance(path, bytes) and isinstance(found, str) else found
        if real in self.gone:
            if function.__name__ == "access":
                return False
            raise no_file(path)
        return function(self._through(path, real), *args, **kwargs)

    def _attribute(self, function: Callable[..., Any], path: Path, *args: Any, **kwargs: Any) -> Any:
        """A function of os that changes a file's attributes: of what was there before the run it changes none."""
        name: Path = of_open_file(path) if isinstance(path, int) else joined(path, kwargs.get("dir_fd"))
        if name is None:
            return function(path, *args, **kwargs)
        real = self._real(name, kwargs.get("follow_symlinks", True) and function.__name__ not in ("lchown", "lchmod"))
        if self._special(os.path.abspath(os.fsdecode(name))) and not self._leaves(name, real):
            return function(path, *args, **kwargs)
        if not isinstance(path, int):
            if real not in self.files and (real in self.gone or not self._lexists(real)):
                raise no_file(path)
            kwargs.pop("dir_fd", None)
            path = self.files.get(real) or self._through(name, real)
        if self._protected(self.files.get(real, real)) and not self._passes("os." + function.__name__, name, real):
            self.note("os." + function.__name__, name)
            return None
        return function(path, *args, **kwargs)

    def _new(self, real: str, content: Optional[str] = None) -> str:
        """A file in the scratch folder that stands for real from now on, with the content of that file or none."""
        self._count += 1
        scratch = os.path.join(self.folder, "%d-%d-%s" % (os.getpid(), self._count, os.path.basename(real)[-100:]))
        if content is not None:
            self._copy(content, scratch)
        self.files[real] = scratch
        self.links.pop(real, None)
        return scratch

    def _copy(self, source: str, target: str) -> None:
        self._check_room(source)
        with self.inside():
            try:
                copy_with_holes(source, target)
            except OSError:
                shutil.copyfile(source, target)

    def _check_room(self, source: str) -> None:
        status, free = _lstat(source), shutil.disk_usage(self.folder).free  # of a link, its own
        needed = min(status.st_size, status.st_blocks * 512)
        if needed > free - (free >> 4):
            raise OSError(errno.ENOSPC, "plimsoll holds back changing a file of %d bytes, and has no room for a copy of it (%d are "
                          "free)" % (needed, free), source)

    def _hold_link(self, real: str, target: str) -> None:
        """A symbolic link that stands for real from now on."""
        _symlink(target, self._new(real))
        self.links[real] = target

    def standin(self, function: str, path: Path, keeps: bool = False) -> str:
        """Where native code may write instead of path, which is then held back; keeps: with what is there."""
        with self.calling(function, path, forced=True):
            place = self._place(path, True, keeps, True, function)
        return os.path.abspath(place)

    def place_to_read(self, path: Path) -> Path:
        """Where native code finds what the script sees at path."""
        return self._place(path, False, True, False, "") if self.files or self.gone else path

    def _place(self, path: Path, writing: bool, keeps: bool, creates: bool, function: str) -> str:
        """Where an open of that path goes: the path itself, or its file in the scratch folder."""
        with self._lock:
            return self._place_locked(os.fsdecode(path), writing, keeps, creates, function)

    def _place_locked(self, name: str, writing: bool, keeps: bool, creates: bool, function: str) -> str:
        real = self._real(name)
        if self._special(os.path.abspath(name)) and not self._leaves(name, real):
            return name
        if real in self.files:
            if writing:
                self.note(function, name)
                if not below(self.files[real], self.folder):  # only read till now
                    self._new(real, self.files[real] if keeps else None)
            return self.files[real]
        there = self._lexists(real)
        if real in self.gone:
            if not creates:
                raise no_file(name)
            there = False
        if os.path.dirname(real) in self.gone:
            raise no_file(name)
        plain = os.fsdecode(self._through(name, real))
        if not writing:
            return plain
        if not there or stat.S_ISREG(_stat(real).st_mode):
            if (there or creates) and os.path.isdir(os.path.dirname(real)) and self._passes(function, name, real):
                if there and keeps and self._protected(real):
                    self._check_room(real)
                return plain
        if there:
            if not stat.S_ISREG(_stat(real).st_mode) or not self._protected(real):
                return plain
            if not os.access(real, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        elif not creates or not os.path.isdir(os.path.dirname(real)):
            return plain  # the open says what is wrong
        elif real not in self.gone and self._cached(real) and not getattr(self._thread, "forced", False):
            self.made.add(real)
            return plain
        self.note(function, name)
        self.watch.file(real)
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
        with self.inside():  # the name that the file object has is the script's
            return _open(file, mode, buffering, encoding, errors, newline, closefd,
                         lambda _, flags: _os_open(place, flags, 0o666))

    def os_open(self, path: Path, flags: int, mode: int = 0o777, *, dir_fd: Optional[int] = None) -> int:
        path = joined(path, dir_fd)
        real = self._real(path)
        if flags & os.O_CREAT and flags & os.O_EXCL and self._seen(real):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        writing = bool(flags & _WRITES) or bool(flags & os.O_CREAT and not self._lexists(real))
        if getattr(os, "O_TMPFILE", 0) and flags & os.O_TMPFILE == os.O_TMPFILE:
            writing = False  # a file without a name
        place = self._place(path, writing, not flags & os.O_TRUNC, bool(flags & os.O_CREAT), "open")
        if writing and below(place, self.folder):
            flags |= os.O_CREAT  # one that is cut to nothing was not copied
        return _os_open(place, flags, mode)

    def truncate(self, path: Path, length: int) -> None:
        with self.open(path, "r+b") if not isinstance(path, int) else _open(path, "r+b", closefd=False) as file:
            file.truncate(length)

    def remove(self, path: Path, *, dir_fd: Optional[int] = None) -> None:
        path = joined(path, dir_fd)
        real = self._real(path, follow=False)
        if self._is_there(real) and self._passes("os.remove", path, real):
            _remove(real)
            self.made.discard(real)
        elif real in self.files:
            self._drop(real)
        elif real in self.gone:
            raise no_file(path)
        elif self._protected(real) and not stat.S_ISDIR(_lstat(real).st_mode):
            self.note("os.remove", path)
            self.watch.file(real)
            self.gone.add(real)
        else:
            _remove(self._through(path, real))
            self.made.discard(real)

    def _drop(self, real: str) -> None:
        """What stands for real is no longer there, and the script sees nothing."""
        scratch = self.files.pop(real)
        self.links.pop(real, None)
        if scratch not in self.files.values() and below(scratch, self.folder):
            _remove(scratch)
        if self._lexists(real):
            self.gone.add(real)

    def _is_there(self, real: str) -> bool:
        """A file, for the system itself."""
        return self._lexists(real) and not stat.S_ISDIR(_lstat(real).st_mode)

    def _is_folder(self, real: str) -> bool:
        return real not in self.files and real not in self.gone and self._lexists(real) and stat.S_ISDIR(_lstat(real).st_mode)

    def rename(self, src: Path, dst: Path, *, src_dir_fd: Optional[int] = None, dst_dir_fd: Optional[int] = None) -> None:
        src, dst = joined(src, src_dir_fd), joined(dst, dst_dir_fd)
        a, b = self._real(src, follow=False), self._real(dst, follow=False)
        if not self._seen(a) or not self._is_folder(os.path.dirname(b)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), src, None, dst)
        if a == b:
            return
        if self._passes("os.rename", dst, a, b):
            if self._is_there(a) and self._protected(a):
                self._check_room(a)
            try:
                _rename(a, b)
            except OSError as problem:  # of two overlays, where the script may have one disk
                if problem.errno != errno.EXDEV or self._is_folder(b) or (self._is_folder(a) and self._lexists(b)):
                    raise
                with self.inside():
                    shutil.move(a, b)
            self.made_folders[:] = [b + f[len(a):] if below(f, a) else f for f in self.made_folders]
            return
        if self._is_folder(a):
            if below(b, a):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), src, None, dst)
            if self._seen(b) and not self._is_folder(b):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), src, None, dst)
            if self._seen(b) and self.listdir(b):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), src, None, dst)
            self._rename_folder(a, b, dst)
        elif self._is_folder(b):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), src, None, dst)
        else:
            self._rename_file(a, b, dst)

    def _rename_file(self, a: str, b: str, dst: Path) -> None:
        if (a not in self.files and b not in self.files and b not in self.gone and not self._protected(a) and not self._protected(b)
                and self._cached(b)):
            _rename(a, b)
            self.made.discard(a)
            self.made.add(b)
            return
        self.note("os.rename", dst)
        self.watch.file(b)
        if b in self.files:
            self._drop(b)
        if a in self.files:
            self.files[b] = self.files.pop(a)
            if a in self.links:
                self.links[b] = self.links.pop(a)
        elif os.path.islink(a):
            self._hold_link(b, _readlink(a))
        elif self._protected(a):
            self.watch.file(a)
            self.files[b] = a
        else:
            with self.inside():
                shutil.move(a, self._new(b))
            self.made.discard(a)
        if self._protected(a):
            self.gone.add(a)
        elif self._lexists(a):
            _remove(a)

    def _rename_folder(self, a: str, b: str, dst: Path) -> None:
        """A folder that the script made is renamed for real; one that was there before stays, and each of its files is
        seen in a new one."""
        if not self._protected(a) and not self._lexists(b):
            def moved(path: str) -> str:
                return b + path[len(a):] if below(path, a) else path

            for folder in filter(lambda f: below(f, a), self.made_folders):
                self.on_folder(moved(folder))
            _rename(a, b)
            self.made_folders[:] = map(moved, self.made_folders)
            self.made = set(map(moved, self.made))
            self.gone = set(map(moved, self.gone))
            self.files = {moved(path): scratch for path, scratch in self.files.items()}
            self.links = {moved(path): target for path, target in self.links.items()}
            return
        names = self.listdir(a)
        if len(names) + len(self.files) > _MOST:
            raise PermissionError(errno.EROFS, "plimsoll holds back renaming a folder that was there before, and follows no more than "
                                  "%d files" % _MOST, dst)
        with self.calling("os.rename", dst):
            if not self._seen(b):
                self.mkdir(b)
            for name in names:
                c, d = os.path.join(a, name), os.path.join(b, name)
                if self._is_folder(c):
                    self._rename_folder(c, d, dst)
                else:
                    self._rename_file(c, d, dst)
            self.rmdir(a)

    def mkdir(self, path: Path, mode: int = 0o777, *, dir_fd: Optional[int] = None) -> None:
        path = joined(path, dir_fd)
        real = self._real(path, follow=False)
        if real in self.files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if os.path.dirname(real) in self.gone:
            raise no_file(path)
        if real in self.gone:
            if not stat.S_ISDIR(_lstat(real).st_mode):
                raise PermissionError(errno.EROFS, "plimsoll holds back making a folder in place of a file that was there before", path)
            self.gone.discard(real)  # what it held stays gone
            return
        _mkdir(self._through(path, real), mode)
        self.made_folders.append(real)
        if self.cover is None:
            self.on_folder(real)

    def rmdir(self, path: Path, *, dir_fd: Optional[int] = None) -> None:
        path = joined(path, dir_fd)
        real = self._real(path, follow=False)
        if real in self.gone:
            raise no_file(path)
        if self.cover is not None and self.cover.holds(real):
            if self._is_folder(real) and not _listdir(real) and self._protected(real):
                self.note("os.rmdir", path)
            _rmdir(real)
            self.touched.add(real)
            if real in self.made_folders:
                self.made_folders.remove(real)
            return
        if real in self.files or not self._is_folder(real):
            _rmdir(self.files.get(real, real))  # says what is wrong
        elif self.listdir(real):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        elif self._protected(real):
            self.note("os.rmdir", path)
            self.gone.add(real)
        else:
            _rmdir(real)
            if real in self.made_folders:
                self.made_folders.remove(real)

    def _free(self, path: Path) -> str:
        """The real path of what is to be made there."""
        real = self._real(path, follow=False)
        if self._seen(real):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if not self._is_folder(os.path.dirname(real)):
            raise no_file(path)
        return real

    def symlink(self, src: Path, dst: Path, target_is_directory: bool = False, *, dir_fd: Optional[int] = None) -> None:
        dst = joined(dst, dir_fd)
        real = self._free(dst)
        if self._passes("os.symlink", dst, real):
            _symlink(src, real)
            return
        if self._cached(real) and real not in self.gone and not self.links:
            if self._real(os.path.join(os.path.dirname(real), os.fsdecode(src))) not in self.files:
                _symlink(src, dst)
                self.made.add(real)
                return
        self.note("os.symlink", dst)
        self._hold_link(real, os.fsdecode(src))

    def link(self, src: Path, dst: Path, *, src_dir_fd: Optional[int] = None, dst_dir_fd: Optional[int] = None,
             follow_symlinks: bool = True) -> None:
        """What was there before gets no second name: writing by that would change it. A copy stands for it."""
        src, dst = joined(src, src_dir_fd), joined(dst, dst_dir_fd)
        real, leads = self._free(dst), self._real(src, follow_symlinks)
        if not self._seen(leads):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), src, None, dst)
        if self._is_folder(leads):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), src, None, dst)
        if self._passes("os.link", dst, leads, real):
            _link(leads, real)
            return
        if self._cached(real) and real not in self.gone and leads not in self.files:
            if self._protected(leads):
                self._copy(leads, real)
            else:
                _link(leads, real)
            self.made.add(real)
            return
        self.note("os.link", dst)
        self.files[real] = self.files.get(leads, leads)
        if leads in self.links:
            self.links[real] = self.links[leads]

    def _names(self, path: Path) -> Tuple[str, Dict[str, str], Set[str]]:
        """A folder, its files that something stands for, and its names that are gone."""
        folder = self._real((of_open_file(path) or ".") if isinstance(path, int) else path)
        if folder in self.gone:
            raise no_file(path)
        added = {os.path.basename(f): s for f, s in self.files.items() if os.path.dirname(f) == folder}
        return folder, added, {os.path.basename(f) for f in self.gone if os.path.dirname(f) == folder}

    def listdir(self, path: Path = ".") -> Any:
        if not (self.files or self.gone):
            return _listdir(path)
        path = "." if path is None else path
        folder, added, gone = self._names(path)
        names = [n for n in _listdir(folder) if n not in gone and n not in added] + list(added)
        return [os.fsencode(n) for n in names] if isinstance(path, bytes) else names

    def scandir(self, path: Path = ".") -> Any:
        if not (self.files or self.gone):
            return _scandir(path)
        path = "." if path is None else path
        folder, added, gone = self._names(path)
        given: Any = "" if isinstance(path, int) else os.fspath(path)
        coded: Callable[[str], Any] = os.fsencode if isinstance(given, bytes) else str
        with _scandir(path if isinstance(path, int) else self._through(path, folder)) as entries:
            left: List[Any] = [e for e in entries if os.fsdecode(e.name) not in gone and os.fsdecode(e.name) not in added]
        return Listing(left + [Entry(os.path.join(given, coded(n)), s) for n, s in added.items()])

    # ---- what passed by the functions above ----

    # Of an event: the paths that it would change, as (argument, argument with the folder it is meant from, or -1), and
    # whether of a link it is the file that it leads to.
    _CHANGES = {
        "open": (((0, -1),), True), "os.truncate": (((0, -1),), True), "os.remove": (((0, 1),), False), "os.rmdir": (((0, 1),), False),
        "os.rename": (((0, 2), (1, 3)), False), "os.link": (((0, 2),), True), "os.chmod": (((0, 2),), True),
        "os.chown": (((0, 3),), True), "os.utime": (((0, 3),), True), "os.setxattr": (((0, -1),), True),
        "os.removexattr": (((0, -1),), True), "sqlite3.connect": (((0, -1),), True),
    }
    _PROGRAMS = {"subprocess.Popen": 1, "os.system": 0, "os.posix_spawn": 1}  # the argument that says which

    def _audit(self, event: str, args: Tuple[Any, ...]) -> None:
        if event in self._CHANGES:
            if self.applies():
                self._refuse_change(event, args)
        elif event in self._PROGRAMS:
            if self.applies():
                self.watch.program(args[self._PROGRAMS[event]])
        elif event == "os.exec" and self.applies():
            raise PermissionError(errno.EPERM, "plimsoll does not let a script become another program", args[0])

    def _refuse_change(self, event: str, args: Tuple[Any, ...]) -> None:
        if event == "open" and not (isinstance(args[2], int) and args[2] & _WRITES):
            return
        changed, follow = self._CHANGES[event]
        for place, folder in changed:
            path = args[place]
            if isinstance(path, int):  # an open file: it was looked at when it was opened, but for its attributes
                path = of_open_file(path) if event not in ("open", "os.truncate") else None
            if not isinstance(path, (str, bytes, os.PathLike)) or (event == "sqlite3.connect" and path in (":memory:", "")):
                continue
            name = os.path.abspath(os.fsdecode(joined(path, args[folder] if folder > 0 else None)))
            real = self._real(name, follow)
            if self.cover is not None and self.cover.holds(real):
                continue
            if (self._special(name) and not self._leaves(name, real)) or not self._protected(real):
                if event == "open" and not self._lexists(real):
                    self.made.add(real)
                continue
            if event == "open" and not stat.S_ISREG(_stat(real).st_mode):
                continue
            raise PermissionError(errno.EROFS, "plimsoll holds back changing a file that was there before", path)
