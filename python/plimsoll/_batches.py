"""A DataLoader's workers, one after the other in this process: the same batches, in the same order, without processes.

With num_workers, batch k comes from worker k mod n (torch/utils/data/dataloader.py, read in PyTorch 2.11). A dataset with
an index is shared; of an iterable one each worker has a copy, and goes through it by itself, so that one that splits by
get_worker_info() gives what it would give. worker_init_fn is called for each. The loader itself keeps all of its
settings: frameworks read them to make another of it.

Left out: a worker's own random numbers; prefetching, which takes no memory of the card.
"""
from __future__ import annotations

import contextlib
import copy
from typing import Any, Iterator

import torch
from torch.utils.data import _utils, dataloader

_get_iterator = torch.utils.data.DataLoader._get_iterator


@contextlib.contextmanager
def _as_worker(info: Any) -> Iterator[None]:
    """get_worker_info() answers with it."""
    before, _utils.worker._worker_info = _utils.worker._worker_info, info
    try:
        yield
    finally:
        _utils.worker._worker_info = before


def _copy(dataset: Any) -> Any:
    """A worker's own; one that cannot be copied is shared."""
    for way in (copy.deepcopy, copy.copy):
        with contextlib.suppress(Exception):
            return way(dataset)
    return dataset


class Workers(dataloader._BaseDataLoaderIter):
    """The iterator of a loader with num_workers."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._make(loader)

    def _make(self, loader: Any) -> None:
        self._infos: list[Any] = []
        self._fetchers: list[Any] = []
        iterable = self._dataset_kind == dataloader._DatasetKind.Iterable
        for number in range(self._num_workers):
            dataset = _copy(self._dataset) if iterable else self._dataset
            info = _utils.worker.WorkerInfo(id=number, num_workers=self._num_workers, seed=self._base_seed + number, dataset=dataset)
            with _as_worker(info):
                if loader.worker_init_fn is not None:
                    loader.worker_init_fn(number)
                self._fetchers.append(dataloader._DatasetKind.create_fetcher(self._dataset_kind, dataset, self._auto_collation,
                                                                              loader.collate_fn, self._drop_last))
            self._infos.append(info)
        self._alive = list(range(self._num_workers))
        self._turn = 0

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        if not first_iter:
            self._make(loader)

    def _next_data(self) -> Any:
        index = self._next_index()
        while self._alive:
            number = self._alive[self._turn % len(self._alive)]
            try:
                with _as_worker(self._infos[number]):
                    data = self._fetchers[number].fetch(index)
            except StopIteration:  # of an iterable one: the others go on
                self._turn = self._alive.index(number)
                self._alive.remove(number)
                continue
            self._turn = (self._turn + 1) % len(self._alive)
            return data
        raise StopIteration


def get_iterator(self: Any) -> Any:
    return Workers(self) if self.num_workers > 0 else _get_iterator(self)
