"""Average pooling in one, two and three dimensions: means of windows.

As for maxima, everything is done one axis at a time. The hidden ops `avg_pool` and `avg_unpool` are each other's
gradients, and take the geometry as one `Axis` per pooled dimension.
"""

from __future__ import annotations

from functools import lru_cache

from plugrad.extend import Op, collect, composite, hookimpl, is_half, is_integer, native, op

from . import _in_order_on_cuda as ordered
from . import _pooling_on_cuda, max_pooling
from ._geometry import like_images
from ._pooling_axes import adaptive_axes, check_gradient, cropped, padded_by, pooled_shape, sliding_axes, tapped


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


@op(at=(), node={"AvgPool2DBackward0": "len(axes) < 3", "AvgPool3DBackward0": "len(axes) == 3"}, any_order=True)
def avg_pool(xp, input, axes, padding_counts, divisor):
    """The mean of each window; `padding_counts` says whether padding is part of it."""
    dtype, total = input.dtype, padded_by(xp, input, axes, 0)
    if is_half(input.dtype):
        total = total.astype("float32")
    for position in range(-1, -len(axes) - 1, -1):
        taps = axes[position].taps
        if len(taps) == total.shape[position] and axes[position].size == 1:
            total = total.sum(position, keepdims=True, dtype=total.dtype)
            continue
        part = total[tapped(position, taps[0])]
        if len(taps) > 1:
            part = part + total[tapped(position, taps[1])]
        for tap in taps[2:]:
            part += total[tapped(position, tap)]
        total = part
    mean = _share(xp, total, axes, padding_counts, divisor)
    mean = like_images(xp, mean, input, any_order=True) if len(axes) == 2 else mean
    return mean if mean.dtype == dtype else mean.astype(dtype)


def _in_c(call, xp, input, shape, axes, padding_counts, divisor):
    """Call a kernel in C on images (M, *S); the result has `shape`, or that of pooled images."""
    if not input.flags.c_contiguous:
        return NotImplemented
    shape, images, means, numbers = _plan(input.shape, shape and tuple(shape), tuple(axes))
    if 0 in shape or not input.size:
        return NotImplemented
    out = xp.empty(shape, input.dtype)
    done = call(input.reshape(images), out.reshape(means), *numbers, padding_counts, divisor or 0)
    return out if done is None else done


@lru_cache(maxsize=1024)
def _plan(shape, out, axes):
    """Return the result's shape, those of images and means with all other dimensions as one, and what C asks of axes.

    `out` is the result's shape, None for pooled images. Of the axes C gets kernel, stride and padding along each, zeros
    where windows are of different lengths.
    """
    n, out = len(axes), out or pooled_shape(shape, axes)
    numbers = [number for axis in axes for number in (axis.steps[:3] if axis.steps else (0, 0, 0))]
    return out, (-1, *shape[len(shape) - n :]), (-1, *out[len(out) - n :]), tuple(numbers)


@avg_pool.kernel("cpu")
@native("avg_pool", otherwise=avg_pool)
def avg_pool_in_c(call, xp, input, axes, padding_counts, divisor):
    return _in_c(call, xp, input, None, axes, padding_counts, divisor)


@avg_pool.kernel("cuda")
@native(_pooling_on_cuda.mean, otherwise=avg_pool)
def avg_pool_on_cuda(call, xp, input, axes, padding_counts, divisor):
    return _pooling_on_cuda.avg_pool(xp, input, axes, padding_counts, divisor)


@avg_pool.meta
def avg_pool_meta(input, axes, padding_counts, divisor):
    return pooled_shape(input.shape, axes), input.dtype


@avg_pool.vjp
def avg_pool_vjp(F, g, input_shape, axes, padding_counts, divisor):
    check_gradient(axes, input_shape)
    return F.avg_unpool(g, axes, padding_counts, divisor, input_shape)


@avg_pool.samples
def avg_pool_samples(make):
    yield make(1, 2, 5), sliding_axes("pool", 1, (1, 2, 5), 3, 2, 1, 1, False), True, None
    yield make(2, 5, 4), adaptive_axes("pool", 2, (2, 5, 4), (3, 1)), False, None


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
            where = tapped(position, tap)
            if axis.disjoint:
                wide[where] = spread
            elif isinstance(tap, slice):
                wide[where] += spread
            else:
                for part in ("real", "imag") if wide.dtype.kind == "c" else ("real",):  # CuPy adds no complex numbers
                    ordered.add_at(xp, getattr(wide, part), where, getattr(spread, part))
        spread = wide
    result = xp.array(cropped(spread, axes), dtype=dtype)
    return like_images(xp, result, input, any_order=True) if len(axes) == 2 else result


@avg_unpool.kernel("cpu")
@native("avg_unpool", otherwise=avg_unpool)
def avg_unpool_in_c(call, xp, input, axes, padding_counts, divisor, shape):
    return _in_c(call, xp, input, shape, axes, padding_counts, divisor)


@avg_unpool.kernel("cuda")
@native(_pooling_on_cuda.mean_grad, otherwise=avg_unpool)
def avg_unpool_on_cuda(call, xp, input, axes, padding_counts, divisor, shape):
    return _pooling_on_cuda.avg_unpool(xp, input, axes, padding_counts, divisor, shape)


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


avg_pool1d.samples(max_pooling.pool1d_samples)


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


avg_pool2d.samples(max_pooling.pool2d_samples)


@composite(at=("nn.functional.avg_pool3d",), autocast={"cpu": "float32"})
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


avg_pool3d.samples(max_pooling.pool3d_samples)


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


adaptive_avg_pool1d.samples(max_pooling.adaptive_pool1d_samples)


@composite(at=("nn.functional.adaptive_avg_pool2d",), kinds={"output_size": "int|some_ints"})
def adaptive_avg_pool2d(F, input, output_size):
    """The mean of each of nearly equal parts of images.

    `output_size`, a number or pair, says how many; None keeps the size of its dimension.

    >>> import plugrad as torch
    >>> torch.nn.functional.adaptive_avg_pool2d(torch.arange(4.).reshape(1, 2, 2), 1).item()
    1.5
    """
    return _adaptive_avg_pool(F, 2, input, output_size)


adaptive_avg_pool2d.samples(max_pooling.adaptive_pool2d_samples)


@composite(
    at=("nn.functional.adaptive_avg_pool3d",), kinds={"output_size": "int|some_ints"}, autocast={"cpu": "float32"}
)
def adaptive_avg_pool3d(F, input, output_size):
    """The mean of each of nearly equal parts of volumes.

    `output_size`, a number or triple, says how many parts.

    >>> import plugrad as torch
    >>> torch.nn.functional.adaptive_avg_pool3d(torch.arange(8.).reshape(1, 2, 2, 2), 1).item()
    3.5
    """
    return _adaptive_avg_pool(F, 3, input, output_size)


adaptive_avg_pool3d.samples(max_pooling.adaptive_pool3d_samples)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
