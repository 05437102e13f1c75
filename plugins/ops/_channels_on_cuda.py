"""Normalization of channels over a batch, and of groups of channels, by kernels in CUDA C++."""

from __future__ import annotations

import functools
import math
import pathlib

from plugrad.extend import is_half, load_inline

_load = functools.partial(
    load_inline, cuda=pathlib.Path(__file__).with_name("normalization_channels.cu"), types="floating"
)  # fmt: skip
OF_STATISTICS = ("float32", "float64")  # which halves have in float32
_moments = _load(name="channel_moments", arrays=3, numbers=2, per="block", wide=(1, 2))
_sums = _load(name="channel_sums", arrays=5, numbers=2, per="block", wide=(2, 3, 4))
_join_moments = _load(name="join_moments", arrays=4, numbers=2, per="row", types=OF_STATISTICS)
_column_sums = _load(name="column_sums", arrays=6, numbers=3, per="block", wide=(2, 3, 4, 5))
_join_sums = _load(name="join_sums", arrays=5, numbers=2, per="row", types=OF_STATISTICS)
_scale = _load(name="scale_channels", arrays=6, numbers=5, per="row", wide=(2, 3))
_scale_grad = _load(name="scale_channels_grad", arrays=10, numbers=5, per="row", wide=(3, 4, 6, 7, 8, 9))
_row_moments = _load(name="row_moments", arrays=3, per="row", wide=(1, 2))
_scale_groups = _load(name="scale_groups", arrays=6, numbers=5, per="row", wide=(2, 3))
_group_sums = _load(name="group_sums", arrays=6, numbers=2, per="row", wide=(2, 3, 4, 5))
_scale_groups_grad = _load(name="scale_groups_grad", arrays=10, numbers=5, per="row", wide=(3, 4, 6, 7, 8, 9))

PER_THREAD, THREADS = 16, 256  # as in the kernels
MOST = 65535  # channels: a grid is no higher


def of_statistics(dtype):
    """Return the type of means and sums of elements."""
    return "float32" if is_half(dtype) else dtype


