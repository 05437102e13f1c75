"""Bits of numbers, and common divisors."""

from __future__ import annotations

import math

from plugrad.extend import Op, binary, collect, hookimpl, is_integral, reduction, unary

from ._checks import COMPLEX, DIFFERENTIABLE, NOT_INTEGER, refuse, refuse_empty


def _integral(operand):
    dtype, _ = operand
    if dtype.is_floating_point or dtype.is_complex:
        raise TypeError(
            f"~ (operator.invert) is only implemented on integer and Boolean-type tensors, not on {dtype}; for the "
            "elements that are zero write x == 0"
        )


@unary(promote="int", at=(), inplace=False, meet=_integral, node="BitwiseNotBackward0")
def invert(xp, input):
    """The operator `~`: `bitwise_not`, with Python's own error for floats."""
    return xp.invert(input)


@unary(promote="int")
def bitwise_not(xp, input):
    """Each bit inverted; for bool, logical not.

    >>> import plugrad as torch
    >>> ~torch.tensor([0, 1])
    tensor([-1, -2])
    """
    refuse(DIFFERENTIABLE, "bitwise_not_cpu", input)
    return xp.invert(input)


@binary(promote="int", numbers="both")
def bitwise_and(xp, input, other):
    """Bits set in both elements.

    >>> import plugrad as torch
    >>> torch.bitwise_and(torch.tensor([6]), 3)
    tensor([2])
    """
    refuse(DIFFERENTIABLE, "bitwise_and_cpu", input, other)
    return xp.bitwise_and(input, other)


@binary(promote="int", numbers="both")
def bitwise_or(xp, input, other):
    """Bits set in either element.

    >>> import plugrad as torch
    >>> torch.bitwise_or(torch.tensor([6]), 3)
    tensor([7])
    """
    refuse(DIFFERENTIABLE, "bitwise_or_cpu", input, other)
    return xp.bitwise_or(input, other)


@binary(promote="int", numbers="both")
def bitwise_xor(xp, input, other):
    """Bits set in exactly one element.

    >>> import plugrad as torch
    >>> torch.bitwise_xor(torch.tensor([6]), 3)
    tensor([5])
    """
    refuse(DIFFERENTIABLE, "bitwise_xor_cpu", input, other)
    return xp.bitwise_xor(input, other)


def _outside(xp, input, other):
    """Shifts that leave nothing of the number; C has no answer for them and NumPy's is the hardware's."""
    array = input if hasattr(input, "dtype") else other
    return (other < 0) | (other >= 8 * array.dtype.itemsize)


@binary(promote="int", numbers="both")
def bitwise_left_shift(xp, input, other):
    """Bits moved left by so many places; zero when all have left.

    >>> import plugrad as torch
    >>> torch.bitwise_left_shift(torch.tensor([1, 3]), 2)
    tensor([ 4, 12])
    """
    refuse(NOT_INTEGER, "lshift_cpu", input, other)
    dtype, other = _dtype(input, other), xp.asarray(other)
    outside = _outside(xp, input, other)
    return xp.where(outside, 0, xp.left_shift(input, xp.where(outside, 0, other).astype(dtype)))


@binary(promote="int", numbers="both")
def bitwise_right_shift(xp, input, other):
    """Bits moved right by so many places; the sign stays.

    >>> import plugrad as torch
    >>> torch.bitwise_right_shift(torch.tensor([8, -8]), 2)
    tensor([ 2, -2])
    """
    refuse(NOT_INTEGER, "rshift_cpu", input, other)
    dtype, other = _dtype(input, other), xp.asarray(other)
    most = 8 * dtype.itemsize - 1
    outside = _outside(xp, input, other)
    shifted = xp.right_shift(input, xp.where(outside, most, other).astype(dtype))
    return xp.where(outside, 0, shifted) if dtype.kind == "u" else shifted


def _dtype(input, other):
    return (input if hasattr(input, "dtype") else other).dtype


@binary(promote="int", numbers="none")
def gcd(xp, input, other):
    """Greatest common divisor of two integers.

    >>> import plugrad as torch
    >>> torch.gcd(torch.tensor([12]), torch.tensor([18]))
    tensor([6])
    """
    refuse(NOT_INTEGER, "gcd_cpu", input, other)
    return xp.gcd(input, other)


@binary(promote="int", numbers="none")
def lcm(xp, input, other):
    """Least common multiple of two integers.

    >>> import plugrad as torch
    >>> torch.lcm(torch.tensor([4]), torch.tensor([6]))
    tensor([12])
    """
    refuse(NOT_INTEGER, "lcm_cpu", input, other)
    return xp.lcm(input, other)


@reduction(promote="bits", vjp=None, kinds={"mode": "int"})
def hash_tensor(xp, input, dim=None, *, keepdim=False, mode=0):
    """Exclusive or of the bits of the elements, all or along `dim`, as uint64.

    Args:
        input: real tensor; floating-point elements count as float64, all others as int64.
        dim: an int or several; None or () is all.
        keepdim: whether reduced dimensions stay, with size 1.
        mode: 0, the only one there is.

    Errors: `RuntimeError` for another mode, or for an empty tensor without `dim`.

    >>> import plugrad as torch
    >>> torch.hash_tensor(torch.tensor([1, 2, 7])).item()
    4
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}; write 0")
    refuse(COMPLEX, "xor_sum_cpu", input)
    refuse_empty("hash_tensor", input, dim)
    dims = tuple(range(input.ndim)) if dim is None or dim == () else dim if isinstance(dim, tuple) else (dim,)
    bits = input.astype("int64" if is_integral(input.dtype) else "float64").view("uint64")
    rest = [axis for axis in range(input.ndim) if axis not in dims]
    bits = xp.transpose(bits, (*rest, *dims)).reshape(
        *(input.shape[axis] for axis in rest), math.prod(input.shape[axis] for axis in dims)
    )
    while bits.shape[-1] > 1:
        half = bits.shape[-1] // 2
        joined = xp.bitwise_xor(bits[..., :half], bits[..., half : 2 * half])
        bits = xp.concatenate([joined, bits[..., 2 * half :]], axis=-1)
    shape = [1 if axis in dims else input.shape[axis] for axis in range(input.ndim) if keepdim or axis not in dims]
    return bits.reshape(shape)


@hash_tensor.samples
def hash_tensor_samples(make):
    yield make(3, 4), 0


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
