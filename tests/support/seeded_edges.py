"""Bugs at empty inputs, NaN and integers, and results kept from earlier calls; with ops like them that are right."""

from __future__ import annotations

import numpy

from plugrad.extend import op, unary
from support.seeded_ops import bug, general

TWINS = []  # (check, function that returns an op like one with a bug, and without it)


def twin(check):
    """Enter a function that makes an op which must pass a check that a similar one fails."""

    def enter(make):
        TWINS.append((check, make))
        return make

    return enter


def halved_and_doubled(half):
    def kernel(xp, input):
        """The input, by way of its half."""
        return 2 * half(input)

    return general(kernel)


@bug("whole numbers")
def a_half_kept_in_integers():
    return halved_and_doubled(lambda input: (0.5 * input).astype(input.dtype))


@twin("whole numbers")
def a_half_kept_in_floats():
    return halved_and_doubled(lambda input: 0.5 * input)


@twin("whole numbers")
def a_quotient_that_integers_round():
    def kernel(xp, input):
        """A third of the input; a whole number for integers."""
        return (input / 3).astype(input.dtype)

    record = general(kernel)
    record.formulas.clear()
    record.vjp(lambda F, g: g / 3)
    return record


def last_row(refuse):
    @op(vjp=None)
    def last(xp, input):
        """The last row."""
        if refuse and not len(input):
            raise ValueError("last: expected at least one row")
        for row in input:
            final = row
        return final.copy()

    last.meta(lambda input: (input.shape[1:], input.dtype))
    last.samples(lambda make: iter([make(3, 4)]))
    return last


@bug("empty inputs")
def no_rows_that_nobody_thought_of():
    return last_row(refuse=False)


@twin("empty inputs")
def no_rows_refused_in_words():
    return last_row(refuse=True)


@bug("empty inputs")
def a_maximum_of_nothing():
    def kernel(xp, input):
        """The input less its maximum."""
        return input - input.max()

    record = general(kernel)
    record.formulas.clear()
    record.vjp(lambda F, g, input: g - (input == F.amax(input)) * F.sum(g))
    return record


def shares_of(count):
    def kernel(xp, input):
        """The input in equal shares."""
        return input / max(input.size, 1)

    record = general(kernel)
    record.formulas.clear()
    record.vjp(lambda F, g, input_shape: g * (1 / count(input_shape)))
    return record


@bug("empty inputs")
def a_backward_divided_by_no_elements():
    return shares_of(lambda shape: numpy.prod(shape, dtype=int).item())


@twin("empty inputs")
def a_backward_of_at_least_one_element():
    return shares_of(lambda shape: max(numpy.prod(shape, dtype=int).item(), 1))


def positive(kernel, doc="The positive part."):
    kernel.__doc__ = doc
    record = unary(kernel, name="positive_part", complex=False)
    record.vjp(lambda F, g, input: F.where(input > 0, g, 0 * g))
    return record


@bug("nan", "input")
def a_nan_that_becomes_zero():
    return positive(lambda xp, input: xp.where(input > 0, input, 0.0 * xp.ones_like(input)))


@twin("nan")
def a_nan_that_stays():
    return positive(lambda xp, input: xp.maximum(input, 0))


@bug("nan")
def an_index_made_of_nan():
    table = numpy.arange(-9.0, 9.0)

    def looked_up(xp, input):
        """The input by way of a table of the whole numbers."""
        low = xp.floor(input)
        return table[low.astype("int64") + 9] + (input - low)

    return general(looked_up)


# Kept results are seen from another process, which can load a file, and no record of this one.
KEPT = '''
import numpy
from plugrad.extend import op

known = {{}}

def kept(input, make):
    if {key} not in known:
        known[{key}] = make()
    return known[{key}]

@op({options})
def weighed(xp, input):
    """The cubes of rows, each times its number."""
    weights = {weights}
    return input ** 3 * weights[:, None]

weighed.samples(lambda make: iter([make(3, 4), make(2, 5)]))
{formula}
'''
RAMP = "numpy.arange(len(input))"
FORMULA = """
@weighed.vjp
def weighed_vjp(F, g, input):
    return 3 * g * {slope} * numpy.arange(len(input))[:, None]
"""
KEPT_RESULTS = {  # the last may be kept: they depend on nothing else
    "values by shape": KEPT.format(
        key="input.shape", options="vjp=None", formula="", weights="kept(input, lambda: input.sum(axis=1))"
    ),
    "gradients by shape": KEPT.format(
        key="input.shape", options="", weights=RAMP, formula=FORMULA.format(slope="kept(input, lambda: input * input)")
    ),
    "weights by length": KEPT.format(
        key="len(input)", options="", weights=f"kept(input, lambda: {RAMP})", formula=FORMULA.format(slope="input**2")
    ),
}
