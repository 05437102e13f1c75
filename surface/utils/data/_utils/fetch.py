"""How the items of a batch are taken from a data set, in the program's process and in workers alike."""

from __future__ import annotations

import itertools

import plugrad
from plugrad.utils.data._utils.collate import default_collate
from plugrad.utils.data.dataset import TensorDataset


class BaseIterator:
    """What `iter(loader)` gives: batches, one after the other. Its `progress` outlives it."""

    def __iter__(self):
        return self

    def __next__(self):
        try:
            batch = self.next_batch()
        except StopIteration:
            self.progress.ended = True
            raise
        self.progress.given += 1
        return batch


class Progress:
    """How many batches of an epoch were given, and whether it has ended."""

    __slots__ = ("ended", "given")

    def __init__(self, given=0):
        self.given, self.ended = given, False


class MapFetcher:
    """Takes items by index."""

    def __init__(self, dataset, batched, collate, drop_last=False):
        self.dataset, self.batched, self.collate = dataset, batched, collate
        self.by_rows = type(dataset) is TensorDataset and collate is default_collate and batched
        self.many = getattr(dataset, "__getitems__", None)

    def fetch(self, index):
        """Return the batch of a list of indices, or the item of one."""
        if not self.batched:
            return self.collate(self.dataset[index])
        if self.by_rows:  # the rows of a batch at once: what stacking single rows would give, much faster
            rows = plugrad.tensor(index)
            return [tensor[rows.to(tensor.device)] for tensor in self.dataset.tensors]
        return self.collate(self.many(index) if self.many else [self.dataset[place] for place in index])


class IterableFetcher:
    """Takes items one after the other."""

    def __init__(self, dataset, batched, collate, drop_last=False):
        self.items, self.batched, self.collate, self.drop_last = iter(dataset), batched, collate, drop_last
        self.ended = False

    def fetch(self, index):
        """Return the next batch, of as many items as `index` is long; StopIteration when there is none."""
        if not self.batched:
            return self.collate(next(self.items))
        items = [] if self.ended else list(itertools.islice(self.items, len(index)))
        self.ended = self.ended or len(items) < len(index)
        if not items or self.drop_last and len(items) < len(index):
            raise StopIteration
        return self.collate(items)
