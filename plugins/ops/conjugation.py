"""Conjugates and angles of complex tensors."""

from __future__ import annotations

import math

from plugrad.extend import Op, collect, composite, hookimpl, unary, view

from ._memory_formats import empty_in_order


@view(itself=True, at=(), node="ConjPhysicalBackward0")
def conjugated(xp, input):
    """Complex conjugate of each element, in memory of its own; of real ones itself."""
    return _conjugate(xp, input)


@view(itself=True, follows=True)
def conj(xp, input):
    """Complex conjugate of each element; a real tensor is passed on as it is.

    The result follows what is written to `input` later; it cannot be written itself, but its `clone()` can.

    >>> import plugrad as torch
    >>> torch.conj(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return _conjugate(xp, input)


def _conjugate(xp, input):
    if input.dtype.kind != "c":
        return input
    if xp.__name__ != "cupy" or input.flags.c_contiguous:
        return xp.asarray(xp.conjugate(input))
    return xp.conjugate(input, out=empty_in_order(xp, input, input.dtype))  # whose ufuncs give row-major order


@conj.vjp
@conjugated.vjp
def conj_vjp(F, g):
    return F.conjugated(g)


@composite()
def conj_physical(F, input):
    """Complex conjugate of each element; a real tensor is passed on as it is.

    The result has memory of its own.

    >>> import plugrad as torch
    >>> torch.conj_physical(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return F.conjugated(input)


@composite(name="conj_physical_in_place", at=("Tensor.conj_physical_",))
def conj_physical_(F, input):
    """In-place form of `conj_physical`.

    >>> import plugrad as torch
    >>> torch.tensor([1 + 2j]).conj_physical_()
    tensor([1.-2.j])
    """
    return input.copy_(F.conjugated(input)) if input.is_complex() or input.requires_grad else input


@conj_physical_.samples
def conj_physical_in_place_samples(make):
    yield make.on_copy(make(2, 3, dtype="complex128"))


@composite(kinds={"input": "tensor"})
def resolve_conj(F, input):
    """The tensor itself, or a copy of a conjugate that follows another tensor.

    >>> import plugrad as torch
    >>> torch.resolve_conj(torch.tensor([1 + 2j]))
    tensor([1.+2.j])
    """
    return input.clone() if input.is_conj() else input


@conj.samples
@conjugated.samples
@conj_physical.samples
@resolve_conj.samples
def conjugation_samples(make):
    yield make(3, 4)
    yield make(2, 3, dtype="complex128")


@composite(kinds={"input": "tensor"})
def resolve_neg(F, input):
    """The tensor itself: plugrad never leaves a negation pending.

    >>> import plugrad as torch
    >>> torch.resolve_neg(torch.tensor([1.]))
    tensor([1.])
    """
    return input


@unary(at=(), inplace=False, node="AngleBackward0")
def angle_of_complex(xp, input):
    """Argument of complex elements."""
    return xp.angle(input)


@angle_of_complex.vjp
def angle_of_complex_vjp(F, g, input):
    # d angle = Im(dz / z), which as a gradient is i * g * z / |z|^2.
    modulus = F.abs(input)
    area = modulus * modulus
    return g * 1j * input / F.where(area == 0, math.inf, area)


@angle_of_complex.samples
def angle_of_complex_samples(make):
    yield make(2, 3, dtype="complex128")


@unary(at=(), inplace=False, node="AngleBackward0")
def angle_of_real(xp, input):
    """Argument of real elements: 0, or pi where negative."""
    turned = xp.where(input < 0, math.pi, 0).astype(input.dtype)
    return xp.where(input != input, input, turned)


@angle_of_real.vjp
def angle_of_real_vjp(F, g):
    return F.zeros_like(g)


@composite()
def angle(F, input):
    """Argument of complex elements in radians; of real ones 0 or pi.

    >>> import plugrad as torch
    >>> torch.angle(torch.tensor([1j, -1.]))
    tensor([1.5708, 3.1416])
    """
    return F.angle_of_complex(input) if input.is_complex() else F.angle_of_real(input)


resolve_neg.samples(conjugation_samples)
angle.samples(conjugation_samples)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
