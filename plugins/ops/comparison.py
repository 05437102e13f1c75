"""Comparisons, tests for special values, and logic."""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, binary, collect, composite, elementwise, hookimpl, unary

from ._checks import COMPLEX, refuse
from ._memory_formats import empty_in_order

# ---------------------------------------------------------------- comparisons


@binary(promote="bool", eight_bits=True)
def eq(xp, input, other):
    """Where the elements are equal.

    >>> import plugrad as torch
    >>> torch.eq(torch.tensor([1, 2]), 2)
    tensor([False,  True])
    """
    return xp.equal(input, other)


@binary(promote="bool", aliases=("not_equal",), eight_bits=True)
def ne(xp, input, other):
    """Where the elements differ; NaN differs from everything.

    >>> import plugrad as torch
    >>> torch.ne(torch.tensor([1, 2]), 2)
    tensor([ True, False])
    """
    return xp.not_equal(input, other)


@binary(promote="bool", aliases=("less",))
def lt(xp, input, other):
    """Where `input` is less than `other`.

    >>> import plugrad as torch
    >>> torch.tensor([1, 2]) < 2
    tensor([ True, False])
    """
    refuse(COMPLEX, "lt_cpu", input, other)
    return xp.less(input, other)


@binary(promote="bool", aliases=("less_equal",))
def le(xp, input, other):
    """Where `input` is less than `other` or equal to it.

    >>> import plugrad as torch
    >>> torch.tensor([1, 3]) <= 2
    tensor([ True, False])
    """
    refuse(COMPLEX, "le_cpu", input, other)
    return xp.less_equal(input, other)


@binary(promote="bool", aliases=("greater",))
def gt(xp, input, other):
    """Where `input` is greater than `other`.

    >>> import plugrad as torch
    >>> torch.tensor([1, 3]) > 2
    tensor([False,  True])
    """
    refuse(COMPLEX, "gt_cpu", input, other)
    return xp.greater(input, other)


@binary(promote="bool", aliases=("greater_equal",))
def ge(xp, input, other):
    """Where `input` is greater than `other` or equal to it.

    >>> import plugrad as torch
    >>> torch.tensor([1, 2]) >= 2
    tensor([False,  True])
    """
    refuse(COMPLEX, "ge_cpu", input, other)
    return xp.greater_equal(input, other)


@elementwise(tensors=("input", "other"), promote="bool", at=(), inplace=False)
def isclose_elements(xp, input, other, rtol, atol, equal_nan):
    """Where two arrays of one dtype are close; see `isclose`."""
    close = xp.equal(input, other)
    if equal_nan:
        close = close | (xp.not_equal(input, input) & xp.not_equal(other, other))
    if input.dtype.kind == "b" or rtol == 0 and atol == 0:
        return close
    if input.dtype.kind in "iu":  # whose differences may not fit
        input, other = (array.astype(plugrad.get_default_dtype().numpy) for array in (input, other))
    allowed = atol + xp.abs(rtol * other)
    error = xp.abs(xp.subtract(input, other))
    # An infinite element is close to its equal only, which was seen to above.
    return close | (xp.isfinite(error) & (error <= allowed))


@isclose_elements.samples
def isclose_elements_samples(make):
    yield make(3, 4), make(4), 0.5, 0.25, False


