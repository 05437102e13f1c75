"""Data sets, samplers, and the loader that makes batches of them.

Batches are made in the process that asks for them, whatever `num_workers` says: there are no worker processes here.
"""

from __future__ import annotations

import bisect
import itertools
import math
import warnings

import numpy

import plugrad
from plugrad.tensor import Tensor

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler",
    "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler",
    "default_collate", "default_convert", "get_worker_info", "random_split",
]  # fmt: skip


# ---------------------------------------------------------------------------------------------------- data sets


class Dataset:
    """Something with items by index: a subclass defines `__getitem__` and usually `__len__`.

    >>> from plugrad.utils.data import Dataset
    >>> class Squares(Dataset):
    ...     def __getitem__(self, index):
    ...         return index**2
    ...     def __len__(self):
    ...         return 3
    >>> [*(Squares() + Squares())]
    [0, 1, 4, 0, 1, 4]
    """

    def __class_getitem__(cls, item):
        return cls  # written as Dataset[Item] in annotations

    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Something with items one after the other: a subclass defines `__iter__`."""

    def __iter__(self):
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other):
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Tensors of equal first size; an item is the tuple of their rows.

    Raises AssertionError when the sizes differ.

    >>> import plugrad as torch
    >>> from plugrad.utils.data import TensorDataset
    >>> TensorDataset(torch.tensor([1.0, 2.0]), torch.tensor([3, 4]))[1]
    (tensor(2.), tensor(4))
    """

    def __init__(self, *tensors):
        if any(tensor.shape[0] != tensors[0].shape[0] for tensor in tensors):
            raise AssertionError(f"Size mismatch between tensors: {', '.join(str(list(t.shape)) for t in tensors)}")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return self.tensors[0].shape[0]


class StackDataset(Dataset):
    """Data sets side by side: an item is the tuple, or dict, of their items.

    >>> from plugrad.utils.data import StackDataset
    >>> StackDataset(image=[1, 2], label=[3, 4])[1]
    {'image': 2, 'label': 4}
    """

    def __init__(self, *args, **kwargs):
        if bool(args) == bool(kwargs):
            raise ValueError("give StackDataset either positional or named data sets, at least one")
        self.datasets = kwargs or args
        sizes = {len(dataset) for dataset in (kwargs.values() if kwargs else args)}
        if len(sizes) != 1:
            raise ValueError(f"Size mismatch between datasets: {sorted(sizes)}")
        self._length = sizes.pop()

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self):
        return self._length


class Subset(Dataset):
    """The items of a data set at given indices.

    >>> from plugrad.utils.data import Subset
    >>> [*Subset("plugrad", [0, 4])]
    ['p', 'r']
    """

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


class ConcatDataset(Dataset):
    """Data sets one after the other.

    Raises AssertionError when there is none or one can't be indexed.

    >>> from plugrad.utils.data import ConcatDataset
    >>> ConcatDataset([[1, 2], [3]])[-1]
    3
    """

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset; use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, index):
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        number = bisect.bisect_right(self.cumulative_sizes, index)
        if number == len(self.datasets):
            raise IndexError(f"index {index} is out of range for data sets of {len(self)} items together")
        return self.datasets[number][index - (self.cumulative_sizes[number - 1] if number else 0)]


class ChainDataset(IterableDataset):
    """Iterable data sets one after the other."""

    def __init__(self, datasets):
        self.datasets = datasets

    def __iter__(self):
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self):
        return sum(len(dataset) for dataset in self.datasets)


def random_split(dataset, lengths, generator=None):
    """Return disjoint random subsets of a data set.

    Args:
        dataset: what to split.
        lengths: sizes that add up to the data set's, or fractions that add up to 1.
        generator: of random numbers.

    Raises ValueError when they don't.

    >>> from plugrad.utils.data import random_split
    >>> [len(part) for part in random_split(range(10), [0.7, 0.3])]
    [7, 3]
    """
    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        if any(not 0 <= fraction <= 1 for fraction in lengths):
            raise ValueError(f"fractions must lie between 0 and 1, got {list(lengths)}")
        lengths = [math.floor(total * fraction) for fraction in lengths]
        for number in range(total - sum(lengths)):  # what rounding left goes round
            lengths[number % len(lengths)] += 1
        for number, length in enumerate(lengths):
            if length == 0:
                warnings.warn(f"Length of split at index {number} is 0. This might result in an empty dataset.", stacklevel=2)
    if sum(lengths) != total:
        raise ValueError(
            f"Sum of input lengths does not equal the length of the input dataset! {sum(lengths)} and {total}"
        )
    order = plugrad.randperm(total, generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, order[end - length : end]) for end, length in zip(ends, lengths)]


# ---------------------------------------------------------------------------------------------------- samplers


