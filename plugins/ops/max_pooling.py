"""Max pooling in one, two and three dimensions.

Windows are boxes, so everything is done one axis at a time: the maximum over a box is that over its rows of those
over their columns. The last axis goes first, so that among equal maxima the first in row-major order wins, as in
PyTorch. The hidden ops `max_pool`, `max_pool_grad` and `max_pool_select` are closed under differentiation and take
the geometry as one `Axis` per pooled dimension.
"""

from __future__ import annotations

from plugrad.extend import Op, collect, composite, hookimpl, is_half, is_integer, native, op

from . import _in_order_on_cuda as ordered
from . import _pooling_on_cuda
from ._checks import BOOL_OR_COMPLEX, refuse
from ._geometry import like_images
from ._pooling_axes import (
    adaptive_axes,
    as_images,
    check_gradient,
    cropped,
    padded_by,
    pooled_shape,
    sliding_axes,
    tapped,
)

_NODES = {
    "MaxPool2DWithIndicesBackward0": "len(axes) < 3", "MaxPool3DWithIndicesBackward0": "len(axes) == 3"
}  # fmt: skip


def _lowest(xp, dtype):
    return xp.iinfo(dtype).min if is_integer(dtype) else -float("inf")


def _maxima(xp, input, axes):
    """The padded input, and what is left of it after each axis, from the last to the first."""
    stages = [padded_by(xp, input, axes, _lowest(xp, input.dtype))]
    for position in range(-1, -len(axes) - 1, -1):
        values, taps = stages[-1], axes[position].taps
        most = values[tapped(position, taps[0])]
        if len(taps) > 1:
            most = xp.maximum(most, values[tapped(position, taps[1])])
        for tap in taps[2:]:
            xp.maximum(most, values[tapped(position, tap)], out=most)
        stages.append(most)
    return stages


@op(at=(), node=_NODES, any_order=True)
def max_pool(xp, input, axes):
    """The largest element of each window."""
    refuse(BOOL_OR_COMPLEX, f"max_pool{len(axes)}d", input)
    stages = _maxima(xp, input, axes)
    most = xp.array(stages[-1]) if all(len(axis.taps) == 1 for axis in axes) else stages[-1]
    return like_images(xp, most, input, any_order=True) if len(axes) == 2 else most


@max_pool.kernel("cpu")
@native("max_pool", otherwise=max_pool)
def max_pool_native(call, xp, input, axes):
    result = xp.empty(pooled_shape(input.shape, axes), input.dtype)
    served = as_images(axes, input, result)
    return NotImplemented if served is None or call(*served[0], *served[1]) is NotImplemented else result


@max_pool.kernel("cuda")
@native(_pooling_on_cuda.most, otherwise=max_pool)
def max_pool_on_cuda(call, xp, input, axes):
    return _pooling_on_cuda.max_pool(xp, input, axes)


@max_pool.meta
def max_pool_meta(input, axes):
    return pooled_shape(input.shape, axes), input.dtype


@max_pool.vjp
def max_pool_vjp(F, g, input, axes):
    check_gradient(axes, input.shape)
    return F.max_pool_grad(g, input, axes)


@max_pool.samples
def max_pool_samples(make):
    yield make(1, 2, 5), sliding_axes("pool", 1, (1, 2, 5), 3, 2, 1, 1, False)


def _winners(xp, values, position, axis):
    """The number of the tap that stands for each window along an axis.

    It is the first of the largest, but the last NaN before all others, and none of the padding.
    """
    first, *others = [tapped(position, tap) for tap in axis.taps]
    numbers = xp.arange(values.shape[position]).reshape(-1, *(1,) * (-1 - position))
    inside = (numbers >= axis.low) & (numbers < len(numbers) - axis.high)
    most, is_inside = values[first], inside[first]
    winners = xp.zeros(most.shape, "int32")
    for number, where in enumerate(others, 1):
        value, inner = values[where], inside[where]
        more = (value > most) | (value != value) | (inner & ~is_inside)
        winners, most, is_inside = xp.where(more, number, winners), xp.where(more, value, most), is_inside | inner
    return winners


