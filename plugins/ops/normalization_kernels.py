"""What normalizations are made of: bringing dimensions to mean 0 and variance 1, and scaling by known statistics."""

from __future__ import annotations

import pathlib
from functools import lru_cache, partial
from math import nan, prod

from plugrad.extend import Op, collect, hookimpl, is_half, load_inline, native, native_function, op

from . import _channels_on_cuda as channels
from .shape import sum_to_shape


def _node(input, weight, bias, dims, shape, eps, layout=None):
    """PyTorch's name for the node: which of its normalizations this is, as the dimensions tell."""
    if layout is not None:
        return "NativeGroupNormBackward0"
    if input.ndim == 1 or 1 in dims or len(shape) < input.ndim:
        return "NativeLayerNormBackward0"
    return "ViewBackward0" if dims[0] else "NativeBatchNormBackward0"  # of images one by one: a view of one batch


@op(at=(), node=_node, any_order=True)
def normalize_affine(xp, input, weight, bias, dims, shape, eps, layout=None):
    """Bring elements along `dims` to mean 0 and variance 1, then scale and shift.

    Gives (result, mean, variance): the variance is the biased one, to which `eps` is added. Mean and variance keep
    `dims` as size 1, and have at least float32 precision. Weight and bias are None or laid out in `shape`. `layout` is
    the shape that the input is given before, where that is another one; the result has its own again.

    In one op, so that of the size of the input only the input itself is kept for backward.
    """
    dtype = "float32" if is_half(input.dtype) else input.dtype
    values = input if input.dtype == dtype else input.astype(dtype)
    values = values if layout is None else values.reshape(layout)
    if layout is None and dims[0] == values.ndim - len(dims):  # rows: PyTorch's results are in row-major order
        values = xp.ascontiguousarray(values)
    count = prod([values.shape[d] for d in dims]) or nan
    mean = values.sum(dims, None, None, True)
    mean /= count
    result = values - mean
    variance = xp.square(result).sum(dims, None, None, True)
    variance /= count
    root = variance + eps
    result *= xp.reciprocal(xp.sqrt(root, root), root)
    if weight is not None:
        result *= weight if weight.shape == shape else weight.reshape(shape)
    if bias is not None:
        result += bias if bias.shape == shape else bias.reshape(shape)
    result = result if layout is None else result.reshape(input.shape)
    return (result if dtype is input.dtype else result.astype(input.dtype)), mean, variance


@lru_cache(maxsize=4096)
def _layout(size, dims, shape, *parts):
    """Return (what is brought to mean 0; the shape of the means) for (N, C, *) and (*, n), None for what is neither.

    That is 0 rows, 1 channels of all images, 2 channels, or groups of them, of each image. `parts` are the shapes of
    weight and bias, or None.
    """
    small = tuple([1 if d in dims else n for d, n in enumerate(size)])
    if dims[0] == 2 == len(size) - len(dims) and len(shape) == len(size) and shape[:2] == (1, size[1]):
        return (2, small) if all([part is None or prod(part) == prod(shape) for part in parts]) else None
    if dims[0] == len(size) - len(dims):
        if shape != size[dims[0] :] or any([part is not None and part != shape for part in parts]):
            return None
        return 0, small
    if len(size) > 1 and dims == (0, *range(2, len(size))):
        return (1, small) if all([part is None or prod(part) == size[1] for part in parts]) else None
    return None


@normalize_affine.samples
def normalize_affine_samples(make):
    yield make.args(make(3, 4), make(4), make(4), (1,), (4,), 1e-5)
    yield make.args(make(2, 3, 4), make(3), None, (0, 2), (1, 3, 1), 1e-5)
    yield make.args(make(2, 4, 3), make(4), make(4), (2, 3), (1, 2, 2, 1), 1e-5, (2, 2, 2, 3))
    yield make.args(make(3, 3, 3), make(3), make(3), (2,), (1, 3, 1), 1e-5)


