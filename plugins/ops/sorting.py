"""Order along a dimension: sort, argsort, topk, kthvalue."""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, axes, collect, composite, hookimpl, is_half, native, op

from ._checks import BOOL_OR_COMPLEX, ordered_floats, refuse
from ._memory_formats import empty_in_order
from ._selection import FIRST, FIRST_IN_ANY_ORDER, RANK, STABLE, select_again


def order_of(xp, input, dim, descending):
    """Indices that sort along `dim`, equal elements in their order; NaN counts as the largest."""
    if input.dtype.kind == "c":
        raise RuntimeError("Sort does not support complex dtypes; sort x.real or x.abs()")
    input = ordered_floats(input)
    if not descending:
        return xp.ascontiguousarray(xp.argsort(input, axis=dim, kind="stable"))  # CuPy's along other dimensions is not
    backwards = [slice(None)] * input.ndim
    backwards[dim] = slice(None, None, -1)
    backwards = tuple(backwards)
    order = xp.ascontiguousarray(xp.argsort(input[backwards], axis=dim, kind="stable"))
    return (input.shape[dim] - 1) - order[backwards]


def picked_vjp(F, g, y1, input_shape, dim):
    """Gradient of an op that returns values picked along `dim`, and their indices."""
    return F.scatter_add(F.new_zeros(g[0], input_shape), dim, y1, g[0])


def _taken(xp, array, order):
    """What `take_along_axis` takes along the last dimension; for few elements in a third of the time."""
    if not array.size or not array.flags.c_contiguous:
        return xp.take_along_axis(array, order, -1)
    starts = xp.arange(0, array.size, array.shape[-1]).reshape(*array.shape[:-1], 1)
    return array.reshape(-1).take(order + starts)


def lift(input):
    return input if input.ndim else input.reshape(1)


@op(returns="values indices", kinds={"stable": "bool?"}, node={"SortBackward1": "stable"})
def sort(xp, input, dim=-1, descending=False, stable=False):
    """The elements in rising (or falling) order along `dim`, and where they were.

    Equal elements keep their order. Returns a named tuple `(values, indices)`.

    >>> import plugrad as torch
    >>> torch.sort(torch.tensor([3, 1, 2])).indices
    tensor([1, 2, 0])
    """
    dim, array = axes(dim, input.ndim), lift(input)
    order = order_of(xp, array, dim, descending)
    last = dim == array.ndim - 1
    values = _taken(xp, array, order) if last else xp.take_along_axis(array, order, dim)
    order = order.astype("int64", copy=False)
    if not array.flags.c_contiguous:
        values, order = _lie_as(xp, array, values), _lie_as(xp, array, order)
    return values.reshape(input.shape), order.reshape(input.shape)


def _lie_as(xp, input, result):
    """Return the result in the order that `input` has in memory."""
    ordered = empty_in_order(xp, input, result.dtype)
    ordered[...] = result
    return ordered


def ordered_in_c(call, xp, input, k, falling, way=STABLE, rank=0):
    """The first `k` elements along the last dimension, and where they were; NotImplemented if C does not serve them.

    `way`: which of equal elements come first. Other numbers are given as floats that are equal to them.
    """
    numbers = input
    if input.dtype.char not in "fd":
        numbers = _as_floats(input)
        if numbers is None:
            return NotImplemented
    shape = (*input.shape[:-1], k)
    values, places = xp.empty(shape, numbers.dtype), xp.empty(shape, "int64")
    if call(numbers, values, places, falling, way, rank) is NotImplemented:
        return NotImplemented
    return (values if numbers is input else values.astype(input.dtype)), places


def _as_floats(input):
    """Return halves and integers as floats that are equal to them, None where there are none."""
    if is_half(input.dtype):
        return input.astype("float32")
    if input.dtype.kind not in "iu" or not input.size:
        return None
    exact = input.itemsize < 8 or max(input.max(), -int(input.min())) <= 1 << 53
    return input.astype("float64") if exact else None


def rows_of(xp, input, dim):
    """The array with `dim` as its last dimension, contiguous."""
    if dim in (-1, input.ndim - 1):
        return input
    return xp.ascontiguousarray(xp.moveaxis(input, axes(dim, input.ndim), -1))


@sort.kernel("cpu")
@native("order_of", otherwise=sort)
def sort_in_c(call, xp, input, dim=-1, descending=False, stable=False):
    if not input.ndim or dim not in (-1, input.ndim - 1):
        return NotImplemented
    return ordered_in_c(call, xp, input, input.shape[-1], descending)


@sort.meta
def sort_meta(input, dim=-1, descending=False, stable=False):
    return [(input.shape, input.dtype), (input.shape, plugrad.int64.numpy)]


sort.vjp(picked_vjp)


@sort.samples
def sort_samples(make):
    yield make.args(make(3, 4))
    yield make.args(make(3, 4), 0, True)