def _hand_down(xp, g, finite, values, most, position, axis):
    """Give the gradient of maxima along one axis to the element that stands for each window.

    Where gradients and maxima are `finite`, products with a mask are right, and quicker than where().
    """
    if g.strides != most.strides:  # one memory layout for all operands is worth a copy
        aligned = xp.empty_like(most, dtype=g.dtype)
        aligned[...] = g
        g = aligned
    result = (xp.empty_like if axis.covers and finite else xp.zeros_like)(values, dtype=g.dtype)
    places, rest = [tapped(position, tap) for tap in axis.taps], g
    *others, last = places
    if axis.disjoint and finite:
        for where in others:
            part = xp.multiply(rest, values[where] == most, out=result[where])
            rest = xp.subtract(rest, part, out=result[last])
        if not others:
            result[last] = g
        return result
    winners = None if finite else _winners(xp, values, position, axis)
    for number, (where, tap) in enumerate(zip(places, axis.taps)):
        if not finite:
            part = xp.where(winners == number, g, 0)
        else:
            part = rest if where is last else rest * (values[where] == most)
            rest = rest - part
        if isinstance(tap, slice):
            result[where] += part
        else:
            ordered.add_at(xp, result, where, part)
    return result


@op(at=(), any_order=True)
def max_pool_grad(xp, grad, input, axes):
    """Each window's gradient at the first of its largest elements."""
    dtype = grad.dtype
    if is_half(grad.dtype):
        grad = grad.astype("float32")
    stages = _maxima(xp, input, axes)
    # To ask would be to wait for a device.
    finite = xp.__name__ == "numpy" and bool(xp.isfinite(grad.sum() + stages[-1].sum(dtype=grad.dtype)))
    for position in range(-len(axes), 0):
        grad = _hand_down(xp, grad, finite, stages[-1 - position], stages[-position], position, axes[position])
    grad = cropped(grad, axes)
    grad = like_images(xp, grad, input, any_order=True) if len(axes) == 2 else grad
    return grad if grad.dtype == dtype else grad.astype(dtype)


@max_pool_grad.kernel("cpu")
@native("max_pool_grad", otherwise=max_pool_grad)
def max_pool_grad_native(call, xp, grad, input, axes):
    result = xp.empty(input.shape, input.dtype)
    served = as_images(axes, input, grad, result)
    return NotImplemented if served is None or call(*served[0], *served[1]) is NotImplemented else result


@max_pool_grad.kernel("cuda")
@native(_pooling_on_cuda.most_grad, otherwise=max_pool_grad)
def max_pool_grad_on_cuda(call, xp, grad, input, axes):
    return _pooling_on_cuda.max_pool_grad(xp, grad, input, axes)


@max_pool_grad.meta
def max_pool_grad_meta(grad, input, axes):
    return input.shape, grad.dtype


@max_pool_grad.vjp("grad")
def max_pool_grad_vjp(F, g, input, axes):
    return F.max_pool_select(g, input, axes)


@max_pool_grad.samples
def max_pool_grad_samples(make):
    yield make(1, 2, 3), make(1, 2, 5, requires_grad=False), sliding_axes("pool", 1, (1, 2, 5), 3, 2, 1, 1, False)


def _select(xp, values, input, axes):
    """Of each window the element of padded `values` at the place that stands for it in the padded `input`."""
    stages = _maxima(xp, input, axes)
    for position in range(-1, -len(axes) - 1, -1):
        taps = axes[position].taps
        winners = _winners(xp, stages[-1 - position], position, axes[position])
        chosen = values[tapped(position, taps[0])]
        for number, tap in enumerate(taps[1:], 1):
            chosen = xp.where(winners == number, values[tapped(position, tap)], chosen)
        values = chosen
    return values


