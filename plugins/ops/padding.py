"""Padding: with a constant, by reflection, by the edge, or around."""

from __future__ import annotations

from functools import lru_cache

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, native, op

from ._checks import fitted, ints
from ._geometry import like_images


def _pairs(pad, ndim):
    """(before, after) for every dimension, first to last, out of PyTorch's flat list, which starts at the last."""
    pairs = [(int(pad[i]), int(pad[i + 1])) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


def _padded_shape(shape, pairs):
    padded = tuple(a + s + b for s, (a, b) in zip(shape, pairs))
    for i, size in enumerate(padded):
        if size < 0:
            raise RuntimeError(
                f"The input size {shape[i]}, plus negative padding {pairs[i][0]} and {pairs[i][1]}, resulted in a "
                f"negative output size, which is invalid. Check dimension {i} of your input."
            )
        if size >= 1 << 48:  # before anything counts to it
            raise RuntimeError(f"not enough memory for {size} elements along dimension {i}")
    return padded


def _filled_shape(shape, pairs):
    """The padded shape, where as much as there is can be cropped, before something is put on the other side."""
    for i, (size, (a, b)) in enumerate(zip(shape, pairs)):
        if size + min(a, 0) + min(b, 0) < 0:
            raise RuntimeError(f"padding ({a}, {b}) crops more than the {size} elements of dimension {i}")
    return _padded_shape(shape, pairs)


def _check_length(pad, ndim):
    if len(pad) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, got {tuple(pad)}")
    if len(pad) > 2 * ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {ndim}"
        )


@op(at=("constant_pad_nd",), eight_bits=True)
def constant_pad_nd(xp, input, pad, value=0):
    """Surround a tensor with `value`; a negative amount crops.

    `pad` is (before, after) for the last dimension, then for the one before it, and so on. Raises
    RuntimeError when its length is odd or too great, or a dimension would become negative.

    >>> import plugrad as torch
    >>> torch.constant_pad_nd(torch.tensor([1, 2]), (1, 2))
    tensor([0, 1, 2, 0, 0])
    """
    _check_length(pad, input.ndim)
    pairs = _pairs(pad, input.ndim)
    padded = xp.full(_filled_shape(input.shape, pairs), fitted(input.dtype, value), input.dtype)
    inside = tuple(slice(max(a, 0), n - max(b, 0)) for n, (a, b) in zip(padded.shape, pairs))
    kept = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(input.shape, pairs))
    padded[inside] = input[kept]
    return like_images(xp, padded, input)


@constant_pad_nd.kernel("cpu")
@native("pad", otherwise=constant_pad_nd)
def constant_pad_in_c(call, xp, input, pad, value=0):
    return _padded_in_c(call, xp, input, pad, 0, fitted(input.dtype, value))


def _padded_in_c(call, xp, input, pad, mode, value=0):
    """Pad a row-major array; `mode` is 0 for a constant, else 1 and its place in `_COPIES`."""
    if not input.flags.c_contiguous:
        return NotImplemented
    shape, before = _plan(input.shape, tuple(map(int, pad)), mode)
    padded = xp.empty(shape, input.dtype)
    return padded if call(input, padded, value, mode, *before) is None else NotImplemented


@lru_cache(maxsize=1024)
def _plan(shape, pad, mode):
    """Return the padded shape, and what is put before each dimension."""
    _check_length(pad, len(shape))
    pairs = _pairs(pad, len(shape))
    return (_padded_shape if mode else _filled_shape)(shape, pairs), tuple([before for before, _ in pairs])


_COPIES = ("reflect", "replicate", "circular")


@constant_pad_nd.meta
def constant_pad_nd_meta(input, pad, value=0):
    _check_length(pad, input.ndim)
    return _filled_shape(input.shape, _pairs(pad, input.ndim)), input.dtype


@constant_pad_nd.vjp
def constant_pad_nd_vjp(F, g, pad):
    return F.constant_pad_nd(g, tuple(-p for p in pad))


