"""Ops that put tensors together, repeat them or turn them round."""
from __future__ import annotations

import plugrad
from plugrad.extend import Op, axes, broadcast_shapes, collect, composite, dtype_of, hookimpl, op


def common_dtype(tensors):
    """The NumPy dtype to which PyTorch promotes the arrays."""
    found = tensors[0].dtype
    for tensor in tensors:
        if tensor.dtype != found:
            found = plugrad.promote_types(dtype_of(found), dtype_of(tensor.dtype)).numpy
    return found


def check_joinable(tensors, dim):
    """PyTorch's tests of what `cat` gets; returns the arrays that count, and `dim` as a non-negative int."""
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for i, tensor in enumerate(tensors):
        if not hasattr(tensor, "shape"):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(tensor).__name__}")
        if tensor.ndim == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated; use stack")
    kept = [t for t in tensors if t.shape != (0,)] or tensors[:1]  # PyTorch lets 1-d empty tensors join anything
    first = kept[0].shape
    dim = axes(dim, len(first))
    for i, tensor in enumerate(kept):
        if tensor.ndim != len(first):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {tensor.ndim}")
        for d, (n, m) in enumerate(zip(first, tensor.shape)):
            if n != m and d != dim:
                raise RuntimeError(f"Sizes of tensors must match except in dimension {dim}. Expected size {n} but got "
                                   f"size {m} for tensor number {i} in the list.")
    return kept, dim


@op(at=("cat",))
def cat(xp, tensors, dim=0):
    """The tensors one after another along `dim`.

    Sizes agree in all other dimensions, else `RuntimeError`; dtypes are promoted.

    >>> import plugrad as torch
    >>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])
    """
    try:
        first = tensors[0].dtype
        if all([t.dtype == first and t.size for t in tensors]):
            return xp.concatenate(tensors, dim)
    except (ValueError, IndexError, AttributeError, TypeError):
        check_joinable(tensors, dim)  # says what is wrong in PyTorch's words
        raise
    kept, dim = check_joinable(tensors, dim)
    dtype = common_dtype(tensors)
    return xp.concatenate([t.astype(dtype, copy=False) for t in kept], dim)


@cat.meta
def cat_meta(tensors, dim=0):
    kept, dim = check_joinable(tensors, dim)
    shape = list(kept[0].shape)
    shape[dim] = sum(t.shape[dim] for t in kept)
    return tuple(shape), common_dtype(tensors)


@cat.vjp
def cat_vjp(F, g, tensors_shape, dim):
    lead, start, grads = (slice(None),) * (dim % g.ndim), 0, []
    for shape in tensors_shape:
        if tuple(shape) == (0,) and g.ndim > 1:
            grads.append(F.new_zeros(g, (0,)))
            continue
        n = shape[dim]
        grads.append(g[(*lead, slice(start, start + n))])
        start += n
    return grads


@cat.samples
def cat_samples(make):
    yield make.args([make(2, 3), make(1, 3)])
    yield make.args([make(2, 3), make(2, 2)], -1)


@cat.errors
def cat_errors(make):
    yield RuntimeError, "Sizes of tensors must match except in dimension 0", make.args([make(2, 3), make(2, 2)])


@composite(at=("concat", "concatenate"))
def concat(F, tensors, dim=0, *, axis=None):
    """Another name of `cat`.

    >>> import plugrad as torch
    >>> torch.concat([torch.tensor([1]), torch.tensor([2])])
    tensor([1, 2])
    """
    return F.cat(tensors, dim if axis is None else axis)


@op(at=("stack",))
def stack(xp, tensors, dim=0):
    """Tensors of one shape side by side in a new dimension `dim`.

    >>> import plugrad as torch
    >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], 1)
    tensor([[1, 3],
            [2, 4]])
    """
    check_stackable(tensors)
    dtype = common_dtype(tensors)
    return xp.stack([t.astype(dtype, copy=False) for t in tensors], axes(dim, tensors[0].ndim + 1))


def check_stackable(tensors):
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    for i, tensor in enumerate(tensors):
        if tensor.shape != tensors[0].shape:
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 "
                               f"and {list(tensor.shape)} at entry {i}")


@stack.meta
def stack_meta(tensors, dim=0):
    check_stackable(tensors)
    shape = tensors[0].shape
    dim = axes(dim, len(shape) + 1)
    return (*shape[:dim], len(tensors), *shape[dim:]), common_dtype(tensors)


@stack.vjp
def stack_vjp(F, g, dim):
    return list(F.unbind(g, dim))


@stack.samples
def stack_samples(make):
    yield make.args([make(2, 3), make(2, 3)], -1)


