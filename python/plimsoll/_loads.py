"""torch.load under the recorder: what a file has for the CPU is read for real, what goes to the card is fake there.

PyTorch's own load makes fake tensors of everything where fake tensors are in use, and on no card. Here the file is read
as it is without a recorder, on the CPU; tensors that the file or map_location has on a card are then moved there, which
is recorded, and parameters become fake ones, as all are. A file larger than its share of the machine's free memory, and
one that cannot be read so, is left to PyTorch's way.
"""
from __future__ import annotations

import os
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from ._record import HOST_SHARE, Recording, free_memory


def _place(map_location: Any, storage: Any, location: str) -> str:
    """The device that a storage of the file is wanted on."""
    if map_location is None:
        return location
    if isinstance(map_location, dict):
        return str(map_location.get(location, location))
    if not callable(map_location):
        return str(map_location)
    try:
        made = map_location(storage, location)
    except Exception:  # lambda storage, location: storage.cuda()
        return "cuda"
    return location if made is None else str(made.device)


class _Placed:
    """A loaded structure with its tensors where they belong."""

    def __init__(self, places: dict[int, str]) -> None:
        self.places = places
        self.moved: dict[int, tuple[Any, Any]] = {}  # a tensor's identity: it, held, and what stands for it

    def tensor(self, t: Any) -> Any:
        if id(t) not in self.moved:
            made = t
            if isinstance(t, torch.nn.Parameter):
                made = torch.nn.Parameter(t.data, t.requires_grad)  # fake, on the CPU
            if not isinstance(t, FakeTensor) and t.layout == torch.strided:
                place = self.places.get(t.untyped_storage()._cdata, "cpu")
                if place.startswith("cuda"):
                    with torch.no_grad():
                        made = made.to(place).requires_grad_(t.requires_grad) if not isinstance(made, torch.nn.Parameter) else torch.nn.Parameter(
                            made.data.to(place), t.requires_grad)
            self.moved[id(t)] = t, made
        return self.moved[id(t)][1]

    def all(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, torch.nn.Module):
            for module in value.modules():
                for table in (module._parameters, module._buffers):
                    for name, tensor in table.items():
                        if tensor is not None:
                            table[name] = self.tensor(tensor)
        elif isinstance(value, dict):
            for key in value:
                value[key] = self.all(value[key])
        elif isinstance(value, list):
            value[:] = [self.all(v) for v in value]
        elif type(value) is tuple:
            return tuple(self.all(v) for v in value)
        return value


def install(recording: Recording, patch: Callable[[Any, str, Any], None]) -> None:
    original = torch.load

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        path = f if isinstance(f, (str, os.PathLike)) else None
        at = f.tell() if path is None and hasattr(f, "tell") else None
        places: dict[int, str] = {}
        kept: list[Any] = []  # storages: an address is one storage's as long as it lives

        def here(storage: Any, location: str) -> Any:
            untyped = storage._untyped_storage if hasattr(storage, "_untyped_storage") else storage
            places[untyped._cdata] = _place(map_location, storage, location)
            kept.append(untyped)
            return storage

        try:
            if path is not None and os.path.getsize(path) > HOST_SHARE * free_memory():
                raise MemoryError
            with _disable_current_modes():
                value = original(f, here, *args, **kwargs)
        except Exception:
            if at is not None:
                f.seek(at)
            return original(f, map_location, *args, **kwargs)
        return _Placed(places).all(value)

    patch(torch, "load", load)
    patch(torch.serialization, "load", load)
