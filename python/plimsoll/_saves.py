"""torch.save and its like, in a script that runs under fake tensors: they write to the scratch folder alone.

A fake tensor holds no numbers, so a checkpoint of them is worth nothing outside the run. Inside it a script may load
what it saved (the best weights so far), so the functions here keep the objects by pickle, a fake tensor as its shape,
type and device, in the file of the scratch folder that stands for the script's (_scratch.py). torch.load and
safetensors' load_file read those. Whatever ends in these functions or in Python's open is covered with them:
save_pretrained, Trainer.save_model, Lightning's save_checkpoint, torch.distributed.checkpoint.

Left out: formats that native code writes by itself (torch.jit.save, torch.export.save, torch.onnx.export) can be saved
to, with no effect, and not be loaded.
"""
from __future__ import annotations

import importlib
import importlib.util
import io
import os
import pickle
import sys
import threading
import types
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
                (torch.jit, "save", self.emptied("torch.jit.save", 1, "f")), (script, "save", self.emptied("ScriptModule.save", 1, "f")),
                (torch.export, "save", self.emptied("torch.export.save", 1, "f")),
                (torch.onnx, "export", self.emptied("torch.onnx.export", 2, "f", types.SimpleNamespace(
                    save=self.emptied("ONNXProgram.save", 0, "destination"))))):
            put(owner, name, mine)
        self._numpy()
        self._safetensors()

    def _numpy(self) -> None:
        if importlib.util.find_spec("numpy") is None:
            return
        numpy = importlib.import_module("numpy")
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
                put(module, "save_model", lambda model, filename, *args, **kwargs: self.write(
                    "safetensors.torch.save_model", filename, dict(model.state_dict())))
        # what is bound to Rust directly
        put(sys.modules["safetensors"], "serialize_file", self.emptied("safetensors.serialize_file", 1, "filename"))
