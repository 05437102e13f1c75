"""Which elements occur, where and how often: nonzero, unique, isin, bincount, histc."""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import Op, axes, collect, composite, hookimpl, is_floating, is_integer, native, op

from ._checks import fitted, is_number, ordered_floats, underived
from ._selection import STABLE


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


@nonzero_rows.kernel("cpu")
@native("nonzero", otherwise=nonzero_rows)
def nonzero_in_c(call, xp, input):
    count = xp.empty((), xp.int64)
    if call(input, count) is NotImplemented:
        return NotImplemented
    places = xp.empty((count[()], input.ndim), xp.int64)
    return places if call(input, places) is None else NotImplemented


@composite()
def nonzero(F, input, *, as_tuple=False, out=None):
    """The places of the elements that are not zero.

    One row for each, or with `as_tuple` one 1-d tensor for each dimension.

    >>> import plugrad as torch
    >>> torch.nonzero(torch.tensor([0, 5, 6]))
    tensor([[1],
            [2]])
    """
    if out is not None and as_tuple:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    if out is not None and out.dtype is not plugrad.int64:
        raise RuntimeError(f"nonzero: expected scalar type Long for out=, but got {out.dtype}")
    if not as_tuple:
        return F.nonzero_rows(input, out=out)
    return tuple(F.unbind(F.nonzero_rows(input if input.ndim else F.reshape(input, (1,))), 1))


@op(at=(), complex=False, node=lambda input, dim: f"Unique{2 if dim is None else 'Dim'}Backward0")
def unique_parts(xp, input, dim=None):
    """The distinct elements in rising order, where each went, and their counts."""
    dim = None if dim is None else _slices_of(input, dim)
    if dim is not None and input.shape[dim] == 0:
        return input.copy(), xp.zeros(0, "int64"), xp.zeros(0, "int64")
    asked = {"return_inverse": True, "return_counts": True, "equal_nan": False}
    values, inverse, counts = xp.unique(ordered_floats(input), axis=dim, **asked)
    inverse = inverse.reshape(input.shape if dim is None else -1)
    return values.astype(input.dtype, copy=False), inverse.astype("int64"), counts.astype("int64")


@unique_parts.kernel("cpu")
@native("order_of", otherwise=unique_parts)
def unique_parts_in_c(call, xp, input, dim=None):
    if dim is not None or not input.size:
        return NotImplemented
    flat = input.reshape(-1)
    ordered, places, first = xp.empty_like(flat), xp.empty(flat.size, xp.int64), xp.ones(flat.size, bool)
    if call(flat, ordered, places, False, STABLE, 0) is NotImplemented:
        return NotImplemented
    xp.not_equal(ordered[1:], ordered[:-1], first[1:])
    starts, inverse = xp.flatnonzero(first), xp.empty(flat.size, xp.int64)
    inverse[places] = xp.cumsum(first) - 1
    counts = xp.empty(starts.size, xp.int64)
    xp.subtract(starts[1:], starts[:-1], counts[:-1])
    counts[-1] = flat.size - starts[-1]
    return ordered[starts], inverse.reshape(input.shape), counts


@nonzero_rows.samples
@nonzero.samples
@unique_parts.samples
def whole_samples(make):
    yield make.ints(3, 4)
    yield make(requires_grad=False)


def _slices_of(input, dim):
    """Return the dimension whose slices are compared, which can't be empty themselves; RuntimeError where they are."""
    dim = axes(dim, input.ndim)
    if input.shape.count(0) > (input.shape[dim] == 0):
        raise RuntimeError(
            f"unique(): slices along dimension {dim} of an input of shape {list(input.shape)} have no elements that "
            "could be compared: give a dimension that is empty itself, or none"
        )
    return dim


@op(at=(), complex=False, node="UniqueConsecutiveBackward0")
def consecutive_parts(xp, input, dim=None):
    """As `unique_parts`, but only neighbours that are equal count as one."""
    array = input.ravel() if dim is None else xp.moveaxis(input, _slices_of(input, dim), 0)
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


@nonzero_rows.meta
@unique_parts.meta
@consecutive_parts.meta
def no_meta(*args, **kwargs):
    raise NotImplementedError("the result's shape depends on values, which tensors on the meta device lack")


@op(node="NotImplemented")
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


@bincount.kernel("cpu")
@native("count_each", otherwise=bincount)
def bincount_in_c(call, xp, input, weights=None, minlength=0):
    if weights is not None or minlength < 0 or input.ndim != 1 or not input.size or not is_integer(input.dtype):
        return NotImplemented
    counts = xp.empty(max(input.max() + 1, minlength), xp.int64)
    return counts if call(input, counts) is None else NotImplemented


@op(vjp=None, kinds={"bins": "int", "min": "real", "max": "real"})
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
    min, max = fitted(input.dtype, min), fitted(input.dtype, max)
    if min == max and input.size:
        min, max = float(input.min()), float(input.max())
    if min == max:
        min, max = min - 1, max + 1
    if not (abs(min) < float("inf") and abs(max) < float("inf")):
        raise RuntimeError(f"torch.histc: range of [{min:g}, {max:g}] is not finite")
    if max < min:
        raise RuntimeError("torch.histc: max must be larger than min")
    inside = input[(input >= min) & (input <= max)].astype("float64")
    places = ((inside - min) * (bins / (max - min))).astype("int64")
    return xp.bincount(xp.minimum(places, bins - 1), minlength=bins).astype(input.dtype)


@histc.meta
def histc_meta(input, bins=100, min=0, max=0):
    return (bins,), input.dtype


@histc.samples
def histc_samples(make):
    yield make(9, requires_grad=False), 4, -1, 1


bincount.meta(no_meta)
bincount.vjp("weights")(underived("bincount"))


@bincount.samples
def bincount_samples(make):
    yield make.ints(5)
    yield make.args(make.ints(5), make(5, requires_grad=False), minlength=6)


@op(at=(), vjp=None)
def isin_elements(xp, elements, test_elements):
    """Whether each element occurs in `test_elements`, of the same dtype."""
    return xp.asarray(xp.isin(elements, test_elements, assume_unique=False))


@isin_elements.meta
def isin_elements_meta(elements, test_elements):
    return elements.shape, plugrad.bool.numpy


@isin_elements.samples
def isin_elements_samples(make):
    yield make.ints(2, 3), make.ints(2)


@composite(at=("isin",), kinds={"elements": "tensor|number", "test_elements": "tensor|number"})
def isin(F, elements, test_elements, *, assume_unique=False, invert=False):
    """Whether each element occurs in `test_elements`; either may be a number.

    >>> import plugrad as torch
    >>> torch.isin(torch.tensor([1, 2]), torch.tensor([2, 3]))
    tensor([False,  True])
    """
    for values in (elements, test_elements):
        dtype = getattr(values, "dtype", None) or plugrad.result_type(values, values)
        if dtype is plugrad.bool or dtype.is_complex:
            raise RuntimeError(f"Unsupported input type encountered for isin(): {dtype}; convert it with .to(dtype)")
    if is_number(test_elements):  # which is compared as an operand is
        inside = F.eq(elements, test_elements)
    elif is_number(elements):
        inside = F.any(F.eq(test_elements, elements))
    else:
        common = plugrad.result_type(elements, test_elements)
        inside = F.isin_elements(elements.to(common), test_elements.to(common))
    return F.logical_not(inside) if invert else inside


@isin.samples
def isin_samples(make):
    yield make.ints(2, 3), make.ints(2)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
