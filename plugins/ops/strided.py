"""Views of memory with explicit strides: `as_strided`, and what its gradients need."""

from __future__ import annotations

import math

from plugrad.extend import Op, collect, composite, hookimpl, locked_if_shared, op, view

from . import _index as ix
from ._checks import number


def memory_of(xp, array):
    """The whole memory under a view, as a 1-d array of its dtype."""
    root, base = array, array.base
    while base is not None:
        root = base if isinstance(base, type(array)) else root
        base = getattr(base, "base", None)
    flat = xp.lib.stride_tricks.as_strided(root[...] if root.ndim else root.reshape(1), (root.size,), (root.itemsize,))
    return flat[: root.nbytes // array.itemsize * array.itemsize // root.itemsize].view(array.dtype)


def as_strided_array(xp, array, shape, strides):
    """A view through byte strides, which may be written where no stride of zero makes several elements one."""
    if not getattr(array.flags, "writeable", True):
        memory = memory_of(xp, array)  # what lies below an expanded array, which NumPy lets nobody write
        start = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
        result = xp.ndarray(shape, array.dtype, memory, start, strides)
    else:
        result = xp.lib.stride_tricks.as_strided(array, shape, strides)
    return locked_if_shared(result)


def check_strided(size, stride, offset, available, itemsize):
    """PyTorch's tests of an explicit layout against the memory there is."""
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if min(stride, default=0) < 0:
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {stride}")
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    if min(size, default=0) < 0:
        raise RuntimeError(f"as_strided: sizes must not be negative, got sizes={size}")
    reach = reached(size, stride, offset)
    if reach > available:
        raise RuntimeError(
            f"setStorage: sizes {size}, strides {stride}, storage offset {offset}, and itemsize {itemsize} requiring a "
            f"storage size of {reach * itemsize} are out of bounds for storage of size {available * itemsize}"
        )


def reached(size, stride, offset):
    """How many elements of memory a layout needs."""
    return 0 if 0 in size else offset + 1 + sum((n - 1) * s for n, s in zip(size, stride) if s > 0)


@composite(inplace="shape", kinds={"stride": "ints"})
def as_strided(F, input, size, stride, storage_offset=None):
    """A view of the memory under `input` with any sizes and strides.

    Strides count elements; `storage_offset` counts from the start of the memory, by default from where `input`
    begins. Raises `RuntimeError` when the view would leave the memory.

    >>> import plugrad as torch
    >>> torch.as_strided(torch.arange(4), (2, 2), (1, 1))
    tensor([[0, 1],
            [1, 2]])
    """
    start = input.storage_offset()
    offset = start if storage_offset is None else storage_offset
    size, stride = tuple(map(number, size)), tuple(map(number, stride))  # a tensor may change
    return F.strided_view(input, size, stride, number(offset), (start, *input.stride()))


@as_strided.samples
def as_strided_samples(make):
    yield make.args(make(3, 3), (2, 2), (1, 2), 1)


@view(at=(), node="AsStridedBackward0")
def strided_view(xp, input, size, stride, offset, layout):
    """`as_strided`, given the offset and strides of `input` as `layout`."""
    flat, size, stride = memory_of(xp, input), list(size), list(stride)
    steps = [s * input.itemsize for s in stride]
    outline = reached(input.shape, layout[1:], 0) > flat.size  # on the meta device there is no memory to look into
    check_strided(size, stride, offset, math.inf if outline else flat.size, input.itemsize)
    return as_strided_array(xp, input if outline else flat[offset:], size, steps)


@strided_view.vjp
def strided_view_vjp(F, g, input_shape, size, stride, offset, layout):
    return F.strided_sum(g, input_shape, layout, size, stride, offset)


@strided_view.samples
def strided_view_samples(make):
    yield make(3, 3), (2, 2), (1, 2), 1, (0, 3, 1)


def places_of(xp, shape, strides, offset):
    """The place in memory of each element of a layout."""
    places = xp.full((), offset, "int64")
    for n, s in zip(shape, strides):
        places = places[..., None] + xp.arange(n) * s
    return places


def overlaps(shape, strides):
    """Whether elements of a layout may share memory: from small strides to large, one reaches into the next."""
    reach = 0
    for s, n in sorted((s, n) for n, s in zip(shape, strides) if n > 1):
        if s <= reach:
            return True
        reach += (n - 1) * s
    return False


def moved(xp, values, here, there):
    """Memory that sums `values`, laid out as `here`, and its places of `there`, both (shape, strides, offset)."""
    memory = xp.zeros(max(reached(*here), reached(*there)), values.dtype)
    ix.combine_at(xp, xp.add, memory, places_of(xp, *here).ravel(), values.ravel())
    return memory, places_of(xp, *there)


def shared(xp, memory, shape, layout):
    """`memory`, each place divided by the number of elements of the input there: they share one gradient."""
    if not overlaps(shape, layout[1:]):
        return memory
    count = xp.bincount(places_of(xp, shape, layout[1:], layout[0]).ravel(), minlength=memory.size)
    return memory / xp.maximum(count, 1).astype(memory.dtype)


@op(at=())
def strided_sum(xp, input, shape, layout, size, stride, offset):
    """Sum `input`, strided over memory, into an array of another layout there."""
    here, there = (size, stride, offset), (shape, layout[1:], layout[0])
    memory, places = moved(xp, input, here, there)
    return shared(xp, memory, shape, layout)[places]


@strided_sum.meta
def strided_sum_meta(input, shape, layout, size, stride, offset):
    return tuple(shape), input.dtype


@strided_sum.vjp
def strided_sum_vjp(F, g, shape, layout, size, stride, offset):
    return F.strided_read(g, shape, layout, size, stride, offset)


@strided_sum.samples
def strided_sum_samples(make):
    yield make(2, 2), (3, 3), (0, 3, 1), (2, 2), (1, 2), 1


@op(at=())
def strided_read(xp, input, shape, layout, size, stride, offset):
    """What `as_strided` would read of `input`, laid out in memory by `layout`."""
    here, there = (shape, layout[1:], layout[0]), (size, stride, offset)
    memory, places = moved(xp, input, here, there)
    return shared(xp, memory, shape, layout)[places]


@strided_read.meta
def strided_read_meta(input, shape, layout, size, stride, offset):
    return tuple(size), input.dtype


@strided_read.vjp
def strided_read_vjp(F, g, shape, layout, size, stride, offset):
    return F.strided_sum(g, shape, layout, size, stride, offset)


@strided_read.samples
def strided_read_samples(make):
    yield make(3, 3), (3, 3), (0, 3, 1), (2, 2), (1, 2), 1


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
