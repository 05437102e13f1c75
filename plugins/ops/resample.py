"""Interpolation: images brought to another size, one axis at a time."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, trunc

import numpy

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, native, op

from ._checks import ints
from ._geometry import like_images


def _nearest(xp, length, size, scale, exact):
    """Position of the source of each output; in single precision, as PyTorch rounds."""
    where = xp.arange(size, dtype="float32") + xp.asarray(0.5 if exact else 0.0, "float32")
    scale = xp.asarray(scale, "float32")
    return [(xp.minimum(xp.floor(where * scale).astype("int64"), length - 1), None)]


def _source(xp, length, size, scale, align_corners):
    """Where, between the elements of the input, each output lies."""
    where = xp.arange(size, dtype="float64")
    if align_corners:
        return where * ((length - 1) / (size - 1) if size > 1 else 0.0)
    return (where + 0.5) * scale - 0.5


def _linear(xp, length, size, scale, align_corners):
    source = xp.maximum(_source(xp, length, size, scale, align_corners), 0)
    low = xp.minimum(xp.floor(source).astype("int64"), length - 1)
    part = source - low
    return [(low, 1 - part), (xp.minimum(low + 1, length - 1), part)]


def _keys(xp, distance, a):
    """R. Keys' cubic convolution kernel (IEEE ASSP 29(6), 1981, eq. 4), with free parameter `a`."""
    x = xp.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return xp.where(x <= 1, near, xp.where(x < 2, far, xp.zeros_like(x)))


def _cubic(xp, length, size, scale, align_corners):
    source = _source(xp, length, size, scale, align_corners)
    low = xp.floor(source).astype("int64")
    part = source - low
    return [(xp.clip(low + k, 0, length - 1), _keys(xp, part - k, -0.75)) for k in (-1, 0, 1, 2)]


def _antialiased(xp, length, size, scale, align_corners, cubic):
    """Taps of a kernel as wide as the outputs are apart, when these are farther apart than the inputs."""
    if align_corners:
        scale = (length - 1) / (size - 1) if size > 1 else 0.0
    wide = max(scale, 1.0)
    support = (2.0 if cubic else 1.0) * wide
    center = (xp.arange(size, dtype="float64") + 0.5) * scale
    first = xp.maximum((center - support + 0.5).astype("int64"), 0)
    last = xp.minimum((center + support + 0.5).astype("int64"), length)
    taps = []
    for k in range(ceil(2 * support) + 2):
        distance = (first + k - center + 0.5) / wide
        weight = _keys(xp, distance, -0.5) if cubic else xp.maximum(1 - xp.abs(distance), 0)
        taps.append((xp.minimum(first + k, length - 1), xp.where(first + k < last, weight, 0.0)))
    total = sum(weight for _, weight in taps)
    return [(index, weight / total) for index, weight in taps]


def _taps(xp, mode, length, size, scale):
    """What each output along an axis is made of: pairs of positions and weights (None for 1)."""
    name, _, flags = mode.partition(" ")
    if name in ("nearest", "nearest-exact"):
        return _nearest(xp, length, size, scale, name == "nearest-exact")
    corners = "corners" in flags
    if "antialias" in flags:
        return _antialiased(xp, length, size, scale, corners, name == "cubic")
    return (_cubic if name == "cubic" else _linear)(xp, length, size, scale, corners)


def _column(xp, weight, like, after):
    return xp.asarray(weight, like.dtype).reshape(-1, *(1,) * after)


