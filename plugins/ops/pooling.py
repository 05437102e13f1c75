"""Pooling in one, two and three dimensions: maxima and means of windows.

Windows are boxes, so everything is done one axis at a time: the maximum (or sum) over a box is that over its
rows of those over their columns. The last axis goes first, so that among equal maxima the first in row-major
order wins, as in PyTorch. The hidden ops below (`max_pool`, `max_pool_grad`, `max_pool_select`; `avg_pool`,
`avg_unpool`) are closed under differentiation and take the geometry as one `Axis` per pooled dimension.
"""

from __future__ import annotations

from plugrad.extend import Op, collect, composite, hookimpl, is_half, is_integer, op

from ._geometry import like_images
from ._pooling_axes import adaptive_axes, sliding_axes


def _at(position, tap):
    """The index that applies `tap` to the axis at `position`, which is negative."""
    return (..., tap) + (slice(None),) * (-1 - position)


def _pad(xp, input, axes, fill):
    """Pad the last dimensions as the axes say, keeping the memory layout."""
    if not any(axis.low or axis.high for axis in axes):
        return input
    n, shape = len(axes), input.shape
    grown = shape[:-n] + tuple(a.low + s + a.high for a, s in zip(axes, shape[-n:]))
    padded = xp.empty_like(input, shape=grown)
    padded[...] = fill
    padded[(..., *(slice(a.low, a.low + s) for a, s in zip(axes, shape[-n:])))] = input
    return padded


def _crop(padded, axes):
    if not any(axis.low or axis.high for axis in axes):
        return padded
    return padded[(..., *(slice(a.low, s - a.high) for a, s in zip(axes, padded.shape[-len(axes) :])))]


def _pooled_shape(shape, axes):
    return (*shape[: -len(axes)], *(axis.size for axis in axes))


# ------------------------------------------------------------------------------------------------------------ maxima


def _lowest(xp, dtype):
    return xp.iinfo(dtype).min if is_integer(dtype) else -float("inf")


def _maxima(xp, input, axes):
    """The padded input, and what is left of it after each axis, from the last to the first."""
    stages = [_pad(xp, input, axes, _lowest(xp, input.dtype))]
    for position in range(-1, -len(axes) - 1, -1):
        values, taps = stages[-1], axes[position].taps
        most = values[_at(position, taps[0])]
        if len(taps) > 1:
            most = xp.maximum(most, values[_at(position, taps[1])])
        for tap in taps[2:]:
            xp.maximum(most, values[_at(position, tap)], out=most)
        stages.append(most)
    return stages


@op(at=(), node="MaxPool2DWithIndicesBackward0", any_order=True)
def max_pool(xp, input, axes):
    """The largest element of each window."""
    stages = _maxima(xp, input, axes)
    return xp.array(stages[-1]) if all(len(axis.taps) == 1 for axis in axes) else stages[-1]


@max_pool.meta
def max_pool_meta(input, axes):
    return _pooled_shape(input.shape, axes), input.dtype


@max_pool.vjp
def max_pool_vjp(F, g, input, axes):
    return F.max_pool_grad(g, input, axes)


@max_pool.samples
def max_pool_samples(make):
    yield make(1, 2, 5), sliding_axes("pool", 1, (1, 2, 5), 3, 2, 1, 1, False)


def _hand_down(xp, g, values, most, position, axis):
    """Give the gradient of maxima along one axis to the first element of each window that equals the maximum."""
    if g.strides != most.strides:  # one memory layout for all operands is worth a copy
        aligned = xp.empty_like(most, dtype=g.dtype)
        aligned[...] = g
        g = aligned
    result = (xp.empty_like if axis.covers else xp.zeros_like)(values, dtype=g.dtype)
    *others, last = [_at(position, tap) for tap in axis.taps]
    rest = g
    if axis.disjoint:
        for where in others:
            part = xp.multiply(rest, values[where] == most, out=result[where])
            rest = xp.subtract(rest, part, out=result[last])
        if not others:
            result[last] = g
        return result
    for where, tap in zip((*others, last), axis.taps):
        part = rest if where is last else rest * (values[where] == most)
        rest = rest - part
        if isinstance(tap, slice):
            result[where] += part
        else:
            xp.add.at(result, where, part)
    return result


@op(at=(), any_order=True)
def max_pool_grad(xp, grad, input, axes):
    """Each window's gradient at the first of its largest elements."""
    dtype = grad.dtype
    if is_half(grad.dtype):
        grad = grad.astype("float32")
    stages = _maxima(xp, input, axes)
    for position in range(-len(axes), 0):
        grad = _hand_down(xp, grad, stages[-1 - position], stages[-position], position, axes[position])
    grad = _crop(grad, axes)
    return grad if grad.dtype == dtype else grad.astype(dtype)


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
    """Of each window the element of padded `values` where the padded `input` is largest, the first of them."""
    stages = _maxima(xp, input, axes)
    for position in range(-1, -len(axes) - 1, -1):
        *others, last = [_at(position, tap) for tap in axes[position].taps]
        chosen = values[last]
        for where in reversed(others):
            chosen = xp.where(stages[-1 - position][where] == stages[-position], values[where], chosen)
        values = chosen
    return values