class Channels:
    """How an array (N, C, *) lies in memory, as (outer, C, inner) in C order: by example, or by channel."""

    def __init__(self, array):
        self.shape, self.order = array.shape, None
        by_channel = (1, *range(2, array.ndim), 0)  # as convolutions leave their results
        if not array.flags.c_contiguous and array.transpose(by_channel).flags.c_contiguous:
            self.order = by_channel
        self.count = array.shape[1]
        self.inner = array.size // self.count if self.order else array.size // (array.shape[0] * self.count)
        self.whole = PER_THREAD * (THREADS if self.inner > 1 else THREADS // 32)
        self.parts = -(-array.size // self.count // self.whole)

    def laid_out(self, xp, array):
        """Return an array with its elements in this order, of rows that are of one channel, or have one of each."""
        array = xp.ascontiguousarray(array if self.order is None else array.transpose(self.order))
        return array.reshape(-1, self.count if self.inner == 1 else self.inner)

    def empty(self, xp, rows):
        """Return memory for something like rows that `laid_out` made, which is no view where it need not be one."""
        return xp.ndarray(self.shape if self.order is None else rows.shape, rows.dtype)

    def original(self, rows):
        """Return what `laid_out` made rows of, or something like it."""
        if self.order is None:
            return rows
        moved = rows.reshape([self.shape[d] for d in self.order])
        return moved.transpose([self.order.index(d) for d in range(len(self.shape))])

    def in_parts(self, xp, kernel, arrays, *numbers):
        """Return two numbers for each part of each channel, as (C, parts), that a kernel computes from arrays."""
        results = two(xp, (self.count, self.parts), arrays[0].dtype)
        blocks = self.parts, self.count if self.inner > 1 else -(-self.count // 32)
        kernel(*arrays, *results, self.count, self.inner, *numbers, blocks=blocks)
        return results


def normalized(xp, input, weight, bias, small, eps):
    """Return the normalized input, and means and variances in the shape `small`; NotImplemented for other types."""
    place = Channels(input)
    if place.count > MOST or any([part is not None and part.dtype != input.dtype for part in (weight, bias)]):
        return NotImplemented
    rows, (mean, variance) = place.laid_out(xp, input), two(xp, small, input.dtype)
    _join_moments(*place.in_parts(xp, _moments, [rows]), mean, variance, place.whole, input.size // place.count)
    return scaled(xp, input, weight, bias, mean, variance, eps), mean, variance


def scaled(xp, input, weight, bias, mean, variance, eps):
    """Return the input normalized by means and variances of its channels; NotImplemented for other types."""
    place = Channels(input)
    rows = place.laid_out(xp, input)
    statistics = [one.astype(of_statistics(input.dtype), copy=False) for one in (mean, variance)]
    parts = [rows if part is None else xp.ascontiguousarray(part) for part in (*statistics, weight, bias)]
    result, given = place.empty(xp, rows), (weight is not None, bias is not None)
    done = _scale(rows, result, *parts, eps, place.count, place.inner == 1, *given)
    return place.original(result) if done is None else done


def gradients(xp, grads, input, weight, mean, variance, eps, needs, shapes):
    """Return the gradients of input, weight and bias that are needed, None for the others.

    `shapes` are those of the latter two. NotImplemented for other types.
    """
    place = Channels(input)
    g, rows = place.laid_out(xp, grads[0]), place.laid_out(xp, input)
    part = rows if weight is None else xp.ascontiguousarray(weight)
    if place.count > MOST or part.dtype != input.dtype or g.dtype != input.dtype:
        return NotImplemented
    of_weight, of_bias = [xp.ndarray(_of_size(shape, place.count), mean.dtype) for shape in shapes]
    _join_sums(*place.in_parts(xp, _sums, [g, rows, mean]), variance, of_weight, of_bias, eps, False)
    result = None
    if needs[0]:
        out = place.empty(xp, rows)
        arrays = g, rows, out, mean, variance, part, of_weight, of_bias, *map(xp.ascontiguousarray, grads[1:])
        columns, count = place.inner == 1, input.size // place.count
        _scale_grad(*arrays, eps, place.count, columns, weight is not None, count)
        result = place.original(out)
    parts = zip((of_weight, of_bias), shapes, needs[1:])
    return result, *of_parts(parts, g.dtype)


def of_parts(parts, dtype):
    """Return gradients of weight and bias that are needed, in their shapes, None for the others."""
    results = []
    for value, shape, need in parts:
        value = value if not need or value.shape == shape else value.reshape(shape)
        results.append(value.astype(dtype, copy=False) if need else None)
    return results


def _of_size(shape, size):
    """Return the shape that weight or bias have, or another one of their size where there are none."""
    return shape if shape is not None and math.prod(shape) == size else (size,)


def two(xp, shape, dtype):
    """Return memory for means and variances, or two sums."""
    dtype = of_statistics(dtype)
    return xp.ndarray(shape, dtype), xp.ndarray(shape, dtype)


def gradients_of_columns(xp, g, input, mean, variance, eps, shapes):
    """Return the gradients of weight and bias where the rows of an array (*, C) were normalized, as (C,)."""
    columns = input.shape[-1]
    rows, g = input.reshape(-1, columns), g.reshape(-1, columns)
    place = Channels(rows)
    of_weight, of_bias = [xp.ndarray(_of_size(shape, columns), mean.dtype) for shape in shapes]
    parts = place.in_parts(xp, _column_sums, [g, rows, mean, variance], eps)
    _join_sums(*parts, variance, of_weight, of_bias, eps, True)
    return of_weight, of_bias


FEW = 8  # elements of a channel for which a block is too much


def normalized_groups(xp, input, weight, bias, groups, small, eps):
    """Return the input with groups of channels normalized, and means and variances in the shape `small`."""
    (count, each), batch = groups, input.shape[0]
    (mean, variance), input = two(xp, small, input.dtype), xp.ascontiguousarray(input)
    rows = input.reshape(batch * count * each, -1)
    result = xp.empty_like(input)
    parts = [rows if part is None else xp.ascontiguousarray(part) for part in (weight, bias)]
    if any([part.dtype != input.dtype for part in parts]):
        return NotImplemented
    _row_moments(input.reshape(batch * count, -1), mean, variance)
    given = weight is not None, bias is not None
    _scale_groups(rows, result, mean, variance, *parts, eps, count * each, each, *given)
    return result, mean, variance


def gradients_of_groups(xp, grads, input, weight, mean, variance, groups, eps, needs, shapes):
    """Return what `gradients` does where groups of channels were normalized."""
    (count, each), batch = groups, input.shape[0]
    g, rows = [xp.ascontiguousarray(one).reshape(batch * count * each, -1) for one in (grads[0], input)]
    part = rows if weight is None else xp.ascontiguousarray(weight).reshape(-1)
    if part.dtype != input.dtype or g.dtype != input.dtype:
        return NotImplemented
    sums = two(xp, (batch, count * each), g.dtype)
    _group_sums(g, rows, mean, variance, *sums, eps, each)
    result, size = None, each * rows.shape[1]
    if needs[0]:
        result = xp.ndarray(input.shape, input.dtype)
        means = [(one if weight is None else one * part).reshape(-1, each).sum(1) / size for one in sums]
        arrays = g, rows, result, mean, variance, part, *means, *map(xp.ascontiguousarray, grads[1:])
        _scale_groups_grad(*arrays, eps, count * each, each, weight is not None, size)
    return result, *of_parts(zip([one.sum(0) for one in reversed(sums)], shapes, needs[1:]), g.dtype)
