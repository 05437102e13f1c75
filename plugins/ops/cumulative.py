"""Running sums, products and extremes along a dimension."""

from __future__ import annotations

import math
import pathlib
from functools import partial

from plugrad.extend import Op, axes, collect, hookimpl, load_inline, multilinear, native, op, reduction

from ._checks import COMPLEX, INTEGRAL, refuse
from .reduction import cast, shift


def scanned(xp, join, arrays, axis):
    """Inclusive scan of a tuple of arrays with the associative `join(earlier, later)`, in log2(n) passes.

    The results have memory of their own, also where there is nothing to join.
    Hillis and Steele, Data parallel algorithms, 1986.
    """
    n, before, step = arrays[0].shape[axis], (slice(None),) * axis, 1
    while step < n:
        early, late, start = ((*before, s) for s in (slice(0, n - step), slice(step, n), slice(0, step)))
        joined = join(tuple(a[early] for a in arrays), tuple(a[late] for a in arrays))
        arrays = tuple(xp.concatenate((a[start], b), axis) for a, b in zip(arrays, joined))
        step *= 2
    return arrays if step > 1 else tuple(a.copy() for a in arrays)


def _same_shape(input, *args, dtype=None, **kwargs):
    return input.shape, input.dtype


# ---------------------------------------------------------------- sums


@reduction(promote="int64", inplace=True, any_order="rows", kinds={"dim": "int"}, autocast={"cuda": "set_dtype"})
def cumsum(xp, input, dim, *, dtype=None):
    """Running sum along `dim`; integers and bool are added up as int64.

    >>> import plugrad as torch
    >>> torch.cumsum(torch.tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    """
    return _running("cumsum", xp, input, dim, dtype)


_WIDER = {"float32": "float64", "float16": "float32", "bfloat16": "float32"}


def _running(name, xp, input, dim, dtype):
    """Running sums or products, of floats computed in the next wider ones: the error of every step would stay."""
    function = getattr(xp, name)
    if dtype is not None and input.dtype == "bool" and input.ndim and input.size:
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool': leave out dtype=, and add up as int64")
    wide = _WIDER.get(str(input.dtype))
    if wide is not None:
        return cast(function(input.astype(wide), axis=dim).astype(input.dtype), dtype)
    return cast(function(input, axis=dim), dtype)


@cumsum.kernel("cpu")
@native("cumsum", otherwise=cumsum)
def cumsum_native(call, xp, input, dim, *, dtype=None):
    return call(input, dim, False) if dtype is None else NotImplemented


_on_cuda = partial(
    load_inline, cuda=pathlib.Path(__file__).with_suffix(".cu"), arrays=2,
    types="floating",
)  # fmt: skip
_columns = _on_cuda(name="running_columns", numbers=3, per="block")


