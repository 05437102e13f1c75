"""Running sums, products and extremes, and integrals and differences along a dimension."""

from __future__ import annotations

import math
import pathlib
from functools import partial

import numpy

import plugrad
from plugrad.extend import Op, axes, collect, composite, hookimpl, load_inline, multilinear, native, op, reduction

from ._checks import COMPLEX, INTEGRAL, refuse, refuse_arrays
from .reduction import cast, shift


def scanned(xp, join, arrays, axis):
    """Inclusive scan of a tuple of arrays with the associative `join(earlier, later)`, in log2(n) passes.

    Hillis and Steele, Data parallel algorithms, 1986.
    """
    n, before, step = arrays[0].shape[axis], (slice(None),) * axis, 1
    while step < n:
        early, late, start = ((*before, s) for s in (slice(0, n - step), slice(step, n), slice(0, step)))
        joined = join(tuple(a[early] for a in arrays), tuple(a[late] for a in arrays))
        arrays = tuple(xp.concatenate((a[start], b), axis) for a, b in zip(arrays, joined))
        step *= 2
    return arrays


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
    return scanned(xp, _logaddexp_of_reals(xp), (input + 0,), dim)[0]


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
    return values + 0 if values is input else values, running(xp, xp.maximum, indices, dim) if input.size else indices


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


# ---------------------------------------------------------------- differences and integrals


def _part(input, dim, start, stop):
    return input[(slice(None),) * axes(dim, input.ndim) + (slice(start, stop),)]


def _last(input, dim):
    return max(input.shape[dim] - 1, 0)


@composite()
def diff(F, input, n=1, dim=-1, prepend=None, append=None):
    """Differences of neighbours along `dim`, taken `n` times.

    Of bool tensors, whether they differ.

    Args:
        input: tensor of one or more dimensions.
        n: how often.
        prepend, append: tensors put before and after `input` along `dim` first.

    >>> import plugrad as torch
    >>> torch.diff(torch.tensor([1, 4, 9, 16]), n=2)
    tensor([2, 2])
    """
    refuse_arrays("diff", input)
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    axes(dim, input.ndim)
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    pieces = [piece for piece in (prepend, input, append) if piece is not None]
    if any(piece.ndim != input.ndim for piece in pieces):
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for piece in pieces:
        for axis, (size, other) in enumerate(zip(input.shape, piece.shape)):
            if size != other and axis != axes(dim, input.ndim):
                raise RuntimeError(
                    "diff expects the shape of tensor to prepend or append to match that of input except along the "
                    f"differencing dimension; input.size({axis}) = {size}, but got tensor.size({axis}) = {other}"
                )
    if n == 0:
        return F.clone(input)
    joined = F.cat(pieces, dim) if len(pieces) > 1 else input
    for _ in range(min(n, joined.shape[dim])):
        early, late = _part(joined, dim, 0, _last(joined, dim)), _part(joined, dim, 1, None)
        joined = F.logical_xor(late, early) if "bool" in str(joined.dtype) else late - early
    return joined


@diff.samples
def diff_samples(make):
    yield make(3, 4)
    yield make.args(make(3, 4), 2, 0, append=make(1, 4))


def _steps(F, y, x, dx, dim, name):
    """Distances between neighbouring points of `y` along `dim`: a number, or a tensor that broadcasts."""
    if x is None:
        return dx
    if x.ndim == 0:
        raise RuntimeError(f"{name}: `x` must be at least one-dimensional; give a spacing as dx=")
    if x.ndim == 1 and y.ndim > 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        x = F.reshape(x, (-1,) + (1,) * (y.ndim - 1 - axes(dim, y.ndim)))
        dim = axes(dim, y.ndim) - y.ndim
    elif x.ndim > y.ndim:
        dim = axes(dim, y.ndim) - y.ndim
    elif x.ndim < y.ndim:
        x = F.reshape(x, (1,) * (y.ndim - x.ndim) + tuple(x.shape))
    return _part(x, dim, 1, None) - _part(x, dim, 0, _last(x, dim))


def _distance(x, dx, name):
    """Return the distance between points, 1 unless it is given."""
    if dx is ...:
        return 1
    if x is not None:
        raise TypeError(f"{name}() takes either x or dx, not both")
    if isinstance(dx, (bool, complex)):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number, not {dx}")
    return dx


def _areas(F, y, x, dx, dim, name):
    if x is not None and not isinstance(x, (int, float, complex)) and "bool" in str(x.dtype):
        raise RuntimeError(f"{name}: received a bool input for `x`, but bool is not supported")
    if "bool" in str(y.dtype):
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")
    dim = axes(dim, y.ndim)
    pairs = _part(y, dim, 0, _last(y, dim)) + _part(y, dim, 1, None)
    return pairs * _steps(F, y, x, dx, dim, name) * 0.5


@composite(at=("trapezoid", "trapz"), kinds={"dx": "number..."})
def trapezoid(F, y, x=None, *, dx=..., dim=-1):
    """Integral along `dim` by the trapezoidal rule.

    Args:
        y: values of the function.
        x: where they are taken; one value per point, or a tensor that broadcasts with `y`.
        dx: constant distance between points instead, 1 by default.

    >>> import plugrad as torch
    >>> torch.trapezoid(torch.tensor([1., 2., 4.]))
    tensor(4.5000)
    """
    dx = _distance(x, dx, "trapezoid")
    if y.ndim and y.shape[dim] == 0:  # nothing depends on it
        return y.new_zeros([size for d, size in enumerate(y.shape) if d != axes(dim, y.ndim)])
    if x is None and "bool" not in str(y.dtype) and y.ndim:
        ends = F.select(y, dim, 0) + F.select(y, dim, -1)
        return (F.sum(y, dim) - ends / 2) * dx
    return F.sum(_areas(F, y, x, dx, dim, "trapezoid"), dim)


