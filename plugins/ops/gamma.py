"""The gamma function and its kin: logarithm, derivatives, zeta: SciPy's values, our gradients."""

from __future__ import annotations

import math

import numpy

from plugrad.extend import Op, binary, collect, composite, elementwise, get_default_dtype, hookimpl, scipy_of, unary

# ---------------------------------------------------------------- logarithm of gamma


@unary(aliases=("special.gammaln",), complex=False, ref="scipy.special.gammaln")
def lgamma(xp, input):
    """Logarithm of the absolute value of the gamma function.

    >>> import plugrad as torch
    >>> torch.lgamma(torch.tensor([0.5, 4.]))
    tensor([0.5724, 1.7918])
    """
    special = scipy_of(xp, "special")
    result = special.gammaln(xp.maximum(input, -1e30))  # a pole as all large numbers are; SciPy has -inf at -inf
    return _mended(special, input, result) if xp is numpy and input.dtype.itemsize == 8 else result


def _mended(special, x, result):
    """Put right what SciPy's `gammaln` gets wrong: every digit at the roots 1 and 2, infinity for subnormal numbers."""
    near = numpy.abs(numpy.abs(x - 1.5) - 0.5) < 0.2
    tiny = numpy.abs(x) < 1e-300
    result = numpy.asarray(result)
    if near.any():
        result[near] = special.loggamma(x[near] + 0j).real + 0  # a series there; no -0.0 at 1
    if tiny.any():
        result[tiny] = -numpy.log(numpy.abs(x[tiny]))
    return result


@lgamma.vjp
def lgamma_vjp(F, g, input):
    return g * F.digamma(input)


@composite(aliases=("special.multigammaln",), inplace=True, kinds={"p": "int"})
def mvlgamma(F, input, p):
    """Logarithm of the multivariate gamma function of dimension `p`.

    Args:
        input: tensor of values above `(p - 1) / 2`.
        p: positive dimension.

    >>> import plugrad as torch
    >>> torch.mvlgamma(torch.tensor([2.]), 2)
    tensor([0.4516])
    """
    if input.dtype.is_complex or str(input.dtype).endswith("bool"):
        raise RuntimeError(f"The input tensor may not be a {input.dtype} tensor; convert it with .float()")
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if p >= 1 << 31:
        raise RuntimeError(f"mvlgamma(): not enough memory for {p} terms of the sum")
    dtype = input.dtype if input.dtype.is_floating_point else get_default_dtype()
    halves = F.arange(p, dtype=dtype, device=input.device) / -2
    return F.sum(F.lgamma(F.unsqueeze(input, -1) + halves), -1) + p * (p - 1) / 4 * math.log(math.pi)


@mvlgamma.samples
def mvlgamma_samples(make):
    yield make(3, 4, low=2, high=5), 3


# ---------------------------------------------------------------- derivatives


@unary(aliases=("special.psi", "special.digamma"), complex=False, ref="scipy.special.digamma")
def digamma(xp, input):
    """Logarithmic derivative of the gamma function.

    >>> import plugrad as torch
    >>> torch.digamma(torch.tensor([1., 0.5]))
    tensor([-0.5772, -1.9635])
    """
    special = scipy_of(xp, "special")
    result = special.digamma(input)
    if input.dtype.itemsize < 8:
        return result
    beside = input - xp.rint(input)  # exactly; SciPy rounds a multiple of pi, which beside a pole is all there is
    near = (input < 0) & (beside != 0) & (abs(beside) < 1e-3)
    slope = xp.tan(math.pi * xp.where(near, beside, 0.25))
    return xp.where(near, special.digamma(1 - xp.where(near, input, 0)) - math.pi / slope, result)


@digamma.vjp
def digamma_vjp(F, g, input):
    return g * F.polygamma(1, input)


@binary(
    promote="float", at=("special.zeta",), inplace=False,
    node="SpecialZetaBackward0", ref="scipy.special.zeta", numbers="both",
)
def zeta(xp, input, other):
    """Hurwitz's zeta function: the sum of `(other + k) ** -input`.

    Args:
        input: exponents; NaN below 1.
        other: where the sum starts.

    >>> import plugrad as torch
    >>> torch.special.zeta(torch.tensor([2.]), torch.tensor([1.]))
    tensor([1.6449])
    """
    return scipy_of(xp, "special").zeta(input, other)


@zeta.vjp("input")
def zeta_vjp_input(F, g):
    raise NotImplementedError("the derivative of 'special.zeta' with respect to its first argument is not implemented")


@zeta.vjp("other")
def zeta_vjp_other(F, g, input, other):
    return g * -input * F.zeta(input + 1, other)


@zeta.samples
def zeta_samples(make):
    yield make(3, low=1.5, high=5), make(3, low=0.5, high=4)


def _check_order(n) -> None:
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")


@elementwise(
    tensors=("input",), promote="float", at=("polygamma", "special.polygamma"), inplace=False, complex=False,
    kinds={"n": "int"},
)  # fmt: skip
def polygamma(xp, n, input):
    """Derivative of order `n` of the digamma function.

    Args:
        n: order, not negative.
        input: tensor.

    Source: DLMF 5.15.1 and 5.15.3 (as Hurwitz's zeta function), reflection for the first derivative.

    >>> import plugrad as torch
    >>> torch.polygamma(1, torch.tensor([1.]))
    tensor([1.6449])
    """
    _check_order(n)
    if n == 0:
        return digamma.kernels["*"](xp, input)
    if n > 1:
        scale = (math.gamma(n + 1) if n < 171 else math.inf) * (1 if n % 2 else -1)
        return scale * zeta.kernels["*"](xp, float(n + 1), input)
    low = input < 0.5
    right = zeta.kernels["*"](xp, 2.0, xp.where(low, 1 - input, input))
    sine = xp.sin(math.pi * (input - xp.rint(input))) / math.pi
    return xp.where(low, 1 / (sine * sine) - right, right)


@polygamma.vjp("input")
def polygamma_vjp(F, g, n, input):
    return g * F.polygamma(n + 1, input)


@polygamma.samples
def polygamma_samples(make):
    for n in range(4):
        yield n, make(3, low=0.5, high=4)


@composite(name="polygamma_method", at=("Tensor.polygamma",), inplace=True)
def polygamma_method(F, input, n):
    """Derivative of order `n` of the digamma function at the tensor.

    >>> import plugrad as torch
    >>> torch.tensor([1.]).polygamma(1)
    tensor([1.6449])
    """
    return F.polygamma(n, input)


@polygamma_method.samples
def polygamma_method_samples(make):
    yield make(3, low=0.5, high=3), 1


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
