"""Sums and writes at places that occur more than once, in the order of the places: the same bits each time, on CUDA.

Atomic additions come in any order, and of several values that are written to one element any may be the last. So it is
in PyTorch, too, unless `use_deterministic_algorithms` asks for more; then what is here is used.
"""

from __future__ import annotations

import functools
import pathlib

import numpy

import plugrad
from plugrad.extend import load_inline

_load = functools.partial(load_inline, cuda=pathlib.Path(__file__).with_name("embedding.cu"), per="block", numbers=5)
add_windows = _load(name="add_windows", arrays=5, indices=(1, 2))
_join_windows = _load(name="join_windows", arrays=3, indices=(1,))
_order_few = _load(name="order_few", arrays=3, numbers=0, types=("int64", "int32"), indices=(1, 2))
WINDOW, THREADS = 32, 256  # as in the kernels
FEW = 4096  # indices that are compared each with each sooner than CuPy sorts them


def wanted(xp) -> bool:
    """Whether results on this array module depend on an order, and have to be the same each time."""
    return xp.__name__ == "cupy" and plugrad.are_deterministic_algorithms_enabled()


def in_order(xp, indices):
    """Return indices in rising order, equal ones as they came, and where each was; both int64."""
    indices = xp.ascontiguousarray(indices.reshape(-1))
    if indices.size <= FEW:
        ordered, places = xp.ndarray(indices.size, "int64"), xp.ndarray(indices.size, "int64")
        if _order_few(indices, ordered, places, blocks=-(-indices.size * 32 // THREADS)) is None:
            return ordered, places
    given = indices.astype("int64", copy=False)
    places = xp.argsort(given, kind="stable")
    return given[places], places


def sums(call, xp, values, indices, rows, padding_idx=-1):
    """Return a table of so many rows, to which each row of the values, float32 or float64, is added by its index."""
    width, (ordered, places) = values.shape[-1], in_order(xp, indices)
    windows, wide = -(-ordered.size // WINDOW), next(n for n in (32, 64, 128, THREADS) if n >= min(width, THREADS))
    blocks = -(-windows // (THREADS // wide)), -(-width // wide)
    table, apart = xp.zeros((rows, width), values.dtype), xp.empty((windows, width), values.dtype)
    numbers = ordered.size, width, wide, rows, padding_idx
    call(xp.ascontiguousarray(values), ordered, places, table, apart, *numbers, blocks=blocks)
    if windows > 1:
        _join_windows(table, ordered, apart, *numbers, blocks=blocks)
    return table


def add_at(xp, array, where, values):
    """Add to the places of an array, as `xp.add.at(array, where, values)`, which comes in any order."""
    if xp is numpy or not wanted(xp) or array.dtype.char not in "fd":  # of integers the order does not matter
        xp.add.at(array, where, values)
        return
    places = xp.arange(array.size).reshape(array.shape)[where]
    if places.size:
        values = xp.broadcast_to(values, places.shape).astype(array.dtype, copy=False)
        array += sums(add_windows, xp, values.reshape(-1, 1), places, array.size).reshape(array.shape)


def put(xp, array, where, values):
    """Write to the places of an array, `array[where] = values`: of several values for one place the last stays."""
    if xp is not numpy and wanted(xp) and getattr(values, "ndim", 0):
        places = xp.arange(array.size).reshape(array.shape)[where]
        if places.size:
            ordered, order = in_order(xp, places)
            last = order[xp.searchsorted(ordered, ordered, side="right") - 1]
            given, values = xp.broadcast_to(values, places.shape).reshape(-1), xp.empty(places.size, array.dtype)
            values[order] = given[last]
            values = values.reshape(places.shape)
    array[where] = values
