"""Ops that put tensors together: cat, stack and their kin."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.extend import (
    Op,
    axes,
    broadcast_shapes,
    collect,
    composite,
    dtype_of,
    hookimpl,
    is_channels_last,
    native_function,
    op,
)

from ._memory_formats import MANY, in_rows


def common_dtype(tensors):
    """The NumPy dtype to which PyTorch promotes the arrays."""
    common = tensors[0].dtype
    for tensor in tensors:
        if tensor.dtype != common:
            common = plugrad.promote_types(dtype_of(common), dtype_of(tensor.dtype)).numpy
    return common


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
    dim = 0 if first == (0,) else axes(dim, len(first))
    for i, tensor in enumerate(kept):
        if tensor.ndim != len(first):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {tensor.ndim}")
        for d, (n, m) in enumerate(zip(first, tensor.shape)):
            if n != m and d != dim:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {n} but got "
                    f"size {m} for tensor number {i} in the list."
                )
    return kept, dim


def in_memory_format(xp, result, tensors):
    """The array with rows innermost, unless it has channels innermost as all the arrays do that were joined to it."""
    if result.flags.c_contiguous or not is_channels_last(result.shape, result.strides):
        return result
    return result if all([is_channels_last(t.shape, t.strides) for t in tensors]) else xp.ascontiguousarray(result)


@op(at=("cat",), sequence=True, any_order=True, autocast={"cpu": "promote"}, eight_bits=True)
def cat(xp, tensors, dim=0):
    """The tensors one after another along `dim`.

    Sizes agree in all other dimensions, else `RuntimeError`; dtypes are promoted.

    >>> import plugrad as torch
    >>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])
    """
    try:
        first = tensors[0].dtype
        for tensor in tensors:
            if tensor.dtype is not first:
                break
        else:
            return in_memory_format(xp, xp.concatenate(tensors, dim), tensors)
    except (ValueError, IndexError, AttributeError, TypeError):
        pass  # an empty tensor of one dimension, which fits everywhere; or a mistake, which is said below
    kept, dim = check_joinable(tensors, dim)  # says what is wrong in PyTorch's words
    dtype = common_dtype(tensors)
    return in_memory_format(xp, xp.concatenate([t.astype(dtype, copy=False) for t in kept], dim), tensors)


def _join_in_numpy(tensors, dim, side_by_side):
    plain = all([type(one) is numpy.ndarray and one.ndim + side_by_side not in (4, 5) for one in tensors])
    if plain and any([one.size >= MANY and not one.flags.c_contiguous for one in tensors]):
        return _join([in_rows(numpy, one) for one in tensors], dim, side_by_side)  # no images, which have an order
    return (stack if side_by_side else cat).kernels["*"](numpy, tensors, dim)


_join = native_function("join", _join_in_numpy)


@cat.kernel("cpu")
def cat_in_c(xp, tensors, dim=0):
    return _join(tensors, dim, False)


@cat.meta
def cat_meta(tensors, dim=0):
    kept, dim = check_joinable(tensors, dim)
    shape = list(kept[0].shape)
    shape[dim] = sum(t.shape[dim] for t in kept)
    return tuple(shape), common_dtype(tensors)


@cat.jvp
def cat_jvp(F, tangents, tensors, dim):
    return F.cat([F.zeros_like(x) if t is None else t for t, x in zip(tangents, tensors)], dim)


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


@composite(at=("concat", "concatenate"), kinds={"axis": "int?"})
def concat(F, tensors, dim=0, *, axis=None):
    """Another name of `cat`.

    >>> import plugrad as torch
    >>> torch.concat([torch.tensor([1]), torch.tensor([2])])
    tensor([1, 2])
    """
    return F.cat(tensors, dim if axis is None else axis)


@concat.samples
def joined_samples(make):
    yield make.args([make(2, 3), make(2, 3)])
    yield make.args([make(3), make(3)])


@op(at=("stack",), sequence=True, any_order="rows", autocast={"cpu": "promote"}, eight_bits=True)
def stack(xp, tensors, dim=0):
    """Tensors of one shape side by side in a new dimension `dim`.

    >>> import plugrad as torch
    >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], 1)
    tensor([[1, 3],
            [2, 4]])
    """
    # Concatenating views with one more dimension takes a third of xp.stack.
    if dim == 0:
        lifted = [t[None] for t in tensors]
    else:
        check_stackable(tensors)
        dim = axes(dim, tensors[0].ndim + 1)
        lead = (slice(None),) * dim + (None,)
        lifted = [t[lead] for t in tensors]
    if lifted:
        first, dtype = lifted[0].shape, lifted[0].dtype
        for tensor in lifted:
            if tensor.dtype is not dtype or tensor.shape != first:
                break
        else:
            return xp.concatenate(lifted, dim)
    check_stackable(tensors)
    dtype = common_dtype(tensors)
    return xp.concatenate([t.astype(dtype, copy=False) for t in lifted], dim)


def check_stackable(tensors):
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    for i, tensor in enumerate(tensors):
        if tensor.shape != tensors[0].shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 "
                f"and {list(tensor.shape)} at entry {i}"
            )


@stack.kernel("cpu")
def stack_in_c(xp, tensors, dim=0):
    return _join(tensors, dim, True)


@stack.meta
def stack_meta(tensors, dim=0):
    check_stackable(tensors)
    shape = tensors[0].shape
    dim = axes(dim, len(shape) + 1)
    return (*shape[:dim], len(tensors), *shape[dim:]), common_dtype(tensors)


@stack.jvp
def stack_jvp(F, tangents, tensors, dim):
    return F.stack([F.zeros_like(x) if t is None else t for t, x in zip(tangents, tensors)], dim)


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


@composite(at=("hstack",), kinds={"tensors": "tensors"})
def hstack(F, tensors):
    """The tensors side by side: along dimension 1, or 0 for 1-d tensors.

    >>> import plugrad as torch
    >>> torch.hstack([torch.tensor([1]), torch.tensor([2])])
    tensor([1, 2])
    """
    lifted = F.atleast_1d(non_empty("hstack", tensors))
    return F.cat(list(lifted), 0 if lifted[0].ndim == 1 else 1)


@composite(at=("vstack", "row_stack"), kinds={"tensors": "tensors"})
def vstack(F, tensors):
    """The tensors one below another, 1-d tensors being rows.

    >>> import plugrad as torch
    >>> torch.vstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return F.cat(list(F.atleast_2d(non_empty("vstack", tensors))), 0)


