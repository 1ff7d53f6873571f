"""Bundles libplimsoll: a wheel made beside a built repository holds the library, and is this machine's.

The library is PLIMSOLL_LIBRARY (a file or the folder it lies in), or the repository's build folder's. Where
there is neither, the wheel is pure Python and finds an installed library when it is imported.
"""
import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAMES = ("libplimsoll.so", "libplimsoll.dylib", "plimsoll-0.dll")


class LibraryHook(BuildHookInterface):
    def initialize(self, version, build_data):
        if version == "editable":  # it finds the build folder by itself
            return
        named = os.environ.get("PLIMSOLL_LIBRARY")
        place = Path(named) if named else Path(self.root).parent / "build"
        found = [place] if place.is_file() else [place / name for name in NAMES if (place / name).is_file()]
        if not found:
            if named:
                raise FileNotFoundError("PLIMSOLL_LIBRARY: no library at %s" % named)
            return
        path = found[0].resolve()  # libplimsoll.so is a link to libplimsoll.so.0.2.0
        name = next((n for n in NAMES if path.name.startswith(n)), NAMES[0])
        build_data["force_include"][str(path)] = "plimsoll/" + name
        lab = path.with_name(path.name.replace("plimsoll", "plimsoll-lab", 1))
        if lab.is_file():  # the estimators other than sim and hybrid
            build_data["force_include"][str(lab)] = "plimsoll/" + name.replace("plimsoll", "plimsoll-lab", 1)
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + self._platform()

    @staticmethod
    def _platform():
        import sysconfig
        return sysconfig.get_platform().replace("-", "_").replace(".", "_")
