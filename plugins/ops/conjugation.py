"""Conjugates and angles of complex tensors."""

from __future__ import annotations

import math

from plugrad.extend import Op, collect, composite, hookimpl, unary, view


@view(aliases=("resolve_conj",))
def conj(xp, input):
    """Complex conjugate of each element; a real tensor is passed on as it is.

    >>> import plugrad as torch
    >>> torch.conj(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return xp.conjugate(input) if input.dtype.kind == "c" else input


@conj.vjp
def conj_vjp(F, g):
    return F.conj(g)


@unary(promote="same")
def conj_physical(xp, input):
    """Complex conjugate of each element as a new tensor.

    >>> import plugrad as torch
    >>> torch.conj_physical(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return xp.conjugate(input)


@conj_physical.vjp
def conj_physical_vjp(F, g):
    return F.conj(g)


@composite()
def resolve_neg(F, input):
    """The tensor itself: plugrad never leaves a negation pending.

    >>> import plugrad as torch
    >>> torch.resolve_neg(torch.tensor([1.]))
    tensor([1.])
    """
    return input


@unary(inplace=False)
def angle(xp, input):
    """Argument of complex elements in radians; of real ones 0 or pi.

    >>> import plugrad as torch
    >>> torch.angle(torch.tensor([1j, -1.]))
    tensor([1.5708, 3.1416])
    """
    if input.dtype.kind == "c":
        return xp.angle(input)
    turned = xp.where(input < 0, math.pi, 0).astype(input.dtype)
    return xp.where(input != input, input, turned)


@angle.vjp
def angle_vjp(F, g, input):
    # d angle = Im(dz / z), which as a gradient is i * g * z / |z|^2; its real part vanishes for real z.
    modulus = F.abs(input)
    area = modulus * modulus
    return g * 1j * input / F.where(area == 0, math.inf, area)


@angle.meta
def angle_meta(input):
    real = {"complex64": "float32", "complex128": "float64"}
    return input.shape, real.get(str(input.dtype), input.dtype)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