@constant_pad_nd.samples
def constant_pad_nd_samples(make):
    yield make.args(make(2, 3), (1, 2))
    yield make.args(make(2, 3, 4), (1, -1, 0, 2), 1.5)


@constant_pad_nd.errors
def constant_pad_nd_errors(make):
    yield RuntimeError, "divisible by 2", make.args(make(3), (1,))
    yield RuntimeError, "less than or equal", make.args(make(3), (1, 1, 1, 1))
    yield RuntimeError, "crops more than the 3 elements of dimension 0", make.args(make(3), (2, -4))


def _source(mode, length, before, after):
    """For each position along a padded dimension the position of the input that it copies."""
    positions = range(-before, length + after)
    if mode == "reflect":
        last = length - 1
        return [last - abs(last - abs(i)) for i in positions]
    if mode == "replicate":
        return [min(max(i, 0), length - 1) for i in positions]
    # What is cropped on one side does not come around on the other.
    start = max(-before, 0)
    kept = length - start - max(-after, 0)
    return [start + (i - start) % kept for i in positions]


@lru_cache(maxsize=1024)
def _check_reach(mode, shape, pad):
    """Raise what PyTorch does for dimensions that a mode does not pad, or elements that the input does not have."""
    _check_length(pad, len(shape))
    padded = len(pad) // 2
    if padded not in (1, 2, 3) or len(shape) not in (padded + 1, padded + 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {len(shape)}D input tensor: mode '{mode}' pads the last "
            "dimension of 2D or 3D input (2 numbers), the last 2 of 3D or 4D (4), the last 3 of 4D or 5D (6)"
        )
    if mode != "circular" and 0 in shape[-padded - 1 :]:
        raise RuntimeError(
            f"Expected {padded + 1}D or {padded + 2}D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {list(shape)}"
        )
    pairs = _pairs(pad, len(shape))
    for i, (a, b) in enumerate(pairs):
        most = max(a, b)
        if mode == "reflect" and most >= max(shape[i], 1):
            raise RuntimeError(
                "Padding size should be less than the corresponding input dimension, but got: padding "
                f"({a}, {b}) at dimension {i} of input {list(shape)}"
            )
        if mode == "circular" and most > shape[i]:
            raise RuntimeError(
                f"Padding value causes wrapping around more than once: padding ({a}, {b}) at dimension {i} of input "
                f"{list(shape)}"
            )
        if mode == "circular" and a + shape[i] + b < 0:
            raise RuntimeError(f"Negative padding value is resulting in an empty dimension: dimension {i}")
        if most > 0 and shape[i] == 0:
            raise RuntimeError(f"Expected dimension {i} of input {list(shape)} to have elements to pad with")
    _padded_shape(shape, pairs)


def _autocast(input, pad, mode):
    return "float32" if mode == "replicate" or mode == "reflect" and len(pad) <= 4 else None


def _node_name(input, pad, mode):
    """Return PyTorch's name of the node, which for circular padding is that of what it is made of there."""
    names = {"reflect": "ReflectionPad", "replicate": "ReplicationPad"}
    return f"{names[mode]}{len(pad) // 2}DBackward0" if mode in names else "CopySlices"


@op(at=(), node=_node_name, any_order=True, autocast={"cpu": _autocast})
def pad_copy(xp, input, pad, mode):
    """Pad the last dimensions with copies of elements.

    `mode` is reflect, replicate or circular.
    """
    padded = input
    for axis, (a, b) in enumerate(_pairs(pad, input.ndim)):
        if a or b:
            padded = xp.take(padded, xp.asarray(_source(mode, padded.shape[axis], a, b), dtype="int64"), axis)
    # Where nothing is padded the result is another tensor all the same.
    return like_images(xp, xp.array(padded) if padded is input else padded, input, any_order=True)


@pad_copy.kernel("cpu")
@native("pad", otherwise=pad_copy)
def pad_copy_in_c(call, xp, input, pad, mode):
    return _padded_in_c(call, xp, input, pad, 1 + _COPIES.index(mode))


