"""Ops that change a tensor's shape or the order of its dimensions; they return views where the strides allow."""

from __future__ import annotations

import numpy

from plugrad.extend import LEFT_OUT, Op, axes, collect, composite, hookimpl, view

from ._checks import dtype_word, ints
from ._memory_formats import MANY, in_rows


def reshape_error(shape, size):
    """What to raise after an array library refused to lay `size` elements out in `shape`."""
    shape = list(shape)
    if shape.count(-1) > 1:
        return RuntimeError("only one dimension can be inferred")
    if len(shape) > 64:
        return RuntimeError(f"tensors have at most 64 dimensions, as NumPy's arrays, and not {len(shape)}")
    for i, n in enumerate(shape):
        if n < -1:
            return RuntimeError(f"invalid shape dimension {n} at index {i} of shape {shape}")
    if size == 0 and -1 in shape and 0 in shape:
        return RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {shape} because the unspecified dimension "
            "size -1 can be any value and is ambiguous; give every size"
        )
    return RuntimeError(f"shape '{shape}' is invalid for input of size {size}")


def _reshaped(array, shape):
    try:
        return numpy.reshape(array, shape, copy=False)
    except ValueError:
        return in_rows(numpy, array).reshape(shape)


@view(variadic="shape", node="ViewBackward0")
def reshape(xp, input, shape):
    """The same elements in another shape: a view if possible, else a copy.

    `shape` has the same number of elements; one entry may be -1 and is inferred. Raises `RuntimeError` when the
    sizes do not multiply to the number of elements.

    >>> import plugrad as torch
    >>> torch.reshape(torch.arange(6), (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    try:
        if input.size >= MANY and input.__class__ is numpy.ndarray and not input.flags.c_contiguous:
            out = _reshaped(input, shape)
        else:
            out = input.reshape(shape)
    except ValueError:
        raise reshape_error(shape, input.size) from None
    except TypeError:
        if shape[0].__class__ is bool or not any(n.__class__ is bool for n in shape):
            raise
        return reshape.kernels["*"](xp, input, tuple([n + 0 for n in shape]))  # NumPy takes no bool for a size
    if out.shape != shape and min(shape, default=0) < -1:  # NumPy infers any negative size
        raise reshape_error(shape, input.size)
    return out


@reshape.vjp
def reshape_vjp(F, g, input_shape):
    return F.reshape(g, input_shape)


@reshape.samples
def reshape_samples(make):
    yield make.args(make(2, 6), (3, 4))
    yield make.args(make(2, 6), (-1, 2))
    yield make.args(make(1), ())


@reshape.errors
def reshape_errors(make):
    yield RuntimeError, "is invalid for input of size 6", make.args(make(2, 3), (4,))
    yield RuntimeError, "only one dimension can be inferred", make.args(make(2, 3), (-1, -1))


@view(variadic="size", at=("Tensor.view",), kinds={"size": "ints|dtype"})
def view_(xp, input, size):
    """The same memory in another shape, or seen as another dtype; never a copy.

    `size`: sizes as for `reshape`, or a dtype; the last dimension grows or shrinks with the dtype's width. What is seen
    as another dtype has no gradient. Raises `RuntimeError` where the strides do not allow a view.

    >>> import plugrad as torch
    >>> torch.arange(6).view(3, 2)
    tensor([[0, 1],
            [2, 3],
            [4, 5]])
    """
    if type(size) is not tuple and isinstance(size, xp.dtype):
        return view_dtype(input, size)
    out = reshape.kernels["*"](xp, input, size)
    if not (input.flags.c_contiguous or input.size == 0 or xp.may_share_memory(input, out)):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
            "two contiguous subspaces). Use .reshape(...) instead."
        )
    return out


def view_dtype(input, dtype):
    """Reinterpret the memory of an array as `dtype`."""
    old, new = input.dtype.itemsize, dtype.itemsize
    if old != new:
        to = f"view {dtype_word(input.dtype)} as {dtype_word(dtype)} (different element sizes)"
        if input.ndim == 0:
            raise RuntimeError(f"self.dim() cannot be 0 to {to}")
        if input.size and input.strides[-1] != old:
            raise RuntimeError(f"self.stride(-1) must be 1 to {to}, but got {input.strides[-1] // old}")
        if input.shape[-1] * old % new:
            raise RuntimeError(f"self.size(-1) must be divisible by {new // old} to {to}, but got {input.shape[-1]}")
        _check_alignment(input, old, new, to)
    if not input.size:
        return input.reshape(-1)[:0].view(dtype).reshape((*input.shape[:-1], input.shape[-1] * old // new))
    return input.view(dtype)


def _check_alignment(input, old, new, to):
    """Refuse a view whose rows would begin inside of an element of the wider dtype."""
    root = input.base
    while isinstance(getattr(root, "base", None), type(input)):
        root = root.base
    if isinstance(root, type(input)) and hasattr(input, "ctypes"):
        offset = input.ctypes.data - root.ctypes.data
        if offset % new:
            what = f"self.storage_offset() must be divisible by {new // old} to {to}"
            raise RuntimeError(f"{what}, but got {offset // old}")
    for d, step in enumerate(input.strides[:-1]):
        if step % new and input.shape[d] > 1:
            raise RuntimeError(f"self.stride({d}) must be divisible by {new // old} to {to}, but got {step // old}")


@view_.vjp
def view_vjp(F, g, input_shape, size):
    return None if not isinstance(size, (tuple, list, int)) else F.reshape(g, input_shape)


@view_.samples
def view_samples(make):
    yield make.args(make(2, 6), (3, 4))
    yield make.args(make(2, 6), (2, -1, 3))


@view_.errors
def view_errors(make):
    yield RuntimeError, "is invalid for input of size 6", make.args(make(2, 3), (4,))


@composite(at=("Tensor.view_as",))
def view_as(F, input, other):
    """View `input` in the shape of `other`.

    >>> import plugrad as torch
    >>> torch.arange(4).view_as(torch.zeros(2, 2)).shape
    torch.Size([2, 2])
    """
    return F.view(input, other.shape)


@composite(at=("Tensor.reshape_as",))
def reshape_as(F, input, other):
    """Reshape `input` to the shape of `other`.

    >>> import plugrad as torch
    >>> torch.arange(4).reshape_as(torch.zeros(2, 2)).shape
    torch.Size([2, 2])
    """
    return F.reshape(input, other.shape)


@view_as.samples
@reshape_as.samples
def as_other_samples(make):
    yield make(2, 6), make(3, 4)


@view(node="ViewBackward0", itself=True)
def flatten(xp, input, start_dim=0, end_dim=-1):
    """Join the dimensions from `start_dim` to `end_dim` into one.

    A 0-d tensor becomes 1-d. Raises `RuntimeError` when `start_dim` comes after `end_dim`.

    >>> import plugrad as torch
    >>> torch.flatten(torch.zeros(2, 3, 4), start_dim=1).shape
    torch.Size([2, 12])
    """
    shape = input.shape
    if start_dim == 0 and end_dim == -1:
        return input if len(shape) == 1 else input.reshape(-1)
    start, end = axes(start_dim, len(shape)), axes(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end and shape:
        return input
    joined = 1
    for n in shape[start : end + 1]:
        joined *= n
    return input.reshape(shape[:start] + (joined,) + shape[end + 1 :])


@flatten.vjp
def flatten_vjp(F, g, input_shape):
    return F.reshape(g, input_shape)


@flatten.samples
def flatten_samples(make):
    yield make.args(make(2, 3, 4))
    yield make.args(make(2, 3, 4), 1)
    yield make.args(make(2, 3, 4), -3, -2)


@flatten.errors
def flatten_errors(make):
    yield RuntimeError, "start_dim cannot come after end_dim", make.args(make(2, 3), 1, 0)


@composite()
def ravel(F, input):
    """All elements in one dimension, a view if the memory is contiguous.

    >>> import plugrad as torch
    >>> torch.ravel(torch.zeros(2, 3)).shape
    torch.Size([6])
    """
    return F.reshape(F.contiguous(input), (-1,))


@ravel.samples
def ravel_samples(make):
    yield make(2, 3)
    yield make()


@view(node="ViewBackward0")
def unflatten(xp, input, dim, sizes):
    """Split dimension `dim` into several of the given `sizes`; one may be -1.

    Raises `RuntimeError` when the sizes do not multiply to the dimension's size.

    >>> import plugrad as torch
    >>> torch.unflatten(torch.zeros(2, 12), 1, (3, 4)).shape
    torch.Size([2, 3, 4])
    """
    if not input.ndim and dim in (0, -1):
        raise RuntimeError("unflatten got an unexpected error: Dimension specified as 0 but tensor has no dimensions")
    shape, dim, sizes = input.shape, axes(dim, input.ndim), list(sizes)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if sizes.count(-1) > 1:
        raise RuntimeError("unflatten: only one dimension can be inferred")
    product = 1
    for n in sizes:
        product *= n
    if -1 in sizes and product:
        sizes[sizes.index(-1)] = shape[dim] // -product
        product = shape[dim] if shape[dim] % product == 0 else None
    if product != shape[dim]:
        raise RuntimeError(
            f"unflatten: Provided sizes {sizes} don't multiply up to the size of dim {dim} "
            f"({shape[dim]}) in the input tensor"
        )
    return input.reshape(shape[:dim] + tuple(sizes) + shape[dim + 1 :])


@unflatten.vjp
def unflatten_vjp(F, g, input_shape):
    return F.reshape(g, input_shape)


@unflatten.samples
def unflatten_samples(make):
    yield make.args(make(2, 6), 1, (2, 3))
    yield make.args(make(6, 2), 0, (-1, 3))


@unflatten.errors
def unflatten_errors(make):
    yield RuntimeError, "don't multiply up to the size of dim 1", make.args(make(2, 3), 1, (2, 2))


@view(
    inplace="shape", variadic="dim", kinds={"dim": "int|ints..."},
    node={"SqueezeBackward1": "type(dim) is int", "SqueezeBackward2": "type(dim) is tuple"},
)  # fmt: skip
def squeeze(xp, input, dim=LEFT_OUT):
    """Drop dimensions of size 1: all, or those named by `dim` (int or tuple).

    A named dimension of another size stays.

    >>> import plugrad as torch
    >>> torch.squeeze(torch.zeros(1, 2, 1), 0).shape
    torch.Size([2, 1])
    """
    shape = input.shape
    if dim is LEFT_OUT:
        return input.reshape([n for n in shape if n != 1]) if 1 in shape else input[...]
    if hasattr(dim, "__index__"):
        dim = axes(dim.__index__(), len(shape))
        return input.reshape(shape[:dim] + shape[dim + 1 :]) if shape and shape[dim] == 1 else input[...]
    drop = axes(tuple(dim), len(shape))
    return input.reshape([n for i, n in enumerate(shape) if n != 1 or i not in drop])


@squeeze.vjp
def squeeze_vjp(F, g, input_shape):
    return F.reshape(g, input_shape)


@squeeze.samples
def squeeze_samples(make):
    yield make.args(make(1, 3, 1))
    yield make.args(make(1, 3, 1), 1)
    yield make.args(make(1, 3, 1), (0, -1))


@view(inplace="shape")
def unsqueeze(xp, input, dim):
    """Insert a dimension of size 1 at position `dim`.

    >>> import plugrad as torch
    >>> torch.unsqueeze(torch.zeros(2, 3), -1).shape
    torch.Size([2, 3, 1])
    """
    if dim == 0:
        return input[None]
    if dim == -1:
        return input[..., None]
    shape = input.shape
    dim = axes(dim, len(shape) + 1)
    return input.reshape(shape[:dim] + (1,) + shape[dim:])


@unsqueeze.vjp
def unsqueeze_vjp(F, g, input_shape):
    return F.reshape(g, input_shape)


@unsqueeze.samples
def unsqueeze_samples(make):
    yield make.args(make(2, 3), 0)
    yield make.args(make(2, 3), -1)


def sum_to_shape(F, g, shape):
    """Sum `g` over the dimensions along which `shape` was expanded to it."""
    lead = g.ndim - len(shape)
    dims = [d for d in range(g.ndim) if d < lead or (shape[d - lead] == 1 and g.shape[d] != 1)]
    total = F.sum(g, tuple(dims), True) if dims else g
    return F.reshape(total, shape) if lead else total


@view(variadic="size", at=("Tensor.expand", "broadcast_to", "Tensor.broadcast_to"))
def expand(xp, input, size):
    """Repeat dimensions of size 1 without copying; -1 keeps a size.

    `size` may have more dimensions than `input`: new ones come first. Several elements of the result share memory,
    so it cannot be written to. Raises `RuntimeError` for sizes that do not fit.

    >>> import plugrad as torch
    >>> torch.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    old, new = input.shape, tuple(size)
    lead = len(new) - len(old)
    if lead < 0:
        raise RuntimeError(
            f"expand(tensor of shape {list(old)}, size={list(new)}): the number of sizes provided ({len(new)}) "
            f"must be greater or equal to the number of dimensions in the tensor ({len(old)})"
        )
    for i, n in enumerate(new[:lead]):
        if n < 0:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing dimension {i}"
            )
    full = new[:lead] + tuple(o if n == -1 else n for n, o in zip(new[lead:], old))
    if full[lead:] == old and min(full[:lead], default=1) == 1 == max(full[:lead], default=1):
        return input.reshape(full)
    for i, (n, o) in enumerate(zip(full[lead:], old), lead):
        if n != o and (o != 1 or n < 0):
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({o}) at non-singleton "
                f"dimension {i}.  Target sizes: {list(new)}.  Tensor sizes: {list(old)}"
            )
    return xp.broadcast_to(input, full)