@op(at=(), any_order=True)
def max_pool_select(xp, values, input, axes):
    """Of each window the element of `values` at the place where `input` is largest."""
    return xp.array(_select(xp, padded_by(xp, values, axes, 0), input, axes))


@max_pool_select.meta
def max_pool_select_meta(values, input, axes):
    return pooled_shape(input.shape, axes), values.dtype


@max_pool_select.vjp("values")
def max_pool_select_vjp(F, g, input, axes):
    return F.max_pool_grad(g, input, axes)


@max_pool_select.samples
def max_pool_select_samples(make):
    yield make(1, 2, 5), make(1, 2, 5, requires_grad=False), sliding_axes("pool", 1, (1, 2, 5), 3, 2, 1, 1, False)


def _places(xp, shape, axes):
    """The flat position within an image of every element of its padded form (of padding: of the nearest element)."""
    places = xp.zeros((1,) * len(shape), dtype="int64")
    for i, axis in enumerate(axes, -len(axes)):
        inside = xp.clip(xp.arange(-axis.low, shape[i] + axis.high), 0, shape[i] - 1)
        places = places * shape[i] + inside.reshape(-1, *(1,) * (-1 - i))
    return places


@op(at=(), node=_NODES, any_order=True)
def max_pool_with_indices(xp, input, axes):
    """The largest element of each window, and its flat position within its image."""
    indices = _select(xp, _places(xp, input.shape, axes), input, axes)
    most = max_pool.kernels["*"](xp, input, axes)
    return most, like_images(xp, xp.array(xp.broadcast_to(indices, most.shape), order="C"), input)


@max_pool_with_indices.kernel("cpu")
@native("max_pool", otherwise=max_pool_with_indices)
def max_pool_with_indices_native(call, xp, input, axes):
    shape = pooled_shape(input.shape, axes)
    result, indices = xp.empty(shape, input.dtype), xp.empty(shape, "int64")
    served = as_images(axes, input, result, indices)
    return NotImplemented if served is None or call(*served[0], *served[1]) is NotImplemented else (result, indices)


@max_pool_with_indices.kernel("cuda")
@native(_pooling_on_cuda.most_with_places, otherwise=max_pool_with_indices)
def max_pool_with_indices_on_cuda(call, xp, input, axes):
    return _pooling_on_cuda.max_pool(xp, input, axes, with_places=True)


@max_pool_with_indices.meta
def max_pool_with_indices_meta(input, axes):
    shape = pooled_shape(input.shape, axes)
    return [(shape, input.dtype), (shape, "int64")]


@max_pool_with_indices.vjp
def max_pool_with_indices_vjp(F, g, input, y1, axes):  # y1: who changed the indices is told so, as in PyTorch
    check_gradient(axes, input.shape)
    return F.max_pool_grad(g[0], input, axes)


max_pool_with_indices.samples(max_pool_samples)