def non_empty(name, tensors):
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return list(tensors)


@composite(at=("hstack",))
def hstack(F, tensors):
    """The tensors side by side: along dimension 1, or 0 for 1-d tensors.

    >>> import plugrad as torch
    >>> torch.hstack([torch.tensor([1]), torch.tensor([2])])
    tensor([1, 2])
    """
    lifted = F.atleast_1d(non_empty("hstack", tensors))
    return F.cat(list(lifted), 0 if lifted[0].ndim == 1 else 1)


@composite(at=("vstack", "row_stack"))
def vstack(F, tensors):
    """The tensors one below another, 1-d tensors being rows.

    >>> import plugrad as torch
    >>> torch.vstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return F.cat(list(F.atleast_2d(non_empty("vstack", tensors))), 0)


@composite(at=("dstack",))
def dstack(F, tensors):
    """The tensors one behind another, along the third dimension.

    >>> import plugrad as torch
    >>> torch.dstack([torch.zeros(2), torch.zeros(2)]).shape
    torch.Size([1, 2, 2])
    """
    return F.cat(list(F.atleast_3d(non_empty("dstack", tensors))), 2)


@composite(at=("column_stack",))
def column_stack(F, tensors):
    """The tensors side by side, 0-d and 1-d tensors being columns.

    >>> import plugrad as torch
    >>> torch.column_stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    return F.hstack([F.reshape(t, (-1, 1)) if t.ndim <= 1 else t for t in tensors])


def at_least(tensors, lift):
    if isinstance(tensors, tuple) and len(tensors) == 1:
        return lift(tensors[0])
    return tuple([lift(t) for t in tensors])


@composite(at=("atleast_1d",), variadic="tensors")
def atleast_1d(F, tensors):
    """The tensor, or each of several, with at least one dimension.

    >>> import plugrad as torch
    >>> torch.atleast_1d(torch.tensor(3))
    tensor([3])
    """
    return at_least(tensors, lambda t: F.reshape(t, (1,)) if t.ndim == 0 else t)


@composite(at=("atleast_2d",), variadic="tensors")
def atleast_2d(F, tensors):
    """The tensor, or each of several, with at least two dimensions: 1-d tensors become rows.

    >>> import plugrad as torch
    >>> torch.atleast_2d(torch.tensor([3, 4]))
    tensor([[3, 4]])
    """
    return at_least(tensors, lambda t: F.reshape(t, (1, 1)) if t.ndim == 0 else F.unsqueeze(t, 0) if t.ndim == 1 else t)


@composite(at=("atleast_3d",), variadic="tensors")
def atleast_3d(F, tensors):
    """The tensor, or each of several, with at least three dimensions.

    >>> import plugrad as torch
    >>> torch.atleast_3d(torch.zeros(2, 3)).shape
    torch.Size([2, 3, 1])
    """
    def lift(t):
        if t.ndim == 0:
            return F.reshape(t, (1, 1, 1))
        return F.unsqueeze(F.unsqueeze(t, 0), -1) if t.ndim == 1 else F.unsqueeze(t, -1) if t.ndim == 2 else t

    return at_least(tensors, lift)


@op(variadic="dims")
def flip(xp, input, dims):
    """A copy in reversed order along `dims`.

    >>> import plugrad as torch
    >>> torch.flip(torch.tensor([1, 2, 3]), (0,))
    tensor([3, 2, 1])
    """
    found = axes(tuple(dims) if isinstance(dims, (tuple, list)) else (dims,), input.ndim)
    steps = [slice(None)] * input.ndim
    for d in found[:input.ndim]:
        steps[d] = slice(None, None, -1)
    return input[tuple(steps)].copy() if input.ndim else input.copy()


@flip.meta
def flip_meta(input, dims):
    return input.shape, input.dtype


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


