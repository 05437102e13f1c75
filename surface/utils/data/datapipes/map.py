"""Data pipes of items by key."""

from __future__ import annotations

import copy

from plugrad.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe, functional_datapipe
from plugrad.utils.data.datapipes.grouping import _Random

__all__ = ["Batcher", "Concater", "MapDataPipe", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]


class SequenceWrapper(MapDataPipe):
    """The items of a sequence or dict, of a copy of it with `deepcopy`."""

    def __init__(self, sequence, deepcopy=True):
        self.sequence = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index):
        return self.sequence[index]

    def __len__(self):
        return len(self.sequence)


@functional_datapipe("map")
class Mapper(MapDataPipe):
    """`fn` of each item."""

    def __init__(self, datapipe, fn):
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index):
        return self.fn(self.datapipe[index])

    def __len__(self):
        return len(self.datapipe)


@functional_datapipe("batch")
class Batcher(MapDataPipe):
    """Lists of `batch_size` items with keys from 0 on, the last of fewer unless `drop_last`."""

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=list):
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __getitem__(self, index):
        begin = index * self.batch_size
        if not 0 <= index < len(self):
            raise IndexError("Index is out of bound.")
        end = min(begin + self.batch_size, len(self.datapipe))
        return self.wrapper_class([self.datapipe[place] for place in range(begin, end)])

    def __len__(self):
        n = len(self.datapipe)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class _Several(MapDataPipe):
    """A pipe whose sources are others."""

    def __init__(self, *datapipes):
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(one, MapDataPipe) for one in datapipes):
            raise TypeError("Expected all inputs to be `MapDataPipe`")
        self.datapipes = datapipes


@functional_datapipe("concat")
class Concater(_Several):
    """The items of several pipes, numbered through."""

    def __getitem__(self, index):
        place = index
        for datapipe in self.datapipes:
            if place < len(datapipe):
                return datapipe[place]
            place -= len(datapipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self):
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class Zipper(_Several):
    """Tuples of the items of one key in each pipe."""

    def __getitem__(self, index):
        try:
            return tuple([datapipe[index] for datapipe in self.datapipes])
        except IndexError as error:
            raise IndexError(f"Index {index} is out of range for one of the input MapDataPipes.") from error

    def __len__(self):
        return min(map(len, self.datapipes))


class Shuffler(_Random, IterDataPipe):
    """The items of keys, by default of all numbers below the length, one after the other in another order."""

    def __init__(self, datapipe, *, indices=None):
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices

    def __iter__(self):
        keys = self.indices
        if self._enabled:
            keys = self.drawn().sample(self.indices, len(self.indices))[::-1]
        return iter([self.datapipe[key] for key in keys])

    def __len__(self):
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", Shuffler)  # of keys it makes a pipe of items one after the other
