"""Exponentials and logarithms."""

from __future__ import annotations

import functools
import math
import pathlib

from plugrad.extend import Op, binary, collect, conj, hookimpl, load_inline, native, unary

from ._checks import INTEGRAL, fitted, is_number, refuse
from ._elements import of_elements

_on_cuda = functools.partial(
    load_inline, cuda=pathlib.Path(__file__).with_name("exponential.cu"), arrays=1, like=0, per="pack", types="floating"
)


# ---------------------------------------------------------------- exponentials


@unary(autocast={"cuda": "float32"})
def exp(xp, input):
    """Exponential of each element.

    >>> import plugrad as torch
    >>> torch.exp(torch.tensor([0., 1.]))
    tensor([1.0000, 2.7183])
    """
    return xp.exp(input)


of_elements(exp, "exp")
of_elements(exp, _on_cuda(name="exponential"), "cuda")


@exp.vjp
def exp_vjp(F, g, y):
    return g * conj(F, y)


@unary(aliases=("special.exp2",))
def exp2(xp, input):
    """Two to the power of each element.

    >>> import plugrad as torch
    >>> torch.exp2(torch.tensor([0., 3.]))
    tensor([1., 8.])
    """
    if input.dtype.kind == "c":
        return xp.exp(input * math.log(2))
    return xp.exp2(input)


@exp2.vjp
def exp2_vjp(F, g, y):
    return g * (conj(F, y) * math.log(2))


@unary(aliases=("special.expm1",), autocast={"cuda": "float32"})
def expm1(xp, input):
    """Exponential less one, exact for small elements.

    >>> import plugrad as torch
    >>> torch.expm1(torch.tensor([0., 1.]))
    tensor([0.0000, 1.7183])
    """
    return xp.expm1(input)


@expm1.vjp
def expm1_vjp(F, g, y):
    return g * (conj(F, y) + 1)


@binary(inplace=False, numbers="none")
def logaddexp(xp, input, other):
    """Logarithm of the sum of two exponentials, without overflow.

    >>> import plugrad as torch
    >>> torch.logaddexp(torch.tensor([0.]), torch.tensor([0.]))
    tensor([0.6931])
    """
    refuse(INTEGRAL, "logaddexp_cpu", input, other)
    if input.dtype.kind != "c":
        return xp.logaddexp(input, other)
    first = input.real >= other.real
    larger, smaller = xp.where(first, input, other), xp.where(first, other, input)
    total = larger + xp.log1p(xp.exp(smaller - larger))
    return xp.where(xp.isinf(larger.real) & (input == other), larger, total)


@logaddexp.kernel("cpu")
@native("logaddexp", otherwise=logaddexp)
def logaddexp_in_c(call, xp, input, other):
    return call(input, other) if input.shape == other.shape else NotImplemented


@logaddexp.vjp("input")
def logaddexp_vjp_input(F, g, input, other):
    return g / conj(F, F.exp(other - input) + 1)


@logaddexp.vjp("other")
def logaddexp_vjp_other(F, g, input, other):
    return g / conj(F, F.exp(input - other) + 1)


@binary(inplace=False, numbers="none", complex=False)
def logaddexp2(xp, input, other):
    """Base 2 logarithm of the sum of two powers of two.

    >>> import plugrad as torch
    >>> torch.logaddexp2(torch.tensor([3.]), torch.tensor([3.]))
    tensor([4.])
    """
    refuse(INTEGRAL, "logaddexp2_cpu", input, other)
    return xp.logaddexp2(input, other)


@logaddexp2.vjp("input")
def logaddexp2_vjp_input(F, g, input, other):
    return g / (F.exp2(other - input) + 1)


@logaddexp2.vjp("other")
def logaddexp2_vjp_other(F, g, input, other):
    return g / (F.exp2(input - other) + 1)


# ---------------------------------------------------------------- logarithms


@unary(domain=(0, None), autocast={"cuda": "float32"})
def log(xp, input):
    """Natural logarithm of each element.

    >>> import plugrad as torch
    >>> torch.log(torch.tensor([1., 10.]))
    tensor([0.0000, 2.3026])
    """
    return xp.log(input)


of_elements(log, "log")
of_elements(log, _on_cuda(name="logarithm"), "cuda")


@log.vjp
def log_vjp(F, g, input):
    return g / conj(F, input)


@unary(domain=(0, None), autocast={"cuda": "float32"})
def log2(xp, input):
    """Base 2 logarithm of each element.

    >>> import plugrad as torch
    >>> torch.log2(torch.tensor([1., 8.]))
    tensor([0., 3.])
    """
    return xp.log2(input)


of_elements(log2, "log2")


@log2.vjp
def log2_vjp(F, g, input):
    return g / (conj(F, input) * math.log(2))


