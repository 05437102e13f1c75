"""Ops that copy, repeat, turn or roll a tensor: clone, repeat, flip, rot90, roll..."""

from __future__ import annotations

import plugrad
from plugrad.extend import LEFT_OUT, Op, axes, collect, composite, hookimpl, multilinear, native, op

from ._checks import as_int, ints
from ._memory_formats import copy_to, empty, empty_in_order, is_long, preserves


@op(variadic="dims", like="input")
def flip(xp, input, dims):
    """A copy in reversed order along `dims`.

    >>> import plugrad as torch
    >>> torch.flip(torch.tensor([1, 2, 3]), (0,))
    tensor([3, 2, 1])
    """
    reversed_dims = axes(tuple(dims) if isinstance(dims, (tuple, list)) else (dims,), input.ndim)
    steps = [slice(None)] * input.ndim
    for d in reversed_dims[: input.ndim]:
        steps[d] = slice(None, None, -1)
    return input[tuple(steps)].copy(order="K") if input.ndim else input.copy()  # laid out as the input


@flip.kernel("cpu")
@native("flip", otherwise=flip)
def flip_in_c(call, xp, input, dims):
    if dims.__class__ is tuple and len(dims) == 1 and dims[0].__class__ is int and input.ndim:
        return call(input, axes(dims[0], input.ndim))
    return NotImplemented


@flip.vjp
def flip_vjp(F, g, dims):
    return F.flip(g, dims)


@flip.samples
def flip_samples(make):
    yield make.args(make(2, 3), (0,))
    yield make.args(make(2, 3), (0, -1))


@composite()
def fliplr(F, input):
    """A copy with the columns in reversed order; needs two dimensions.

    >>> import plugrad as torch
    >>> torch.fliplr(torch.tensor([[1, 2]]))
    tensor([[2, 1]])
    """
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return F.flip(input, (1,))


@composite()
def flipud(F, input):
    """A copy with the rows in reversed order; needs one dimension.

    >>> import plugrad as torch
    >>> torch.flipud(torch.tensor([[1], [2]]))
    tensor([[2],
            [1]])
    """
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return F.flip(input, (0,))