@normalize_affine.kernel("cpu")
@native("normalize", otherwise=normalize_affine, widens=True)
def normalize_native(call, xp, input, weight, bias, dims, shape, eps, layout=None):
    if not input.flags.c_contiguous:
        return NotImplemented
    scaled, shifted, size, dtype = weight is not None, bias is not None, input.shape, input.dtype
    place = _layout(layout or size, dims, shape, weight.shape if scaled else None, bias.shape if shifted else None)
    if place is None:
        return NotImplemented
    what, small = place
    arrays = input, xp.empty(size, dtype), xp.empty(small, dtype), xp.empty(small, dtype)
    if scaled or shifted:
        arrays = *arrays, *[part for part in (weight, bias) if part is not None]
    done = call(*arrays, eps, scaled, shifted, what)
    return arrays[1:4] if done is None else done


_on_cuda = partial(
    load_inline, cuda=pathlib.Path(__file__).with_suffix(".cu"), per="rows", types="floating"
)  # fmt: skip


def _place_on_cuda(input, weight, bias, dims, shape, layout):
    """Return what `_layout` does, (groups, channels of each) in the place of its 2; None where there is no kernel."""
    if not input.size or input.dtype.char not in "fd" and not is_half(input.dtype):
        return None
    size = layout or input.shape
    place = _layout(size, dims, shape, *[None if part is None else part.shape for part in (weight, bias)])
    if place is not None and place[0] == 2:
        groups, elements = (size[1:3], size[3]) if layout else ((size[1], 1), prod(size[2:]))
        return (groups, place[1]) if elements >= channels.FEW else None
    return place


@normalize_affine.kernel("cuda")
@native(_on_cuda(name="normalize", arrays=6, numbers=3, wide=(2, 3)), otherwise=normalize_affine)
def normalize_on_cuda(call, xp, input, weight, bias, dims, shape, eps, layout=None):
    place = _place_on_cuda(input, weight, bias, dims, shape, layout)
    if place is None:
        return NotImplemented
    what, small = place
    if what == 1:
        return channels.normalized(xp, input, weight, bias, small, eps)
    if what:
        return channels.normalized_groups(xp, input, weight, bias, what, small, eps)
    rows = input.reshape(-1, prod(shape)) if len(dims) > 1 else input
    result, (mean, variance) = xp.ndarray(input.shape, rows.dtype), channels.two(xp, small, input.dtype)
    parts = [rows if part is None else part for part in (weight, bias)]
    done = call(rows, result, mean, variance, *parts, eps, weight is not None, bias is not None)
    return (result, mean, variance) if done is None else done


@normalize_affine.meta
def normalize_affine_meta(input, weight, bias, dims, shape, eps, layout=None):
    shape = tuple(1 if i in dims else n for i, n in enumerate(layout or input.shape))
    dtype = "float32" if is_half(input.dtype) else input.dtype
    return [(input.shape, input.dtype), (shape, dtype), (shape, dtype)]


@normalize_affine.vjp("input", "weight", "bias")
def normalize_affine_vjp(
    F, g, y1, y2, input, weight, dims, shape, eps, layout, input_shape, weight_shape, bias_shape, needs
):
    (g, g_mean, g_variance), mean, variance = g, y1, y2
    if layout is not None:
        g, input = F.reshape(g, layout), F.reshape(input, layout)
    centered, scale = input - mean, F.rsqrt(variance + eps)
    scaled = g * scale
    grads = [None, None, None]
    if needs[2]:
        grads[2] = F.reshape(sum_to_shape(F, g, shape), bias_shape)
    if needs[1]:
        grads[1] = F.reshape(sum_to_shape(F, scaled * centered, shape), weight_shape)
    if needs[0]:
        if weight is not None:
            scaled = scaled * (weight if weight_shape == shape else F.reshape(weight, shape))
        count = prod([input.shape[d] for d in dims])
        # With respect to mean and variance everything is small: only the last line works on whole arrays.
        shift = (F.sum(scaled, dims, True) - g_mean) / count
        along = (F.sum(scaled * centered, dims, True) * scale * scale - g_variance * 2) / count
        result = scaled - shift - centered * along
        grads[0] = result if layout is None else F.reshape(result, input_shape)
    return grads