@pad_copy.meta
def pad_copy_meta(input, pad, mode):
    return _padded_shape(input.shape, _pairs(pad, input.ndim)), input.dtype


@pad_copy.vjp
def pad_copy_vjp(F, g, input_shape, pad, mode):
    return F.pad_copy_grad(g, input_shape, pad, mode)


@pad_copy.samples
def pad_copy_samples(make):
    yield make(1, 2, 3, 4), (1, 1, 2, 0), "reflect"
    yield make(1, 2, 3, 4), (1, 1, 2, 0), "replicate"
    yield make(1, 2, 3, 4), (1, 1, 2, 0), "circular"


@op(at=())
def pad_copy_grad(xp, input, shape, pad, mode):
    """Add padded elements back onto what they copy: the adjoint of `pad_copy`."""
    pairs = _pairs(pad, input.ndim)
    for axis, (a, b) in reversed(list(enumerate(pairs))):
        if a or b:
            source, length, lead = _source(mode, shape[axis], a, b), shape[axis], (slice(None),) * axis
            total = xp.zeros(input.shape[:axis] + (length,) + input.shape[axis + 1 :], input.dtype)
            inner = slice(max(-a, 0), length - max(-b, 0))
            total[(*lead, inner)] = input[(*lead, slice(inner.start + a, inner.stop + a))]
            for i in (*range(max(a, 0)), *range(a + inner.stop, len(source))):
                total[(*lead, source[i])] += input[(*lead, i)]
            input = total
    return input


@pad_copy_grad.meta
def pad_copy_grad_meta(input, shape, pad, mode):
    return tuple(shape), input.dtype


@pad_copy_grad.vjp
def pad_copy_grad_vjp(F, g, pad, mode):
    return F.pad_copy(g, pad, mode)


@pad_copy_grad.samples
def pad_copy_grad_samples(make):
    yield make(1, 2, 5, 6), (1, 2, 3, 4), (1, 1, 2, 0), "reflect"
    yield make(1, 2, 5, 6), (1, 2, 3, 4), (1, 1, 2, 0), "replicate"
    yield make(1, 2, 5, 6), (1, 2, 3, 4), (1, 1, 2, 0), "circular"


@composite(at=("nn.functional.pad",), kinds={"value": "float?", "mode": "str"})
def pad(F, input, pad, mode="constant", value=None):
    """Pad a tensor: `mode` is constant, reflect, replicate or circular.

    `pad` is (before, after) for the last dimension, then for the one before it, and so on; negative amounts
    crop. `value` (default 0) is what constant mode fills with. Raises RuntimeError for a wrong length, and
    NotImplementedError for an unknown mode or, in the modes that copy, when other than the last 1, 2 or 3
    dimensions after the channel are padded.

    >>> import plugrad as torch
    >>> torch.nn.functional.pad(torch.tensor([[1., 2., 3.]]), (2, 1), mode="reflect")
    tensor([[3., 2., 1., 2., 3., 2.]])
    """
    pad = ints(pad)
    if mode == "constant":
        _check_length(pad, input.ndim)
        return F.constant_pad_nd(input, pad, 0 if value is None else float(value) if type(value) is int else value)
    if mode not in _COPIES:
        raise NotImplementedError(
            f"Unrecognised padding mode {mode}; choose 'constant', 'reflect', 'replicate' or 'circular'"
        )
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode != "circular" and input.dtype is plugrad.bool:
        raise NotImplementedError(f"\"{mode}_pad\" not implemented for 'Bool': pad input.byte(), and convert that back")
    _check_reach(mode, input.shape, pad)
    return F.pad_copy(input, pad, mode)


@pad.samples
def pad_samples(make):
    yield make(2, 3, 4), (1, 2)
    yield make(1, 2, 3, 4), (1, 1, 2, 0), "reflect"
    yield make.args(make(2, 3), (-1, 2), value=1.5)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
