"""Data pipes that put items into another order or other groups: shuffle, unbatch, groupby, mux, samples."""

from __future__ import annotations

import random

import plugrad
from plugrad.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from plugrad.utils.data.sampler import SequentialSampler

__all__ = ["Grouper", "Multiplexer", "Sampler", "Shuffler", "UnBatcher"]


class _Random:
    """What pipes share that draw an order: a seed for the next pass, else one drawn by the default generator."""

    _enabled, _seed = True, None

    def set_shuffle(self, shuffle=True):
        """Choose whether items come in another order; return the pipe."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int):
        """Set the seed of the next pass; return the pipe."""
        self._seed = seed
        return self

    def drawn(self):
        """Return the random numbers of a pass."""
        seed, self._seed = self._seed, None
        if seed is None:
            seed = int(plugrad.empty((), dtype=plugrad.int64).random_().item())
        return random.Random(seed)


@functional_datapipe("shuffle")
class Shuffler(_Random, IterDataPipe):
    """The items in another order, each drawn from a buffer of `buffer_size`; batches are taken apart before."""

    def __init__(self, datapipe, *, buffer_size=10000, unbatch_level=0):
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size = buffer_size

    def __iter__(self):
        return self._items(self.drawn()) if self._enabled else iter(self.datapipe)

    def _items(self, draws):
        buffer: list = []
        for item in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(item)
                continue
            place = draws.randint(0, len(buffer) - 1)
            drawn, buffer[place] = buffer[place], item
            yield drawn
        while buffer:
            yield buffer.pop(draws.randint(0, len(buffer) - 1))

    def __len__(self):
        return len(self.datapipe)


@functional_datapipe("unbatch")
class UnBatcher(IterDataPipe):
    """The items of lists, `unbatch_level` of them inside of one another; -1 is all that there are."""

    def __init__(self, datapipe, unbatch_level=1):
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self):
        for item in self.datapipe:
            yield from self._inside(item, self.unbatch_level)

    def _inside(self, item, level):
        if level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        if level and isinstance(item, list):
            for one in item:
                yield from self._inside(one, level if level < 0 else level - 1)
        elif level > 0:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        else:
            yield item


@functional_datapipe("groupby")
class Grouper(IterDataPipe):
    """Lists of items with one key, up to `group_size`; the largest where `buffer_size` items wait, all at the end.

    `keep_key` gives pairs of key and list. A full buffer without a group of `guaranteed_group_size`, which is
    `group_size` unless given, is an error, or with `drop_remaining` loses its largest group.
    """

    def __init__(
        self, datapipe, group_key_fn, *, keep_key=False, buffer_size=10000, group_size=None, guaranteed_group_size=None,
        drop_remaining=False,
    ):  # fmt: skip
        if group_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError("group_size must be > 0 and <= buffer_size")
        if guaranteed_group_size is not None and not (group_size and 0 < guaranteed_group_size <= group_size):
            raise AssertionError(
                "guaranteed_group_size must be > 0 and <= group_size and group_size must be set"
            )  # fmt: skip
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.buffer_size, self.group_size, self.drop_remaining = buffer_size, group_size, drop_remaining
        self.guaranteed = group_size if guaranteed_group_size is None else guaranteed_group_size

    def __iter__(self):
        groups: dict = {}
        waiting = 0
        for item in self.datapipe:
            key = self.group_key_fn(item)
            groups.setdefault(key, []).append(item)
            waiting += 1
            if len(groups[key]) == self.group_size:
                waiting -= self.group_size
                yield self._shown(key, groups.pop(key))
            if waiting == self.buffer_size:
                largest = max(groups, key=lambda one: len(groups[one]))
                group = groups.pop(largest)
                waiting -= len(group)
                if self.guaranteed is None or len(group) >= self.guaranteed:
                    yield self._shown(key, group)  # under the key of the item that filled the buffer, as in PyTorch
                elif not self.drop_remaining:
                    raise RuntimeError("Failed to group items", str(group))
        for key, group in groups.items():
            yield self._shown(key, group)

    def _shown(self, key, group):
        return (key, group) if self.keep_key else group


@functional_datapipe("mux")
class Multiplexer(IterDataPipe):
    """One item of each pipe in turn, as long as all have one."""

    def __init__(self, *datapipes):
        self.datapipes = datapipes

    def __iter__(self):
        for items in zip(*self.datapipes):
            yield from items

    def __len__(self):
        return min(map(len, self.datapipes)) * len(self.datapipes)


class Sampler(IterDataPipe):
    """What a sampler gives that is made for a pipe with a length."""

    def __init__(self, datapipe, sampler=SequentialSampler, sampler_args=None, sampler_kwargs=None):
        if not hasattr(type(datapipe), "__len__"):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        self.datapipe = datapipe
        self.sampler = sampler(*(sampler_args or ()), **{**(sampler_kwargs or {}), "data_source": datapipe})

    def __iter__(self):
        return iter(self.sampler)

    def __len__(self):
        return len(self.sampler)
