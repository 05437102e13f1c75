"""Bessel functions of order zero and one, and the Airy function: SciPy's values, our gradients."""

from __future__ import annotations

from plugrad.extend import Op, collect, hookimpl, scipy_of, unary

# ---------------------------------------------------------------- modified, first kind


@unary(aliases=("special.i0",), complex=False, ref="scipy.special.i0")
def i0(xp, input):
    """Modified Bessel function of the first kind, order 0.

    >>> import plugrad as torch
    >>> torch.special.i0(torch.tensor([0., 1.]))
    tensor([1.0000, 1.2661])
    """
    return scipy_of(xp, "special").i0(input)


@i0.vjp
def i0_vjp(F, g, input):
    return g * F.i1(input)


@unary(at=("special.i0e",), inplace=False, node="SpecialI0EBackward0", complex=False, ref="scipy.special.i0e")
def i0e(xp, input):
    """`i0` times `exp(-abs(input))`.

    >>> import plugrad as torch
    >>> torch.special.i0e(torch.tensor([0., 1.]))
    tensor([1.0000, 0.4658])
    """
    return scipy_of(xp, "special").i0e(input)


@i0e.vjp
def i0e_vjp(F, g, input, y):
    return g * (F.i1e(input) - F.sgn(input) * y)


@unary(at=("special.i1",), inplace=False, node="SpecialI1Backward0", complex=False, ref="scipy.special.i1")
def i1(xp, input):
    """Modified Bessel function of the first kind, order 1.

    >>> import plugrad as torch
    >>> torch.special.i1(torch.tensor([0., 1.]))
    tensor([0.0000, 0.5652])
    """
    return scipy_of(xp, "special").i1(input)


@i1.vjp
def i1_vjp(F, g, input, y):
    zero = input == 0
    return g * F.where(zero, 0.5, F.i0(input) - y / F.where(zero, 1.0, input))


@unary(at=("special.i1e",), inplace=False, node="SpecialI1EBackward0", complex=False, ref="scipy.special.i1e")
def i1e(xp, input):
    """`i1` times `exp(-abs(input))`.

    >>> import plugrad as torch
    >>> torch.special.i1e(torch.tensor([0., 1.]))
    tensor([0.0000, 0.2079])
    """
    return scipy_of(xp, "special").i1e(input)


@i1e.vjp
def i1e_vjp(F, g, input, y):
    zero = input == 0
    return g * F.where(zero, 0.5, F.i0e(input) - y * (F.sgn(input) + 1 / F.where(zero, 1.0, input)))


@unary(at=("special.modified_bessel_i0",), inplace=False, complex=False, vjp=None, ref="scipy.special.i0")
def modified_bessel_i0(xp, input):
    """Modified Bessel function of the first kind, order 0.

    Without a gradient, as in PyTorch.

    >>> import plugrad as torch
    >>> torch.special.modified_bessel_i0(torch.tensor([1.]))
    tensor([1.2661])
    """
    return scipy_of(xp, "special").i0(input)


@unary(at=("special.modified_bessel_i1",), inplace=False, complex=False, vjp=None, ref="scipy.special.i1")
def modified_bessel_i1(xp, input):
    """Modified Bessel function of the first kind, order 1.

    Without a gradient, as in PyTorch.

    >>> import plugrad as torch
    >>> torch.special.modified_bessel_i1(torch.tensor([1.]))
    tensor([0.5652])
    """
    return scipy_of(xp, "special").i1(input)


# ---------------------------------------------------------------- modified, second kind


@unary(at=("special.modified_bessel_k0",), inplace=False, complex=False, vjp=None, ref="scipy.special.k0")
def modified_bessel_k0(xp, input):
    """Modified Bessel function of the second kind, order 0.

    >>> import plugrad as torch
    >>> torch.special.modified_bessel_k0(torch.tensor([1.]))
    tensor([0.4210])
    """
    return scipy_of(xp, "special").k0(input)