@composite(at=("dstack",), kinds={"tensors": "tensors"})
def dstack(F, tensors):
    """The tensors one behind another, along the third dimension.

    >>> import plugrad as torch
    >>> torch.dstack([torch.zeros(2), torch.zeros(2)]).shape
    torch.Size([1, 2, 2])
    """
    return F.cat(list(F.atleast_3d(non_empty("dstack", tensors))), 2)


@composite(at=("column_stack",), kinds={"tensors": "tensors"})
def column_stack(F, tensors):
    """The tensors side by side, 0-d and 1-d tensors being columns.

    >>> import plugrad as torch
    >>> torch.column_stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    return F.hstack([F.reshape(t, (-1, 1)) if t.ndim <= 1 else t for t in tensors])


hstack.samples(joined_samples)
vstack.samples(joined_samples)
dstack.samples(joined_samples)
column_stack.samples(joined_samples)


def at_least(tensors, lift):
    for t in tensors if isinstance(tensors, (tuple, list)) else (tensors,):
        if not isinstance(t, plugrad.Tensor):
            raise TypeError(f"expected Tensors, but got {type(t).__name__}; write torch.as_tensor(...)")
    if isinstance(tensors, tuple) and len(tensors) == 1:
        return lift(tensors[0])
    return tuple([lift(t) for t in tensors])


@composite(at=("atleast_1d",), variadic="tensors", kinds={"tensors": "tensors"})
def atleast_1d(F, tensors):
    """The tensor, or each of several, with at least one dimension.

    >>> import plugrad as torch
    >>> torch.atleast_1d(torch.tensor(3))
    tensor([3])
    """
    return at_least(tensors, lambda t: F.reshape(t, (1,)) if t.ndim == 0 else t)


@composite(at=("atleast_2d",), variadic="tensors", kinds={"tensors": "tensors"})
def atleast_2d(F, tensors):
    """The tensor, or each of several, with at least two dimensions.

    1-d tensors become rows.

    >>> import plugrad as torch
    >>> torch.atleast_2d(torch.tensor([3, 4]))
    tensor([[3, 4]])
    """
    return at_least(tensors, lambda t: F.reshape(t, (1, 1)) if t.ndim == 0 else F.unsqueeze(t, 0) if t.ndim == 1 else t)


@composite(at=("atleast_3d",), variadic="tensors", kinds={"tensors": "tensors"})
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


@atleast_1d.samples
@atleast_2d.samples
@atleast_3d.samples
def at_least_samples(make):
    yield make()
    yield make.args(make(3), make(2, 3))


@composite(at=("broadcast_tensors",), variadic="tensors")
def broadcast_tensors(F, tensors):
    """Each tensor expanded to the shape to which all broadcast.

    >>> import plugrad as torch
    >>> [t.shape for t in torch.broadcast_tensors(torch.zeros(2, 1), torch.zeros(3))]
    [torch.Size([2, 3]), torch.Size([2, 3])]
    """
    shape = broadcast_shapes(*[t.shape for t in tensors])
    return tuple([t if t.shape == shape else F.expand(t, shape) for t in tensors])


@broadcast_tensors.samples
def broadcast_tensors_samples(make):
    yield make(2, 1), make(3)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