@normalize_affine.vjp_kernel("cpu", "input", "weight", "bias")
@native("normalize_grad")
def normalize_grad_native(
    call, xp, g, y1, y2, input, weight, dims, shape, eps, layout, input_shape, weight_shape, bias_shape, needs
):
    g, of_mean, of_variance = g
    size = layout or input.shape
    place = _layout(size, dims, shape, None if weight is None else weight.shape)
    if place is None:
        return NotImplemented
    what = place[0]
    small = shape if what else input.shape[input.ndim - len(dims) :]
    result, of_weight, of_bias = xp.empty(g.shape, g.dtype), xp.empty(small, g.dtype), xp.empty(small, g.dtype)
    n, rows = of_weight.size, y1.size
    parts = size[0] if what == 2 else min(16, max(1, rows * n // 16384))
    partial = xp.empty((parts, 2, 0 if what == 1 else n), g.dtype)
    arrays = [g, input, y1, y2, result, of_weight, of_bias, partial, *([] if weight is None else [weight])]
    if call(*arrays, eps, needs[0], needs[1] or needs[2], weight is not None, what) is NotImplemented:
        return NotImplemented
    if needs[0] and (xp.count_nonzero(of_mean) or xp.count_nonzero(of_variance)):  # which nearly nobody asks for
        more = (of_mean + 2 * of_variance * (input.reshape(size) - y1)) / prod([size[d] for d in dims])
        result += more.reshape(result.shape)
    of_weight = of_weight.reshape(weight_shape) if needs[1] else None
    return result if needs[0] else None, of_weight, of_bias.reshape(bias_shape) if needs[2] else None


@normalize_affine.vjp_kernel("cuda", "input", "weight", "bias")
@native(_on_cuda(name="normalize_grad", arrays=8, numbers=2, wide=(1, 2, 4, 5)))
def normalize_grad_on_cuda(
    call, xp, g, y1, y2, input, weight, dims, shape, eps, layout, input_shape, weight_shape, bias_shape, needs
):
    place = _place_on_cuda(input, weight, None, dims, shape, layout)
    if place is None:
        return NotImplemented
    shapes = weight_shape, bias_shape
    if place[0] == 1:
        return channels.gradients(xp, g, input, weight, y1, y2, eps, needs, shapes)
    if place[0]:
        return channels.gradients_of_groups(xp, g, input, weight, y1, y2, place[0], eps, needs, shapes)
    rows, slopes = (one.reshape(-1, prod(shape)) if len(dims) > 1 else one for one in (input, g[0]))
    slopes, result = xp.ascontiguousarray(slopes), xp.ndarray(input.shape, rows.dtype)
    arrays = slopes, *g[1:], rows, y1, y2, rows if weight is None else weight, result
    if call(*arrays, eps, weight is not None) is NotImplemented:
        return NotImplemented
    result = result if needs[0] else None
    if not (needs[1] or needs[2]):
        return result, None, None
    of_parts = channels.gradients_of_columns(xp, slopes, rows, y1, y2, eps, shapes)
    return result, *channels.of_parts(zip(of_parts, shapes, needs[1:]), rows.dtype)


# ---------------------------------------------------------------- few rows


def _last(input, shape):
    """Return the dimensions that `shape`, the last sizes of an input, is of."""
    return tuple(range(input.ndim - len(shape), input.ndim))


@op(at=(), node="NativeLayerNormBackward0", any_order=True)
def normalize_rows(xp, input, weight, bias, shape, eps):
    """Bring the last dimensions to mean 0 and variance 1, then scale and shift.

    `shape` has the sizes of these dimensions. Backward computes mean and variance again, which takes less time for few
    elements than to keep two more results: see `FEW`.
    """
    sizes = [input.shape[input.ndim - len(shape) :], *[part.shape for part in (weight, bias) if part is not None]]
    if any([size != shape for size in sizes]):
        raise RuntimeError(f"Expected last dimensions, weight and bias of shape {shape}, but got {sizes}")
    return normalize_affine.kernels["*"](xp, input, weight, bias, _last(input, shape), shape, eps)[0]


FEW = 8192  # elements


@normalize_rows.samples
def normalize_rows_samples(make):
    yield make.args(make(3, 4), make(4), make(4), (4,), 1e-5)
    yield make.args(make(2, 2, 3), None, make(2, 3), (2, 3), 1e-5)


@normalize_rows.kernel("cpu")
@native("normalize", otherwise=normalize_rows)
def normalize_rows_native(call, xp, input, weight, bias, shape, eps):
    size, dtype, parts, scaled, shifted = input.shape, input.dtype, (), weight is not None, bias is not None
    if not input.flags.c_contiguous or size[-len(shape) :] != shape:
        return NotImplemented
    if scaled or shifted:
        parts = [part for part in (weight, bias) if part is not None and part.shape == shape]
        if len(parts) != scaled + shifted:
            return NotImplemented
    result, unused = xp.empty(size, dtype), xp.empty(size[: -len(shape)], dtype)
    done = call(input, result, unused, unused, *parts, eps, scaled, shifted, 0)
    return result if done is None else done


@normalize_rows.meta
def normalize_rows_meta(input, weight, bias, shape, eps):
    return input.shape, input.dtype


@normalize_rows.vjp("input", "weight", "bias")
def normalize_rows_vjp(F, g, input, weight, shape, eps, input_shape, weight_shape, bias_shape, needs):
    dims = _last(input, shape)
    statistics = F.mean(input, dims, True), F.variance(input, dims, True, correction=0)
    shapes = input_shape, weight_shape, bias_shape
    return normalize_affine_vjp(F, (g, 0.0, 0.0), *statistics, input, weight, dims, shape, eps, None, *shapes, needs)


_normalize = native_function("normalize", lambda *call: NotImplemented)


@normalize_rows.vjp_kernel("cpu", "input", "weight", "bias")
@native("normalize_grad")
def normalize_rows_grad_native(call, xp, g, input, weight, shape, eps, input_shape, weight_shape, bias_shape, needs):
    mean, variance = (xp.empty(input.shape[: -len(shape)], g.dtype) for _ in "12")
    result, of_weight, of_bias = xp.empty(g.shape, g.dtype), xp.empty(shape, g.dtype), xp.empty(shape, g.dtype)
    if _normalize(input, result, mean, variance, eps, False, False, 0) is NotImplemented:
        return NotImplemented
    partial, parts = xp.empty((1, 2, of_weight.size), g.dtype), () if weight is None else (weight,)
    arrays = g, input, mean, variance, result, of_weight, of_bias, partial, *parts
    if call(*arrays, eps, needs[0], needs[1] or needs[2], weight is not None, 0) is NotImplemented:
        return NotImplemented
    return result if needs[0] else None, of_weight if needs[1] else None, of_bias if needs[2] else None


# ---------------------------------------------------------------- known statistics


@op(at=(), node="NativeBatchNormBackward0", like="input", any_order=True)
def normalize_by(xp, input, weight, bias, mean, variance, shape, eps):
    """Shift and scale by known statistics, weight and bias.

    All but `input` are laid out in `shape`; weight and bias may be None.
    """
    dtype = input.dtype
    if is_half(dtype):  # as precise as elsewhere: PyTorch accumulates in float32, too
        parts = (part if part is None else part.astype("float32") for part in (weight, bias, mean, variance))
        weight, bias, mean, variance = parts
    scale = variance + eps
    xp.reciprocal(xp.sqrt(scale, scale), scale)
    if weight is not None:
        scale *= weight
    shift = mean * scale
    result = input * scale.reshape(shape)
    shift = xp.negative(shift, shift) if bias is None else xp.subtract(bias, shift, shift)
    result += shift.reshape(shape)
    return result if result.dtype is dtype else result.astype(dtype)


@normalize_by.kernel("cpu")
@native("normalize_by", otherwise=normalize_by, widens=True)
def normalize_by_in_c(call, xp, input, weight, bias, mean, variance, shape, eps):
    if input.ndim < 2 or len(shape) != input.ndim or mean.size != input.shape[1]:
        return NotImplemented
    parts = [part for part in (weight, bias) if part is not None]
    return call(input, mean, variance, *parts, eps, weight is not None, bias is not None)


@normalize_by.kernel("cuda")
def normalize_by_on_cuda(xp, input, weight, bias, mean, variance, shape, eps):
    """The same in one pass."""
    result = NotImplemented
    if input.ndim > 1 and input.size and shape == (1, input.shape[1], *(1,) * (input.ndim - 2)):
        result = channels.scaled(xp, input, weight, bias, mean, variance, eps)
    if result is NotImplemented:
        return normalize_by.kernels["*"](xp, input, weight, bias, mean, variance, shape, eps)
    return result


@normalize_by.vjp("input", "weight", "bias")
def normalize_by_vjp(F, g, input, weight, mean, variance, shape, eps, weight_shape, bias_shape, needs):
    scale = F.rsqrt(variance + eps)
    grads = [None, None, None]
    if needs[0]:
        grads[0] = g * F.reshape(scale if weight is None else scale * weight, shape)
    if needs[1]:
        unit = (input - F.reshape(mean, shape)) * F.reshape(scale, shape)
        grads[1] = F.reshape(sum_to_shape(F, g * unit, shape), weight_shape)
    if needs[2]:
        grads[2] = F.reshape(sum_to_shape(F, g, shape), bias_shape)
    return grads


@normalize_by.vjp_kernel("cpu", "input", "weight", "bias")
@native("normalize_grad")
def normalize_by_grad_in_c(call, xp, g, input, weight, mean, variance, shape, eps, weight_shape, bias_shape, needs):
    if input.ndim < 2 or len(shape) != input.ndim or mean.size != input.shape[1]:
        return NotImplemented
    result, of_weight, of_bias = xp.empty(g.shape, g.dtype), xp.empty(mean.size, g.dtype), xp.empty(mean.size, g.dtype)
    arrays = [g, input, mean, variance, result, of_weight, of_bias, of_bias[:0], *([] if weight is None else [weight])]
    if call(*arrays, eps, needs[0], needs[1] or needs[2], weight is not None, 3) is NotImplemented:
        return NotImplemented
    of_weight = of_weight.reshape(weight_shape) if needs[1] else None
    return result if needs[0] else None, of_weight, of_bias.reshape(bias_shape) if needs[2] else None


@normalize_by.samples
def normalize_by_samples(make):
    statistics = make(3, requires_grad=False), make(3, low=0.5, high=2, requires_grad=False)
    yield make.args(make(2, 3, 4), make(3), make(3), *statistics, (1, 3, 1), 1e-5)
    yield make.args(make(2, 3), None, None, *statistics, (1, 3), 1e-5)


# ---------------------------------------------------------------- running statistics


@op(at=(), like="input", inplace="values")
def _running_average(xp, input, latest, scale, momentum):
    """Move running statistics towards `scale * latest` by the share `momentum`.

    `latest` has as many elements, in whatever shape. In place, which is what it is for, it records nothing.
    """
    kept = (input.astype("float32") if is_half(input.dtype) else input) * (1 - momentum)
    moved = kept + latest.reshape(input.shape) * (momentum * scale)
    return moved if moved.dtype is input.dtype else moved.astype(input.dtype)


_average = native_function("running_average", lambda *call: NotImplemented)


@_running_average.kernel("cpu")
@native("running_average", otherwise=_running_average)
def _running_average_in_c(call, xp, input, latest, scale, momentum):
    result = input.copy()
    return result if call(result, latest, scale, momentum) is None else NotImplemented


@_running_average.writer
def _running_average_into(xp, out, latest, scale, momentum):
    if xp.__name__ == "numpy" and _average(out, latest, scale, momentum) is None:
        return out
    if is_half(out.dtype):
        return NotImplemented
    out *= 1 - momentum
    out += latest.reshape(out.shape) * (momentum * scale)
    return out


@_running_average.samples
def _running_average_samples(make):
    yield make.args(make(3, requires_grad=False), make(1, 3, 1, requires_grad=False), 1.25, 0.1)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