class Sampler:
    """An iterable of indices, or of lists of them: a subclass defines `__iter__`."""

    def __init__(self, data_source=None):
        pass

    def __class_getitem__(cls, item):
        return cls

    def __iter__(self):
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler):
    """All indices in order.

    >>> from plugrad.utils.data import SequentialSampler
    >>> [*SequentialSampler("abc")]
    [0, 1, 2]
    """

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


def _check_count(count) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count <= 0:
        raise ValueError(f"num_samples should be a positive integer value, but got num_samples={count}")


class RandomSampler(Sampler):
    """All indices in random order, or `num_samples` of them, with `replacement` drawn independently.

    >>> from plugrad.utils.data import RandomSampler
    >>> sorted(RandomSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source, self.replacement, self._num_samples = data_source, replacement, num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        _check_count(self.num_samples)

    @property
    def num_samples(self):
        """How many indices there are."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        n, wanted = len(self.data_source), self.num_samples
        if self.replacement:
            yield from plugrad.randint(n, (wanted,), generator=self.generator).tolist()
            return
        while wanted > 0:
            yield from plugrad.randperm(n, generator=self.generator).tolist()[:wanted]
            wanted -= n

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Given indices in random order."""

    def __init__(self, indices, generator=None):
        self.indices, self.generator = indices, generator

    def __iter__(self):
        for number in plugrad.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[number]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """`num_samples` indices drawn with the probabilities that `weights` are in proportion to.

    >>> from plugrad.utils.data import WeightedRandomSampler
    >>> [*WeightedRandomSampler([0.0, 1.0], 2)]
    [1, 1]
    """

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        _check_count(num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = plugrad.as_tensor(weights, dtype=plugrad.double)
        if self.weights.ndim != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self):
        drawn = plugrad.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """The indices of a sampler in lists of `batch_size`; `drop_last` leaves out a last one that is shorter.

    >>> from plugrad.utils.data import BatchSampler
    >>> [*BatchSampler(range(5), 2, drop_last=False)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler, batch_size, drop_last):
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self):
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


# ---------------------------------------------------------------------------------------------------- the loader


def default_convert(data):
    """Return NumPy arrays in nested containers as tensors, other things as they are."""
    return _rebuild(data, lambda value: value)


def _rebuild(data, otherwise):
    if isinstance(data, (numpy.ndarray, numpy.generic)) and data.dtype.kind in "biufc":
        return plugrad.as_tensor(numpy.asarray(data))
    if isinstance(data, dict):
        return {key: _rebuild(item, otherwise) for key, item in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(_rebuild(item, otherwise) for item in data))
    if isinstance(data, (list, tuple)):
        return [_rebuild(item, otherwise) for item in data]
    return otherwise(data)


def default_collate(batch):
    """Return a batch of items: tensors stacked, numbers as one tensor, containers item by item, strings listed.

    Raises TypeError for items of other types, and RuntimeError for tensors or lists of different sizes.

    >>> from plugrad.utils.data import default_collate
    >>> default_collate([{"x": 1.5, "y": "a"}, {"x": 2.5, "y": "b"}])
    {'x': tensor([1.5000, 2.5000], dtype=torch.float64), 'y': ['a', 'b']}
    """
    first = batch[0]
    kind = type(first)
    if isinstance(first, Tensor):
        return plugrad.stack(list(batch))
    if isinstance(first, numpy.ndarray):
        if first.dtype.kind not in "biufc":
            raise TypeError(_REFUSED.format(first.dtype))
        return plugrad.stack([plugrad.as_tensor(item) for item in batch])
    if isinstance(first, numpy.generic) and first.dtype.kind in "biufc":
        return plugrad.as_tensor(numpy.asarray(batch))
    if isinstance(first, float):
        return plugrad.tensor(batch, dtype=plugrad.float64)
    if isinstance(first, int):
        return plugrad.tensor(batch)
    if isinstance(first, (str, bytes)):
        return list(batch) if type(batch) is not tuple else batch
    if isinstance(first, dict):
        made = {key: default_collate([item[key] for item in batch]) for key in first}
        return made if kind is dict else _like(kind, made)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(default_collate(parts) for parts in zip(*batch)))
    if isinstance(first, (list, tuple)):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError(
                "each element in list of batch should be of equal size: items have "
                f"{', '.join(map(str, sorted({len(item) for item in batch})))} elements; pass a collate_fn"
            )
        return [default_collate(parts) for parts in zip(*batch)]
    raise TypeError(_REFUSED.format(kind))


_REFUSED = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _like(kind, made):
    try:
        return kind(made)
    except TypeError:  # a mapping that is made in another way
        return made


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
        pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None, *,
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
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    elif batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
