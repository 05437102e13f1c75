"""Sizes that vary: one capture for all of them.

A program whose calls differ in one size alone is captured with a `Dim` in that size's place. It has the values that an
integer takes for each size in a range, and so has all that Python computes from it. What Python decides by comparing
one is decided for the size at hand, and the sizes for which it would be decided otherwise are taken out of the range.
NumPy's shapes are told by captures with some sizes, on whose line they must lie.

As an int in C a `Dim` is a number that nothing can take for a size: what C reads behind Python's back gives another
program than the captures with plain numbers, and then there is none for all sizes.
"""

from __future__ import annotations

import math
import sys

import numpy


class CaptureError(RuntimeError):
    """A program can't be captured: `reason` says why, `op` in which op it was.

    `final`: the op can't be noted as a whole either.
    """

    def __init__(self, reason, op=None, final=False):
        super().__init__(reason if op is None else f"{reason}, in {op}")
        self.reason, self.op, self.final = reason, op, final


class ChangeError(CaptureError):
    """A program can't be captured since it changes Python objects.

    It replaces what is at `places`, and changes nothing else, if there are any; `uses` says how its code reads them.
    """

    places: list = []
    uses = None


class HashError(CaptureError, TypeError):
    """A size that varies has no hash; who looks things up by sizes and can do without one, does."""


LOWEST = 2  # of the sizes that are one: 0 and 1 broadcast, and mean something else
HIGHEST = 1 << 14