@unary(at=("special.modified_bessel_k1",), inplace=False, complex=False, vjp=None, ref="scipy.special.k1")
def modified_bessel_k1(xp, input):
    """Modified Bessel function of the second kind, order 1.

    >>> import plugrad as torch
    >>> torch.special.modified_bessel_k1(torch.tensor([1.]))
    tensor([0.6019])
    """
    return scipy_of(xp, "special").k1(input)


@unary(at=("special.scaled_modified_bessel_k0",), inplace=False, complex=False, vjp=None, ref="scipy.special.k0e")
def scaled_modified_bessel_k0(xp, x):
    """`modified_bessel_k0` times `exp(x)`.

    >>> import plugrad as torch
    >>> torch.special.scaled_modified_bessel_k0(torch.tensor([1.]))
    tensor([1.1445])
    """
    return scipy_of(xp, "special").k0e(x)


@unary(at=("special.scaled_modified_bessel_k1",), inplace=False, complex=False, vjp=None, ref="scipy.special.k1e")
def scaled_modified_bessel_k1(xp, x):
    """`modified_bessel_k1` times `exp(x)`.

    >>> import plugrad as torch
    >>> torch.special.scaled_modified_bessel_k1(torch.tensor([1.]))
    tensor([1.6362])
    """
    return scipy_of(xp, "special").k1e(x)


# ---------------------------------------------------------------- oscillating


@unary(at=("special.bessel_j0",), inplace=False, complex=False, vjp=None, ref="scipy.special.j0")
def bessel_j0(xp, input):
    """Bessel function of the first kind, order 0.

    >>> import plugrad as torch
    >>> torch.special.bessel_j0(torch.tensor([0., 1.]))
    tensor([1.0000, 0.7652])
    """
    return scipy_of(xp, "special").j0(input)


@unary(at=("special.bessel_j1",), inplace=False, complex=False, vjp=None, ref="scipy.special.j1")
def bessel_j1(xp, input):
    """Bessel function of the first kind, order 1.

    >>> import plugrad as torch
    >>> torch.special.bessel_j1(torch.tensor([0., 1.]))
    tensor([0.0000, 0.4401])
    """
    return scipy_of(xp, "special").j1(input)


@unary(at=("special.bessel_y0",), inplace=False, complex=False, vjp=None, ref="scipy.special.y0")
def bessel_y0(xp, input):
    """Bessel function of the second kind, order 0; NaN below zero.

    >>> import plugrad as torch
    >>> torch.special.bessel_y0(torch.tensor([1.]))
    tensor([0.0883])
    """
    return scipy_of(xp, "special").y0(input)


@unary(at=("special.bessel_y1",), inplace=False, complex=False, vjp=None, ref="scipy.special.y1")
def bessel_y1(xp, input):
    """Bessel function of the second kind, order 1; NaN below zero.

    >>> import plugrad as torch
    >>> torch.special.bessel_y1(torch.tensor([1.]))
    tensor([-0.7812])
    """
    return scipy_of(xp, "special").y1(input)


@unary(at=("special.spherical_bessel_j0",), inplace=False, complex=False, vjp=None)
def spherical_bessel_j0(xp, x):
    """Spherical Bessel function of order 0, `sin(x) / x`.

    >>> import plugrad as torch
    >>> torch.special.spherical_bessel_j0(torch.tensor([0., 1.]))
    tensor([1.0000, 0.8415])
    """
    zero = x == 0
    result = xp.where(zero, 1, xp.sin(x) / xp.where(zero, 1, x))
    return xp.where(xp.isinf(x), 0, result).astype(x.dtype)


@unary(at=("special.airy_ai",), inplace=False, complex=False, vjp=None)
def airy_ai(xp, x):
    """Airy function Ai; NaN where a number is too negative to have a phase.

    CuPy does not have it: on a GPU it needs leave to run on the CPU.

    >>> import plugrad as torch
    >>> torch.special.airy_ai(torch.tensor([0., 1.]))
    tensor([0.3550, 0.1353])
    """
    return scipy_of(xp, "special").airy(xp.minimum(x, 1000))[0]  # SciPy gives NaN for what is far beyond underflow


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