@op(at=(), any_order=True)
def max_pool_select(xp, values, input, axes):
    """Of each window the element of `values` at the place where `input` is largest."""
    return xp.array(_select(xp, _pad(xp, values, axes, 0), input, axes))


@max_pool_select.meta
def max_pool_select_meta(values, input, axes):
    return _pooled_shape(input.shape, axes), values.dtype


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


@op(at=(), node="MaxPool2DWithIndicesBackward0", any_order=True)
def max_pool_with_indices(xp, input, axes):
    """The largest element of each window, and its flat position within its image."""
    indices = _select(xp, _places(xp, input.shape, axes), input, axes)
    most = max_pool.kernels["*"](xp, input, axes)
    return most, like_images(xp, xp.array(xp.broadcast_to(indices, most.shape), order="C"), input)


@max_pool_with_indices.meta
def max_pool_with_indices_meta(input, axes):
    shape = _pooled_shape(input.shape, axes)
    return [(shape, input.dtype), (shape, "int64")]


@max_pool_with_indices.vjp
def max_pool_with_indices_vjp(F, g, input, axes):
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


@composite(at=("nn.functional.max_pool3d", "max_pool3d"))
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
    axes = adaptive_axes(f"adaptive_max_pool{n}d", n, input.shape, output_size)
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


@composite(at=("nn.functional.adaptive_max_pool3d",), kinds={"output_size": "int|some_ints"})
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


# ------------------------------------------------------------------------------------------------------------- means


def _share(xp, values, axes, padding_counts, divisor):
    """Divide what belongs to each window by the number of its elements, or by `divisor`."""
    counted, arrays = divisor or 1, []
    for i, axis in enumerate(axes, -len(axes)):
        counts = axis.spans if padding_counts else axis.counts
        if divisor:
            continue
        if len(set(counts)) == 1:
            counted *= counts[0]
        else:
            arrays.append(xp.asarray(counts, values.dtype).reshape(-1, *(1,) * (-1 - i)))
    for array in arrays:
        counted = array * counted
    if is_integer(values.dtype):  # PyTorch's integer division rounds towards zero
        return xp.trunc(values / counted).astype(values.dtype)
    return values / counted


@op(at=(), node="AvgPool2DBackward0", any_order=True)
def avg_pool(xp, input, axes, padding_counts, divisor):
    """The mean of each window; `padding_counts` says whether padding is part of it."""
    dtype, total = input.dtype, _pad(xp, input, axes, 0)
    if is_half(input.dtype):
        total = total.astype("float32")
    for position in range(-1, -len(axes) - 1, -1):
        taps = axes[position].taps
        if len(taps) == total.shape[position] and axes[position].size == 1:
            total = total.sum(position, keepdims=True, dtype=total.dtype)
            continue
        part = total[_at(position, taps[0])]
        if len(taps) > 1:
            part = part + total[_at(position, taps[1])]
        for tap in taps[2:]:
            part += total[_at(position, tap)]
        total = part
    mean = _share(xp, total, axes, padding_counts, divisor)
    return mean if mean.dtype == dtype else mean.astype(dtype)


@avg_pool.meta
def avg_pool_meta(input, axes, padding_counts, divisor):
    return _pooled_shape(input.shape, axes), input.dtype


@avg_pool.vjp
def avg_pool_vjp(F, g, input_shape, axes, padding_counts, divisor):
    return F.avg_unpool(g, axes, padding_counts, divisor, input_shape)


@avg_pool.samples
def avg_pool_samples(make):
    yield make(1, 2, 5), sliding_axes("pool", 1, (1, 2, 5), 3, 2, 1, 1, False), True, None


@op(at=(), any_order=True)
def avg_unpool(xp, input, axes, padding_counts, divisor, shape):
    """Spread each value evenly over its window: the adjoint of `avg_pool`."""
    dtype = input.dtype
    spread = _share(xp, input.astype("float32") if is_half(input.dtype) else input, axes, padding_counts, divisor)
    for position in range(-len(axes), 0):
        axis = axes[position]
        length = axis.low + shape[position] + axis.high
        grown = list(spread.shape)
        grown[position] = length
        if axis.size == 1 and len(axis.taps) == length:
            spread = xp.broadcast_to(spread, grown)
            continue
        wide = (xp.empty_like if axis.covers else xp.zeros_like)(spread, shape=grown)
        for tap in axis.taps:
            where = _at(position, tap)
            if axis.disjoint:
                wide[where] = spread
            elif isinstance(tap, slice):
                wide[where] += spread
            else:
                xp.add.at(wide, where, spread)
        spread = wide
    return xp.array(_crop(spread, axes), dtype=dtype)


