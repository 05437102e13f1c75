"""Variances and standard deviations."""

from __future__ import annotations

import functools
import math
import pathlib
import warnings

from plugrad.extend import (
    LEFT_OUT,
    Op,
    collect,
    composite,
    hookimpl,
    is_integral,
    keep_dims,
    load_inline,
    native,
    reduction,
)

from .reduction import count_of, total

_load = functools.partial(
    load_inline, cuda=pathlib.Path(__file__).with_suffix(".cu"), numbers=2, per="rows", types="floating"
)
_spread, _spread_grad = _load(name="variance", arrays=2), _load(name="variance_grad", arrays=2, like=0)
_LONG = 1 << 17  # elements of a row for which a block of CUDA is enough


def _mean_squares(xp, input, dim, keepdim, correction):
    """Sum of squared distances from the mean, over the degrees of freedom."""
    if is_integral(input.dtype):
        raise RuntimeError("std and var only support floating point and complex dtypes; write input.float()")
    n = count_of(input.shape, dim)
    if n <= correction:
        warnings.warn(
            "std(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
            "factor (input numel divided by output numel).",
            UserWarning,
            stacklevel=2,
        )
    away = input - total(xp, input, dim, True) / _divisor(input.dtype, n)
    squares = away.real * away.real + away.imag * away.imag if away.dtype.kind == "c" else away * away
    return total(xp, squares, dim, keepdim) / _divisor(squares.dtype, max(0, n - correction))  # 0 of NaN


def _divisor(dtype, n):
    """Return a number by which arrays of a dtype are divided: as it is, where NumPy takes it for one of that dtype."""
    return n if dtype.kind in "fc" else dtype.type(n)


@reduction(at=(), node="VarBackward0")
def variance(xp, input, dim=None, keepdim=False, *, correction=1):
    """Variance over `dim`, of `correction` elements less (Bessel: 1)."""
    return _mean_squares(xp, input, dim, keepdim, correction)


def spread_of_rows(call, xp, input, dim, keepdim, correction, root=False):
    """Variances over the last dimensions, or their roots; NotImplemented for what is not served."""
    ndim, shape = input.ndim, input.shape
    first, count = (dim, 1) if dim.__class__ is int else (min(dim), len(dim)) if dim else (0, ndim)
    n = math.prod(shape[first:])
    if first + count != ndim or n <= correction:
        return NotImplemented
    out = xp.empty(shape[:first] + (1,) * (keepdim and count), input.dtype)
    return out if call(input, out, n - correction, root) is None else NotImplemented


@variance.kernel("cpu")
@native("variance", otherwise=variance)
def variance_in_c(call, xp, input, dim=None, keepdim=False, *, correction=1):
    return spread_of_rows(call, xp, input, dim, keepdim, correction)


def _as_rows(call, input, of_rows, *rest):
    """Call a kernel of CUDA, whose arrays are those of rows."""
    if not input.size or not input.flags.c_contiguous or input.size > _LONG * of_rows.size:
        return NotImplemented
    return call(input.reshape(of_rows.size, -1), of_rows, *rest)


@variance.kernel("cuda")
@native(_spread, otherwise=variance, halves=True)
def variance_on_cuda(call, xp, input, dim=None, keepdim=False, *, correction=1):
    return spread_of_rows(functools.partial(_as_rows, call), xp, input, dim, keepdim, correction)


@variance.meta
def spread_meta(input, dim=None, keepdim=False, *, correction=1):
    """Shape and dtype of variances; said here because a probe of one element would warn of too few."""
    dims = range(input.ndim) if dim is None or dim == () else dim if isinstance(dim, tuple) else (dim,)
    real = {"complex64": "float32", "complex128": "float64"}.get(str(input.dtype), input.dtype)
    sizes = enumerate(input.shape)
    return tuple([1 if i in dims else n for i, n in sizes if keepdim or i not in dims]), real


@variance.vjp
def variance_vjp(F, g, input, dim, keepdim, correction):
    freedom = count_of(input.shape, dim) - correction
    g = keep_dims(F, g, input.shape, dim, keepdim)
    return g * (2 / freedom if freedom else math.inf) * (input - F.mean(input, dim, True))


def _grad_of_rows(call, xp, g, input, dim, correction, root=False):
    dims = range(input.ndim) if dim is None or dim == () else (dim,) if dim.__class__ is int else dim
    freedom = count_of(input.shape, dim) - correction
    if min(dims, default=0) + len(dims) != input.ndim or freedom <= 0:
        return NotImplemented
    result = _as_rows(call, input, xp.ascontiguousarray(g), freedom, root)
    return result if result is NotImplemented else result.reshape(input.shape)


@variance.vjp_kernel("cuda")
@native(_spread_grad)
def variance_grad_on_cuda(call, xp, g, input, dim, keepdim, correction):
    return _grad_of_rows(call, xp, g, input, dim, correction)


