"""Order and counts: sort, topk, searchsorted, nonzero, unique, bincount..."""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import Op, axes, collect, composite, hookimpl, is_floating, is_integer, op


def order_of(xp, input, dim, descending):
    """Indices that sort along `dim`, equal elements in their order; NaN counts as the largest."""
    if input.dtype.kind == "c":
        raise RuntimeError("Sort does not support complex dtypes; sort x.real or x.abs()")
    if not descending:
        return xp.argsort(input, axis=dim, kind="stable")
    backwards = [slice(None)] * input.ndim
    backwards[dim] = slice(None, None, -1)
    backwards = tuple(backwards)
    order = xp.argsort(input[backwards], axis=dim, kind="stable")
    return (input.shape[dim] - 1) - order[backwards]


def picked_vjp(F, g, y1, input_shape, dim):
    """Gradient of an op that returns values picked along `dim`, and their indices."""
    return F.scatter_add(F.new_zeros(g[0], input_shape), dim, y1, g[0])


def lift(input):
    return input if input.ndim else input.reshape(1)


@op(returns="values indices", kinds={"stable": "bool?"})
def sort(xp, input, dim=-1, descending=False, stable=False):
    """The elements in rising (or falling) order along `dim`, and where they were.

    Equal elements keep their order. Returns a named tuple `(values, indices)`.

    >>> import plugrad as torch
    >>> torch.sort(torch.tensor([3, 1, 2])).indices
    tensor([1, 2, 0])
    """
    dim, array = axes(dim, input.ndim), lift(input)
    order = order_of(xp, array, dim, descending)
    values = xp.take_along_axis(array, order, dim)
    return values.reshape(input.shape), order.astype("int64", copy=False).reshape(input.shape)


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

    NaN is larger than any number. Raises `RuntimeError` when `k` exceeds the dimension.

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
    array = xp.moveaxis(array, dim, -1)
    if 0 < 8 * k < n and array.dtype.kind != "c":
        part = xp.argpartition(array, n - k if largest else k - 1, axis=-1)
        part = part[..., n - k :] if largest else part[..., :k]
        part = xp.sort(part, axis=-1)  # equal elements keep their order
        picked = order_of(xp, xp.take_along_axis(array, part, -1), -1, largest)
        order = xp.take_along_axis(part, picked, -1)
    else:
        order = order_of(xp, array, -1, largest)[..., :k]
    values = xp.ascontiguousarray(xp.moveaxis(xp.take_along_axis(array, order, -1), -1, dim))
    order = xp.ascontiguousarray(xp.moveaxis(order, -1, dim), "int64")
    return (values, order) if input.ndim or not k else (values.reshape(()), order.reshape(()))


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

    NaN is larger than any number. Raises `RuntimeError` when `k` is out of range.

    >>> import plugrad as torch
    >>> torch.kthvalue(torch.tensor([3, 1, 2]), 2).values
    tensor(2)
    """
    dim, array = axes(dim, input.ndim), lift(input)
    if not 1 <= k <= array.shape[dim]:
        raise RuntimeError(
            f"kthvalue(): selected number k out of range for dimension {dim}: k is {k}, the size {array.shape[dim]}"
        )
    order = order_of(xp, array, dim, False)[(slice(None),) * dim + (slice(k - 1, k),)]
    values, order = xp.take_along_axis(array, order, dim), xp.ascontiguousarray(order, "int64")
    if input.ndim == 0:
        return values.reshape(()), order.reshape(())
    return (values, order) if keepdim else (values.squeeze(dim), order.squeeze(dim))


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


@op(at=("searchsorted",), vjp=None, kinds={"input": "tensor|number"})
def searchsorted(xp, sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    """Where each element of `input` would go in `sorted_sequence`.

    Sequences are 1-d, or agree with `input` in all but the last dimension. With `right` (or `side="right"`) the
    place is after equal elements. `sorter` holds the indices that sort the sequence.

    >>> import plugrad as torch
    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
    tensor([1, 3])
    """
    side = check_search(sorted_sequence, input, right, side, sorter)
    if sorter is not None:
        sorted_sequence = xp.take_along_axis(sorted_sequence, sorter, -1)
    input = xp.asarray(input)
    if sorted_sequence.ndim == 1:
        places = xp.searchsorted(sorted_sequence, input, side)
    else:
        count = math.prod(input.shape[:-1])
        rows = sorted_sequence.reshape(count, sorted_sequence.shape[-1])
        places = xp.empty((count, input.shape[-1]), "int64")
        for i, values in enumerate(input.reshape(places.shape)):
            places[i] = xp.searchsorted(rows[i], values, side)
        places = places.reshape(input.shape)
    return xp.asarray(places).astype("int32" if out_int32 else "int64")


def check_search(sequence, input, right, side, sorter):
    """PyTorch's tests of the arguments of `searchsorted`; returns the side as NumPy calls it."""
    name = "torch.searchsorted():"
    if side not in (None, "left", "right"):
        raise RuntimeError(f"{name} side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(f"{name} side and right can't be set to opposites, got side of left while right was True")
    if sequence.ndim == 0:
        raise RuntimeError(f"{name} boundaries tensor should have positive dimension, but got 0 dimension")
    shape, ndim = list(getattr(input, "shape", ())), getattr(input, "ndim", 0)
    if sequence.ndim > 1 and ndim == 0:
        raise RuntimeError(
            f"{name} input value can be a scalar only when boundaries tensor dimension is 1, but we got "
            f"boundaries tensor dim({sequence.ndim}) and input value's dim(0)"
        )
    if sequence.ndim > 1 and (ndim != sequence.ndim or shape[:-1] != list(sequence.shape[:-1])):
        raise RuntimeError(
            f"{name} boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(sequence.shape)} and input value tensor {shape}"
        )
    if hasattr(input, "dtype") and input.dtype != sequence.dtype:
        raise RuntimeError(
            f"{name} boundary tensor and input value tensor should have same dtype, but got boundaries "
            f"tensor dtype {sequence.dtype} and input value tensor dtype {input.dtype}"
        )
    check_sorter(name, sequence, sorter)
    return "right" if right or side == "right" else "left"


def check_sorter(name, sequence, sorter):
    if sorter is None:
        return
    if sorter.shape != sequence.shape:
        raise RuntimeError(
            f"{name} boundary and sorter must have the same size, but got boundary tensor "
            f"{list(sequence.shape)} and got sorter tensor {list(sorter.shape)}"
        )
    if sorter.dtype != "int64":
        raise RuntimeError(f"{name} sorter must be a tensor of long dtype but got dtype {sorter.dtype}")
    if sorter.size and not 0 <= int(sorter.min()) <= int(sorter.max()) < sequence.shape[-1]:
        raise RuntimeError("sorter index out of range")


@searchsorted.meta
def searchsorted_meta(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    return getattr(input, "shape", ()), (plugrad.int32 if out_int32 else plugrad.int64).numpy


@searchsorted.samples
def searchsorted_samples(make):
    yield make(4, requires_grad=False).sort().values, make(2, 3, requires_grad=False)
    yield make.args(make(2, 4, requires_grad=False).sort().values, make(2, 3, requires_grad=False), right=True)


@op(vjp=None)
def bucketize(xp, input, boundaries, *, out_int32=False, right=False):
    """The bucket between rising 1-d `boundaries` in which each element lies.

    Bucket i holds `boundaries[i-1] < x <= boundaries[i]`; with `right` the equal sign is on the left.

    >>> import plugrad as torch
    >>> torch.bucketize(torch.tensor([1, 4]), torch.tensor([1, 3]))
    tensor([0, 2])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    buckets = xp.searchsorted(boundaries, xp.asarray(input), "right" if right else "left")
    return xp.asarray(buckets).astype("int32" if out_int32 else "int64")


@bucketize.meta
def bucketize_meta(input, boundaries, *, out_int32=False, right=False):
    return getattr(input, "shape", ()), (plugrad.int32 if out_int32 else plugrad.int64).numpy


@bucketize.samples
def bucketize_samples(make):
    yield make(2, 3, requires_grad=False), make(4, requires_grad=False).sort().values


@op(vjp=None, aliases=("argwhere",), at=())
def nonzero_rows(xp, input):
    """The places of the elements that are not zero, one row of int64 indices each.

    >>> import plugrad as torch
    >>> torch.argwhere(torch.tensor([[0, 1], [1, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    if input.ndim == 0:
        return xp.zeros((int(bool(input)), 0), "int64")
    return xp.stack(xp.nonzero(input), 1).astype("int64", copy=False)


@composite()
def nonzero(F, input, *, as_tuple=False):
    """The places of the elements that are not zero.

    One row for each, or with `as_tuple` one 1-d tensor for each dimension.

    >>> import plugrad as torch
    >>> torch.nonzero(torch.tensor([0, 5, 6]))
    tensor([[1],
            [2]])
    """
    if not as_tuple:
        return F.nonzero_rows(input)
    return tuple(F.unbind(F.nonzero_rows(input if input.ndim else F.reshape(input, (1,))), 1))


@op(at=(), complex=False, node=lambda input, dim: f"Unique{2 if dim is None else 'Dim'}Backward0")
def unique_parts(xp, input, dim=None):
    """The distinct elements in rising order, where each went, and their counts."""
    if dim is None:
        values, inverse, counts = xp.unique(input.ravel(), return_inverse=True, return_counts=True, equal_nan=False)
        return values, inverse.reshape(input.shape).astype("int64"), counts.astype("int64")
    dim = axes(dim, input.ndim)
    if input.shape[dim] == 0:
        return input.copy(), xp.zeros(0, "int64"), xp.zeros(0, "int64")
    values, inverse, counts = xp.unique(input, return_inverse=True, return_counts=True, axis=dim)
    return values, inverse.reshape(-1).astype("int64"), counts.astype("int64")


@nonzero_rows.samples
@nonzero.samples
@unique_parts.samples
def whole_samples(make):
    yield make.ints(3, 4)
    yield make(requires_grad=False)


@op(at=(), complex=False, node="UniqueConsecutiveBackward0")
def consecutive_parts(xp, input, dim=None):
    """As `unique_parts`, but only neighbours that are equal count as one."""
    array = input.ravel() if dim is None else xp.moveaxis(input, axes(dim, input.ndim), 0)
    n = array.shape[0]
    rows = array.reshape(n, math.prod(array.shape[1:]))
    first = xp.ones(n, bool)
    if n > 1:
        first[1:] = (rows[1:] != rows[:-1]).any(1)
    starts = xp.nonzero(first)[0]
    ends = xp.concatenate([starts[1:], xp.full(1, n, starts.dtype)]) if n else starts
    values = array[starts] if dim is None else xp.moveaxis(array[starts], 0, axes(dim, input.ndim))
    inverse = xp.cumsum(first) - 1
    return (
        values,
        inverse.reshape(input.shape if dim is None else (-1,)).astype("int64"),
        (ends - starts).astype("int64"),
    )


@unique_parts.vjp
@consecutive_parts.vjp
def parts_vjp(F, g):
    raise NotImplementedError("the derivative for 'unique' is not implemented: use its result detach()ed")


def chosen(parts, return_inverse, return_counts):
    """What the caller of `unique` asked for."""
    values, inverse, counts = parts
    asked = [values] + [inverse] * bool(return_inverse) + [counts] * bool(return_counts)
    return tuple(asked) if len(asked) > 1 else values


@composite(kinds={"dim": "int?"})
def unique(F, input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements in rising order, or the distinct slices along `dim`.

    Adds on request where each element went (`return_inverse`) and how often each occurs (`return_counts`).

    >>> import plugrad as torch
    >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    return chosen(F.unique_parts(input, dim), return_inverse, return_counts)


@composite(kinds={"dim": "int?"})
def unique_consecutive(F, input, return_inverse=False, return_counts=False, dim=None):
    """The elements (or slices along `dim`) without repetitions of the one before.

    >>> import plugrad as torch
    >>> torch.unique_consecutive(torch.tensor([3, 3, 1, 3]))
    tensor([3, 1, 3])
    """
    return chosen(F.consecutive_parts(input, dim), return_inverse, return_counts)


consecutive_parts.samples(whole_samples)
unique.samples(whole_samples)
unique_consecutive.samples(whole_samples)


@op(vjp=None)
def bincount(xp, input, weights=None, minlength=0):
    """How often each non-negative integer occurs in a 1-d tensor.

    With `weights` their sums.

    >>> import plugrad as torch
    >>> torch.bincount(torch.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if not is_integer(input.dtype):
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{input.dtype}'; convert with .long()")
    if input.ndim != 1 or (input.size and int(input.min()) < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.dtype.kind == "c":
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for weights of '{weights.dtype}'; use their .real")
    if weights is not None and weights.shape != input.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    counts = xp.bincount(input.astype("int64"), weights, minlength)
    return counts.astype("int64" if weights is None else "float32" if weights.dtype == "float32" else "float64")


@op(vjp=None, kinds={"bins": "int"})
def histc(xp, input, bins=100, min=0, max=0):
    """How many elements fall into each of `bins` equal parts of [min, max].

    With both 0 the range is that of the data. Elements outside are not counted.

    >>> import plugrad as torch
    >>> torch.histc(torch.tensor([1.0, 2.0, 1.0]), 4, 0, 3)
    tensor([0., 2., 1., 0.])
    """
    if not is_floating(input.dtype):
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{input.dtype}'; convert with .float()")
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if min == max and input.size:
        min, max = float(input.min()), float(input.max())
    if min == max:
        min, max = min - 1, max + 1
    if not (abs(min) < float("inf") and abs(max) < float("inf")):
        raise RuntimeError(f"torch.histc: range of [{min}, {max}] is not finite")
    if max < min:
        raise RuntimeError("torch.histc: max must be larger than min")
    inside = input[(input >= min) & (input <= max)].astype("float64")
    places = ((inside - min) * (bins / (max - min))).astype("int64")
    return xp.bincount(xp.minimum(places, bins - 1), minlength=bins).astype(input.dtype)


@op(at=("isin",), vjp=None, kinds={"elements": "tensor|number", "test_elements": "tensor|number"})
def isin(xp, elements, test_elements, *, assume_unique=False, invert=False):
    """Whether each element occurs in `test_elements`; either may be a number.

    >>> import plugrad as torch
    >>> torch.isin(torch.tensor([1, 2]), torch.tensor([2, 3]))
    tensor([False,  True])
    """
    inside = xp.isin(xp.asarray(elements), xp.asarray(test_elements), assume_unique=False)
    return xp.asarray(~inside if invert else inside)


@isin.meta
def isin_meta(elements, test_elements, *, assume_unique=False, invert=False):
    return getattr(elements, "shape", ()), plugrad.bool.numpy


@isin.samples
def isin_samples(make):
    yield make.ints(2, 3), make.ints(2)


@histc.meta
def histc_meta(input, bins=100, min=0, max=0):
    return (bins,), input.dtype


@histc.samples
def histc_samples(make):
    yield make(9, requires_grad=False), 4, -1, 1


@nonzero_rows.meta
@unique_parts.meta
@consecutive_parts.meta
@bincount.meta
def no_meta(*args, **kwargs):
    raise NotImplementedError("the result's shape depends on values, which tensors on the meta device lack")


@bincount.samples
def bincount_samples(make):
    yield make.ints(5)
    yield make.args(make.ints(5), make(5, requires_grad=False), minlength=6)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