def _running_on_cuda(call, xp, input, dim, backward):
    if not input.ndim or not input.size:
        return NotImplemented
    dim, array, shape = axes(dim, input.ndim), xp.ascontiguousarray(input), input.shape
    result = xp.ndarray(shape, input.dtype)
    if dim == input.ndim - 1:
        done = call(array, result, backward)
    else:
        numbers = shape[dim], math.prod(shape[dim + 1 :]), backward
        done = _columns(array, result, *numbers, blocks=-(-input.size // shape[dim] // 256))
    return result if done is None else done


@cumsum.kernel("cuda")
@native(_on_cuda(name="running_rows", numbers=1, per="row"), otherwise=cumsum)
def cumsum_on_cuda(call, xp, input, dim, *, dtype=None):
    return NotImplemented if dtype is not None else _running_on_cuda(call, xp, input, dim, False)


cumsum.meta(_same_shape)


multilinear(cumsum, "input")


@cumsum.vjp
def cumsum_vjp(F, g, dim):
    return reverse(F, F.cumsum, g, dim)


@cumsum.vjp_kernel("cpu")
@native("cumsum")
def cumsum_grad_native(call, xp, g, dim):
    return call(g, dim, True)


@cumsum.vjp_kernel("cuda")
@native(_on_cuda(name="running_rows", numbers=1, per="row"))
def cumsum_grad_on_cuda(call, xp, g, dim):
    return _running_on_cuda(call, xp, g, dim, True)


@cumsum.samples
def cumsum_samples(make):
    yield make.args(make(3, 4), 0)
    yield make.args(make(3, 4), -1)


def reverse(F, function, input, dim, *more):
    """Apply a running `function` from the end of `dim` to its start."""
    if not len(input.shape):
        return function(input, *more, dim)
    return F.flip(function(F.flip(input, (dim,)), *more, dim), (dim,))


# ---------------------------------------------------------------- linear recurrences


@op(at=(), like="input")
def affine_scan(xp, input, factor, dim):
    """The recurrence y[k] = input[k] + factor[k] * y[k - 1] along `dim`."""

    def join(earlier, later):
        return later[0] + later[1] * earlier[0], later[1] * earlier[1]

    return scanned(xp, join, (input, factor), axes(dim, input.ndim))[0] if input.ndim else input + 0


def _carried_back(F, g, factor, dim):
    """Gradient of every y[k] with respect to all that depends on it: h[k] = g[k] + factor[k + 1] * h[k + 1]."""
    if not len(g.shape):
        return g
    factor = F.flip(F.conjugated(factor), (dim,))
    return F.flip(F.affine_scan(F.flip(g, (dim,)), shift(F, factor, dim, 0.0), dim), (dim,))


@affine_scan.vjp("input")
def affine_scan_vjp_input(F, g, factor, dim):
    return _carried_back(F, g, factor, dim)


@affine_scan.vjp("factor")
def affine_scan_vjp_factor(F, g, y, factor, dim):
    return _carried_back(F, g, factor, dim) * F.conjugated(shift(F, y, dim, 0.0)) if len(g.shape) else g * 0.0


@affine_scan.samples
def affine_scan_samples(make):
    yield make.args(make(5), make(5), 0)
    yield make.args(make(2, 3), make(2, 3), 1)


# ---------------------------------------------------------------- products


@reduction(promote="int64", inplace=True, any_order="rows", kinds={"dim": "int"}, autocast={"cuda": "set_dtype"})
def cumprod(xp, input, dim, *, dtype=None):
    """Running product along `dim`; integers and bool are multiplied as int64.

    The gradient is right where elements are zero.

    >>> import plugrad as torch
    >>> torch.cumprod(torch.tensor([1, 2, 3]), 0)
    tensor([1, 2, 6])
    """
    return _running("cumprod", xp, input, dim, dtype)


cumprod.meta(_same_shape)


@cumprod.vjp
def cumprod_vjp(F, g, y, input, dim):
    if not len(input.shape) or input.shape[dim] == 1:
        return g
    # The product before element k, times h[k] = g[k] + input[k + 1] * h[k + 1].
    before = shift(F, y, dim, 1.0)
    return F.conjugated(before) * _carried_back(F, g, input, dim)


@cumprod.kernel("cpu")
@native("cumprod", otherwise=cumprod)
def cumprod_native(call, xp, input, dim, *, dtype=None):
    return call(input, dim, False) if dtype is None else NotImplemented


@cumprod.vjp_kernel("cpu")
@native("cumprod_grad")
def cumprod_grad_native(call, xp, g, y, input, dim):
    return call(g, y, input, dim)


@cumprod.samples
def cumprod_samples(make):
    yield make.args(make(3, 4), 0)
    yield make.args(make(3, 4), -1)


# ---------------------------------------------------------------- log of sums of exponentials


def _logaddexp_of_reals(xp):
    return lambda earlier, later: (xp.logaddexp(earlier[0], later[0]),)


def _logaddexp_pair(xp):
    def join(earlier, later):
        a, b = earlier[0], later[0]
        swap = a.real < b.real
        high, low = xp.where(swap, b, a), xp.where(swap, a, b)
        finite = xp.isfinite(high)
        total = xp.where(finite, high + xp.log(1 + xp.exp(xp.where(finite, low - high, 0))), high)
        both = (high.real == math.inf) & (low.real == math.inf)  # the sum of their directions
        if both.any():
            total = xp.where(both, xp.log(xp.exp(xp.where(both, a, 0)) + xp.exp(xp.where(both, b, 0))), total)
        lost = xp.isnan(a) | xp.isnan(b)
        return (xp.where(lost, complex(math.nan, math.nan), total).astype(a.dtype),)

    return join


def _without_direction(xp, input):
    """Complex numbers of which those at minus infinity have no imaginary part, and NaN is NaN in both parts."""
    input = xp.where(input.real == -math.inf, -math.inf, input)
    return xp.where(xp.isnan(input), complex(math.nan, math.nan), input).astype(input.dtype)


@reduction(any_order="rows", kinds={"dim": "int"})
def logcumsumexp(xp, input, dim):
    """Logarithm of the running sum of exponentials along `dim`, without overflow.

    >>> import plugrad as torch
    >>> torch.logcumsumexp(torch.tensor([1000., 1000.]), 0)
    tensor([1000.0000, 1000.6932])
    """
    refuse(INTEGRAL, "logcumsumexp_out_cpu", input)
    if input.dtype.kind == "c":
        return scanned(xp, _logaddexp_pair(xp), (_without_direction(xp, input),), dim)[0]
    return scanned(xp, _logaddexp_of_reals(xp), (input,), dim)[0]


@logcumsumexp.kernel("cpu")
def logcumsumexp_cpu(xp, input, dim):
    if input.dtype.kind == "f" and input.size:
        return xp.logaddexp.accumulate(input, axis=dim)
    return logcumsumexp.kernels["*"](xp, input, dim)


logcumsumexp.meta(_same_shape)


@logcumsumexp.vjp
def logcumsumexp_vjp(F, g, y, input, dim):
    if not len(input.shape):
        return g
    # d y[i] / d x[k] = exp(x[k] - y[i]); summed over i >= k in steps exp(y[i] - y[i + 1]), none of which overflows.
    last = shift(F, y, dim, -math.inf)
    decay = F.exp(F.where(y == last, 0.0, last - y))
    share = F.exp(F.where(y == input, 0.0, input - y))
    return F.conjugated(share) * _carried_back(F, g, decay, dim)


@logcumsumexp.samples
def logcumsumexp_samples(make):
    yield make.args(make(3, 4), 0)
    yield make.args(make(3, 4, low=-800, high=800), -1)


# ---------------------------------------------------------------- extremes


def _in_passes(xp, function, array, dim):
    return scanned(xp, lambda earlier, later: (function(earlier[0], later[0]),), (array,), dim)[0]


def _in_order(xp, function, array, dim):
    return function.accumulate(array, axis=dim)


def _running_extreme(xp, input, dim, pick, running):
    """Running extreme and the index of its last occurrence; a NaN stays."""
    refuse(COMPLEX, "cummax_cummin", input)
    values = running(xp, pick, input, dim) if input.size else input
    here = (input == values) | (input != input)
    positions = xp.arange(input.shape[dim]).reshape((-1,) + (1,) * (input.ndim - 1 - dim))
    indices = xp.where(here, positions, 0)
    if not input.size:
        return input.copy(), indices
    return values, running(xp, xp.maximum, indices, dim)


def _both_shapes(input, dim):
    return [(input.shape, input.dtype), (input.shape, "int64")]


def _at_chosen(F, g, y1, input_shape, dim):
    return g[0] if not len(input_shape) else F.scatter_add(F.zeros_like(g[0]), dim, y1, g[0])


@reduction(returns="values indices", any_order="rows", kinds={"dim": "int"})
def cummax(xp, input, dim):
    """Running maximum along `dim`, and where the last one so far stands.

    A named tuple (values, indices).

    >>> import plugrad as torch
    >>> torch.cummax(torch.tensor([1., 3., 2.]), 0).values
    tensor([1., 3., 3.])
    """
    return _running_extreme(xp, input, dim, xp.maximum, _in_passes)


@cummax.kernel("cpu")
def cummax_cpu(xp, input, dim):
    return _running_extreme(xp, input, dim, xp.maximum, _in_order)


@reduction(returns="values indices", any_order="rows", kinds={"dim": "int"})
def cummin(xp, input, dim):
    """Running minimum along `dim`, and where the last one so far stands.

    A named tuple (values, indices).

    >>> import plugrad as torch
    >>> torch.cummin(torch.tensor([2., 3., 1.]), 0).indices
    tensor([0, 0, 2])
    """
    return _running_extreme(xp, input, dim, xp.minimum, _in_passes)


@cummin.kernel("cpu")
def cummin_cpu(xp, input, dim):
    return _running_extreme(xp, input, dim, xp.minimum, _in_order)


def _running_extremes_in_c(op, is_min):
    """Give `cummax` or `cummin` its kernel in C."""

    @op.kernel("cpu")
    @native("running_extremes", otherwise=op)
    def in_c(call, xp, input, dim):
        results = xp.empty(input.shape, input.dtype), xp.empty(input.shape, "int64")
        return results if call(input, *results, dim, is_min) is None else NotImplemented

    @op.vjp_kernel("cpu")
    @native("running_extremes_grad")
    def grad_in_c(call, xp, g, y1, input_shape, dim):
        return call(g[0], y1, dim)


for _op in (cummax, cummin):
    _op.meta(_both_shapes)
    _op.vjp(_at_chosen)
    _op.samples(cumsum_samples)
    _running_extremes_in_c(_op, _op is cummin)
del _op


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