class Scope:
    """The sizes of a program: `low` to `high`, of which those `allowed` are decided as `hint` is.

    `logs` are those of captures with some sizes, by size; while it is `open` what is decided is noted.
    """

    def __init__(self, high, hint, logs, whole=None):
        self.low, self.high, self.hint, self.logs = LOWEST, high, hint, logs
        self.whole = set() if whole is None else whole  # calls of kernels that are not looked into, by number
        self.sizes = numpy.arange(LOWEST, high + 1)
        self.allowed = numpy.ones(len(self.sizes), bool)
        self.open, self.at = True, 0
        self.known: dict = {}

    def told(self, ints, given=()) -> tuple:
        """Return integers that the capture's arrays have as they are for all sizes; `given` are arguments, for more."""
        columns = [log.all[self.at] if self.at < len(log.all) else () for log in self.logs.values()]
        self.at += 1
        few = len(columns) < max(2, min(3, numpy.count_nonzero(self.allowed)))  # two are on a line always
        if few or any(len(column) != len(ints) for column in columns):
            raise self.refusal()
        fitted = tuple([self._fitted(column, given) for column in zip(*columns)])
        if tuple([one.hint if type(one) is Dim else one for one in fitted]) != tuple(ints):
            raise self.refusal()
        return fitted

    def cannot_expand(self, number):
        """Note that a kernel can't be looked into for all sizes, though it could for one: then it never is."""
        if any(number in log.expanded for log in self.logs.values()):
            self.whole.add(number)
            raise self.refusal()

    def refusal(self, kind=CaptureError):
        return kind("its programs for two sizes differ in more than sizes", final=True)

    def _fitted(self, column, given):
        """Return the integer that is on one line or parabola for all sizes that were tried, or one of arguments."""
        sizes = [*self.logs]
        rises = [divmod(b - a, t - s) for a, b, s, t in zip(column, column[1:], sizes, sizes[1:])]
        bend, rest = divmod(rises[1][0] - rises[0][0], sizes[2] - sizes[0]) if len(sizes) > 3 else (0, 0)
        if not rest and not any([rest for _, rest in rises]):
            slope = rises[0][0] - bend * (sizes[0] + sizes[1])
            start = column[0] - (bend * sizes[0] + slope) * sizes[0]
            if all(one == (bend * size + slope) * size + start for size, one in zip(sizes, column)):
                return self.of((bend * self.sizes + slope) * self.sizes + start)
        for known in self._of_slices(given), _numbers_in(given):
            fits = [n for n in known if type(n) is Dim and all(n.at(size) == one for size, one in zip(sizes, column))]
            for other in fits[1:]:  # sizes for which these differ would have to tell which it is
                self.decide(fits[0].values == other.values)
            if fits:
                return fits[0]
        raise self.refusal()

    def _of_slices(self, given):
        """Yield how long the parts are that slices select of an array, and where they begin."""
        if len(given) != 2 or not hasattr(given[0], "value") or type(given[1]) not in (tuple, slice):
            return
        array, items = given[0], given[1] if type(given[1]) is tuple else (given[1],)
        items = [one for one in items if one is not None]
        if any(type(one) not in (slice, int, Dim, type(Ellipsis)) for one in items):
            return
        rest = array.ndim - len(items) + any(one is Ellipsis for one in items)
        items = [part for one in items for part in ([slice(None)] * rest if one is Ellipsis else [one])]
        offset = _values(array.value.offset) + numpy.zeros_like(self.sizes)
        for one, n, stride in zip(items, array.shape, array.strides):
            if type(one) is slice:
                ends = [_by_size(end, self.sizes) for end in (one.start, one.stop, one.step, n)]
                ranges = [range(*slice(*its).indices(n)) for *its, n in zip(*ends)]
                lengths = numpy.array([*map(len, ranges)])
                starts = numpy.array([its.start if its else 0 for its in ranges])
                yield self.of(lengths)
            else:
                starts = _values(one)
            offset = offset + starts * _values(stride)
        yield self.of(offset)

    def of(self, values):
        """Return the number with these values, one object for equal ones; a plain one where they are all the same."""
        if values[0] == values[-1] and (values == values[0]).all():
            return values[0].item()
        key = values.dtype.char, values.tobytes()
        known = self.known.get(key)
        if known is None:
            hint = values[self.hint - self.low].item()
            new = float.__new__(Real, math.nan) if type(hint) is float else int.__new__(Dim, -(1 << 40) - abs(hint))
            new.scope, new.values, new.hint = self, values, hint
            known = self.known[key] = new
        return known

    def each(self, function, values):
        """Return the number that Python makes of each value; CaptureError where that is none, or of no one type."""
        try:
            results = [function(value) for value in values.tolist()]
        except (ArithmeticError, ValueError):
            raise self.refusal() from None
        if len({*map(type, results)}) > 1 or type(results[0]) not in (int, float):
            raise self.refusal()
        return self.of(numpy.array(results, "int64" if type(results[0]) is int else "float64"))

    def decide(self, truths) -> bool:
        """Return what is true for the size at hand; while the scope is open it is for all sizes from then on."""
        truths = numpy.broadcast_to(truths, self.sizes.shape)
        truth = bool(truths[self.hint - self.low])
        if self.open:
            self.allowed &= truths == truth
            self.logs = {size: log for size, log in self.logs.items() if self.serves(size)}
        return truth

    def ends(self) -> tuple:
        """Return the least and the greatest size around the one at hand between which all are allowed."""
        at = self.hint - self.low
        (others,) = numpy.nonzero(~self.allowed)
        below, above = others[others < at], others[others > at]
        low, high = below.max(initial=-1) + 1, above.min(initial=len(self.allowed)) - 1
        return int(low) + self.low, int(high) + self.low

    def limit(self, low, high):
        """Serve no sizes but those between two that were tried."""
        self.allowed &= (self.sizes >= low) & (self.sizes <= high)

    def close(self):
        """Let no more be decided for a size: from now on what is not equal for all sizes is another one."""
        self.open, self.logs = False, None

    def serves(self, size) -> bool:
        """Whether the program is the same for a size."""
        return self.low <= size <= self.high and bool(self.allowed[size - self.low])


def _numbers_in(arguments):
    """Yield the integers that vary among arguments, in slices and in what arrays are like, too."""
    if isinstance(arguments, (tuple, list)):
        for one in arguments:
            yield from _numbers_in(one)
    elif isinstance(arguments, slice):
        yield from _numbers_in((arguments.start, arguments.stop))
    elif type(arguments) is Dim or type(getattr(arguments, "size", None)) is Dim:
        if type(arguments) is Dim:
            yield arguments
        else:
            yield from (arguments.size, *[n for n in (*arguments.shape, *arguments.strides) if type(n) is Dim])


def _values(item):
    return item.values if type(item) in (Dim, Real) else item


def _by_size(item, sizes) -> list:
    return item.values.tolist() if type(item) in (Dim, Real) else [item] * len(sizes)


def _binary(function, swapped=False):
    def compute(self, other):
        if type(other) not in (Dim, Real, int, float, bool):
            return NotImplemented
        one, two = (_values(other), self.values) if swapped else (self.values, _values(other))
        if function in _DIVISIONS and not self.scope.decide(numpy.not_equal(two, 0)):
            raise ZeroDivisionError("division by zero")
        with numpy.errstate(all="ignore"):
            return self.scope.of(function(one, two))

    return compute