def _of_bytes(xp, input, size, scales, mode):
    """Images of bytes in integers, as Pillow computes them: weights of 16 bits, and bytes again after each axis."""
    values = input.astype("int32")
    for i in range(-1, -1 - len(size), -1):
        taps = _taps(numpy, mode, values.shape[i], size[i], scales[i])
        for (before, less), (index, weight) in zip(taps, taps[1:]):  # what meets at a border counts together
            weight += numpy.where(index == before, less, 0.0)
            less *= index != before
        largest = max(weight.max() for _, weight in taps)
        bits = next(bits for bits in range(22) if int(0.5 + largest * (2 << bits)) >= 1 << 15)
        total = 1 << (bits - 1)
        for index, weight in taps:
            whole = numpy.trunc(weight * (1 << bits) + numpy.where(weight < 0, -0.5, 0.5)).astype("int32")
            total = total + xp.take(values, xp.asarray(index), axis=i) * xp.asarray(whole).reshape(-1, *(1,) * (-1 - i))
        values = xp.clip(total >> bits, 0, 255)
    return values.astype("uint8")


def _node_name(input, size, scales, mode):
    """Return PyTorch's name of the node: of `linear corners` in two dimensions `UpsampleBilinear2DBackward0`."""
    method, *flags = mode.split()
    names = {"nearest-exact": "NearestExact", "linear": ("Linear", "Bilinear", "Trilinear")[len(size) - 1]}
    named = names.get(method) or ("Bicubic" if method == "cubic" else method.capitalize())
    return f"Upsample{named}{len(size)}D{'Aa' * ('antialias' in flags)}Backward0"


@op(at=(), node=_node_name, any_order=True, kinds={"size": "ints", "scales": "floats", "mode": "str"})
def resample(xp, input, size, scales, mode):
    """Bring the last axes of `input` to `size`.

    `mode` is nearest, nearest-exact, linear or cubic, and flags.

    `scales` says how far outputs are apart, in input elements; flags after the mode: corners, antialias.
    """
    dtype, values = input.dtype, input
    if dtype.kind == "u" and len(size) == 2 and not mode.startswith("nearest"):
        return like_images(xp, _of_bytes(xp, input, size, scales, mode), input)
    if dtype.itemsize <= 2 and not mode.startswith("nearest"):
        values = values.astype("float32")
    for i, (n, scale) in enumerate(zip(size, scales), -len(size)):
        total = None
        for index, weight in _taps(xp, mode, values.shape[i], n, scale):
            part = xp.take(values, index, axis=i)
            if weight is not None:
                part *= _column(xp, weight, part, -1 - i)
            total = part if total is None else total + part
        values = total
    if dtype.kind == "u" and values.dtype != dtype:
        values = xp.clip(xp.rint(values), 0, 255)
    return like_images(xp, values if values.dtype == dtype else values.astype(dtype), input)


@lru_cache(maxsize=256)
def _tables(mode, length, size, scale, dtype):
    """Return positions and weights of the taps along an axis as two arrays, a row for each tap."""
    taps = _taps(numpy, mode, length, size, scale)
    positions = numpy.array([index for index, _ in taps], "int64")
    return positions, numpy.array([numpy.ones(size) if weight is None else weight for _, weight in taps], dtype)


@resample.kernel("cpu")
@native("mix", otherwise=resample)
def resample_in_c(call, xp, input, size, scales, mode):
    values, first = input, input.ndim - len(size)
    if input.dtype.char not in "fd" or not (input.size and input.flags.c_contiguous and min(size)):
        return NotImplemented
    for dim, (n, scale) in enumerate(zip(size, scales), first):
        shape, source = values.shape, values
        values = xp.empty((*shape[:dim], n, *shape[dim + 1 :]), input.dtype)
        if call(source, *_tables(mode, shape[dim], n, scale, input.dtype), values, dim, False) is NotImplemented:
            return NotImplemented
    return like_images(xp, values, input)


@resample.meta
def resample_meta(input, size, scales, mode):
    return (*input.shape[: -len(size)], *size), input.dtype


@resample.vjp
def resample_vjp(F, g, input_shape, size, scales, mode):
    return F.resample_grad(g, input_shape, scales, mode)


@resample.samples
def resample_samples(make):
    yield make(1, 2, 3, 4), (5, 3), (0.6, 4 / 3), "linear"