@reduction(at=(), node="StdBackward0")
def deviation(xp, input, dim=None, keepdim=False, *, correction=1):
    """Square root of `variance`."""
    return xp.sqrt(_mean_squares(xp, input, dim, keepdim, correction))


@deviation.kernel("cpu")
@native("variance", otherwise=deviation)
def deviation_in_c(call, xp, input, dim=None, keepdim=False, *, correction=1):
    return spread_of_rows(call, xp, input, dim, keepdim, correction, True)


@deviation.kernel("cuda")
@native(_spread, otherwise=deviation, halves=True)
def deviation_on_cuda(call, xp, input, dim=None, keepdim=False, *, correction=1):
    return spread_of_rows(functools.partial(_as_rows, call), xp, input, dim, keepdim, correction, True)


deviation.meta(spread_meta)


@deviation.vjp
def deviation_vjp(F, g, y, input, dim, keepdim, correction):
    none = y == 0  # whatever arrives there goes no further, infinities included
    g = F.where(none, 0.0, g) / (2 * F.where(none, 1.0, y))
    return variance_vjp(F, g, input, dim, keepdim, correction)


@deviation.vjp_kernel("cuda")
@native(_spread_grad)
def deviation_grad_on_cuda(call, xp, g, y, input, dim, keepdim, correction):
    return _grad_of_rows(call, xp, g, input, dim, correction, True)


@variance.samples
@deviation.samples
def variance_samples(make):
    yield make(3, 4)
    yield make.args(make(2, 3, 4), dim=(0, -1), keepdim=True, correction=0)


def _spread(op, input, dim, unbiased, keepdim, correction, out=None):
    """Sort out the ways to ask for a correction: `var(x, False)`, `var(x, 1, False)`, `var(x, correction=0)`."""
    if isinstance(dim, bool):
        if unbiased is not LEFT_OUT or keepdim or correction is not None or out is not None:
            raise TypeError("a bool in the place of dim means 'unbiased', and comes alone: write dim=None before it")
        dim, unbiased = None, dim
    if unbiased is not LEFT_OUT and correction is not None:
        raise TypeError("give either 'unbiased' or 'correction', not both")
    if correction is None:
        correction = 1 if unbiased is LEFT_OUT else int(unbiased)
    more = {} if out is None else {"out": out}
    return op(input, dim, keepdim, correction=correction, **more)


def _with_mean(F, op, input, dim, *ways):
    """What `_spread` returns, and the mean."""
    return _spread(op, input, dim, *ways), F.mean(input, None if isinstance(dim, bool) else dim, ways[1])


SPREAD = {"dim": "int|ints|bool?", "unbiased": "bool..."}


@composite(kinds=SPREAD)
def var(F, input, dim=None, unbiased=LEFT_OUT, keepdim=False, *, correction=None, out=None):
    """Variance of all elements, or along `dim`.

    Args:
        input: float or complex tensor.
        dim: int or tuple of ints; None for all.
        unbiased: False is `correction=0`, True is `correction=1`.
        keepdim: keep the reduced dimensions with size 1.
        correction: taken off the number of elements that the squares are divided by; 1 by default.

    Errors: `RuntimeError` for integers.

    >>> import plugrad as torch
    >>> torch.var(torch.tensor([1., 2., 3.])), torch.var(torch.tensor([1., 3.]), correction=0)
    (tensor(1.), tensor(1.))
    """
    return _spread(F.variance, input, dim, unbiased, keepdim, correction, out)


@composite(kinds=SPREAD)
def std(F, input, dim=None, unbiased=LEFT_OUT, keepdim=False, *, correction=None, out=None):
    """Standard deviation of all elements, or along `dim`; arguments as for `var`.

    >>> import plugrad as torch
    >>> torch.std(torch.tensor([1., 2., 3.]))
    tensor(1.)
    """
    return _spread(F.deviation, input, dim, unbiased, keepdim, correction, out)


@composite(at=("var_mean",), kinds=SPREAD)
def var_mean(F, input, dim=None, unbiased=LEFT_OUT, keepdim=False, *, correction=None):
    """Variance and mean as a pair; arguments as for `var`.

    >>> import plugrad as torch
    >>> torch.var_mean(torch.tensor([1., 2., 3.]))
    (tensor(1.), tensor(2.))
    """
    return _with_mean(F, F.variance, input, dim, unbiased, keepdim, correction)


@composite(at=("std_mean",), kinds=SPREAD)
def std_mean(F, input, dim=None, unbiased=LEFT_OUT, keepdim=False, *, correction=None):
    """Standard deviation and mean as a pair; arguments as for `var`.

    >>> import plugrad as torch
    >>> torch.std_mean(torch.tensor([1., 2., 3.]))
    (tensor(1.), tensor(2.))
    """
    return _with_mean(F, F.deviation, input, dim, unbiased, keepdim, correction)


@var.samples
@std.samples
@var_mean.samples
@std_mean.samples
def overloaded_deviation_samples(make):
    yield make(3, 4)
    yield make.args(make(3, 4), 1, correction=0, keepdim=True)
    yield make(3, 4), False


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
