"""Places in a tensor: flat indices as coordinates, the places of nonzero elements, and sizes changed in place."""

from __future__ import annotations

from math import prod

from plugrad import channels_last, channels_last_3d, contiguous_format, is_inference_mode_enabled, preserve_format
from plugrad.extend import Op, collect, composite, hookimpl, is_channels_last, new_memory, op

from ._checks import ints
from ._memory_formats import laid_out


@composite(at=("unravel_index",), kinds={"shape": "int|ints"})
def unravel_index(F, indices, shape):
    """The coordinates, by dimension, of flat indices into a tensor of `shape`.

    `indices` are integers, `shape` is an int or a sequence of ints. Raises `TypeError` for other types, `ValueError`
    for negative sizes or an index outside.

    >>> import plugrad as torch
    >>> torch.unravel_index(torch.tensor([4, 1]), (3, 2))
    (tensor([2, 0]), tensor([0, 1]))
    """
    if indices.is_complex() or indices.is_floating_point() or str(indices.dtype) == "torch.bool":
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}; convert it with .long()")
    sizes = (shape,) if isinstance(shape, int) else shape
    if not hasattr(sizes, "__iter__") or not all(hasattr(n, "__index__") for n in sizes):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape).__name__}")
    sizes = [int(n) for n in sizes]
    if min(sizes, default=0) < 0:
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    steps = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    indices = indices.long()
    return tuple(F.remainder(F.floor_divide(indices, step), n) for step, n in zip(steps, sizes))


@unravel_index.samples
def unravel_index_samples(make):
    yield make.args(make.ints(4, low=0, high=6), (3, 2))


@op(vjp=None, kinds={"size": "int", "fill_value": "int"})
def nonzero_static(xp, input, *, size, fill_value=-1):
    """The places of the first `size` elements that are not zero, one row each.

    Where there are fewer, the rest of the rows is `fill_value`. Raises `RuntimeError` for a negative size.

    >>> import plugrad as torch
    >>> torch.nonzero_static(torch.tensor([0, 5, 6]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    result = xp.full((size, input.ndim), fill_value, "int64")
    if input.ndim:
        positions = xp.stack(xp.nonzero(input), 1)[:size]
        result[: len(positions)] = positions
    return result


@nonzero_static.meta
def nonzero_static_meta(input, *, size, fill_value=-1):
    return (size, input.ndim), "int64"


@nonzero_static.samples
def nonzero_static_samples(make):
    yield make.args(make.ints(3, 4), size=5)


@op(at=())
def fit_size(xp, input, size):
    """The elements laid out anew in `size`.

    They are cut off, or followed by zeros, or by what new memory is filled with.
    """
    flat = input.reshape(-1)
    count = prod(size)
    if count > flat.size:
        flat = xp.concatenate([flat, new_memory(xp.zeros(count - flat.size, flat.dtype))])
    return flat[:count].reshape(size)


@fit_size.meta
def fit_size_meta(input, size):
    return tuple(size), input.dtype


@fit_size.samples
def fit_size_samples(make):
    yield make.args(make(2, 3), (3,))


def _resize(F, input, size, memory_format):
    if input.requires_grad and not is_inference_mode_enabled():
        raise RuntimeError(
            "cannot resize variables that require grad: use reshape, or narrow and torch.nn.functional.pad"
        )
    if min(size, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    if input.is_conj():
        raise RuntimeError("resize_() of a conjugate, which has no memory of its own: write resolve_conj() first")
    if memory_format is not None or tuple(input.shape) != tuple(size):
        shape, order = laid_out(size, memory_format)
        data = F.fit_size(input, shape) if input.device.type != "cpu" else _in_storage(F, input, shape)
        input.data = data if memory_format is None else F.permute(data, order)
    return input


def _in_storage(F, input, size):
    """The elements that follow in memory, in row-major order; in a longer copy of the memory if there are too few."""
    whole = input.new_empty(0).set_(input.untyped_storage())
    start = input.storage_offset()
    end = start + prod(size)
    if end >= 1 << 60:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)}")
    if end > whole.shape[0]:
        if not input.untyped_storage().resizable():
            shared = "an array of NumPy's shares it; clone() the tensor first"
            raise RuntimeError(f"Trying to resize storage that is not resizable: {shared}")
        whole = F.fit_size(whole, (end,))
    return F.reshape(F.narrow(whole, 0, start, end - start), size)


@composite(name="resize_", at=("Tensor.resize_",), variadic="size")
def resize_(F, input, size, *, memory_format=None):
    """Give the tensor another size.

    It has the elements that follow in its memory, in row-major order. The tensor shares memory with the old one as
    long as that suffices; else it gets a longer copy, which ends with zeros. With `memory_format=` they are in the
    order of that format. Raises `RuntimeError` when it requires grad, or an array of NumPy's shares memory that is too
    short.

    >>> import plugrad as torch
    >>> torch.tensor([[1, 2], [3, 4]]).resize_(3)
    tensor([1, 2, 3])
    """
    if memory_format is preserve_format:
        raise RuntimeError("Unsupported memory format Preserve: write resize_as_, which follows a tensor")
    return _resize(F, input, ints(size), memory_format)


@resize_.samples
def resize_samples(make):
    yield make.args(make(2, 3, requires_grad=False), (2, 3))


@composite(name="resize_as_", at=("Tensor.resize_as_", "resize_as_"))
def resize_as_(F, input, the_template, *, memory_format=None):
    """Give the tensor the size of another; its format too if that is preserved.

    >>> import plugrad as torch
    >>> torch.tensor([[1, 2], [3, 4]]).resize_as_(torch.zeros(1))
    tensor([1])
    """
    if memory_format is preserve_format:
        last = is_channels_last(the_template.shape, the_template.stride())
        memory_format = (channels_last if the_template.ndim == 4 else channels_last_3d) if last else contiguous_format
    return _resize(F, input, the_template.shape, memory_format)


@resize_as_.samples
def resize_as_samples(make):
    yield make.args(make(2, 3, requires_grad=False), make(2, 3, requires_grad=False))


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