@composite()
def argsort(F, input, dim=-1, descending=False, stable=False):
    """The indices that put the elements in order along `dim`.

    >>> import plugrad as torch
    >>> torch.argsort(torch.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    return F.sort(input, dim, descending, stable)[1]


@composite()
def msort(F, input):
    """The elements in rising order along the first dimension.

    >>> import plugrad as torch
    >>> torch.msort(torch.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    return F.sort(input, 0)[0]


@argsort.samples
@msort.samples
def sorted_samples(make):
    yield make(3, 4)


@op(returns="values indices")
def topk(xp, input, k, dim=-1, largest=True, sorted=True):
    """The `k` largest (or smallest) elements along `dim`, and where they were.

    NaN is larger than any number. Which of equal elements come first, and the order if `sorted` is False, are those of
    PyTorch's CPU. Raises `RuntimeError` when `k` exceeds the dimension.

    >>> import plugrad as torch
    >>> torch.topk(torch.tensor([3, 1, 2]), 2).values
    tensor([3, 2])
    """
    dim, array = axes(dim, input.ndim), lift(input)
    n = array.shape[dim]
    if array.dtype.kind == "b":
        raise RuntimeError("topk does not support bool dtypes; convert with .int()")
    if not 0 <= k <= n:
        raise RuntimeError(f"selected index k out of range: k is {k}, dimension {dim} has size {n}")
    array = array if dim == array.ndim - 1 else xp.moveaxis(array, dim, -1)
    if 0 < 8 * k < n and array.dtype.kind != "c" and xp.__name__ == "numpy":  # CuPy sorts all, and waits
        part = xp.argpartition(ordered_floats(array), n - k if largest else k - 1, axis=-1)
        part = part[..., n - k :] if largest else part[..., :k]
        picked = order_of(xp, xp.take_along_axis(array, part, -1), -1, largest)
        order = xp.take_along_axis(part, picked, -1)
    else:
        order = order_of(xp, array, -1, largest)[..., :k]
    order = select_again(xp, ordered_floats(array), order, FIRST if sorted else FIRST_IN_ANY_ORDER, largest)
    values = _taken(xp, array, order)
    if dim != array.ndim - 1:
        values, order = xp.moveaxis(values, -1, dim), xp.moveaxis(order, -1, dim)
    values, order = xp.ascontiguousarray(values), xp.ascontiguousarray(order, "int64")
    return (values, order) if input.ndim or not k else (values.reshape(()), order.reshape(()))


@topk.kernel("cpu")
@native("order_of", otherwise=topk)
def topk_in_c(call, xp, input, k, dim=-1, largest=True, sorted=True):
    if not input.ndim:
        return NotImplemented
    rows = rows_of(xp, input, dim)
    if not 0 < k <= rows.shape[-1]:
        return NotImplemented
    results = ordered_in_c(call, xp, rows, k, largest, FIRST if sorted else FIRST_IN_ANY_ORDER)
    if rows is input or results is NotImplemented:
        return results
    return tuple(xp.ascontiguousarray(xp.moveaxis(one, -1, dim)) for one in results)


@topk.meta
def topk_meta(input, k, dim=-1, largest=True, sorted=True):
    shape = list(input.shape)
    if shape:
        shape[axes(dim, len(shape))] = k
    return [(tuple(shape), input.dtype), (tuple(shape), plugrad.int64.numpy)]


topk.vjp(picked_vjp)


@topk.samples
def topk_samples(make):
    yield make.args(make(3, 4), 2)
    yield make.args(make(20, 2), 2, 0, False)


@topk.errors
def topk_errors(make):
    yield RuntimeError, "selected index k out of range", make.args(make(3), 4)


@op(returns="values indices")
def kthvalue(xp, input, k, dim=-1, keepdim=False):
    """The `k`-th smallest element along `dim` (counted from 1), and where it was.

    NaN is larger than any number. Which of equal elements it is, is as on PyTorch's CPU. Raises `RuntimeError` when
    `k` is out of range.

    >>> import plugrad as torch
    >>> torch.kthvalue(torch.tensor([3, 1, 2]), 2).values
    tensor(2)
    """
    dim, array = axes(dim, input.ndim), lift(input)
    if not array.shape[dim]:
        raise IndexError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
    if not 1 <= k <= array.shape[dim]:
        raise RuntimeError(
            f"kthvalue(): selected number k out of range for dimension {dim}: k is {k}, the size {array.shape[dim]}"
        )
    refuse(BOOL_OR_COMPLEX, "kthvalue_cpu", input)
    array = array if dim == array.ndim - 1 else xp.moveaxis(array, dim, -1)
    order = xp.ascontiguousarray(order_of(xp, array, -1, False)[..., k - 1 : k])
    order = select_again(xp, ordered_floats(array), order, RANK, rank=k - 1)
    results = xp.take_along_axis(array, order, -1), order.astype("int64", copy=False)
    return reduced(xp, results, dim, keepdim and input.ndim)


def reduced(xp, results, dim, keepdim):
    """Results that have one element along the last dimension, as those of a reduction along `dim`."""
    results = tuple(one[..., 0] for one in results)
    return tuple(xp.expand_dims(one, dim) for one in results) if keepdim else results


@kthvalue.kernel("cpu")
@native("order_of", otherwise=kthvalue)
def kthvalue_in_c(call, xp, input, k, dim=-1, keepdim=False):
    if not input.ndim or input.dtype.kind == "b":
        return NotImplemented
    rows = rows_of(xp, input, dim)
    if not 1 <= k <= rows.shape[-1]:
        return NotImplemented
    results = ordered_in_c(call, xp, rows, 1, False, RANK, k - 1)
    return results if results is NotImplemented else reduced(xp, results, dim, keepdim)


@kthvalue.meta
def kthvalue_meta(input, k, dim=-1, keepdim=False):
    shape = list(input.shape)
    if shape:
        dim = axes(dim, len(shape))
        shape[dim : dim + 1] = [1] if keepdim else []
    return [(tuple(shape), input.dtype), (tuple(shape), plugrad.int64.numpy)]


@kthvalue.vjp
def kthvalue_vjp(F, g, y1, input_shape, dim, keepdim):
    if len(input_shape) and not keepdim:
        place = axes(dim, len(input_shape))
        g, y1 = [F.unsqueeze(g[0], place)], F.unsqueeze(y1, place)
    return picked_vjp(F, g, y1, input_shape, dim)


@kthvalue.samples
def kthvalue_samples(make):
    yield make.args(make(3, 4), 2)
    yield make.args(make(3, 4), 1, 0, True)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