@expand.kernel("cpu")
def expand_on_cpu(xp, input, size):
    """The same through explicit strides, which takes a fifth of NumPy's `broadcast_to`."""
    old, lead = input.shape, len(size) - len(input.shape)
    if lead < 0 or not input.flags.c_contiguous or not input.size or input.dtype.kind == "V":
        return expand.kernels["*"](xp, input, size)
    strides = [input.nbytes if n == 1 else 0 for n in size[:lead]] if lead else []
    for n, o, stride in zip(size[lead:] if lead else size, old, input.strides):
        if n == o:
            strides.append(stride)
        elif o == 1 and n >= 0:
            strides.append(0)
        else:
            return expand.kernels["*"](xp, input, size)
    out = xp.ndarray(size, input.dtype, input, 0, strides)
    if 0 in strides:
        out.setflags(write=False)
    return out


@expand.vjp
def expand_vjp(F, g, input_shape):
    return sum_to_shape(F, g, input_shape)


@expand.samples
def expand_samples(make):
    yield make.args(make(3, 1), (3, 4))
    yield make.args(make(3, 1), (2, -1, 4))
    yield make.args(make(), (2, 2))


@expand.errors
def expand_errors(make):
    yield RuntimeError, "must match the existing size", make.args(make(2, 3), (2, 4))
    yield RuntimeError, "must be greater or equal to the number of dimensions", make.args(make(2, 3), (3,))