@op(at=(), kinds={"shape": "ints", "scales": "floats", "mode": "str"})
def resample_grad(xp, input, shape, scales, mode):
    """Give every output back to the inputs it is made of: `resample`'s adjoint."""
    dtype, values = input.dtype, input
    if dtype.itemsize <= 2:
        values = values.astype("float32")
    n = len(scales)
    for i, scale in enumerate(scales, -n):
        length, size = shape[i], values.shape[i]
        grown = list(values.shape)
        grown[i] = length
        total = xp.zeros(grown, values.dtype)
        for index, weight in _taps(numpy, mode, length, size, scale):  # of sizes alone: no device has to tell them
            part = values if weight is None else values * _column(xp, weight, values, -1 - i)
            # Positions are in order: what meets at one of them is handed over in turns, without repetition.
            turn = numpy.arange(size) - numpy.searchsorted(index, index)
            for t in range(int(turn.max()) + 1 if size else 0):
                chosen = numpy.flatnonzero(turn == t)
                at = (..., xp.asarray(index[chosen])) + (slice(None),) * (-1 - i)
                total[at] += xp.take(part, xp.asarray(chosen), axis=i)
        values = total
    return values if values.dtype == dtype else values.astype(dtype)


@resample_grad.kernel("cpu")
@native("mix", otherwise=resample_grad)
def resample_grad_in_c(call, xp, input, shape, scales, mode):
    values, first = input, input.ndim - len(scales)
    if input.dtype.char not in "fd" or not (input.size and input.flags.c_contiguous):
        return NotImplemented
    for dim, scale in enumerate(scales, first):
        now, source = values.shape, values
        values = xp.empty((*now[:dim], shape[dim], *now[dim + 1 :]), input.dtype)
        tables = _tables(mode, shape[dim], now[dim], scale, input.dtype)
        if call(values, *tables, source, dim, True) is NotImplemented:
            return NotImplemented
    return values


@resample_grad.meta
def resample_grad_meta(input, shape, scales, mode):
    return tuple(shape), input.dtype


@resample_grad.vjp
def resample_grad_vjp(F, g, input_shape, scales, mode):
    return F.resample(g, input_shape[-len(scales) :], scales, mode)


@resample_grad.samples
def resample_grad_samples(make):
    yield make(1, 2, 5, 3), (1, 2, 3, 4), (0.6, 4 / 3), "linear"


_MODES = {
    "linear": (1, "linear"),
    "bilinear": (2, "linear"),
    "trilinear": (3, "linear"),
    "bicubic": (2, "cubic"),
}


def _scaled(size, factor):
    if not abs(size * factor) < 1 << 63:  # nor is NaN
        raise RuntimeError(f"value cannot be converted to type int64_t without overflow: scale_factor is {factor}")
    return trunc(size * factor)


def _target(input, size, scale_factor, recompute_scale_factor):
    """The new size, and the distance of outputs along each axis."""
    n, old = input.ndim - 2, tuple(input.shape[2:])
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    given = size if size is not None else scale_factor
    if isinstance(given, (tuple, list)):
        if len(given) != n:
            raise ValueError(
                f"Input and output must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {list(old)} and output size or scale_factor of {given}: give one number per dimension"
            )
    else:
        given = (given,) * n
    if size is not None:
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        new = ints(given)
    else:
        new = tuple(_scaled(s, float(f)) for s, f in zip(old, given))
    if min(new) <= 0 or 0 in input.shape[1:]:
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({', '.join(map(str, old))}) output "
            f"({', '.join(map(str, new))})"
        )
    if size is None and not recompute_scale_factor:
        return new, tuple(1 / float(f) for f in given)
    return new, tuple(s / t for s, t in zip(old, new))


_KINDS = {"size": "int|ints?", "scale_factor": "float|floats?"}


