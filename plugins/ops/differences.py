"""Differences, slopes and integrals along a dimension."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.extend import LEFT_OUT, Op, axes, collect, composite, hookimpl

from ._checks import refuse_arrays


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
    if dx is LEFT_OUT:
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
def trapezoid(F, y, x=None, *, dx=LEFT_OUT, dim=-1):
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
def cumulative_trapezoid(F, y, x=None, *, dx=LEFT_OUT, dim=-1):
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