@composite()
def rot90(F, input, k=1, dims=(0, 1)):
    """A copy rotated `k` times by 90 degrees, from the first of `dims` towards the second.

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


@op()
def roll(xp, input, shifts, dims=()):
    """Elements moved by `shifts` along `dims`; what leaves at one end enters at the other.

    Without `dims` the flattened tensor is rolled.

    >>> import plugrad as torch
    >>> torch.roll(torch.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = (dims,) if isinstance(dims, int) else tuple(dims or ())
    if not dims and len(shifts) == 1:
        return xp.roll(input, shifts[0])
    if len(shifts) != len(dims) or not shifts:
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if input.ndim == 0:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    return xp.roll(input, shifts, tuple([axes(d, input.ndim) for d in dims]))


@roll.meta
def roll_meta(input, shifts, dims=()):
    return input.shape, input.dtype


@roll.vjp
def roll_vjp(F, g, shifts, dims):
    return F.roll(g, -shifts if isinstance(shifts, int) else tuple(-s for s in shifts), dims)


@roll.samples
def roll_samples(make):
    yield make.args(make(5), 2)
    yield make.args(make(2, 3), (1, -1), (0, 1))


@op(variadic="repeats", at=("Tensor.repeat",))
def repeat(xp, input, repeats):
    """`repeats[i]` copies of the tensor along each dimension i; leading dimensions may be added.

    >>> import plugrad as torch
    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    return xp.tile(input, checked_repeats(input, repeats))


def checked_repeats(input, repeats):
    repeats = (repeats,) if isinstance(repeats, int) else tuple(repeats)
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
    return F.repeat(input, (1,) * (input.ndim - len(dims)) + tuple(dims))


@op(at=(), vjp=None)
def interleave_index(xp, repeats):
    """0 repeated `repeats[0]` times, 1 repeated `repeats[1]` times..."""
    if repeats.dtype.name not in ("int64", "int32"):
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{repeats.dtype}'; convert with .long()")
    if repeats.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.size and int(repeats.min()) < 0:
        raise RuntimeError("repeats can not be negative")
    # The number of marks passed: the same on NumPy and CuPy, whose `repeat` takes no array of counts.
    ends = xp.cumsum(repeats)
    return xp.searchsorted(ends, xp.arange(int(ends[-1]) if repeats.size else 0), side="right").astype(repeats.dtype)


@composite()
def repeat_interleave(F, input, repeats=None, dim=None, *, output_size=None):
    """Each slice along `dim` repeated `repeats` times in a row.

    `repeats` is an int or a 1-d integer tensor with one count for each slice. Without `dim` the input is flattened;
    called with counts only, the result names which slice each row would come from.

    >>> import plugrad as torch
    >>> torch.repeat_interleave(torch.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    if repeats is None:
        return F.interleave_index(input)
    if dim is None:
        input, dim = F.reshape(input, (-1,)), 0
    dim = axes(dim, input.ndim)
    n = input.shape[dim] if input.ndim else 1
    if hasattr(repeats, "dtype") and (repeats.ndim == 0 or repeats.shape[0] == 1 != n):
        repeats = int(repeats)
    if isinstance(repeats, int):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        array = input if input.ndim else F.reshape(input, (1,))
        shape = tuple(array.shape)
        spread = F.expand(F.unsqueeze(array, dim + 1), (*shape[:dim + 1], repeats, *shape[dim + 1:]))
        result = F.clone(F.reshape(spread, (*shape[:dim], n * repeats, *shape[dim + 1:])))
    else:
        if repeats.shape[0] != n:
            raise RuntimeError("repeats must have the same size as input along dim, but got repeats.size(0) = "
                               f"{repeats.shape[0]} and input.size({dim}) = {n}")
        result = F.index_select(input, dim, F.interleave_index(repeats))
    made = result.shape[dim] if result.ndim else 1
    if output_size is not None and output_size != made:
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {made} but got {output_size}")
    return result


@op()
def clone(xp, input, *, memory_format=None):
    """A copy with memory of its own, through which gradients flow.

    >>> import plugrad as torch
    >>> torch.clone(torch.tensor([1, 2]))
    tensor([1, 2])
    """
    if memory_format is not None and str(memory_format) == "torch.contiguous_format":
        return input.copy()
    return input.copy("K")


@clone.meta
def clone_meta(input, *, memory_format=None):
    return input.shape, input.dtype


@clone.vjp
def clone_vjp(F, g):
    return g


@clone.samples
def clone_samples(make):
    yield make(2, 3)


@composite(at=("Tensor.contiguous",))
def contiguous(F, input, memory_format=None):
    """The tensor itself if its memory is in order, else a copy that is.

    >>> import plugrad as torch
    >>> torch.zeros(2, 3).t().contiguous().is_contiguous()
    True
    """
    return input if input.is_contiguous() else F.clone(input, memory_format=plugrad.contiguous_format)


@composite(at=("broadcast_tensors",), variadic="tensors")
def broadcast_tensors(F, tensors):
    """Each tensor expanded to the shape to which all broadcast.

    >>> import plugrad as torch
    >>> [t.shape for t in torch.broadcast_tensors(torch.zeros(2, 1), torch.zeros(3))]
    [torch.Size([2, 3]), torch.Size([2, 3])]
    """
    shape = broadcast_shapes(*[t.shape for t in tensors])
    return tuple([F.expand(t, shape) for t in tensors])


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
