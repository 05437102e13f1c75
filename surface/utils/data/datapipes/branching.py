"""Data pipes of which several read one: fork gives all items to each, demux each item to one."""

from __future__ import annotations

import copy
import warnings
from collections import deque

from plugrad.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

__all__ = ["Demultiplexer", "Forker"]


class _Pass:
    """One pass over the source: its items, and what was read ahead for other branches."""

    def __init__(self, source, count):
        self.items, self.ended = iter(source), False
        self.begun: set = set()
        self.ahead, self.first, self.places = deque(), 0, [0] * count  # of a fork
        self.waiting, self.many = [deque() for _ in range(count)], 0  # of a demux


class _Branch(IterDataPipe):
    """One of several pipes that read a source together."""

    def __init__(self, shared, number):
        self.shared, self.number = shared, number

    def __iter__(self):
        return self.shared.items(self.shared.begin(self.number), self.number)

    def __len__(self):
        return self.shared.length()


class _Shared:
    """What branches have in common. One that begins anew begins a new pass, in which the others have to join."""

    def __init__(self, name, datapipe, count, buffer_size):
        self.datapipe, self.count, self.buffer_size, self.running = datapipe, count, buffer_size, None
        if buffer_size < 0:
            what = f"Unlimited buffer size is set for `{name}`, please be aware of OOM at random places"
            warnings.warn(what, UserWarning, stacklevel=4)

    def branches(self) -> list:
        """Return the branches."""
        return [_Branch(self, number) for number in range(self.count)]

    def begin(self, number):
        """Return the pass that a branch takes part in from now on."""
        if self.running is None or number in self.running.begun:
            self.running = _Pass(self.datapipe, self.count)
        self.running.begun.add(number)
        return self.running

    def check(self, run) -> None:
        """Raise RuntimeError if a new pass has begun since."""
        if self.running is not run:
            raise RuntimeError(
                "This iterator has been invalidated, because a new iterator has been created from one of the "
                "ChildDataPipes: begin all branches before going on"
            )

    def overflow(self) -> Exception:
        """Return the error of a branch that is too far ahead."""
        return BufferError(
            f"{type(self).__name__} buffer overflow, buffer size {self.buffer_size} is insufficient: read the branches "
            "in turn, or give a larger buffer_size"
        )

    def __getstate__(self):
        return {**self.__dict__, "running": None}


class _Fork(_Shared):
    copy = None

    def items(self, run, number):
        """Yield all items, for one branch."""
        while True:
            self.check(run)
            place = run.places[number] - run.first
            if place == len(run.ahead):
                try:
                    run.ahead.append(next(run.items))
                except StopIteration:
                    return
            item = run.ahead[place]
            run.places[number] += 1
            if min(run.places) > run.first:
                run.ahead.popleft()
                run.first += 1
            if 0 <= self.buffer_size < max(run.places) - run.first:
                raise self.overflow()
            yield item if self.copy is None else self.copy(item)

    def length(self):
        """Return the number of items of each branch."""
        return len(self.datapipe)


class _Demux(_Shared):
    def items(self, run, number):
        """Yield the items that are one branch's."""
        while True:
            self.check(run)
            if run.waiting[number]:
                run.many -= 1
                yield run.waiting[number].popleft()
                continue
            try:
                item = next(run.items)
            except StopIteration:
                return
            place = self.classifier_fn(item)
            if place is None and self.drop_none:
                continue
            if place is None or not 0 <= place < self.count:
                raise ValueError(
                    f"Output of the classification fn should be between 0 and {self.count - 1}. {place} is returned."
                )
            if place == number:
                yield item
                continue
            run.waiting[place].append(item)
            run.many += 1
            if 0 <= self.buffer_size < run.many:
                raise self.overflow()

    def length(self):
        """Raise TypeError: how many items a branch gets is not known before."""
        raise TypeError("a branch of demux doesn't have valid length")


def _check(count) -> None:
    if count < 1:
        raise ValueError(f"Expected `num_instances` larger than 0, but {count} is found")


@functional_datapipe("fork")
class Forker(IterDataPipe):
    """A list of `num_instances` pipes with the same items; `copy` is None, "shallow" or "deep".

    Raises BufferError in the branch that is more than `buffer_size` items ahead of another.
    """

    def __new__(cls, datapipe, num_instances, buffer_size=1000, copy=None):
        _check(num_instances)
        if num_instances == 1:
            return datapipe
        shared = _Fork("fork", datapipe, num_instances, buffer_size)
        if copy not in _COPIES:
            raise ValueError(f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`.")
        shared.copy = _COPIES[copy]
        return shared.branches()


_COPIES = {None: None, "shallow": copy.copy, "deep": copy.deepcopy}


@functional_datapipe("demux")
class Demultiplexer(IterDataPipe):
    """A list of `num_instances` pipes: each item goes to that of the number which `classifier_fn` returns.

    Items of None are dropped with `drop_none`. Raises BufferError when more than `buffer_size` items wait.
    """

    def __new__(cls, datapipe, num_instances, classifier_fn, drop_none=False, buffer_size=1000):
        _check(num_instances)
        shared = _Demux("demux", datapipe, num_instances, buffer_size)
        shared.classifier_fn, shared.drop_none = classifier_fn, drop_none
        return shared.branches()
