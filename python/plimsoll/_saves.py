"""torch.save and its like, in a script that runs under fake tensors: they write to the scratch folder alone.

A fake tensor holds no numbers, so a checkpoint of them is worth nothing outside the run. Inside it a script may load
what it saved (the best weights so far), so the functions here keep the objects by pickle, a fake tensor as its shape,
type and device, in the file of the scratch folder that stands for the script's (_scratch.py). torch.load and
safetensors' load_file read those. Whatever ends in these functions or in Python's open is covered with them:
save_pretrained, Trainer.save_model, Lightning's save_checkpoint, torch.distributed.checkpoint.

What native code of PyTorch and Python writes by a path (archives of torch.package, profiles, mapped storages, databases
of sqlite3) is given one in the scratch folder. Formats of torch.jit.save, torch.export.save and torch.onnx.export can be
saved to, with no effect, and not be loaded.
"""
from __future__ import annotations

import importlib
import importlib.util
import io
import os
import pickle
import shutil
import sys
import threading
import types
import urllib.parse
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ._scratch import Scratch

MAGIC = b"plimsoll scratch\n"

_state = threading.local()  # map: where torch.load wants tensors; saving: whether torch.save is in use by pickle itself


def _remade(sizes: Any, strides: Any, dtype: torch.dtype, device: str, requires_grad: bool, is_parameter: bool) -> torch.Tensor:
    """A fake tensor read back: in the run, another fake one."""
    wanted = getattr(_state, "map", None)
    tensor = torch.empty_strided(sizes, strides, dtype=dtype, device=device if wanted is None else wanted)
    return torch.nn.Parameter(tensor, requires_grad) if is_parameter else tensor.requires_grad_(requires_grad)


def _reduced(tensor: FakeTensor, protocol: Any) -> Any:
    if sys._getframe(1).f_code.co_filename.endswith("copy.py"):  # copy.copy shares the storage
        return torch.Tensor.__reduce_ex__(tensor, protocol)
    return _remade, (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.fake_device.type,
                     tensor.requires_grad and tensor.is_leaf, isinstance(tensor, torch.nn.Parameter))