@composite(at=("Tensor.expand_as",))
def expand_as(F, input, other):
    """Expand `input` to the shape of `other`.

    >>> import plugrad as torch
    >>> torch.zeros(3, 1).expand_as(torch.zeros(3, 4)).shape
    torch.Size([3, 4])
    """
    return F.expand(input, tuple(other.shape))


@expand_as.samples
def expand_as_samples(make):
    yield make(3, 1), make(2, 3, 4)


@composite(at=("Tensor.sum_to_size",), variadic="size")
def sum_to_size(F, input, size):
    """Sum `input` over broadcast dimensions, so that it has shape `size`.

    Raises `RuntimeError` when `size` cannot be expanded to the shape of `input`.

    >>> import plugrad as torch
    >>> torch.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    old, new = tuple(input.shape), ints(size)
    if not old and not new:
        return F.sum(input)  # PyTorch sums here too, which makes int64 of bool
    pairs = zip(old[len(old) - len(new) :], new)
    if len(new) > len(old) or any(n not in (1, o) for o, n in pairs):
        raise RuntimeError(f"size {list(new)} is not expandable to size {list(old)}.")
    return input if new == old else sum_to_shape(F, input, new)


@sum_to_size.samples
def sum_to_size_samples(make):
    yield make(2, 3), (1, 3)
    yield make(2, 3, 4), (3, 1)
    yield make(2, 3), (2, 3)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