def _max_pool(F, n, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    axes = sliding_axes(f"max_pool{n}d", n, input.shape, kernel_size, stride, padding, dilation, ceil_mode)
    return F.max_pool_with_indices(input, axes) if return_indices else F.max_pool(input, axes)


@composite(at=("nn.functional.max_pool1d", "max_pool1d"))
def max_pool1d(F, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest element of each window of signals (N, C, L) or (C, L).

    `stride` defaults to `kernel_size`; padding counts as minus infinity; `ceil_mode` keeps windows that begin
    inside but end beyond. With `return_indices` a pair: values, and their positions. Raises RuntimeError when
    no window fits.

    >>> import plugrad as torch
    >>> torch.max_pool1d(torch.tensor([[1., 3., 2., 0.]]), 2)
    tensor([[3., 2.]])
    """
    return _max_pool(F, 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@max_pool1d.samples
def pool1d_samples(make):
    yield make(1, 2, 5), 2
    yield make.args(make(1, 2, 5), 3, stride=2, padding=1)


@composite(at=("nn.functional.max_pool2d", "max_pool2d"))
def max_pool2d(F, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest element of each window of images (N, C, H, W) or (C, H, W).

    Arguments as for `max_pool1d`, numbers or pairs. Raises RuntimeError when no window fits.

    >>> import plugrad as torch
    >>> torch.nn.functional.max_pool2d(torch.arange(16.).reshape(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    return _max_pool(F, 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@max_pool2d.samples
def pool2d_samples(make):
    yield make(1, 2, 5, 4), 2
    yield make.args(make(1, 2, 5, 4), 3, stride=2, padding=1)


@composite(at=("nn.functional.max_pool3d", "max_pool3d"), autocast={"cpu": "float32"})
def max_pool3d(F, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest element of each window of volumes (N, C, D, H, W) or (C, D, H, W).

    Arguments as for `max_pool1d`, numbers or triples. Raises RuntimeError when no window fits.

    >>> import plugrad as torch
    >>> torch.max_pool3d(torch.arange(8.).reshape(1, 2, 2, 2), 2).item()
    7.0
    """
    return _max_pool(F, 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@max_pool3d.samples
def pool3d_samples(make):
    yield make(1, 2, 5, 4, 4), 2
    yield make.args(make(1, 2, 5, 4, 4), 3, stride=2, padding=1)


def _adaptive_max_pool(F, n, input, output_size, return_indices):
    name = f"adaptive_max_pool{n}d"
    axes = adaptive_axes(name, n, input.shape, output_size)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}\" not implemented for '{input.dtype}': convert the input with .float()")
    return F.max_pool_with_indices(input, axes) if return_indices else F.max_pool(input, axes)


@composite(at=("nn.functional.adaptive_max_pool1d",), kinds={"output_size": "int|some_ints"})
def adaptive_max_pool1d(F, input, output_size, return_indices=False):
    """The largest element of each of `output_size` nearly equal stretches.

    `input` is (N, C, L) or (C, L).

    >>> import plugrad as torch
    >>> torch.nn.functional.adaptive_max_pool1d(torch.tensor([[1., 3., 2.]]), 2)
    tensor([[3., 3.]])
    """
    return _adaptive_max_pool(F, 1, input, output_size, return_indices)


@adaptive_max_pool1d.samples
def adaptive_pool1d_samples(make):
    yield make(1, 2, 5), 2


@composite(at=("nn.functional.adaptive_max_pool2d",), kinds={"output_size": "int|some_ints"})
def adaptive_max_pool2d(F, input, output_size, return_indices=False):
    """The largest element of each of nearly equal parts of images.

    `output_size`, a number or pair, says how many; None keeps the size of its dimension.

    >>> import plugrad as torch
    >>> torch.nn.functional.adaptive_max_pool2d(torch.arange(6.).reshape(1, 2, 3), (1, None))
    tensor([[[3., 4., 5.]]])
    """
    return _adaptive_max_pool(F, 2, input, output_size, return_indices)


@adaptive_max_pool2d.samples
def adaptive_pool2d_samples(make):
    yield make(1, 2, 5, 4), 2


@composite(
    at=("nn.functional.adaptive_max_pool3d",), kinds={"output_size": "int|some_ints"}, autocast={"cpu": "float32"}
)
def adaptive_max_pool3d(F, input, output_size, return_indices=False):
    """The largest element of each of nearly equal parts of volumes.

    `output_size`, a number or triple, says how many parts.

    >>> import plugrad as torch
    >>> torch.nn.functional.adaptive_max_pool3d(torch.arange(8.).reshape(1, 2, 2, 2), 1).item()
    7.0
    """
    return _adaptive_max_pool(F, 3, input, output_size, return_indices)


@adaptive_max_pool3d.samples
def adaptive_pool3d_samples(make):
    yield make(1, 2, 5, 4, 3), 2


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