@composite(at=("nn.functional.interpolate",), kinds=_KINDS, autocast={"cuda": "float32"})
def interpolate(
    F,
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Bring signals, images or volumes (N, C, *) to another size.

    To `size`, or to `scale_factor` times theirs.

    `mode`: nearest, nearest-exact, area, or linear (3-D input), bilinear, bicubic (4-D), trilinear (5-D). In
    the last four `align_corners` makes the outermost elements keep their values, and `antialias` (2-D ones)
    averages when shrinking. Raises ValueError for arguments that contradict each other, NotImplementedError
    for a mode that the number of dimensions does not have.

    >>> import plugrad as torch
    >>> torch.nn.functional.interpolate(torch.tensor([[[1., 3.]]]), size=4, mode="linear", align_corners=False)
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    if not isinstance(mode, str):
        raise NotImplementedError(f"mode must be a string such as 'bilinear', not {type(mode).__name__}")
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                "trilinear"
            )
    elif mode not in _MODES:
        raise NotImplementedError(
            f"mode {mode!r} is not there: choose {', '.join(_MODES)}, nearest, nearest-exact or area"
        )
    if input.ndim not in (3, 4, 5) or (mode in _MODES and _MODES[mode][0] != input.ndim - 2):
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported"
            f" (got {input.ndim}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | area | "
            f"nearest-exact (got {mode})"
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    if not (input.dtype.is_floating_point or input.dtype is plugrad.uint8):
        raise NotImplementedError(f"\"upsample\" not implemented for '{input.dtype}': convert the input with .float()")
    if mode in ("linear", "trilinear") and not input.dtype.is_floating_point:
        raise NotImplementedError(
            "\"compute_indices_weights_linear\" not implemented for 'Byte': convert the input with .float()"
        )
    new, scales = _target(input, size, scale_factor, recompute_scale_factor)
    if mode == "area":
        pool = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[input.ndim - 3]
        return pool(input, new)
    method = _MODES[mode][1] if mode in _MODES else mode
    flags = (" corners" if align_corners else "") + (" antialias" if antialias else "")
    return F.resample(input, new, scales, method + flags)


@interpolate.samples
def interpolate_samples(make):
    yield make.args(make(1, 2, 4), size=6)
    yield make.args(make(1, 2, 3, 4), scale_factor=2, mode="bilinear", align_corners=True)


@composite(at=("nn.functional.upsample",), kinds=_KINDS)
def upsample(F, input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """Bring (N, C, *) to another size: the old name of `interpolate`.

    >>> import plugrad as torch
    >>> torch.nn.functional.upsample(torch.tensor([[[1., 3.]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    """
    return F.interpolate(input, size, scale_factor, mode, align_corners)


upsample.samples(interpolate_samples)


@composite(at=("nn.functional.upsample_nearest",), kinds=_KINDS)
def upsample_nearest(F, input, size=None, scale_factor=None):
    """Bring (N, C, *) to another size, copying the nearest element: an old name.

    >>> import plugrad as torch
    >>> torch.nn.functional.upsample_nearest(torch.tensor([[[1., 3.]]]), size=4)
    tensor([[[1., 1., 3., 3.]]])
    """
    return F.interpolate(input, size, scale_factor, "nearest")


@composite(at=("nn.functional.upsample_bilinear",), kinds=_KINDS)
def upsample_bilinear(F, input, size=None, scale_factor=None):
    """Bring images to another size, bilinearly, keeping corners: an old name.

    >>> import plugrad as torch
    >>> torch.nn.functional.upsample_bilinear(torch.tensor([[[[1., 3.]]]]), size=(1, 3))
    tensor([[[[1., 2., 3.]]]])
    """
    return F.interpolate(input, size, scale_factor, "bilinear", True)


@upsample_nearest.samples
@upsample_bilinear.samples
def upsample_samples(make):
    yield make.args(make(1, 2, 3, 4), scale_factor=2)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
