"""Between jagged values and padded ones: where each element of a component stands in the values, and the way back."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.nested.tensors import build, values_of


def places(array):
    """Return NumPy's (batch, longest) places in the values of a jagged array, and which of them are there."""
    begins, lengths = array.bounds
    steps = numpy.arange(array.longest)[None]
    seen = steps < lengths[:, None]
    return numpy.where(seen, begins[:, None] + steps, 0), seen


def seen(array, device):
    """Return a bool tensor (batch, longest): which places of a padded tensor are those of components."""
    return plugrad.as_tensor(places(array)[1], device=device)


def pad(nested, value):
    """Return a dense tensor with the components of a jagged one, and a number behind them; gradients pass."""
    array, values = nested._raw, values_of(nested)
    numbers, there = places(array)
    index = plugrad.as_tensor(numbers.reshape(-1), device=values.device)
    if not values.shape[array.ragged - 1]:
        shape = (array.batch, *values.shape[: array.ragged - 1], 0, *values.shape[array.ragged :])
        return values.new_zeros(shape) + 0 * values.sum()
    padded = values.index_select(array.ragged - 1, index)
    padded = padded.unflatten(array.ragged - 1, there.shape).movedim(array.ragged - 1, 0)
    if there.all():
        return padded
    return padded.masked_fill(spread(plugrad.as_tensor(~there, device=values.device), array.ragged, padded.ndim), value)


def spread(mask, ragged, ndim):
    """Return a mask (batch, longest) with as many dimensions as a padded tensor."""
    return mask.reshape(mask.shape[0], *(1,) * (ragged - 1), mask.shape[1], *(1,) * (ndim - ragged - 1))


def unpad(padded, pattern):
    """Return the jagged tensor whose components stand in a padded one, of a pattern without gaps."""
    begins, lengths = pattern.bounds
    rows = numpy.repeat(numpy.arange(pattern.batch), lengths)
    within = numpy.arange(len(rows)) - numpy.repeat(numpy.cumsum(lengths) - lengths, lengths)
    at, length = pattern.ragged, padded.shape[pattern.ragged]
    flat = padded.movedim(0, at - 1).flatten(at - 1, at)
    index = plugrad.as_tensor(rows * length + within, device=padded.device)
    return build(flat.index_select(at - 1, index), pattern)


def without_gaps(nested):
    """Return a jagged tensor whose components lie one after another, from the first place on, in row-major values."""
    array, values = nested._raw, values_of(nested)
    begins, lengths = array.bounds
    counts = numpy.concatenate([[0], numpy.cumsum(lengths)])
    if array.lengths is None and not begins[:1].any() and counts[-1] == values.shape[array.ragged - 1]:
        return nested if values.is_contiguous() else build(values.contiguous(), array.pattern())
    index = numpy.repeat(begins - counts[:-1], lengths) + numpy.arange(counts[-1])
    picked = values.index_select(array.ragged - 1, plugrad.as_tensor(index, device=values.device))
    offsets = plugrad.as_tensor(counts, device=values.device)
    return build(picked, type(array)(None, offsets._raw, None, array.ragged))