@composite(fresh=True)
def rot90(F, input, k=1, dims=(0, 1)):
    """A copy rotated `k` times by 90 degrees, from `dims[0]` towards `dims[1]`.

    >>> import plugrad as torch
    >>> torch.rot90(torch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    first, second = axes(dims[0], input.ndim), axes(dims[1], input.ndim)
    if first == second:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    if k % 4 == 0:
        return F.clone(input)
    if k % 4 == 2:
        return F.flip(input, (first, second))
    return F.transpose(F.flip(input, (second if k % 4 == 1 else first,)), first, second)


@fliplr.samples
@flipud.samples
@rot90.samples
def matrix_samples(make):
    yield make(2, 3)
    yield make.args(make(2, 3).t())


@op(like="input", any_order=True, kinds={"dims": "int|ints?"}, eight_bits=True)
def roll(xp, input, shifts, dims=()):
    """Elements moved by `shifts` along `dims`, round the end.

    Without `dims` the flattened tensor is rolled.

    >>> import plugrad as torch
    >>> torch.roll(torch.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    shifts = (as_int(shifts),) if hasattr(shifts, "__index__") else ints(shifts)
    dims = (as_int(dims),) if hasattr(dims, "__index__") else tuple(dims or ())
    if not dims and len(shifts) == 1:
        return xp.roll(input, shifts[0])
    if not shifts:
        raise RuntimeError("`shifts` required: give one for each of dims")
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if input.ndim == 0:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    return xp.roll(input, shifts, tuple([axes(d, input.ndim) for d in dims]))


@roll.kernel("cpu")
@native("roll", otherwise=roll)
def roll_in_c(call, xp, input, shifts, dims=()):
    single = shifts.__class__ is int and dims.__class__ is int and -input.ndim <= dims < input.ndim
    if not single or not input.size:
        return NotImplemented
    dim = dims % input.ndim
    return call(input, dim, shifts % input.shape[dim])


@roll.vjp
def roll_vjp(F, g, shifts, dims):
    return F.roll(g, -as_int(shifts) if hasattr(shifts, "__index__") else tuple(-as_int(s) for s in shifts), dims)


@roll.samples
def roll_samples(make):
    yield make.args(make(5), 2)
    yield make.args(make(2, 3), (1, -1), (0, 1))
    yield make.args(make(2, 3), -2, 1)


@op(variadic="repeats", at=("Tensor.repeat",), any_order="rows", kinds={"repeats": "ints"}, eight_bits=True)
def repeat(xp, input, repeats):
    """`repeats[i]` copies of the tensor along each dimension i.

    More counts than dimensions add leading dimensions.

    >>> import plugrad as torch
    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    result = xp.tile(input, checked_repeats(input, repeats))
    return result if input.size else result.copy()  # NumPy's is a view then


def checked_repeats(input, repeats):
    repeats = (repeats,) if isinstance(repeats, int) else ints(repeats)
    if len(repeats) < input.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if min(repeats, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension: repeats are {list(repeats)}")
    return repeats


@repeat.meta
def repeat_meta(input, repeats):
    repeats = checked_repeats(input, repeats)
    sizes = (1,) * (len(repeats) - input.ndim) + tuple(input.shape)
    return tuple(n * r for n, r in zip(sizes, repeats)), input.dtype


@repeat.vjp
def repeat_vjp(F, g, input_shape, repeats):
    repeats = (repeats,) if isinstance(repeats, int) else tuple(repeats)
    sizes = (1,) * (len(repeats) - len(input_shape)) + tuple(input_shape)
    if not sizes:
        return g
    pairs = tuple(n for pair in zip(repeats, sizes) for n in pair)
    return F.reshape(F.sum(F.reshape(g, pairs), tuple(range(0, len(pairs), 2))), input_shape)


@repeat.samples
def repeat_samples(make):
    yield make.args(make(3), (2,))
    yield make.args(make(2, 3), (2, 1, 2))


@composite(variadic="dims")
def tile(F, input, dims):
    """`dims[i]` copies along each dimension, counted from the last.

    >>> import plugrad as torch
    >>> torch.tile(torch.tensor([[1], [2]]), (2,))
    tensor([[1, 1],
            [2, 2]])
    """
    return F.repeat(input, (1,) * (input.ndim - len(dims)) + ints(dims))


@tile.samples
def tile_samples(make):
    yield make(2, 3), (2,)
    yield make(3), (2, 2)


@op(at=(), vjp=None)
def interleave_index(xp, repeats):
    """0 repeated `repeats[0]` times, 1 repeated `repeats[1]` times..."""
    if repeats.dtype.name not in ("int64", "int32"):
        raise NotImplementedError(
            f"\"repeat_interleave_cpu\" not implemented for '{repeats.dtype}'; convert with .long()"
        )
    if repeats.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.size and int(repeats.min()) < 0:
        raise RuntimeError("repeats can not be negative")
    # The number of marks passed: the same on NumPy and CuPy, whose `repeat` takes no array of counts.
    ends = xp.cumsum(repeats)
    return xp.searchsorted(ends, xp.arange(int(ends[-1]) if repeats.size else 0), side="right").astype(repeats.dtype)


@interleave_index.samples
def interleave_index_samples(make):
    yield make.ints(4, low=0, high=3)


@op(at=(), node="ViewBackward0", eight_bits=True)
def interleave(xp, input, repeats, dim):
    """Each slice along `dim` repeated `repeats` times in a row."""
    return xp.repeat(input, repeats, dim)


@interleave.meta
def interleave_meta(input, repeats, dim):
    return (*input.shape[:dim], input.shape[dim] * repeats, *input.shape[dim + 1 :]), input.dtype


@interleave.vjp
def interleave_vjp(F, g, input_shape, repeats, dim):
    return F.sum(F.reshape(g, (*input_shape[: dim + 1], repeats, *input_shape[dim + 1 :])), dim + 1)


@interleave.samples
def interleave_samples(make):
    yield make(2, 3), 2, 1
    yield make(3), 3, 0


@composite(kinds={"dim": "int?", "output_size": "int?", "repeats": "tensor|int..."})
def repeat_interleave(F, input, repeats=LEFT_OUT, dim=None, *, output_size=None):
    """Each slice along `dim` repeated `repeats` times in a row.

    `repeats` is an int or a 1-d integer tensor with one count for each slice. Without `dim` the input is flattened;
    called with counts only, the result names which slice each row would come from.

    >>> import plugrad as torch
    >>> torch.repeat_interleave(torch.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    if repeats is LEFT_OUT:
        return F.interleave_index(input)
    if dim is None:
        input, dim = F.reshape(input, (-1,)), 0
    dim = axes(dim, input.ndim)
    if not input.ndim:
        raise IndexError("repeat_interleave: a number has no dimension to repeat along: leave out dim")
    n = input.shape[dim]
    if getattr(repeats, "ndim", 0) > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if hasattr(repeats, "dtype") and (repeats.ndim == 0 or repeats.shape[0] == 1 != n):
        repeats = int(repeats)
    if isinstance(repeats, int):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        result = F.interleave(input, repeats, dim)
    else:
        if repeats.shape[0] != n:
            raise RuntimeError(
                "repeats must have the same size as input along dim, but got repeats.size(0) = "
                f"{repeats.shape[0]} and input.size({dim}) = {n}"
            )
        result = F.index_select(input, dim, F.interleave_index(repeats))
    if output_size is not None and output_size != (length := result.shape[dim] if result.ndim else 1):
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {length} but got {output_size}")
    return result


@repeat_interleave.samples
def repeat_interleave_samples(make):
    yield make(2, 3), 2
    yield make(2, 3), make.ints(3, low=0, high=3), 1


@op(eight_bits=True)
def clone(xp, input, *, memory_format=None):
    """A copy with memory of its own, through which gradients flow.

    Its elements are in the order that they have in `input`, or in a `memory_format`. Raises RuntimeError when that
    has another number of dimensions.

    >>> import plugrad as torch
    >>> torch.clone(torch.tensor([1, 2]))
    tensor([1, 2])
    """
    keeps = preserves(memory_format)
    if keeps and 0 not in input.strides and not is_long(input):
        return input.copy("K")
    dtype = input.dtype
    copy = empty_in_order(xp, input, dtype) if keeps else empty(xp, input.shape, dtype, memory_format)
    copy_to(copy, input)
    return copy


@clone.meta
def clone_meta(input, *, memory_format=None):
    return input.shape, input.dtype, [input] if preserves(memory_format) else []


multilinear(clone, "input")


@clone.vjp
def clone_vjp(F, g):
    return g


@clone.samples
def clone_samples(make):
    yield make(2, 3)


@op(at=(), vjp=None)
def arranged(xp, input, other):
    """A copy of `input` with the elements in the order that they have in `other`."""
    copy = empty_in_order(xp, other, input.dtype)
    copy_to(copy, input)
    return copy


@arranged.meta
def arranged_meta(input, other):
    return input.shape, input.dtype, [other]


@arranged.samples
def arranged_samples(make):
    yield make(2, 3, requires_grad=False), make(3, 2, requires_grad=False).t()


@composite(at=("Tensor.contiguous",))
def contiguous(F, input, *, memory_format=plugrad.contiguous_format):
    """The tensor itself if its memory is in order, else a copy that is.

    The order is row-major, or that of another `memory_format`.

    >>> import plugrad as torch
    >>> torch.zeros(2, 3).t().contiguous().is_contiguous()
    True
    """
    if not isinstance(input, plugrad.Tensor) or input.is_contiguous(memory_format=memory_format):
        return input  # formulas on raw arrays take them in any order
    if memory_format is plugrad.preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    return F.clone(input, memory_format=memory_format)


contiguous.samples(matrix_samples)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
