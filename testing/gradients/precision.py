"""Gradients in less than double precision, against those of the same function in float64.

Slopes cannot be measured in float16: so the formula is checked in float64, at the same point, and what backward
gives in low precision is held against what the same backward gives in float64. They may differ by rounding. How
much that is cannot be told from outside; it is taken to be some units in the last place of the largest numbers at
hand, and where that does not explain a difference, what rounding the inputs does to the gradient (which finds ties
that only exist in low precision, and cancellation).
"""

from __future__ import annotations

import numpy

import plugrad
from plugrad.testing.gradients.backward import CAPTURED, natural_steps
from plugrad.testing.gradients.verdict import FAIL, INCONCLUSIVE, PASS, Verdict
from plugrad.testing.tensors import like, reals

UNITS = 8  # how many roundings a gradient may have suffered


def agreement(narrow, wide, atol=0.0, rtol=0.0, nondet_tol=0.0) -> Verdict:
    """Judge backward in low precision by the same backward in float64.

    Args:
        narrow, wide: `Backward` of a flat, and of that flat `widened()`.
        atol, rtol: what a gradient may differ by beyond rounding.
        nondet_tol: what values may.
    """
    epsilon = narrow.flat.epsilon
    if narrow.sizes != wide.sizes:
        return Verdict(INCONCLUSIVE, "func gives outputs of other shapes in float64")
    finite = numpy.isfinite(narrow.value) & numpy.isfinite(wide.value)
    if not narrow.gradient.any() and not wide.gradient.any():
        return Verdict(PASS)
    apart, size = numpy.abs(narrow.value - wide.value)[finite], numpy.abs(wide.value[finite]).max(initial=0.0)
    if (apart > (1e4 * min(epsilon, 1e-4) + nondet_tol) * (1 + size)).any():
        return Verdict(INCONCLUSIVE, "func gives another result in float64")
    if narrow.differentiable and any(
        g is not None and (not wide.differentiable or wide.grads[i] is None) for i, g in enumerate(narrow.grads)
    ):
        return Verdict(INCONCLUSIVE, CAPTURED)
    rows = numpy.array([_rounded(narrow, row) for row in narrow.cotangents]) * finite
    given = narrow.pulled(rows, narrow.labels)
    expected = wide.pulled(rows, narrow.labels)
    return _compare(narrow, wide, rows, given, expected, atol, rtol)


def _compare(narrow, wide, rows, given, expected, atol, rtol) -> Verdict:
    infos = [plugrad.finfo(leaf.tensor.dtype) for leaf in narrow.flat.leaves]
    counts = [leaf.span.stop - leaf.span.start for leaf in narrow.flat.leaves]
    largest = numpy.repeat([info.max for info in infos], counts)
    tiny = numpy.repeat([info.smallest_normal * info.eps for info in infos], counts)
    known = numpy.isfinite(expected) & (numpy.abs(expected) < largest)
    if (known & ~numpy.isfinite(given)).any():
        return _tell(narrow, known & ~numpy.isfinite(given), given, expected, "overflows", INCONCLUSIVE)
    known &= numpy.isfinite(given)
    scale = natural_steps(wide.flat)
    terms = numpy.where(known, numpy.abs(expected * scale), 0.0).max(axis=1, initial=0.0)
    sizes = numpy.abs(rows) @ numpy.where(numpy.isfinite(wide.value), numpy.abs(wide.value), 0.0)
    sizes += numpy.abs(rows).max(axis=1, initial=0.0) * numpy.abs(wide.flat.start).max(initial=0.0)
    rounding = UNITS * narrow.flat.epsilon * (numpy.abs(expected) + (terms + sizes)[:, None] / scale)
    allowed = rounding + UNITS * tiny + atol + rtol * numpy.abs(expected)
    wrong = known & (numpy.abs(given - expected) > allowed)
    if wrong.any():
        for backward in (narrow, wide):
            allowed = allowed + backward.spread(rows, narrow.labels, narrow.flat.epsilon)
        wrong &= numpy.abs(given - expected) > allowed
    if wrong.any():
        return _tell(narrow, wrong, given, expected, "is not rounded but wrong", FAIL)
    return Verdict(PASS)


def _rounded(narrow, row):
    """Return a cotangent as it is in the outputs' precision."""
    pieces = numpy.split(row, narrow.ends[1:-1])
    return numpy.concatenate([reals(like(y, piece).to(y.dtype)) for y, piece in zip(narrow.outputs, pieces)])


def _tell(narrow, where, given, expected, what, status) -> Verdict:
    row, coordinate = numpy.argwhere(where)[-1]
    leaf = next(leaf for leaf in narrow.flat.leaves if coordinate < leaf.span.stop)
    element = leaf.name(int(coordinate) - leaf.span.start)
    numeric, analytic = float(expected[row, coordinate]), float(given[row, coordinate])
    text = (
        f"the gradient in {leaf.tensor.dtype} {what} with respect to input {leaf.label} at element {element}: "
        f"{analytic:.6g}, but {numeric:.6g} in float64 at the same point"
    )
    return Verdict(status, text, input=leaf.label, element=element, numeric=numeric, analytic=analytic)
