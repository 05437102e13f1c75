"""Data pipes of items by key."""

from __future__ import annotations

import copy

from plugrad.utils.data.datapipes.datapipe import MapDataPipe, functional_datapipe

__all__ = ["MapDataPipe", "Mapper", "SequenceWrapper"]


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
