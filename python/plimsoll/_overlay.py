"""A script's view of the file system while it runs: the kernel lays a scratch folder over every folder of the machine.

Linux gives a process a mount namespace of its own, and overlayfs a folder in which what is written goes elsewhere. With
both, nothing that the script, its native libraries or the programs it starts write, rename or delete reaches the disk,
and all of them see it as if it had: the second wall behind _scratch.py, which knows only what Python's functions do.
What is written is kept in memory (a tmpfs of at most half of what is free). Caches stay as they are, so that a download
is made once, and so do /proc, /sys, /dev and /run; what cannot be overlaid is made read-only. What is mounted inside of a
folder is hidden by that folder's overlay, and gets one of its own; the root itself cannot be overlaid.

Needs Linux 5.11 and the right to make a namespace: root's, or that of any user where the system grants it. Containers
mostly do not, nor does Ubuntu from 24.04 on; `enter` then raises OSError, and _scratch.py is the only wall.
"""
from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import shutil
from typing import Dict, List, Sequence, Tuple

from ._entries import below

NEWNS, NEWUSER = 0x20000, 0x10000000
RDONLY, REMOUNT, BIND, REC, PRIVATE = 1, 32, 4096, 16384, 1 << 18
# Flags of a mount that a namespace may not take away: options of mountinfo.
LOCKED = {"nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}
LEFT = ("/proc", "/sys", "/dev", "/run")  # no files of the user's: devices, sockets, the kernel's own
SYSTEMS = ("proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2")  # the same, wherever they are mounted
MOST = 200  # overlays
MOST_CHANGED = 1000  # files that are listed


class Cover:
    """What `enter` made. folders: overlaid; kept: real and writable, though below one of those. store: the open folder
    with what was written, by the folder's number."""

    def __init__(self, folders: Sequence[str], kept: Sequence[str], store: int = -1) -> None:
        self.folders, self.kept, self._store = list(folders), list(kept), store

    def changed(self) -> List[str]:
        """Files that were written, made or deleted."""
        found = []
        for number, folder in enumerate(self.folders):
            upper = "/proc/self/fd/%d/%d/upper" % (self._store, number)
            for where, _, names in os.walk(upper):
                found += [os.path.normpath(os.path.join(folder, os.path.relpath(where, upper), name)) for name in names]
                if len(found) > MOST_CHANGED:
                    return found
        return found

    def holds(self, real: str) -> bool:
        """Whether what is written there goes to the scratch folder."""
        held = max((len(f) for f in self.folders if below(real, f)), default=-1)
        return held > max((len(k) for k in self.kept if below(real, k)), default=-1)


def _mounts() -> Dict[str, Tuple[str, List[str]]]:
    """Where something is mounted: kind of file system and options; of several in one place, the last."""
    found = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            fields = before.split()
            point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), fields[4])
            found[point] = (after.split()[0], fields[5].split(","))
    return found


class _System:
    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)

    def _done(self, result: int, what: str) -> None:
        if result:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), what)

    def unshare(self, flags: int) -> None:
        self._done(self.libc.unshare(flags), "unshare")

    def mount(self, source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
        self._done(self.libc.mount(os.fsencode(source), os.fsencode(target), os.fsencode(kind) or None, ctypes.c_ulong(flags),
                                   os.fsencode(options) or None), target)


def _own_namespace(system: _System) -> bool:
    """This process sees mounts of its own from now on. Whether it had to become a user namespace's root for that."""
    try:
        system.unshare(NEWNS)
        return False
    except OSError as problem:
        if problem.errno != errno.EPERM:
            raise
    user, group = os.geteuid(), os.getegid()
    system.unshare(NEWUSER | NEWNS)
    for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (user, user)), ("gid_map", "%d %d 1" % (group, group))):
        with open("/proc/self/" + name, "w") as out:
            out.write(text)
    return True


def _room() -> int:
    with open("/proc/meminfo") as lines:
        for line in lines:
            if line.startswith("MemAvailable"):
                return int(line.split()[1]) * 1024 // 2
    return 1 << 30


