"""Data sets, samplers, and the loader that makes batches of them.

Batches are made in the process that asks for them, whatever `num_workers` says: there are no worker processes here.
"""

from __future__ import annotations

import itertools

import plugrad
from plugrad.utils.data.collate import default_collate, default_convert
from plugrad.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from plugrad.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    drawn_seed,
)

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset",
    "RandomSampler", "Sampler",
    "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler",
    "default_collate", "default_convert", "get_worker_info", "random_split",
]  # fmt: skip


def get_worker_info():
    """Return None: batches are made in this process."""
    return None


class DataLoader:
    """Batches of a data set, to iterate over.

    Args:
        dataset: with items by index, or an IterableDataset.
        batch_size: items in a batch; None gives single items.
        shuffle: whether to go through the data in a new random order each time.
        sampler: an iterable of indices, instead of `shuffle`.
        batch_sampler: an iterable of lists of indices, instead of all the above and `drop_last`.
        num_workers: accepted; batches are made in this process (see the module's docstring).
        collate_fn: makes a batch of a list of items; `default_collate` when None.
        drop_last: leave out a last batch that is smaller.
        worker_init_fn, multiprocessing_context, prefetch_factor, persistent_workers, timeout, pin_memory,
            pin_memory_device, in_order: accepted; they concern workers and transfers.
        generator: of random numbers.

    Raises ValueError for arguments that exclude each other.

    >>> from plugrad.utils.data import DataLoader
    >>> [*DataLoader(range(5), batch_size=2)]
    [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    def __init__(
        self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
        pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None,
        generator=None, *,
        prefetch_factor=None, persistent_workers=False, pin_memory_device="", in_order=True,
    ):  # fmt: skip
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        self._iterable = isinstance(dataset, IterableDataset)
        _check_options(self._iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset, self.num_workers, self.generator, self.timeout = dataset, num_workers, generator, timeout
        self.pin_memory, self.pin_memory_device, self.worker_init_fn = pin_memory, pin_memory_device, worker_init_fn
        self.multiprocessing_context, self.prefetch_factor = multiprocessing_context, prefetch_factor
        self.persistent_workers, self.in_order = persistent_workers, in_order
        if sampler is None and not self._iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.sampler, self.drop_last = sampler, drop_last
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None and not self._iterable:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.batch_sampler = batch_size, batch_sampler
        batches = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batches else default_convert)

    def __class_getitem__(cls, item):
        return cls

    def __iter__(self):
        drawn_seed(self.generator)  # of the workers in PyTorch, where it is drawn without any, too
        return self._batches()

    def _batches(self):
        collate, dataset = self.collate_fn, self.dataset
        if self._iterable:
            items = iter(dataset)
            if self.batch_size is None:
                yield from map(collate, items)
                return
            while batch := list(itertools.islice(items, self.batch_size)):
                if len(batch) == self.batch_size or not self.drop_last:
                    yield collate(batch)
        elif self.batch_sampler is None:
            for index in self.sampler:
                yield collate(dataset[index])
        elif type(dataset) is TensorDataset and collate is default_collate:
            # The rows of a batch at once: what stacking single rows would give, much faster.
            for indices in self.batch_sampler:
                rows = plugrad.tensor(indices)
                yield [tensor[rows.to(tensor.device)] for tensor in dataset.tensors]
        else:
            many = getattr(dataset, "__getitems__", None)
            for indices in self.batch_sampler:
                yield collate(many(indices) if many is not None else [dataset[index] for index in indices])

    def __len__(self):
        if self._iterable:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)


def _check_options(iterable, batch_size, shuffle, sampler, batch_sampler, drop_last) -> None:
    if iterable:
        for name, value in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
            if value not in (None, False):
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
