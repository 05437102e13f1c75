"""Ops that rearrange, join and make tensors, in ONNX."""

from __future__ import annotations

import plugrad
from plugrad.extend import LEFT_OUT
from plugrad.onnx.declaring import form
from plugrad.onnx.tracing import Size


@form("reshape", "view", "flatten", "unflatten", "squeeze")
def reshape_form(g, input, *_):
    return g.reshape(input, g.results[0].shape)


@form("unsqueeze")
def unsqueeze_form(g, input, dim):
    return g.op("Unsqueeze", input, [dim % (input.rank + 1)])


@form("permute")
def permute_form(g, input, dims):
    return g.permute(input, [one % input.rank for one in dims])


@form("transpose", "swapaxes")
def transpose_form(g, input, dim0, dim1):
    order = list(range(input.rank))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return g.permute(input, order)


@form("t")
def t_form(g, input):
    return g.permute(input, range(input.rank)[::-1])


@form("expand")
def expand_form(g, input, size):
    return g.op("Expand", input, list(g.results[0].shape))


@form("repeat")
def repeat_form(g, input, repeats):
    missing = len(repeats) - input.rank
    if missing:
        input = g.op("Unsqueeze", input, list(range(missing)))
    return g.op("Tile", input, list(repeats))


@form("cat")
def cat_form(g, tensors, dim=0):
    dtype, rank = g.results[0].dtype, len(g.results[0].shape)
    kept = [one for one in tensors if one.rank == rank]  # PyTorch takes empty vectors among others
    return g.op("Concat", *[g.cast(one, dtype) for one in kept], axis=dim)


@form("stack")
def stack_form(g, tensors, dim=0):
    dtype, axis = g.results[0].dtype, dim % len(g.results[0].shape)
    return g.op("Concat", *[g.op("Unsqueeze", g.cast(one, dtype), [axis]) for one in tensors], axis=axis)


@form("split_evenly", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes")
def split_form(g, input, sizes, dim=0):
    sizes = [one.shape[dim] for one in g.results]
    parts = g.op("Split", input, sizes, axis=dim % input.rank, outputs=len(sizes))
    return parts if len(sizes) > 1 else (parts,)


@form("unbind")
def unbind_form(g, input, dim=0):
    return tuple([g.op("Gather", input, g.constant(i, plugrad.int64), axis=dim) for i in range(len(g.results))])


@form("pixel_shuffle")
def pixel_shuffle_form(g, input, upscale_factor):
    *lead, channels, height, width = input.shape
    r = upscale_factor
    blocks = g.reshape(input, [*lead, channels // (r * r), r, r, height, width])
    n = len(lead)
    return g.reshape(g.permute(blocks, [*range(n + 1), n + 3, n + 1, n + 4, n + 2]), g.results[0].shape)


@form("pixel_unshuffle")
def pixel_unshuffle_form(g, input, downscale_factor):
    *lead, channels, height, width = input.shape
    r = downscale_factor
    blocks = g.reshape(input, [*lead, channels, height // r, r, width // r, r])
    n = len(lead)
    return g.reshape(g.permute(blocks, [*range(n + 1), n + 2, n + 4, n + 1, n + 3]), g.results[0].shape)


@form("interleave")
def interleave_form(g, input, repeats, dim):
    shape = [*input.shape[: dim + 1], repeats, *input.shape[dim + 1 :]]
    return g.reshape(g.op("Expand", g.op("Unsqueeze", input, [dim + 1]), shape), g.results[0].shape)


@form("flip")
def flip_form(g, input, dims):
    axes = g.axes(input, dims) if dims else []
    if not axes:
        return g.op("Identity", input)
    count = len(axes)
    return g.op("Slice", input, [-1] * count, [-(2**63 - 1)] * count, axes, [-1] * count)


@form("roll")
def roll_form(g, input, shifts, dims=()):
    if not dims:
        flat = g.reshape(input, [-1])
        return g.reshape(_rolled(g, flat, 0, shifts[0] if isinstance(shifts, (tuple, list)) else shifts), input.shape)
    shifts = (shifts,) if isinstance(shifts, int) else shifts
    for shift, dim in zip(shifts, (dims,) if isinstance(dims, int) else dims):
        size = g.fixed(input.shape[dim], "the size of the axis along which it rolls")
        input = g.shaped(_rolled(g, input, dim % input.rank, shift % size if size else 0), input)
    return input


def _rolled(g, input, axis, shift):
    if not shift:
        return g.op("Identity", input)
    return g.op("Concat", g.slice(input, axis, -shift, None), g.slice(input, axis, 0, -shift), axis=axis)


def _triangle(name, upper):
    @form(name)
    def one_form(g, input, diagonal=0):
        part = g.cast(input, plugrad.int64) if input.dtype is plugrad.bool else input
        part = g.op("Trilu", part, g.constant(diagonal, plugrad.int64), upper=upper)
        return g.cast(part, input.dtype) if input.dtype is plugrad.bool else part


_triangle("tril", 0)
_triangle("triu", 1)


def _filled(name, number):
    @form(name)
    def filled_form(g, size, *_, **__):
        return g.op("Expand", g.constant(number, g.results[0].dtype), list(g.results[0].shape))


_filled("zeros", 0)
_filled("ones", 1)
_filled("empty", 0)


@form("full")
def full_form(g, size, fill_value, **_):
    return g.op("Expand", g.constant(fill_value, g.results[0].dtype), list(g.results[0].shape))


@form("arange")
def arange_form(g, start=LEFT_OUT, end=LEFT_OUT, step=1, **_):
    if end is LEFT_OUT:
        start, end = 0, start
    dtype = g.results[0].dtype
    ends = [
        g.cast(g.ints(one), dtype) if isinstance(one, Size) else g.constant(one, dtype) for one in (start, end, step)
    ]
    return g.op("Range", *ends)


@form("fill", "zero")
def fill_form(g, input, value=0):
    value = g.cast(value, input.dtype)
    return g.op("Expand", value, list(input.shape))


@form("copy")
def copy_form(g, input, src, *_):
    return g.op("Expand", g.cast(src, input.dtype), list(input.shape))


@form("one_hot")
def one_hot_form(g, input, num_classes=-1):
    if num_classes == -1:
        raise NotImplementedError("num_classes must be given: without it the number depends on values")
    values = g.constant([0, 1], plugrad.int64)
    return g.op("OneHot", input, g.constant(num_classes, plugrad.int64), values, axis=-1, dtype=plugrad.int64)


@form("constant_pad_nd")
def constant_pad_form(g, input, pad, value=0):
    return g.op("Pad", input, _pads(input, pad), g.cast(value, input.dtype), mode="constant")


@form("pad_copy")
def pad_copy_form(g, input, pad, mode):
    if mode == "circular" and g.opset < 19:
        raise NotImplementedError("circular padding needs opset_version=19 or greater")
    names = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return g.op("Pad", input, _pads(input, pad), mode=names[mode])


def _pads(input, pad) -> list:
    """Return PyTorch's pads, last dimension first, as ONNX has them: all beginnings, then all ends."""
    low, high = [0] * input.rank, [0] * input.rank
    for i in range(len(pad) // 2):
        low[-1 - i], high[-1 - i] = pad[2 * i], pad[2 * i + 1]
    return [*low, *high]