@unary(domain=(0, None), autocast={"cuda": "float32"})
def log10(xp, input):
    """Base 10 logarithm of each element.

    >>> import plugrad as torch
    >>> torch.log10(torch.tensor([1., 10.]))
    tensor([0., 1.])
    """
    return xp.log10(input)


of_elements(log10, "log10")


@log10.vjp
def log10_vjp(F, g, input):
    return g / (conj(F, input) * math.log(10))


@unary(aliases=("special.log1p",), domain=(-1, None), node="Log1PBackward0", autocast={"cuda": "float32"})
def log1p(xp, input):
    """Logarithm of one plus each element, exact for small elements.

    >>> import plugrad as torch
    >>> torch.log1p(torch.tensor([0., 1.]))
    tensor([0.0000, 0.6931])
    """
    if input.dtype.kind == "c":
        return _log1p_of_complex(xp, input)
    return xp.log1p(input)


def _log1p_of_complex(xp, z):
    """`log(1 + z)`, whose real part is half of log1p(x (2 + x) + y^2), where |1 + z| is near one."""
    x, y = z.real, z.imag
    square = x * (2 + x) + y * y
    near = xp.where((square == 0) & (x > -1), x, 0.5 * xp.log1p(square))
    result = xp.empty(z.shape, z.dtype)
    result.real = xp.where(abs(square) < 0.5, near, xp.log(xp.hypot(x + 1, y)))
    result.imag = xp.arctan2(y, x + 1)
    return result


of_elements(log1p, "log1p")


@log1p.vjp
def log1p_vjp(F, g, input):
    return g / (conj(F, input) + 1)


@binary(
    promote="float", aliases=("special.xlogy",), complex=False, numbers="both",
    node={"XlogyBackward2": "not isinstance(other, Tensor)", "XlogyBackward1": "not isinstance(input, Tensor)"},
)  # fmt: skip
def xlogy(xp, input, other):
    """`input * log(other)`, zero where `input` is zero.

    >>> import plugrad as torch
    >>> torch.xlogy(torch.tensor([0., 2.]), torch.tensor([0., 1.]))
    tensor([0., 0.])
    """
    log = float(xp.log(float(other))) if is_number(other) else xp.log(other)  # NumPy's scalars would widen a float32
    return xp.where((input == 0) & (other == other), 0, input * log)


@xlogy.vjp("input")
def xlogy_vjp_input(F, g, input, other):
    return F.where((input == 0) & (other <= 0), 0.0, F.xlogy(g, other))


@xlogy.vjp("other")
def xlogy_vjp_other(F, g, input, other):
    return g * (input / other)


@xlogy.samples
def xlogy_samples(make):
    yield make(3, 4), make(4, low=0.1, high=3)


@binary(
    promote="float", at=("special.xlog1py",), inplace=False,
    complex=False, numbers="both",
    node={
        "SpecialXlog1PyBackward0": "True",  # its own name would end in Xlog1py
        "SpecialXlog1PyBackward2": "not isinstance(other, Tensor)",
        "SpecialXlog1PyBackward1": "not isinstance(input, Tensor)",
    },
)
def xlog1py(xp, input, other):
    """`input * log1p(other)`, zero where `input` is zero.

    >>> import plugrad as torch
    >>> torch.special.xlog1py(torch.tensor([0., 2.]), torch.tensor([-1., 1.]))
    tensor([0.0000, 1.3863])
    """
    log = float(xp.log1p(float(other))) if is_number(other) else xp.log1p(other)
    return xp.where((input == 0) & (other == other), 0, input * log)


@xlog1py.vjp("input")
def xlog1py_vjp_input(F, g, input, other):
    return F.where((input == 0) & (other <= -1), 0.0, F.xlog1py(g, other))


@xlog1py.vjp("other")
def xlog1py_vjp_other(F, g, input, other):
    return g * (input / (other + 1))


@unary(aliases=("special.logit",), domain=(0, 1), complex=False, fits=("eps",))
def logit(xp, input, eps=None):
    """Logarithm of the odds `input / (1 - input)`: the inverse of `sigmoid`.

    Args:
        input: tensor of probabilities.
        eps: when given, `input` is clamped to `[eps, 1 - eps]` first.

    >>> import plugrad as torch
    >>> torch.logit(torch.tensor([0.5, 0.9]))
    tensor([0.0000, 2.1972])
    """
    if eps is not None:
        eps = fitted(input.dtype, eps)
        input = xp.where(input < eps, eps, xp.where(input > 1 - eps, 1 - eps, input)).astype(input.dtype)
    return xp.log(xp.true_divide(input, 1 - input))


@logit.vjp
def logit_vjp(F, g, input, eps):
    slope = g / (input * (1 - input))
    if eps is None:
        return F.where((input >= 0) & (input <= 1), slope, math.nan)
    return F.where((input >= eps) & (input <= 1 - eps), slope, 0.0)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
