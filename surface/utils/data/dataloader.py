"""`DataLoader`: batches of a data set, made in the program's process or in workers."""

from __future__ import annotations

import collections
import itertools
import math
import multiprocessing
import os
import warnings

import plugrad
from plugrad.utils.data._utils.collate import default_collate, default_convert
from plugrad.utils.data._utils.fetch import BaseIterator as _BaseDataLoaderIter
from plugrad.utils.data._utils.fetch import IterableFetcher, MapFetcher, Progress
from plugrad.utils.data._utils.pin_memory import pin_memory
from plugrad.utils.data._utils.processes import MultiProcessIterator as _MultiProcessingDataLoaderIter
from plugrad.utils.data._utils.worker import get_worker_info
from plugrad.utils.data.dataset import IterableDataset
from plugrad.utils.data.resuming import Resumable
from plugrad.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]


class _DatasetKind:
    """Whether items are had by index or one after the other."""

    Map, Iterable = 0, 1


class _InfiniteConstantSampler(Sampler):
    """Asks an IterableDataset, which is asked by no index, for its next item."""

    def __iter__(self):
        return itertools.repeat(None)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Batches of a loader, made in this process when they are asked for."""

    def __init__(self, loader, given=0):
        options = loader._fetching()
        make = options.pop("fetcher")
        self.fetcher, self.indices, self.progress = make(**options), iter(loader._index_sampler), Progress(given)
        if not loader._iterable:
            collections.deque(itertools.islice(self.indices, given), maxlen=0)

    def next_batch(self):
        return self.fetcher.fetch(next(self.indices))


class DataLoader(Resumable):
    """Batches of a data set, to iterate over.

    Args:
        dataset: with items by index, or an IterableDataset.
        batch_size: items in a batch; None gives single items.
        shuffle: whether to go through the data in a new random order each time.
        sampler: an iterable of indices, instead of `shuffle`.
        batch_sampler: an iterable of lists of indices, instead of all the above and `drop_last`.
        num_workers: processes that make batches, 0: the program's own does. Each has a copy of the data set. An error
            in one is raised here, with its traceback; none outlives the iterator or the program.
        collate_fn: makes a batch of a list of items; `default_collate` when None.
        pin_memory: give batches in pinned memory where there is a CUDA device; `pin_memory_device` is accepted.
        drop_last: leave out a last batch that is smaller.
        timeout: seconds to wait for a worker's batch, 0: for ever.
        worker_init_fn: is called with the worker's number at its start.
        multiprocessing_context: how workers start: "fork", "spawn", "forkserver", or such a context.
        generator: of random numbers.
        prefetch_factor: batches that each worker makes ahead, 2 when None.
        persistent_workers: keep the workers for the next iteration.
        in_order: whether batches come in the order of their indices, or as they are ready.

    Raises ValueError for arguments that exclude each other.

    >>> from plugrad.utils.data import DataLoader
    >>> [*DataLoader(range(5), batch_size=2)]
    [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    _initialized = False
    _iterator = _reported = None

    def __init__(
        self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
        pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None,
        generator=None, *,
        prefetch_factor=None, persistent_workers=False, pin_memory_device="", in_order=True,
    ):  # fmt: skip
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self._iterable = isinstance(dataset, IterableDataset)
        _check_options(self._iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset, self.num_workers, self.generator, self.timeout = dataset, num_workers, generator, timeout
        self.pin_memory, self.pin_memory_device, self.worker_init_fn = pin_memory, pin_memory_device, worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.persistent_workers, self.in_order = persistent_workers, in_order
        self._dataset_kind = _DatasetKind.Iterable if self._iterable else _DatasetKind.Map
        if sampler is None and self._iterable:
            sampler = _InfiniteConstantSampler()
        elif sampler is None:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.sampler, self.drop_last = sampler, drop_last
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.batch_sampler = batch_size, batch_sampler
        default = default_collate if self._auto_collation else default_convert
        self.collate_fn = default if collate_fn is None else collate_fn
        self._initialized = True
        self.check_worker_number_rationality()

    def __class_getitem__(cls, item):
        return cls

    def __setattr__(self, name, value):
        if self._initialized and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        object.__setattr__(self, name, value)

    @property
    def multiprocessing_context(self):
        """How workers start; None: as Python does by default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None and not self.num_workers:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                f"num_workers={self.num_workers}"
            )
        if isinstance(context, str):
            known = multiprocessing.get_all_start_methods()
            if context not in known:
                raise ValueError(
                    f"multiprocessing_context option should specify a valid start method in {known!r}, but got "
                    f"multiprocessing_context={context!r}"
                )
            context = multiprocessing.get_context(context)
        if context is not None and not isinstance(context, multiprocessing.context.BaseContext):
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string specifying the start "
                f"method, but got multiprocessing_context={context}"
            )
        self._context = context

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _fetching(self) -> dict:
        """Return how batches are fetched, wherever that is done."""
        return {
            "fetcher": IterableFetcher if self._iterable else MapFetcher, "dataset": self.dataset,
            "batched": self._auto_collation, "collate": self.collate_fn, "drop_last": self.drop_last,
        }  # fmt: skip

    def __iter__(self):
        with self._beginning() as (seed, given):
            iterator = self._iterator_from(seed, given)
            if self._iterable and given:  # what can't be had by index is had, and passed over
                iterator.progress.given = 0
                collections.deque(itertools.islice(iterator, given), maxlen=0)
        self._current = iterator.progress
        return self._counted(iterator)

    def _iterator_from(self, seed, given):
        """Return the iterator of an epoch of which so many batches were given before."""
        if self.persistent_workers and self._iterator is not None and self._iterator.workers:
            self._iterator.reset(given)
            return self._iterator
        if self.pin_memory and not plugrad.cuda.is_available():
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                "used.",
                UserWarning,
                stacklevel=3,
            )
        if not self.num_workers:
            return _SingleProcessDataLoaderIter(self, given)
        iterator = _MultiProcessingDataLoaderIter(self, seed, given)
        if self.persistent_workers:
            self._iterator = iterator
        return iterator

    def _counted(self, iterator):
        """Have an iterator of an IterableDataset of known length warn when more comes than that."""
        iterator = _Counted(self, iterator) if self._iterable and hasattr(self.dataset, "__len__") else iterator
        return _Pinned(iterator) if self.pin_memory and plugrad.cuda.is_available() else iterator

    def __len__(self):
        if not self._iterable:
            return len(self._index_sampler)
        length = self._reported = len(self.dataset)  # as the program was told
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn when there are more workers than the process may use processors."""
        if not self.num_workers:
            return
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if usable is not None and self.num_workers > usable:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                f"of worker in current system is {usable}, which is smaller than what this DataLoader is going to "
                "create. Please be aware that excessive worker creation might get DataLoader running slow or even "
                "freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
                UserWarning,
                stacklevel=3,
            )


_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _Passing(_BaseDataLoaderIter):
    """Passes batches of another iterator on."""

    def __init__(self, iterator):
        self.iterator = iterator

    @property
    def _workers(self) -> list:
        return self.iterator._workers


class _Pinned(_Passing):
    """Passes batches on in pinned memory."""

    def __next__(self):
        return pin_memory(next(self.iterator))


class _Counted(_Passing):
    """Passes batches on, and warns where an IterableDataset gives more than it said when it was asked."""

    def __init__(self, loader, iterator):
        super().__init__(iterator)
        self.loader, self.count = loader, 0

    def __next__(self):
        batch = next(self.iterator)
        self.count += 1
        if self.loader._reported is not None and self.count > (length := len(self.loader)):
            more = "" if not self.loader.num_workers else (
                " For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker."
            )  # fmt: skip
            warnings.warn(
                f"Length of IterableDataset {self.loader.dataset} was reported to be {length} (when accessing "
                f"len(dataloader)), but {self.count} samples have been fetched.{more}",
                UserWarning,
                stacklevel=2,
            )
        return batch


def _check_workers(num_workers, timeout, prefetch_factor, persistent_workers) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. Let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_options(iterable, batch_size, shuffle, sampler, batch_sampler, drop_last) -> None:
    if iterable:
        for name, value in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
            if value is not None and (name != "shuffle" or value):
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