_DIVISIONS = (numpy.floor_divide, numpy.remainder, numpy.true_divide)


def _comparison(function):
    def compare(self, other):
        if type(other) not in (Dim, Real, int, float, bool):
            return NotImplemented
        truths, scope = function(self.values, _values(other)), self.scope
        if scope.open or function not in (numpy.equal, numpy.not_equal):
            return scope.decide(truths)
        truths = numpy.broadcast_to(truths, scope.sizes.shape)[scope.allowed]  # no other size is served
        return bool(truths.all() if function is numpy.equal else truths.any())

    return compare


def _is_ours(frame) -> bool:
    """Whether code is of plugrad's own: what that keeps by sizes it computes again for new ones."""
    return frame.f_globals.get("__name__", "").startswith("plugrad.")


class _Varying:
    """What `Dim` and `Real` have in common: `values` by size, `hint` the one at hand."""

    def at(self, size):
        """Return the value for a size."""
        return self.values[size - self.scope.low].item()

    def __hash__(self):
        if self.scope.open and not _is_ours(sys._getframe(1)):  # nobody can say to which keys it would be equal
            raise self.scope.refusal(HashError)
        return id(self)

    def __bool__(self):
        return self != 0

    def __divmod__(self, other):
        return self // other, self % other

    def __pow__(self, power):
        if type(power) not in (int, float) or power != power or abs(power) >= 8:
            raise self.scope.refusal()
        return self.scope.each(lambda value: value**power, self.values)

    def __abs__(self):
        return -self if self < 0 else self

    def __pos__(self):
        return self

    conjugate = __pos__
    real = numerator = property(__pos__)
    imag = property(lambda self: 0 * self)

    def _refuse(self, *others, **options):
        raise self.scope.refusal()

    __int__ = __float__ = __complex__ = __round__ = __format__ = __reduce_ex__ = __rpow__ = __rdivmod__ = _refuse
    __eq__, __ne__ = _comparison(numpy.equal), _comparison(numpy.not_equal)
    __lt__, __le__ = _comparison(numpy.less), _comparison(numpy.less_equal)
    __gt__, __ge__ = _comparison(numpy.greater), _comparison(numpy.greater_equal)


class Dim(_Varying, int):
    """An integer that follows from a size."""

    def __neg__(self):
        return self.scope.of(-self.values)

    def __trunc__(self):
        return self

    __floor__ = __ceil__ = __trunc__

    def __repr__(self):
        slope, rest = int(self.values[1] - self.values[0]), int(self.values[0])
        if (self.values != rest + slope * numpy.arange(len(self.values))).any():
            return f"({self.hint} where n is {self.scope.hint})"
        rest -= slope * self.scope.low
        return ("n" if slope == 1 else f"{slope}n") + (f"{rest:+}" if rest else "")

    __str__ = __repr__


class Real(_Varying, float):
    """A float that follows from a size."""

    def __neg__(self):
        return self.scope.of(-self.values)

    def __trunc__(self):
        return self.scope.each(math.trunc, self.values)

    def __floor__(self):
        return self.scope.each(math.floor, self.values)

    def __ceil__(self):
        return self.scope.each(math.ceil, self.values)

    def __repr__(self):
        return f"({self.hint} where n is {self.scope.hint})"

    __str__ = __repr__


for _name, _function in {
    "add": numpy.add, "sub": numpy.subtract, "mul": numpy.multiply, "floordiv": numpy.floor_divide,
    "mod": numpy.remainder, "truediv": numpy.true_divide,
}.items():  # fmt: skip
    for _class in Dim, Real:
        setattr(_class, f"__{_name}__", _binary(_function))
        setattr(_class, f"__r{_name}__", _binary(_function, swapped=True))
for _name in (
    "__and__ __rand__ __or__ __ror__ __xor__ __rxor__ __lshift__ __rlshift__ __rshift__ __rrshift__ __invert__ "
    "bit_length bit_count to_bytes as_integer_ratio"
).split():
    setattr(Dim, _name, _Varying._refuse)
for _name in "as_integer_ratio is_integer hex".split():
    setattr(Real, _name, _Varying._refuse)
