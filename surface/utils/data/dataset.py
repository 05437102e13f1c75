"""Data sets: items by index or one after the other, and what is made of other data sets."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings

import plugrad


class Dataset:
    """Something with items by index.

    A subclass defines `__getitem__` and usually `__len__`.

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
    """Something with items one after the other: it defines `__iter__`."""

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
        if not all([isinstance(tensor, plugrad.Tensor) and tensor.ndim for tensor in tensors]):
            raise TypeError("TensorDataset() takes tensors of one dimension or more; write torch.as_tensor(...)")
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
        if args and kwargs:
            raise ValueError("Supported either `tuple`- (via `args`) or `dict`- (via `kwargs`) like input, not both")
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = kwargs or args
        sizes = {len(dataset) for dataset in (kwargs.values() if kwargs else args)}
        if len(sizes) != 1:
            raise ValueError(f"Size mismatch between datasets: {sorted(sizes)}")
        self._length = sizes.pop()

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices):
        """Return the items at several indices; a data set that can read them at once does so."""
        if isinstance(self.datasets, dict):
            parts = [_items_of(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, item)) for item in zip(*parts)]
        return list(zip(*[_items_of(dataset, indices) for dataset in self.datasets]))

    def __len__(self):
        return self._length


def _items_of(dataset, indices):
    """Return the items of a data set at several indices; ValueError if it gives another number of them."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[index] for index in indices]
    items = dataset.__getitems__(indices)
    if len(items) != len(indices):
        raise ValueError(
            "Nested dataset's output size mismatch."
            f" Expected {len(indices)}, got {len(items)}: __getitems__ of {type(dataset).__name__} must return an item "
            "for each index"
        )
    return items


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

    def __getitems__(self, indices):
        """Return the items at several indices; a data set that can read them at once does so."""
        return _items_of(self.dataset, [self.indices[index] for index in indices])

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
                warnings.warn(
                    f"Length of split at index {number} is 0. This might result in an empty dataset.", stacklevel=2
                )
    if sum(lengths) != total:
        raise ValueError(
            f"Sum of input lengths does not equal the length of the input dataset! {sum(lengths)} and {total}"
        )
    order = plugrad.randperm(total, generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, order[end - length : end]) for end, length in zip(ends, lengths)]