def _kept(sizes: Any, dtype: torch.dtype, content: bytes) -> torch.Tensor:
    """A real tensor read back, with its numbers, which no fake mode sees."""
    with torch._C._DisableTorchDispatch():
        return torch.frombuffer(bytearray(content), dtype=dtype).reshape(sizes) if content else torch.empty(sizes, dtype=dtype)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if type(value) is not torch.Tensor or value.device.type != "cpu" or value.layout is not torch.strided:
            return NotImplemented
        with torch._C._DisableTorchDispatch():
            flat = value.detach().reshape(-1).contiguous()
            return _kept, (tuple(value.shape), value.dtype, flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")


def _bytes(value: Any) -> bytes:
    """The object, kept for this run; what Python cannot pickle is left out."""
    content = io.BytesIO()
    _state.saving = True
    try:
        _Pickler(content).dump(value)
    except Exception:
        return MAGIC
    finally:
        _state.saving = False
    return MAGIC + content.getvalue()


def _value(content: bytes, device: Any = None) -> Any:
    if content == MAGIC:
        raise RuntimeError("plimsoll did not keep what the script saved here: it cannot be pickled")
    _state.map = torch.device(device).type if isinstance(device, (str, torch.device)) else None
    try:
        return pickle.loads(content[len(MAGIC):])
    finally:
        _state.map = None


def _is_path(where: Any) -> bool:
    return isinstance(where, (str, os.PathLike))


def _read(where: Any) -> bytes | None:
    """What a function here wrote to that path or open file; None where it was another."""
    try:
        if _is_path(where):
            with open(where, "rb") as file:
                return file.read() if file.read(len(MAGIC)) == MAGIC and file.seek(0) == 0 else None
        at = where.tell()
        if where.read(len(MAGIC)) == MAGIC:
            return MAGIC + bytes(where.read())
        where.seek(at)
    except (OSError, AttributeError, ValueError, TypeError):
        pass
    return None


class _Slice:
    """What safe_open(...).get_slice() gives, of a tensor that is there."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self._tensor[index]

    def get_shape(self) -> list[int]:
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        return _NAMES.get(self._tensor.dtype, str(self._tensor.dtype)[len("torch."):].upper())


# safetensors' names of types that do not follow from PyTorch's.
_NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.int32: "I32",
          torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL", torch.float8_e4m3fn: "F8_E4M3",
          torch.float8_e5m2: "F8_E5M2"}


class _Opened:
    """What safetensors.safe_open gives, of a file that a function here wrote. What was saved beside the tensors is not kept."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        self._tensors = tensors

    def __enter__(self) -> "_Opened":
        return self

    def __exit__(self, *exc: Any) -> None: ...

    def keys(self) -> list[str]:
        return sorted(self._tensors)

    offset_keys = keys

    def metadata(self) -> dict[str, str]:
        return {"format": "pt"}

    def get_tensor(self, name: str) -> torch.Tensor:
        return self._tensors[name]

    def get_tensors(self, names: Any) -> dict[str, torch.Tensor]:
        return {name: self._tensors[name] for name in names}

    def get_slice(self, name: str) -> _Slice:
        return _Slice(self._tensors[name])


class Saves:
    """`Saves(scratch).install()` while the scratch folder is entered."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch

    def write(self, function: str, where: Any, value: Any) -> None:
        """value to a path or an open file, under that function's name."""
        if _is_path(where):
            with self.scratch.calling(function, where, forced=True), open(where, "wb") as file:
                file.write(_bytes(value))
        else:
            where.write(_bytes(value))
            self.scratch.saved_to(function, where)

    def saver(self, function: str, what: int = 0, where: int = 1, names: tuple[str, str] = ("obj", "f")) -> Callable[..., None]:
        """A function that saves its argument `what` to its argument `where`."""
        def save(*args: Any, **kwargs: Any) -> None:
            value = args[what] if what < len(args) else kwargs.get(names[0])
            self.write(function, args[where] if where < len(args) else kwargs.get(names[1]), value)
        return save

    def emptied(self, function: str, where: int, name: str, result: Any = None) -> Callable[..., Any]:
        """A function that saves what cannot be read back."""
        def save(*args: Any, **kwargs: Any) -> Any:
            target = args[where] if where < len(args) else kwargs.get(name)
            if target is not None:
                self.write(function, target, None)
            return result
        return save

    def elsewhere(self, owner: Any, attribute: str, function: str, where: int = 0, name: str = "") -> None:
        """owner.attribute, which writes to its argument `where`, writes to the scratch folder."""
        real = getattr(owner, attribute)

        def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) > where and _is_path(args[where]):
                args = (*args[:where], self.scratch.standin(function, args[where]), *args[where + 1:])
            elif _is_path(kwargs.get(name)):
                kwargs[name] = self.scratch.standin(function, kwargs[name])
            return real(*args, **kwargs)

        self.scratch.replace(owner, attribute, call)

    def install(self) -> None:
        put = self.scratch.replace
        real_save, real_load, real_dump = torch.save, torch.load, pickle.dump
        save = self.saver("torch.save")

        def torch_save(*args: Any, **kwargs: Any) -> None:
            (real_save if getattr(_state, "saving", False) else save)(*args, **kwargs)

        def torch_load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
            content = _read(f)
            return real_load(f, map_location, *args, **kwargs) if content is None else _value(content, map_location)

        def dump(obj: Any, file: Any, *args: Any, **kwargs: Any) -> None:
            real_dump(obj, file, *args, **kwargs)
            self.scratch.saved_to("pickle.dump", file)

        setattr(FakeTensor, "__reduce_ex__", _reduced)
        for owner in (torch, torch.serialization):
            put(owner, "save", torch_save)
            put(owner, "load", torch_load)
        put(pickle, "dump", dump)
        script = torch.jit._script.RecursiveScriptModule
        for owner, name, mine in (
                (torch.jit, "save", self.emptied("torch.jit.save", 1, "f")),
                (torch._C.ScriptModule, "save", self.emptied("ScriptModule.save", 1, "filename")),
                (torch._C.ScriptModule, "_save_for_mobile", self.emptied("ScriptModule._save_for_lite_interpreter", 1, "filename")),
                (torch._C.ScriptFunction, "save", self.emptied("ScriptFunction.save", 1, "filename")),
                (script, "save", self.emptied("ScriptModule.save", 1, "f")),
                (torch.export, "save", self.emptied("torch.export.save", 1, "f")),
                (torch.onnx, "export", self.emptied("torch.onnx.export", 2, "f", types.SimpleNamespace(
                    save=self.emptied("ONNXProgram.save", 0, "destination"))))):
            put(owner, name, mine)
        self._archives()
        self._mapped_files()
        self.elsewhere(torch._C._autograd._ProfilerResult, "save", "profile.export_chrome_trace", 1)
        for owner in (torch._C._profiler, importlib.import_module("torch.profiler.profiler")):
            if hasattr(owner, "_add_execution_trace_observer"):
                self.elsewhere(owner, "_add_execution_trace_observer", "ExecutionTraceObserver.register_callback")
        self._numpy()
        self._safetensors()
        self._sqlite()
        self._spawned()

    def _archives(self) -> None:
        """The zip archives of PyTorch's native code: torch.package, torch.export. Of a fake tensor's storage it writes nothing."""
        scratch = self.scratch

        class Writer(torch._C.PyTorchFileWriter):
            def __init__(self, file: Any, *args: Any, **kwargs: Any) -> None:
                if _is_path(file) and scratch.applies():
                    file = scratch.standin("PyTorchFileWriter", file)
                super().__init__(file, *args, **kwargs)

            def write_record(self, name: str, data: Any, *size: Any, **kwargs: Any) -> None:
                if isinstance(data, (str, bytes)) or not scratch.applies():
                    super().write_record(name, data, *size, **kwargs)
                else:  # a storage, or its address
                    super().write_record(name, b"", 0)

        class Reader(torch._C.PyTorchFileReader):
            def __init__(self, file: Any, *args: Any, **kwargs: Any) -> None:
                if _is_path(file) and scratch.applies():
                    file = os.fspath(scratch.place_to_read(file))
                super().__init__(file, *args, **kwargs)

        setattr(torch._C, "PyTorchFileWriter", Writer)
        setattr(torch._C, "PyTorchFileReader", Reader)
        exporter = importlib.import_module("torch.package").PackageExporter
        self.scratch.replace(exporter, "__init__", self._packaged(exporter.__init__))

    def _packaged(self, real: Callable[..., None]) -> Callable[..., None]:
        def init(this: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            with self.scratch.calling("torch.package.PackageExporter", f if _is_path(f) else None):
                real(this, f, *args, **kwargs)
        return init

    def _mapped_files(self) -> None:
        """Storages and tensors whose memory is a file: a shared one is a copy of it."""
        def mapped(function: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def call(filename: Any, shared: Any = False, *args: Any, **kwargs: Any) -> Any:
                place = self.scratch.standin(function, filename, keeps=True) if shared else os.fspath(self.scratch.place_to_read(filename))
                return real(place, shared, *args, **kwargs)
            return self.scratch.either(real, call)

        setattr(torch.UntypedStorage, "from_file", staticmethod(mapped("UntypedStorage.from_file", torch.UntypedStorage.from_file)))
        setattr(torch, "from_file", mapped("torch.from_file", torch.from_file))

    def _sqlite(self) -> None:
        """A database is a copy of itself."""
        try:
            sqlite3 = importlib.import_module("sqlite3")
        except ImportError:
            return
        real = sqlite3.connect

        def copied(path: str) -> str:
            seen = os.path.exists(path)
            place = self.scratch.standin("sqlite3.connect", path, keeps=True)
            for end in ("-wal", "-journal"):  # what it has not taken in yet
                with self.scratch.inside():
                    if seen and os.path.isfile(path + end) and not os.path.exists(place + end):
                        shutil.copyfile(path + end, place + end)
            return place

        def connect(database: Any, *args: Any, **kwargs: Any) -> Any:
            name = os.fsdecode(database)
            uri = kwargs.get("uri", args[6] if len(args) > 6 else False)
            if uri and name.startswith("file:"):
                parts = urllib.parse.urlsplit(name)
                path = urllib.parse.unquote(parts.path)
                if path and path != ":memory:" and "mode=memory" not in parts.query:
                    place = os.fspath(self.scratch.place_to_read(path)) if "mode=ro" in parts.query else copied(path)
                    name = "file:%s%s" % (urllib.parse.quote(os.path.abspath(place)), "?" + parts.query if parts.query else "")
            elif name not in ("", ":memory:"):
                name = copied(name)
            with self.scratch.inside():
                return real(name, *args, **kwargs)

        for owner in (sqlite3, sqlite3.dbapi2):
            self.scratch.replace(owner, "connect", connect)

    def _spawned(self) -> None:
        """Processes that multiprocessing starts anew: none of these functions is in them."""
        util = importlib.import_module("multiprocessing.util")
        real = util.spawnv_passfds

        def spawn(path: Any, args: Any, passfds: Any) -> Any:
            if not any("resource_tracker" in os.fsdecode(a) for a in args):
                self.scratch.watch.program("python (multiprocessing)")
            return real(path, args, passfds)

        self.scratch.replace(util, "spawnv_passfds", spawn)

    def _numpy(self) -> None:
        if importlib.util.find_spec("numpy") is None:
            return
        numpy = importlib.import_module("numpy")
        source = sys.modules.get("numpy.lib._datasource")
        if hasattr(source, "_open"):  # savetxt binds Python's open
            self.scratch.replace(source, "_open", self.scratch.open)
            if None in getattr(getattr(source, "_file_openers", None), "_file_openers", {}):
                source._file_openers._file_openers[None] = source._open  # type: ignore[union-attr]
        for name in ("save", "savez", "savez_compressed", "savetxt"):
            self.scratch.replace(numpy, name, self.scratch.named("numpy." + name, getattr(numpy, name), forced=True))

    def _safetensors(self) -> None:
        put = self.scratch.replace
        for name in ("torch", "numpy"):
            try:
                module = importlib.import_module("safetensors." + name)
            except ImportError:
                return
            real_file, real_load = module.load_file, module.load

            def load_file(filename: Any, *args: Any, _real: Any = real_file, **kwargs: Any) -> Any:
                content = _read(filename)
                device = args[0] if args else kwargs.get("device")
                return _real(filename, *args, **kwargs) if content is None else _value(content, "cpu" if device is None else device)

            def load(data: bytes, *args: Any, _real: Any = real_load, **kwargs: Any) -> Any:
                return _value(data, "cpu") if data.startswith(MAGIC) else _real(data, *args, **kwargs)

            put(module, "save_file", self.saver("safetensors.%s.save_file" % name, names=("tensors" if name == "torch" else "tensor_dict",
                                                                                        "filename")))
            put(module, "save", lambda tensors, *args, **kwargs: _bytes(tensors))
            put(module, "load_file", load_file)
            put(module, "load", load)
            if name == "torch":
                real_pointer = module.storage_ptr
                put(module, "storage_ptr", lambda t: t.untyped_storage()._cdata if isinstance(t, FakeTensor) else real_pointer(t))
                real_complete = module._is_complete
                put(module, "_is_complete", lambda t: t.nbytes == t.untyped_storage().nbytes() if isinstance(t, FakeTensor) else real_complete(t))
                put(module, "save_model", lambda model, filename, *args, **kwargs: self.write(
                    "safetensors.torch.save_model", filename, dict(model.state_dict())))
        # what is bound to Rust directly
        real_open = sys.modules["safetensors"].safe_open

        def safe_open(filename: Any, framework: Any = "pt", device: Any = "cpu", **kwargs: Any) -> Any:
            content = _read(filename)
            if content is None:
                return real_open(os.fspath(self.scratch.place_to_read(filename)), framework, device=device, **kwargs)
            return _Opened(_value(content, "cpu" if device is None else device))

        for name in ("safetensors", "safetensors.torch"):
            put(sys.modules[name], "safe_open", safe_open)
        put(sys.modules["safetensors"], "serialize_file", self.emptied("safetensors.serialize_file", 1, "filename"))