@composite()
def isclose(F, input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Where `|input - other| <= atol + rtol * |other|`.

    Args:
        input, other: tensors of one dtype.
        rtol, atol: relative and absolute tolerance, not negative.
        equal_nan: whether NaN is close to NaN.

    >>> import plugrad as torch
    >>> torch.isclose(torch.tensor([1., 2.]), torch.tensor([1.1, 2.]))
    tensor([False,  True])
    """
    if input.dtype != other.dtype:
        raise RuntimeError(f"{input.dtype} did not match {other.dtype}; bring both to one dtype with .to(dtype)")
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {tolerance}")
    return F.isclose_elements(input, other, rtol, atol, equal_nan)


@composite()
def allclose(F, input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close, as a Python bool; see `isclose`.

    >>> import plugrad as torch
    >>> torch.allclose(torch.tensor([1., 2.]), torch.tensor([1., 2.00001]))
    True
    """
    return bool(F.all(F.isclose(input, other, rtol, atol, equal_nan)))


@composite(kinds={"input": "tensor", "other": "tensor"})
def equal(F, input, other):
    """Whether two tensors have the same shape and elements, as a Python bool.

    >>> import plugrad as torch
    >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
    True
    """
    if not hasattr(other, "shape"):
        raise TypeError(f"equal(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}")
    return input.shape == other.shape and bool(F.all(F.eq(input, other)))


@isclose.samples
@allclose.samples
@equal.samples
def closeness_samples(make):
    yield make(3, 4), make(3, 4)
    same = make(3, 4)
    yield same, same


# ---------------------------------------------------------------- special values


@unary(promote="bool", inplace=False, eight_bits=True)
def isnan(xp, input):
    """Where an element is NaN; for complex ones, where a part is.

    >>> import plugrad as torch
    >>> torch.isnan(torch.tensor([1., float("nan")]))
    tensor([False,  True])
    """
    return xp.not_equal(input, input)


@unary(promote="bool", inplace=False)
def isinf(xp, input):
    """Where an element is infinite.

    >>> import plugrad as torch
    >>> torch.isinf(torch.tensor([1., -float("inf")]))
    tensor([False,  True])
    """
    return xp.isinf(input)


@unary(promote="bool", inplace=False)
def isfinite(xp, input):
    """Where an element is neither infinite nor NaN.

    >>> import plugrad as torch
    >>> torch.isfinite(torch.tensor([1., float("nan")]))
    tensor([ True, False])
    """
    return xp.isfinite(input)


def _infinity(xp, input, name, sign):
    if input.dtype.kind == "c":
        raise RuntimeError(f"{name} does not support complex inputs.")
    if input.dtype.kind == "f":
        return xp.equal(input, float(sign + "inf"))
    return xp.zeros(input.shape, dtype=bool)


@unary(promote="bool", inplace=False)
def isposinf(xp, input):
    """Where an element is positive infinity.

    >>> import plugrad as torch
    >>> torch.isposinf(torch.tensor([float("inf"), -float("inf")]))
    tensor([ True, False])
    """
    return _infinity(xp, input, "isposinf", "+")


@unary(promote="bool", inplace=False)
def isneginf(xp, input):
    """Where an element is negative infinity.

    >>> import plugrad as torch
    >>> torch.isneginf(torch.tensor([float("inf"), -float("inf")]))
    tensor([False,  True])
    """
    return _infinity(xp, input, "isneginf", "-")


@unary(promote="bool", inplace=False)
def isreal(xp, input):
    """Where the imaginary part of an element is zero.

    >>> import plugrad as torch
    >>> torch.isreal(torch.tensor([1, 1j]))
    tensor([ True, False])
    """
    if input.dtype.kind == "c":
        return xp.equal(input.imag, 0)
    result = empty_in_order(xp, input, bool)
    result.fill(True)
    return result


# ---------------------------------------------------------------- logic


@unary(promote="bool", inplace="values")
def logical_not(xp, input):
    """Where an element is zero.

    >>> import plugrad as torch
    >>> torch.logical_not(torch.tensor([0, 2]))
    tensor([ True, False])
    """
    return xp.logical_not(input)


@binary(promote="bool", numbers="none", inplace="values")
def logical_and(xp, input, other):
    """Where both elements are nonzero.

    >>> import plugrad as torch
    >>> torch.logical_and(torch.tensor([0, 2]), torch.tensor([1, 1]))
    tensor([False,  True])
    """
    return xp.logical_and(input, other)


@binary(promote="bool", numbers="none", inplace="values")
def logical_or(xp, input, other):
    """Where at least one element is nonzero.

    >>> import plugrad as torch
    >>> torch.logical_or(torch.tensor([0, 2]), torch.tensor([0, 1]))
    tensor([False,  True])
    """
    return xp.logical_or(input, other)


@binary(promote="bool", numbers="none", inplace="values")
def logical_xor(xp, input, other):
    """Where exactly one element is nonzero.

    >>> import plugrad as torch
    >>> torch.logical_xor(torch.tensor([0, 2]), torch.tensor([1, 1]))
    tensor([ True, False])
    """
    return xp.logical_xor(input, other)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
