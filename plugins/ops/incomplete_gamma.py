"""The regularised incomplete gamma functions: SciPy's values, our gradients."""

from __future__ import annotations

from plugrad.extend import Op, binary, collect, hookimpl, scipy_of

from ._checks import NOT_FLOATING, refuse


@binary(name="igamma", aliases=("special.gammainc",), ref="scipy.special.gammainc", numbers="none")
def igamma(xp, input, other):
    """Regularised lower incomplete gamma function P(input, other).

    Args:
        input: shape parameters, not negative.
        other: upper ends of the integral, not negative. Only they have a gradient.

    >>> import plugrad as torch
    >>> torch.special.gammainc(torch.tensor([1.]), torch.tensor([2.]))
    tensor([0.8647])
    """
    refuse(NOT_FLOATING, "igamma", input, other)
    result = scipy_of(xp, "special").gammainc(input, other)
    # SciPy takes shapes that small for zero, and the integral with them.
    return xp.where((input > 0) & (input < 1e-290) & (other > 0), input.dtype.type(1), result)


@igamma.vjp("input")
def igamma_vjp_input(F, g):
    raise NotImplementedError("the derivative for 'igamma: input' is not implemented: detach the first argument")


@igamma.vjp("other")
def igamma_vjp_other(F, g, input, other):
    return g * F.exp((input - 1) * F.log(other) - other - F.lgamma(input))


@igamma.samples
def igamma_samples(make):
    yield make(3, low=0.5, high=4).detach(), make(3, low=0.5, high=4)


@binary(name="igammac", aliases=("special.gammaincc",), ref="scipy.special.gammaincc", numbers="none")
def igammac(xp, input, other):
    """Regularised upper incomplete gamma function Q(input, other) = 1 - P.

    Args:
        input: shape parameters, not negative.
        other: lower ends of the integral, not negative. Only they have a gradient.

    >>> import plugrad as torch
    >>> torch.special.gammaincc(torch.tensor([1.]), torch.tensor([2.]))
    tensor([0.1353])
    """
    refuse(NOT_FLOATING, "igammac", input, other)
    return scipy_of(xp, "special").gammaincc(input, other)


@igammac.vjp("input")
def igammac_vjp_input(F, g):
    raise NotImplementedError("the derivative for 'igammac: input' is not implemented: detach the first argument")


@igammac.vjp("other")
def igammac_vjp_other(F, g, input, other):
    return -g * F.exp((input - 1) * F.log(other) - other - F.lgamma(input))


@igammac.samples
def igammac_samples(make):
    yield make(3, low=0.5, high=4).detach(), make(3, low=0.5, high=4)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