def enter(folder: str, homes: Sequence[str], caches: Sequence[str]) -> Cover:
    """Puts this process, which must have one thread, into such a namespace. folder: an empty one that nobody else uses.
    homes: folders that must be overlaid, even below a cache. OSError: this system does not let it."""
    system = _System()
    here = os.getcwd()
    owner = _own_namespace(system)
    system.mount("none", "/", flags=REC | PRIVATE)
    system.mount("plimsoll", folder, "tmpfs", options="mode=0700,size=%d" % _room())
    mounts = _mounts()
    mounts.pop(os.path.realpath(folder), None)
    layers: List[str] = []
    store = os.open(folder, os.O_RDONLY)  # the tmpfs, also when its own folder is overlaid
    real = {c for c in map(os.path.realpath, caches) if os.path.isdir(c) and c not in homes and not any(below(c, left) for left in LEFT)}
    kept: List[str] = []
    before: Dict[str, int] = {}  # what lies there before anything is laid over it or over a folder above
    try:
        for path in (*mounts, *real, *homes):
            if path not in before and not any(below(path, left) for left in LEFT if path not in homes):
                with contextlib.suppress(OSError):
                    before[path] = os.open(path, os.O_PATH)

        def lay(path: str) -> bool:
            if len(layers) >= MOST:
                return False
            place = "/proc/self/fd/%d/%d" % (store, len(layers))
            lower = before[path] if path in before else os.open(path, os.O_PATH)  # by number: names may have commas and colons
            try:
                os.makedirs(place + "/upper", mode=0o755)
                os.mkdir(place + "/work")
                options = "lowerdir=/proc/self/fd/%d,upperdir=%s/upper,workdir=%s/work%s" % (lower, place, place, ",userxattr" if owner else "")
                system.mount("plimsoll", path, "overlay", options=options)
                os.chmod(place + "/upper", os.fstat(lower).st_mode & 0o7777)
            except OSError:
                shutil.rmtree(place, ignore_errors=True)
                return False
            finally:
                if path not in before:
                    os.close(lower)
            layers.append(path)
            return True

        def cover(path: str) -> None:
            if path in LEFT or mounts.get(path, ("",))[0] in SYSTEMS:
                return
            if path != "/" and lay(path):
                return
            if path == "/" or any(m != path and below(m, path) for m in mounts):
                try:
                    with os.scandir(path) as entries:
                        folders = [e.path for e in entries if e.is_dir(follow_symlinks=False)]
                except OSError:
                    return
                for inner in sorted(folders):
                    cover(inner)

        cover("/")
        for path, fd in sorted(before.items()):  # a folder before what is below it
            covered = Cover(layers, kept).holds(path)
            if path in real:
                if covered:  # with what is mounted in it
                    system.mount("/proc/self/fd/%d" % fd, path, flags=BIND | REC)
                kept.append(path)
            elif path in homes:
                # Nothing seen from the root on is changed by what is laid over the root.
                if path == "/" or ((path in mounts or not covered) and path not in layers and not lay(path)):
                    raise OSError(errno.EPERM, "cannot be overlaid", path)
            elif covered and path not in layers and (mounts[path][0] in SYSTEMS or not os.path.isdir("/proc/self/fd/%d" % fd) or not lay(path)):
                system.mount("/proc/self/fd/%d" % fd, path, flags=BIND)
                kept.append(path)  # read-only from below on
            os.close(fd)
    except BaseException:
        os.close(store)
        raise
    for point, (kind, options) in mounts.items():
        if not any(below(point, left) for left in LEFT) and "ro" not in options and point not in layers and point not in real and (
                not any(below(point, c) for c in real) or Cover(layers, kept).holds(point)):
            flags = sum(bit for word, bit in LOCKED.items() if word in options)
            try:
                system.mount("none", point, flags=REMOUNT | BIND | RDONLY | flags)
            except OSError:
                continue  # overlaid as part of another, or not to be changed
    os.chdir(here)
    return Cover(layers, kept, store)
