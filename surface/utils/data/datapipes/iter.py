"""Data pipes of items one after the other."""

from __future__ import annotations

import copy
import itertools

from plugrad.utils.data._utils.collate import default_collate
from plugrad.utils.data.datapipes.branching import Demultiplexer, Forker
from plugrad.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from plugrad.utils.data.datapipes.grouping import Grouper, Multiplexer, Sampler, Shuffler, UnBatcher

__all__ = [
    "Batcher", "Collator", "Concater", "Demultiplexer", "Filter", "Forker", "Grouper", "IterDataPipe",
    "IterableWrapper", "Mapper", "Multiplexer", "Sampler", "Shuffler", "UnBatcher", "Zipper",
]  # fmt: skip


class IterableWrapper(IterDataPipe):
    """The items of an iterable, of a copy of it with `deepcopy`, so that each pass begins with the same."""

    def __init__(self, iterable, deepcopy=True):
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self):
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:  # a generator, say
                pass
        yield from source

    def __len__(self):
        return len(self.iterable)


class _Of(IterDataPipe):
    """A pipe whose source is another."""

    def __init__(self, datapipe):
        self.datapipe = datapipe

    def __len__(self):
        return len(self.datapipe)


@functional_datapipe("map")
class Mapper(_Of):
    """`fn` of each item; with `input_col` of its parts of these keys, put at `output_col` or in their place."""

    def __init__(self, datapipe, fn, input_col=None, output_col=None):
        super().__init__(datapipe)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.fn, self.input_col, self.output_col = fn, input_col, output_col

    def _apply(self, item):
        if self.input_col is None:
            return self.fn(item)
        several = isinstance(self.input_col, (list, tuple))
        columns = self.input_col if several else (self.input_col,)
        result = self.fn(*(item[column] for column in columns))
        fixed = isinstance(item, tuple)
        changed = list(item) if fixed else copy.copy(item)
        if self.output_col is None:
            changed[columns[0]] = result
            for column in sorted(columns[1:], reverse=True):
                del changed[column]
        elif self.output_col == -1 and isinstance(changed, list):
            changed.append(result)
        else:
            changed[self.output_col] = result
        return tuple(changed) if fixed else changed

    def __iter__(self):
        return map(self._apply, self.datapipe)


@functional_datapipe("filter")
class Filter(_Of):
    """The items for which `filter_fn`, of the item or of its part `input_col`, is true."""

    def __init__(self, datapipe, filter_fn, input_col=None):
        super().__init__(datapipe)
        self.filter_fn, self.input_col = filter_fn, input_col

    def __iter__(self):
        for item in self.datapipe:
            kept = self.filter_fn(item if self.input_col is None else item[self.input_col])
            if not isinstance(kept, bool):
                raise ValueError(f"Boolean output is required for `filter_fn`, got {type(kept)}")
            if kept:
                yield item

    def __len__(self):
        raise TypeError(f"{type(self).__name__} instance doesn't have valid length")


@functional_datapipe("batch")
class Batcher(_Of):
    """Lists of `batch_size` items, the last of fewer unless `drop_last`; `wrapper_class` is called with each."""

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=list):
        super().__init__(datapipe)
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.batch_size, self.drop_last, self.wrapper_class = batch_size, drop_last, wrapper_class

    def __iter__(self):
        items = iter(self.datapipe)
        while batch := list(itertools.islice(items, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.wrapper_class(batch)

    def __len__(self):
        n = len(self.datapipe)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


@functional_datapipe("collate")
class Collator(Mapper):
    """Batches as tensors: `collate_fn` of each item, by default `default_collate`."""

    def __init__(self, datapipe, collate_fn=default_collate):
        super().__init__(datapipe, collate_fn)


class _Several(IterDataPipe):
    """A pipe whose sources are others."""

    def __init__(self, *datapipes):
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(one, IterDataPipe) for one in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes


@functional_datapipe("concat")
class Concater(_Several):
    """The items of several pipes, one pipe after the other."""

    def __iter__(self):
        return itertools.chain(*self.datapipes)

    def __len__(self):
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class Zipper(_Several):
    """Tuples of one item of each pipe, as long as all have one."""

    def __iter__(self):
        return zip(*self.datapipes)

    def __len__(self):
        return min(map(len, self.datapipes))
