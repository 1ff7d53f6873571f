"""Builds the C side for the wheel: libplimsoll, its laboratory and the command, which is the wheel's script.

The C sources lie one folder above this one; in an sdist, which this file fills, in its folder source. Meson
builds them in a temporary folder, so that nothing is written beside the sources; PLIMSOLL_BUILD names a build folder
that is there already (`ninja -C build wheel` sets it). Meson and ninja come from the index where the machine has none.
What is missing besides ends the build with a line that says how to get it. An editable install builds nothing: it finds
the repository's build folder by itself.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What the C side is built of, from the repository's root.
SOURCES = ("meson.build", "meson_options.txt", "LICENSE", "plimsoll.map", "lab.map", "live.map", "include", "src", "lab", "cli", "models",
           "completions", "docs/man", "tools/gpus.awk", "tools/embed.sh", "tools/wheel.sh", "tools/calibrate/features.c",
           "tools/calibrate/untold.c", "tools/workspace/requests.c")
LIBRARIES = re.compile(r"lib(plimsoll|plimsoll-lab)\.(so\.\d+|\d+\.dylib)")  # by the name they are loaded under

# libz.so.1 is every manylinux's, but not with every symbol: the first glibc 2.N whose policy has them.
ZLIB = {b"ZLIB_1.2.7.1": 27, b"ZLIB_1.2.9": 27, b"ZLIB_1.2.12": 37}

# What Meson or the compiler say where something is missing: what it is, and how to get it.
MISSING = (
    (r"Dependency \"?zlib\"? not found|zlib\.h", "zlib's headers: apt-get install zlib1g-dev (Debian, Ubuntu), dnf install zlib-devel "
     "(Fedora, RHEL), conda install zlib"),
    (r"Unknown compiler|Unable to detect linker|cannot compile programs|sanity check|crt1\.o|stdio\.h: No such file",
     "a C compiler that works, and the C library's headers: apt-get install gcc libc6-dev (Debian, Ubuntu), dnf install gcc "
     "glibc-devel (Fedora, RHEL), conda install gcc; CC names another"),
    (r"Program 'awk' not found|Program awk not found", "awk: apt-get install mawk (Debian, Ubuntu), dnf install gawk (Fedora, RHEL)"),
    (r"Meson version is|but project requires >=", "Meson 1.0 or newer: pip install meson"),
    (r"No space left on device", "space in the folder for temporary files: TMPDIR names another"),
)


def end(reason, log=""):
    """Ends the build: what was printed, then the reason in the last line."""
    sys.exit("%s\nplimsoll: the library and the command could not be built: %s" % (log, reason))


def call(*command, cwd=None):
    try:
        done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    except OSError as problem:
        end("%s: %s" % (command[0], problem))
    if done.returncode:
        why = next((need for pattern, need in MISSING if re.search(pattern, done.stdout)), "")
        end("missing is " + why if why else "%s failed, as shown above" % shlex.join(command), done.stdout)


def tools():
    """Meson and ninja, which pip brings where the machine has none; a C compiler, which it cannot."""
    for name, how in (("meson", "pip install meson, or apt-get install meson"), ("ninja", "pip install ninja, or apt-get install ninja-build")):
        if not shutil.which(name):
            end("missing is %s: %s" % (name, how))
    compiler = shlex.split(os.environ.get("CC", "")) or [name for name in ("cc", "gcc", "clang", "icx") if shutil.which(name)][:1]
    if not compiler or not shutil.which(compiler[0]):
        named = "CC names %s, which is not there; " % compiler[0] if compiler else ""
        end(named + "missing is " + MISSING[1][1])


def install(build, stage):
    """What `meson install` puts where, without debugging information."""
    call("meson", "install", "-C", str(build), "--no-rebuild", "--strip", "--quiet", "--destdir", str(stage))
    command = [path for path in stage.rglob("plimsoll") if path.parent.name == "bin" and path.is_file()]
    libraries = {path.name: path.resolve() for path in stage.rglob("lib*") if LIBRARIES.fullmatch(path.name)}
    if len(command) != 1 or not libraries:
        end("%s holds no libplimsoll and plimsoll" % build)
    return command[0], libraries


def platform(paths):
    """The wheel's platform: on Linux with glibc the oldest one that has every symbol these files want (PEP 600)."""
    machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    wanted = {name for path in paths for name in re.findall(rb"\0((?:GLIBC|ZLIB)_[0-9.]+)(?=\0)", path.read_bytes())}
    glibc = [int(name.split(b".")[1]) for name in wanted if name.startswith(b"GLIBC_2.")]
    if not machine.startswith("linux_") or not glibc:  # musl: this machine's alone
        return machine
    return "manylinux_2_%d_%s" % (max([17, *glibc, *(ZLIB[name] for name in wanted & set(ZLIB))]), machine[len("linux_"):])


class LibraryHook(BuildHookInterface):
    def dependencies(self):
        if self.target_name != "wheel" or os.environ.get("PLIMSOLL_BUILD"):
            return []
        return [need for name, need in (("meson", "meson>=1.0"), ("ninja", "ninja>=1.10")) if not shutil.which(name)]

    def sources(self):
        for folder in (Path(self.root, "source"), Path(self.root).parent):
            if (folder / "meson.build").is_file() and (folder / "plimsoll.map").is_file():
                return folder
        end("the C sources are not beside %s: install from a checkout of the repository or from an sdist, with pip 21.3 or newer, "
            "which does not copy this folder elsewhere" % self.root)

    def initialize(self, version, build_data):
        if version == "editable":
            return
        if self.target_name == "sdist":
            folder = self.sources()
            build_data["force_include"].update({str(folder / name): "source/" + name for name in SOURCES})
            return
        self.scratch = tempfile.TemporaryDirectory(prefix="plimsoll-")
        work = Path(self.scratch.name)
        named, source = os.environ.get("PLIMSOLL_BUILD"), self.sources()
        build = Path(named) if named else work / "build"
        if not named:
            tools()
            call("meson", "setup", str(build), str(source), "-Dtests=false", "-Dlab=auto", "-Dserve=disabled", "-Dslurm=disabled",
                 "-Ddebug=false")
            call("ninja", "-C", str(build))
        command, libraries = install(build, work / "stage")
        build_data["shared_scripts"][str(command)] = command.name
        build_data["force_include"].update({str(path): "plimsoll/" + name for name, path in libraries.items()})
        build_data["extra_metadata"][str(source / "LICENSE")] = "LICENSE"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + platform([command, *libraries.values()])

    def finalize(self, version, build_data, artifact_path):
        if hasattr(self, "scratch"):
            self.scratch.cleanup()
