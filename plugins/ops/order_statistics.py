"""Order statistics: median, mode, quantiles."""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import LEFT_OUT, Op, axes, collect, composite, hookimpl, native, reduction

from ._checks import BOOL_OR_COMPLEX, COMPLEX, ordered_floats, refuse, refuse_empty
from ._selection import INTROSORT, select_again
from .extremes import along_samples, chosen_vjp, one_dim, overloaded, overloaded_samples, whole_vjp
from .sorting import ordered_in_c, reduced, rows_of

# ---------------------------------------------------------------- middle elements


def _middle(xp, input, dim, keepdim, skip_nan):
    """The lower median along `dim` and its index; a NaN is the median unless NaNs are skipped."""
    one_dim("median", dim)
    refuse(BOOL_OR_COMPLEX, "median_cpu", input)
    refuse_empty("median", input, dim)
    order = xp.argsort(ordered_floats(input), axis=dim, kind="stable")  # NaNs come last
    n = input.shape[dim]
    nans = (input != input).sum(axis=dim, keepdims=True)
    rank = xp.maximum((n - nans - 1) // 2, 0)
    if not skip_nan:
        rank = xp.where(nans > 0, n - nans, rank)
    indices = xp.take_along_axis(order, rank, dim)
    values = xp.take_along_axis(input, indices, dim)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def _middle_of_all(xp, input, skip_nan):
    if not input.size:
        refuse(BOOL_OR_COMPLEX, "median_cpu", input)
        empty = math.nan if input.dtype.kind == "f" else xp.iinfo(input.dtype).min
        return xp.full((), empty, input.dtype)
    return _middle(xp, input.reshape(-1), 0, False, skip_nan)[0]


@reduction(at=(), returns="values indices", node="MedianBackward1")
def median(xp, input, dim, keepdim=False):
    """Lower median along `dim` and its index; NaN if there is one."""
    return _middle(xp, input, dim, keepdim, False)


@reduction(at=(), returns="values indices", node="NanmedianBackward1")
def nanmedian(xp, input, dim, keepdim=False):
    """Lower median along `dim` of what is not NaN, and its index."""
    return _middle(xp, input, dim, keepdim, True)


@reduction(at=(), node="MedianBackward0")
def median_all(xp, input):
    """Lower median of all elements; NaN if there is one."""
    return _middle_of_all(xp, input, False)


@reduction(at=(), node="NanmedianBackward0")
def nanmedian_all(xp, input):
    """Lower median of all elements that are not NaN."""
    return _middle_of_all(xp, input, True)


def _in_c(op, skip_nan):
    """Give a median along a dimension its kernel in C, which takes rows."""

    @op.kernel("cpu")
    @native("median", otherwise=op)
    def median_in_c(call, xp, input, dim, keepdim=False):
        if dim.__class__ is not int or not input.size:
            return NotImplemented
        rows = input if dim == input.ndim - 1 else xp.moveaxis(input, dim, -1)
        values, places = xp.empty(rows.shape[:-1], input.dtype), xp.empty(rows.shape[:-1], xp.int64)
        if call(xp.ascontiguousarray(rows), values, places, skip_nan) is NotImplemented:
            return NotImplemented
        return (xp.expand_dims(values, dim), xp.expand_dims(places, dim)) if keepdim else (values, places)


def _whole_in_c(op, skip_nan):
    """Give a median of all elements its kernel in C."""

    @op.kernel("cpu")
    @native("median", otherwise=op)
    def median_in_c(call, xp, input):
        value, place = xp.empty((), input.dtype), xp.empty((), xp.int64)
        return value if call(input.reshape(-1), value, place, skip_nan) is None else NotImplemented


_in_c(median, False)
_in_c(nanmedian, True)
_whole_in_c(median_all, False)
_whole_in_c(nanmedian_all, True)

for _op in (median, nanmedian):
    _op.vjp(chosen_vjp)
    _op.samples(along_samples)
for _op in (median_all, nanmedian_all):
    _op.vjp(whole_vjp)


OVERLOADED = {"dim": "int...", "keepdim": "bool...", "out": "any"}


@composite(name="median_of", at=("median", "Tensor.median"), kinds=OVERLOADED)
def median_of(F, input, dim=LEFT_OUT, keepdim=LEFT_OUT, *, out=None):
    """Median of all elements; with `dim` those along it and their indices.

    Of an even number of elements it is the lower of the two in the middle; NaN if any element is.

    >>> import plugrad as torch
    >>> torch.median(torch.tensor([4., 1., 3., 2.]))
    tensor(2.)
    """
    return overloaded(F.median_all, F.median, None, "median", input, dim, keepdim, None, out)


@composite(name="nanmedian_of", at=("nanmedian", "Tensor.nanmedian"), kinds=OVERLOADED)
def nanmedian_of(F, input, dim=LEFT_OUT, keepdim=LEFT_OUT, *, out=None):
    """Median as `median` gives it, of the elements that are not NaN.

    >>> import plugrad as torch
    >>> torch.nanmedian(torch.tensor([1., float("nan"), 3.]))
    tensor(1.)
    """
    return overloaded(F.nanmedian_all, F.nanmedian, None, "nanmedian", input, dim, keepdim, None, out)


median_of.samples(overloaded_samples)
nanmedian_of.samples(overloaded_samples)


@reduction(returns="values indices", kinds={"dim": "int"})
def mode(xp, input, dim=-1, keepdim=False):
    """Most frequent value along `dim`, and an index of it.

    Of several the smallest, at its last index among up to 16 elements; among more the one that PyTorch's CPU gives.
    NaN equals no other NaN.

    >>> import plugrad as torch
    >>> torch.mode(torch.tensor([3, 1, 1, 2])).values
    tensor(1)
    """
    one_dim("mode", dim)
    refuse(COMPLEX, "mode", input)
    if not input.shape[dim]:
        raise IndexError(f"mode(): Expected reduction dim {dim} to have non-zero size.")
    lines = ordered_floats(xp.moveaxis(input, dim, -1))
    order = select_again(xp, lines, xp.argsort(lines, axis=-1, kind="stable"), INTROSORT)
    ordered = xp.take_along_axis(lines, order, -1).astype(input.dtype, copy=False)
    return _most_frequent(xp, ordered, order.astype("int64", copy=False), dim, keepdim)


def _most_frequent(xp, ordered, places, dim, keepdim):
    """The element of which there are the most in a row that is in order, and the place of the last of them."""
    first = xp.ones(ordered.shape, bool)
    first[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    runs = xp.cumsum(first.ravel()) - 1
    lengths = xp.bincount(runs)[runs].reshape(ordered.shape)
    begin = lengths.argmax(axis=-1)[..., None]
    end = begin + xp.take_along_axis(lengths, begin, -1) - 1
    results = xp.take_along_axis(ordered, end, -1), xp.take_along_axis(places, end, -1)
    return reduced(xp, results, dim, keepdim)


@mode.kernel("cpu")
@native("order_of", otherwise=mode)
def mode_in_c(call, xp, input, dim=-1, keepdim=False):
    if dim.__class__ is not int or not input.size:
        return NotImplemented
    rows = rows_of(xp, input, dim)
    results = ordered_in_c(call, xp, rows, rows.shape[-1], False, INTROSORT)
    return results if results is NotImplemented else _most_frequent(xp, *results, dim, keepdim)


mode.vjp(chosen_vjp)
mode.samples(along_samples)


# ---------------------------------------------------------------- quantiles

_BETWEEN = ("linear", "lower", "higher", "midpoint", "nearest")


def _checked_q(F, name, input, q, interpolation):
    """Check the arguments of a quantile; return `q` as a tensor."""
    if str(input.dtype).rpartition(".")[2] not in ("float32", "float64"):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if interpolation not in _BETWEEN:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if not isinstance(q, plugrad.Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        q = F.full((), float(q), dtype=input.dtype, device=input.device)
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if q.dtype is not input.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if q.device != input.device:
        raise RuntimeError(f"{name}() q tensor must be on the same device as the input tensor")
    if not q.is_meta and not bool(F.all((q >= 0) & (q <= 1))):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    if not input.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    return q


def _quantile(F, name, input, q, dim, keepdim, interpolation, skip_nan):
    q = _checked_q(F, name, input, q, interpolation)
    shape = tuple(input.shape)
    one_dim(name, dim)
    if dim is None:
        lines, kept = F.reshape(input, (-1,)), (1,) * len(shape) if keepdim else ()
    else:
        dim = axes(dim, len(shape))
        lines = F.movedim(input, dim, -1) if shape else F.reshape(input, (1,))
        kept = shape[:dim] + ((1,) if keepdim and shape else ()) + shape[dim + 1 :]
    ordered = F.sort(lines, -1)[0]
    n = lines.shape[-1]
    nans = F.sum(lines != lines, -1, True)
    top = F.clamp(n - 1 - nans, 0) if skip_nan else n - 1
    rank = F.reshape(q, (-1,)) * top
    if not skip_nan:
        rank = F.where(nans > 0, n - 1.0, rank)
    if interpolation == "nearest":
        rank = F.round(rank)
    rank = F.expand(rank, ordered.shape[:-1] + rank.shape[-1:])

    def arranged(values):
        return F.reshape(F.movedim(values, -1, 0), tuple(q.shape) + kept)

    low = F.floor(rank) if interpolation != "higher" else F.ceil(rank)
    result = arranged(F.gather(ordered, -1, low.long()))
    if interpolation not in ("linear", "midpoint"):
        return F.clone(result)  # which is no view
    upper = arranged(F.gather(ordered, -1, F.ceil(rank).long()))
    return F.lerp(result, upper, arranged(rank - low) if interpolation == "linear" else 0.5)


@composite(kinds={"q": "tensor|float", "dim": "int?"}, autocast={"cpu": "float32"})
def quantile(F, input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """Quantiles of all elements, or along `dim`; NaN where an element is.

    Args:
        input: float32 or float64 tensor.
        q: number in [0, 1], or a 1-d tensor of such, which gives the result a first dimension of that size.
        dim: int; None for all elements.
        keepdim: keep the reduced dimension with size 1.
        interpolation: "linear", "lower", "higher", "midpoint" or "nearest", between neighbours.

    >>> import plugrad as torch
    >>> torch.quantile(torch.tensor([1., 2., 4.]), torch.tensor([0.5, 0.75]))
    tensor([2., 3.])
    """
    return _quantile(F, "quantile", input, q, dim, keepdim, interpolation, False)


@composite(kinds={"q": "tensor|float", "dim": "int?"}, autocast={"cpu": "float32"})
def nanquantile(F, input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """Quantiles as `quantile` gives them, of the elements that are not NaN.

    >>> import plugrad as torch
    >>> torch.nanquantile(torch.tensor([1., float("nan"), 4.]), 0.5)
    tensor(2.5000)
    """
    return _quantile(F, "nanquantile", input, q, dim, keepdim, interpolation, True)


@quantile.samples
@nanquantile.samples
def quantile_samples(make):
    yield make(3, 5), 0.3
    yield make.args(make(3, 5), make(2, low=0.1, high=0.9, requires_grad=False), dim=1, interpolation="lower")


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