@avg_unpool.meta
def avg_unpool_meta(input, axes, padding_counts, divisor, shape):
    return tuple(shape), input.dtype


@avg_unpool.vjp
def avg_unpool_vjp(F, g, axes, padding_counts, divisor):
    return F.avg_pool(g, axes, padding_counts, divisor)


@avg_unpool.samples
def avg_unpool_samples(make):
    yield make(1, 2, 3), sliding_axes("pool", 1, (1, 2, 5), 3, 2, 1, 1, False), True, None, (1, 2, 5)


def _avg_pool(F, n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor):
    name = f"avg_pool{n}d"
    if divisor == 0:
        raise RuntimeError(f"{name}: divisor must be not zero")
    if input.dtype.is_floating_point or input.dtype.itemsize == 8 and not input.dtype.is_complex:
        axes = sliding_axes(name, n, input.shape, kernel_size, stride, padding, 1, ceil_mode)
        return F.avg_pool(input, axes, bool(count_include_pad), divisor)
    raise NotImplementedError(f"\"{name}\" not implemented for '{input.dtype}': convert the input with .float()")


@composite(at=("nn.functional.avg_pool1d", "avg_pool1d"))
def avg_pool1d(F, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The mean of each window of signals (N, C, L) or (C, L).

    `stride` defaults to `kernel_size`; `count_include_pad` says whether padding (zeros) counts as elements.
    Raises RuntimeError when no window fits.

    >>> import plugrad as torch
    >>> torch.avg_pool1d(torch.tensor([[1., 3., 2., 0.]]), 2)
    tensor([[2., 1.]])
    """
    return _avg_pool(F, 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


avg_pool1d.samples(pool1d_samples)


@composite(at=("nn.functional.avg_pool2d",))
def avg_pool2d(
    F, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """The mean of each window of images (N, C, H, W) or (C, H, W).

    Arguments as for `avg_pool1d`, numbers or pairs; `divisor_override` replaces the number of elements.

    >>> import plugrad as torch
    >>> torch.nn.functional.avg_pool2d(torch.arange(4.).reshape(1, 2, 2), 2).item()
    1.5
    """
    return _avg_pool(F, 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


avg_pool2d.samples(pool2d_samples)


@composite(at=("nn.functional.avg_pool3d",))
def avg_pool3d(
    F, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """The mean of each window of volumes (N, C, D, H, W) or (C, D, H, W).

    Arguments as for `avg_pool2d`, numbers or triples.

    >>> import plugrad as torch
    >>> torch.nn.functional.avg_pool3d(torch.arange(8.).reshape(1, 2, 2, 2), 2).item()
    3.5
    """
    return _avg_pool(F, 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


avg_pool3d.samples(pool3d_samples)


def _adaptive_avg_pool(F, n, input, output_size):
    name = f"adaptive_avg_pool{n}d"
    axes = adaptive_axes(name, n, input.shape, output_size)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}\" not implemented for '{input.dtype}': convert the input with .float()")
    return F.avg_pool(input, axes, False, None)


@composite(at=("nn.functional.adaptive_avg_pool1d", "adaptive_avg_pool1d"), kinds={"output_size": "int|some_ints"})
def adaptive_avg_pool1d(F, input, output_size):
    """The mean of each of `output_size` nearly equal stretches.

    `input` is (N, C, L) or (C, L).

    >>> import plugrad as torch
    >>> torch.adaptive_avg_pool1d(torch.tensor([[1., 3., 2.]]), 2)
    tensor([[2.0000, 2.5000]])
    """
    return _adaptive_avg_pool(F, 1, input, output_size)


adaptive_avg_pool1d.samples(adaptive_pool1d_samples)


@composite(at=("nn.functional.adaptive_avg_pool2d",), kinds={"output_size": "int|some_ints"})
def adaptive_avg_pool2d(F, input, output_size):
    """The mean of each of nearly equal parts of images.

    `output_size`, a number or pair, says how many; None keeps the size of its dimension.

    >>> import plugrad as torch
    >>> torch.nn.functional.adaptive_avg_pool2d(torch.arange(4.).reshape(1, 2, 2), 1).item()
    1.5
    """
    return _adaptive_avg_pool(F, 2, input, output_size)


adaptive_avg_pool2d.samples(adaptive_pool2d_samples)


@composite(at=("nn.functional.adaptive_avg_pool3d",), kinds={"output_size": "int|some_ints"})
def adaptive_avg_pool3d(F, input, output_size):
    """The mean of each of nearly equal parts of volumes.

    `output_size`, a number or triple, says how many parts.

    >>> import plugrad as torch
    >>> torch.nn.functional.adaptive_avg_pool3d(torch.arange(8.).reshape(1, 2, 2, 2), 1).item()
    3.5
    """
    return _adaptive_avg_pool(F, 3, input, output_size)


adaptive_avg_pool3d.samples(adaptive_pool3d_samples)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
