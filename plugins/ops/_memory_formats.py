"""Arrays in the memory formats that can be asked for: row-major, channels last, or as another array."""

from __future__ import annotations

import sys

import numpy

import plugrad
from plugrad import kernels
from plugrad.extend import is_channels_last, native_function, new_memory

_RANKS = {plugrad.channels_last: 4, plugrad.channels_last_3d: 5}


def empty(xp, shape, dtype, memory_format=None):
    """An uninitialised array of a shape, row-major unless a channels-last format is asked for."""
    if memory_format is plugrad.preserve_format:
        raise RuntimeError("unsupported memory format option Preserve: there is no tensor to follow; use empty_like")
    if memory_format not in _RANKS:  # no view: to find what owns the memory of one takes longer
        return new_memory(xp.empty(tuple(shape), dtype))
    shape, order = laid_out(shape, memory_format)
    return new_memory(xp.empty(shape, dtype)).transpose(order)


_arrange = native_function("arrange", lambda *arrays: NotImplemented)
# Elements from which a copy in C repays the way to it, where there is one: in another order, and in the same.
MANY, _LONG = (1 << 12, 1 << 15) if kernels.is_native(_arrange) else (sys.maxsize, sys.maxsize)


def is_long(array) -> bool:
    """Whether to copy an array by several threads takes less time, even in the order that it has."""
    return array.__class__ is numpy.ndarray and array.size >= _LONG


def copy_to(result, array) -> None:
    """Write an array to another of its shape and dtype, whichever order each is in."""
    if array.__class__ is numpy.ndarray and array.size >= MANY:
        to, source = result, array
        if not to.flags.c_contiguous:
            order = sorted(range(to.ndim), key=lambda dim: -to.strides[dim])
            to, source = to.transpose(order), source.transpose(order)
        if to.flags.c_contiguous and _arrange(source, to) is None:
            return
    result[...] = array


def in_rows(xp, array):
    """The array itself if it is row-major, else a copy that is."""
    if array.flags.c_contiguous:
        return array
    if array.__class__ is not numpy.ndarray or array.size < MANY:
        return xp.ascontiguousarray(array)
    result = xp.empty(array.shape, array.dtype)
    copy_to(result, array)
    return result


def laid_out(shape, memory_format) -> tuple:
    """Return how a shape lies in memory, and the order in which its dimensions are found there."""
    rank = _RANKS.get(memory_format)
    if rank is None:
        return tuple(shape), tuple(range(len(shape)))
    if len(shape) != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {str(memory_format)[6:]} format")
    return (shape[0], *shape[2:], shape[1]), (0, rank - 1, *range(1, rank - 1))


def preserves(memory_format) -> bool:
    """Whether what is asked for is the order that a tensor has already."""
    return memory_format is None or memory_format is plugrad.preserve_format


def empty_in_order(xp, array, dtype):
    """An uninitialised array with its elements in the order that a ufunc's result would have for `array`.

    `empty_like` and `copy` are of another mind about dimensions that are expanded: they put these innermost.
    """
    if 0 not in array.strides:
        return xp.empty_like(array, dtype)
    if not array.flags.c_contiguous and all([n == 1 for n, step in zip(array.shape, array.strides) if step == 0]):
        return xp.empty_like(array, dtype)  # a new dimension of size 1 is no batch of images with the channels last
    result = xp.equal(array, array)
    order = sorted(range(array.ndim), key=lambda d: -result.strides[d])
    return xp.empty([array.shape[d] for d in order], dtype).transpose([order.index(d) for d in range(array.ndim)])


def has(input, memory_format) -> bool:
    """Whether a tensor looks as if it were in a format, by its strides."""
    if preserves(memory_format):
        return True
    last = is_channels_last(input.shape, input.stride())
    return last and input.ndim == _RANKS[memory_format] if memory_format in _RANKS else not last


def is_in_order(input, memory_format) -> bool:
    """Whether random numbers like `input` may be drawn row by row: PyTorch draws them in the order of the memory."""
    if not isinstance(input, plugrad.Tensor):
        return True
    return input.is_contiguous() and memory_format not in _RANKS or memory_format is plugrad.contiguous_format


def like(F, result, input, memory_format, requires_grad):
    """A new row-major tensor brought into the order of `input`, or into a format; raw arrays stay as they are."""
    if not isinstance(input, plugrad.Tensor):
        return result
    if preserves(memory_format) and not input.is_contiguous():
        result = F.arranged(result, input)
    elif memory_format in _RANKS:
        result = F.clone(result, memory_format=memory_format)
    return result.requires_grad_() if requires_grad else result