@composite(at=("cumulative_trapezoid",), kinds={"dx": "number..."})
def cumulative_trapezoid(F, y, x=None, *, dx=..., dim=-1):
    """Running integral along `dim` by the trapezoidal rule.

    Arguments as for `trapezoid`.

    >>> import plugrad as torch
    >>> torch.cumulative_trapezoid(torch.tensor([1., 2., 4.]))
    tensor([1.5000, 4.5000])
    """
    dx = _distance(x, dx, "cumulative_trapezoid")
    return F.cumsum(_areas(F, y, x, dx, dim, "cumulative_trapezoid"), dim)


@trapezoid.samples
@cumulative_trapezoid.samples
def trapezoid_samples(make):
    yield make(3, 4)
    yield make.args(make(3, 4), make(3), dim=0)
    yield make.args(make(3, 4), dx=0.5)


def _slope(F, values, step, dim, edge_order):
    """Derivative along `dim` by second-order differences; `step` is a number or the points' coordinates.

    Fornberg, Generation of finite difference formulas on arbitrarily spaced grids, 1988.
    """

    def part(start, stop):
        return _part(values, dim, start, stop)

    n = values.shape[dim]
    if isinstance(step, (int, float, complex)):
        left = right = first = last = float(step) if isinstance(step, int) else step
    else:
        h = F.reshape(step[1:] - step[:-1], (-1,) + (1,) * (values.ndim - 1 - axes(dim, values.ndim)))
        left, right, first, last = h[:-1], h[1:], h[:1], h[-1:]
    start, end = (part(1, 2) - part(0, 1)) / first, (part(n - 1, n) - part(n - 2, n - 1)) / last
    if left is right:  # equal steps: the point between has no part in it
        middle = (part(2, n) - part(0, n - 2)) / (2 * left)
    else:
        rise, next_rise = part(1, n - 1) - part(0, n - 2), part(2, n) - part(1, n - 1)
        middle = (rise * (right / left) + next_rise * (left / right)) / (left + right)
    if edge_order == 2:
        if left is right:
            start = (part(1, 2) * 2 - part(0, 1) * 1.5 - part(2, 3) * 0.5) / first
            end = (part(n - 1, n) * 1.5 - part(n - 2, n - 1) * 2 + part(n - 3, n - 2) * 0.5) / last
        else:
            second, before = h[1:2], h[-2:-1]
            start = start + (start - (part(2, 3) - part(1, 2)) / second) * (first / (first + second))
            end = end + (end - (part(n - 2, n - 1) - part(n - 3, n - 2)) / before) * (last / (last + before))
    return F.cat([start, middle, end], dim)


def _spacings(spacing, count):
    """Return the distance along each dimension, or the coordinates of the points there."""
    spacing = 1 if spacing is None else spacing
    if isinstance(spacing, plugrad.Tensor) and not spacing.ndim and not spacing.requires_grad:
        spacing = spacing.item()
    if isinstance(spacing, (int, float, complex, numpy.generic)):
        spacing = [spacing] * count
    if not isinstance(spacing, (tuple, list)):
        what = type(spacing).__name__
        raise TypeError(f"gradient(): argument 'spacing' must be a number, or a list of numbers or tensors, not {what}")
    if len(spacing) != count:
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal "
            f"to the number of dimensions, {count}, but got a list of length {len(spacing)}"
        )
    if len({isinstance(step, plugrad.Tensor) for step in spacing}) > 1:
        raise TypeError("gradient(): argument 'spacing' must be a list of numbers or one of tensors, not of both")
    return [step.item() if isinstance(step, numpy.generic) else step for step in spacing]


@composite(at=("gradient",))
def gradient(F, input, *, spacing=None, dim=None, edge_order=1):
    """Estimate of the derivative of sampled values along each dimension.

    Gives a tuple of tensors.

    Args:
        input: values of the function on a grid.
        spacing: distance between points, 1 by default, for all dimensions or a list of one for each; a list of
            tensors gives the coordinates of the points along each dimension.
        dim: int or sequence of ints; all by default.
        edge_order: 1 or 2, the order of the estimate at both ends.

    >>> import plugrad as torch
    >>> torch.gradient(torch.tensor([1., 2., 4., 7.]))
    (tensor([1.0000, 1.5000, 2.5000, 3.0000]),)
    """
    if "uint8" in str(input.dtype):
        raise RuntimeError("torch.gradient does not support uint8 input.")
    dims = range(input.ndim) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    dims = axes(tuple(dims), input.ndim)
    steps = _spacings(spacing, len(dims))
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for d, step in zip(dims, steps):
        if input.shape[d] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
        if hasattr(step, "ndim") and tuple(step.shape) != (input.shape[d],):
            raise RuntimeError(
                "torch.gradient expected each element of the spacing list to have the size of its "
                f"dimension, {input.shape[d]}, but got {list(step.shape)}"
            )
    return tuple(_slope(F, input, step, d, edge_order) for d, step in zip(dims, steps))


@gradient.samples
def gradient_samples(make):
    yield make(3, 4)
    yield make.args(make(3, 4), spacing=0.5, dim=1, edge_order=2)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
