"""The size of a ragged dimension: a symbol that is equal to itself alone, since its value varies along the batch."""

from __future__ import annotations

import itertools
import weakref

_numbers = itertools.count(1)
_known: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # id of an array of offsets -> its size


class RaggedSize:
    """How long a ragged dimension is: `j1`, `j2`..., or a multiple.

    It equals the size of nested tensors that have the same offsets, and no number; all numbers below 2 are smaller.

    >>> import plugrad as torch
    >>> x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    >>> x.shape[1] == (x * 2).shape[1], x.shape[1] == 3, x.shape[1] > 1
    (True, False, True)
    """

    __slots__ = ("number", "offsets", "factor", "__weakref__")

    def __init__(self, number, offsets, factor=1):
        self.number, self.offsets, self.factor = number, offsets, factor

    def __eq__(self, other):
        return isinstance(other, RaggedSize) and (self.number, self.factor) == (other.number, other.factor)

    def __hash__(self):
        return hash(("ragged", self.number, self.factor))

    def __repr__(self):
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    def __mul__(self, times):
        if not isinstance(times, int):
            return NotImplemented
        return RaggedSize(self.number, self.offsets, self.factor * times)

    __rmul__ = __mul__

    def _exceeds(self, bound) -> bool:
        if not isinstance(bound, int) or bound > 1:
            raise ValueError(f"{self} varies along the batch: it can't be compared with {bound}; see x.offsets()")
        return True

    def __gt__(self, other):
        return other != self and self._exceeds(other)

    def __ge__(self, other):
        return other == self or self._exceeds(other - 1 if isinstance(other, int) else other)

    def __lt__(self, other):
        return not self >= other

    def __le__(self, other):
        return not self > other

    def __bool__(self):
        return True

    def __index__(self):
        raise TypeError(f"the size {self} varies along the batch and is no number: x.offsets().diff() has them all")


def ragged_size(offsets) -> RaggedSize:
    """Return the size of the ragged dimensions with some offsets: always the same for one array."""
    known = _known.get(id(offsets))
    if known is None:
        known = _known[id(offsets)] = RaggedSize(next(_numbers), offsets)
    return known
