"""Taking the elements that an index names, and adding to them, by one launch on CUDA."""

from __future__ import annotations

import functools
import math
import pathlib

import plugrad
from plugrad.extend import axes, load_inline

_SOURCE = pathlib.Path(__file__).with_name("places.cu")
_load = functools.partial(load_inline, cuda=_SOURCE, per="block", arrays=4, indices=(2, 3))
_ANY = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
take = _load(name="take", numbers=5, types=_ANY)
put_sums = _load(name="put_sums", numbers=6)
_duplicate = load_inline(cuda=_SOURCE, name="duplicate", arrays=1, like=0, per="pack")
THREADS = 256
WRAPPING = 2  # in the place of `slices`: indices of slices, which count from the end where they are negative


def _places(shape, index, dim):
    """Return (n, m, after, whether the index is of slices); None where an index of elements leaves some out."""
    dim = axes(dim, len(shape))
    rest = math.prod(shape[dim + 1 :])
    if index.ndim == len(shape) and index.shape[:dim] + index.shape[dim + 1 :] == shape[:dim] + shape[dim + 1 :]:
        return shape[dim], index.shape[dim], rest, False
    return None


def taken(xp, input, index, dim, error, slices):
    """Return what an index takes along a dimension; NotImplemented for what the kernel does not serve."""
    shape = input.shape
    if slices:
        size = (*shape[:dim], *index.shape, *shape[dim + 1 :])
        numbers = shape[dim], index.size, math.prod(shape[dim + 1 :]), slices
    else:
        size, numbers = index.shape, _places(shape, index, dim)
    if numbers is None or not index.size or not input.size or index.dtype.char not in "li":
        return NotImplemented
    out = xp.ndarray(size, input.dtype)
    record, number = xp.watched_fault(error)
    done = take(out, input, _whole(index), record, *numbers, number, blocks=-(-out.size // THREADS))
    return _told(xp, done, out)


def added(xp, out, index, source, dim, error, slices, alpha=1.0):
    """Add what an index names to an array, in place; NotImplemented for what the kernel does not serve.

    The additions are atomic, so in any order: where one is wanted, the kernel does not serve.
    """
    shape = out.shape
    if plugrad.are_deterministic_algorithms_enabled():
        return NotImplemented
    if slices:
        numbers = shape[dim], index.size, math.prod(shape[dim + 1 :]), slices
    else:
        numbers = _places(shape, index, dim) if source.shape == index.shape else None
    if numbers is None or not source.size or index.dtype.char not in "li":
        return NotImplemented
    record, number = xp.watched_fault(error)
    arrays = xp.ascontiguousarray(source), out, _whole(index), record
    done = put_sums(*arrays, *numbers, number, alpha, blocks=-(-source.size // THREADS))
    return _told(xp, done, out)


def duplicate(xp, array):
    """Return a copy of an array in C order."""
    copy = _duplicate(array)
    return xp.array(array, order="C", copy=True) if copy is NotImplemented else copy


def _whole(index):
    return index if index.dtype.char == "l" else index.astype("int64")


def _told(xp, done, out):
    if done is NotImplemented:
        return done
    xp.told_fault()
    return out
