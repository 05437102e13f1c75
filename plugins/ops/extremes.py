"""Largest and smallest elements, where they are, and order statistics: median, mode, quantiles."""

from __future__ import annotations

from plugrad.extend import Op, axes, collect, composite, hookimpl, keep_dims, op, reduction

from ._checks import BOOL_OR_COMPLEX, COMPLEX, refuse
from .reduction import reduced


def one_dim(name, dim) -> None:
    """Raise TypeError when `dim` is not a single int."""
    if isinstance(dim, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'dim' must be int, not {type(dim).__name__}; "
            "torch.amax and torch.amin take several dimensions"
        )


def _not_empty(name, input, dim, error=RuntimeError) -> None:
    """Raise what PyTorch raises when there is no element to pick from."""
    if input.size and input.ndim:
        return
    if dim is None or dim == ():
        if not input.size:
            raise error(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        return
    for d in dim if isinstance(dim, tuple) else (dim,):
        if not input.shape[d]:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def _no_complex(name, input) -> None:
    if input.dtype.kind == "c":
        raise RuntimeError(f"{name}(): does not support complex input")


def shared(F, g, ties, dim=None):
    """`g` divided evenly among the elements where `ties` holds; `g` has the reduced dimensions as size 1."""
    ties = F.where(ties, F.ones_like(g), 0.0)
    return ties * (g / F.sum(ties, dim, True))


# ---------------------------------------------------------------- values


def extreme(xp, input, method, dim, keepdim):
    """Largest ("max") or smallest ("min") elements of a raw array."""
    join = xp.maximum if method == "max" else xp.minimum
    last = input.ndim - 1
    if dim.__class__ is int and dim == last and 0 < input.shape[last] <= 16 and input.size >= 4096:
        # Array libraries take short rows one by one: join columns instead.
        result = input[..., 0]
        for j in range(1, input.shape[last]):
            result = join(result, input[..., j])
        result = result + result.dtype.type(0) if input.shape[last] == 1 else result
        return result[..., None] if keepdim else result
    return reduced(input, method, dim, keepdim, join)


@reduction(ref="numpy.amax")
def amax(xp, input, dim=None, keepdim=False):
    """Largest element of all, or along `dim`; equal ones share the gradient.

    Args:
        input: real tensor.
        dim: int or tuple of ints; None for all.
        keepdim: keep the reduced dimensions with size 1.

    Errors: `IndexError` when a reduced dimension is empty.

    >>> import plugrad as torch
    >>> torch.amax(torch.tensor([[1., 4.], [3., 2.]]), 1)
    tensor([4., 3.])
    """
    refuse(COMPLEX, "max_values_cpu", input)
    _not_empty("amax", input, dim)
    return extreme(xp, input, "max", dim, keepdim)


@reduction(ref="numpy.amin")
def amin(xp, input, dim=None, keepdim=False):
    """Smallest element of all, or along `dim`; equal ones share the gradient.

    Arguments as for `amax`.

    >>> import plugrad as torch
    >>> torch.amin(torch.tensor([[1., 4.], [3., 2.]]), 1)
    tensor([1., 2.])
    """
    refuse(COMPLEX, "min_values_cpu", input)
    _not_empty("amin", input, dim)
    return extreme(xp, input, "min", dim, keepdim)


def extreme_vjp(F, g, y, input, dim, keepdim):
    """Gradient shared by all elements that equal the extreme."""
    shape = input.shape
    g, y = keep_dims(F, g, shape, dim, keepdim), keep_dims(F, y, shape, dim, keepdim)
    return shared(F, g, input == y, dim)


amax.vjp(extreme_vjp)
amin.vjp(extreme_vjp)


@reduction(returns="min max", kinds={"dim": "int?"})
def aminmax(xp, input, *, dim=None, keepdim=False):
    """Smallest and largest element of all, or along `dim`.

    `dim` is an int. Gives a named tuple (min, max).

    >>> import plugrad as torch
    >>> torch.aminmax(torch.tensor([3., 1., 2.])).max
    tensor(3.)
    """
    one_dim("aminmax", dim)
    refuse(COMPLEX, "aminmax_cpu", input)
    if dim is None and not input.size:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    _not_empty("aminmax", input, dim)
    return extreme(xp, input, "min", dim, keepdim), extreme(xp, input, "max", dim, keepdim)


@aminmax.vjp
def aminmax_vjp(F, g, y0, y1, input, dim, keepdim):
    return extreme_vjp(F, g[0], y0, input, dim, keepdim) + extreme_vjp(F, g[1], y1, input, dim, keepdim)


@aminmax.samples
def aminmax_samples(make):
    yield make(3, 4)
    yield make.args(make(3, 4), dim=1)
    yield make.args(make(3, 4), dim=0, keepdim=True)


# ---------------------------------------------------------------- places


def _argument(xp, search, name, input, dim, keepdim):
    one_dim(name, dim)
    _no_complex(name, input)
    if input.dtype.kind == "b":
        raise RuntimeError(f"{name}(): does not support bool input; write input.int()")
    if dim is None and not input.size:
        raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
    _not_empty(name, input, dim, IndexError)
    return search(input, axis=dim, keepdims=keepdim)


@reduction(promote="index", vjp=None, ref="numpy.argmax", kinds={"dim": "int?"})
def argmax(xp, input, dim=None, keepdim=False):
    """Index of the largest element, the first of equal ones.

    Among all elements, flattened, or along `dim` (an int).

    >>> import plugrad as torch
    >>> torch.argmax(torch.tensor([[1., 4.], [3., 2.]]), dim=1)
    tensor([1, 0])
    """
    return _argument(xp, xp.argmax, "argmax", input, dim, keepdim)


@reduction(promote="index", vjp=None, ref="numpy.argmin", kinds={"dim": "int?"})
def argmin(xp, input, dim=None, keepdim=False):
    """Index of the smallest element, the first of equal ones.

    Among all elements, flattened, or along `dim` (an int).

    >>> import plugrad as torch
    >>> torch.argmin(torch.tensor([[1., 4.], [3., 2.]]), dim=1)
    tensor([0, 1])
    """
    return _argument(xp, xp.argmin, "argmin", input, dim, keepdim)


# ---------------------------------------------------------------- values with their places


@op(at=())
def put_one(xp, input, index, dim, size):
    """Zeros of `size` along `dim` with `input` put at `index`.

    Both have size 1 along `dim`.
    """
    positions = xp.arange(size).reshape((-1,) + (1,) * (input.ndim - 1 - axes(dim, input.ndim)))
    return xp.where(index == positions, input, input.dtype.type(0))


@put_one.meta
def put_one_meta(input, index, dim, size):
    dim = axes(dim, input.ndim)
    return input.shape[:dim] + (size,) + input.shape[dim + 1 :], input.dtype


@put_one.vjp
def put_one_vjp(F, g, index, dim):
    return F.gather(g, dim, index)


@put_one.samples
def put_one_samples(make):
    yield make.args(make(2, 1), make.ints(2, 1, low=0, high=3), 1, 3)


def chosen_vjp(F, g, y1, input_shape, dim, keepdim):
    """Gradient of an op that returns (values, indices): it goes to the chosen elements."""
    if not len(input_shape):
        return g[0]
    values = keep_dims(F, g[0], input_shape, dim, keepdim)
    indices = keep_dims(F, y1, input_shape, dim, keepdim)
    return F.put_one(values, indices, dim, input_shape[dim])


def along_samples(make):
    """Samples of ops that need `dim`."""
    yield make.args(make(3, 4), 0)
    yield make.args(make(3, 4), -1, True)


def _with_places(xp, input, method, dim, keepdim):
    """Extremes along `dim` and the indices of the first of them."""
    one_dim(method, dim)
    _no_complex(method, input)
    _not_empty(method, input, dim)
    values = extreme(xp, input, method, dim, True)
    if input.strides[dim] == input.itemsize:
        places = (xp.argmax if method == "max" else xp.argmin)(input, axis=dim, keepdims=True)
    else:  # a search of bytes, for which less is moved
        extremal = input == values
        if input.dtype.kind == "f" and bool((values != values).any()):
            extremal = extremal | (input != input)
        places = xp.argmax(extremal, axis=dim, keepdims=True)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


@reduction(at=(), returns="values indices")
def max_(xp, input, dim, keepdim=False):
    """Largest elements along `dim`, and the indices of the first of them."""
    return _with_places(xp, input, "max", dim, keepdim)


@reduction(at=(), returns="values indices")
def min_(xp, input, dim, keepdim=False):
    """Smallest elements along `dim`, and the indices of the first of them."""
    return _with_places(xp, input, "min", dim, keepdim)


@reduction(at=(), node="MaxBackward1")
def max_all(xp, input):
    """Largest of all elements."""
    refuse(COMPLEX, "max_all", input)
    _not_empty("max", input, None)
    return input.max()


@reduction(at=(), node="MinBackward1")
def min_all(xp, input):
    """Smallest of all elements."""
    refuse(COMPLEX, "min_all", input)
    _not_empty("min", input, None)
    return input.min()


def whole_vjp(F, g, y, input):
    """Gradient of one element picked from all: shared by all equal ones; NaN counts as equal to NaN."""
    if not len(input.shape):
        return g
    g = F.reshape(g, (1,) * len(input.shape))
    return shared(F, g, (input == y) | ((input != input) & (y != y)))


for _op in (max_, min_):
    _op.vjp(chosen_vjp)
    _op.samples(along_samples)
for _op in (max_all, min_all):
    _op.vjp(whole_vjp)


def _extreme(whole, along, pair, name, input, dim, keepdim, other, out):
    """Send `max(x)`, `max(x, 1)` and `max(x, y)` to their ops."""
    more = {} if out is None else {"out": out}
    other = dim if other is None and hasattr(dim, "requires_grad") else other
    if keepdim and (dim is None or other is not None):
        raise TypeError(f"{name}() received an invalid combination of arguments: keepdim=True needs an int for dim")
    if other is not None:
        return pair(input, other, **more)
    if dim is None:
        return whole(input, **more)
    one_dim(name, dim)
    return along(input, dim, keepdim, **more)


@composite(name="max_of", at=("max", "Tensor.max"), kinds={"dim": "tensor|int?", "other": "tensor?"})
def max_of(F, input, dim=None, keepdim=False, *, other=None, out=None):
    """Largest element of all, along `dim` with indices, or of pairs.

    With a tensor in place of `dim` it is the pairwise maximum.

    Args:
        input: real tensor.
        dim: int, for a named tuple (values, indices), or a tensor to compare with.
        keepdim: keep the reduced dimension with size 1.

    The gradient of `max(input)` is shared by equal elements; that of `max(input, dim)` goes to the chosen ones.

    >>> import plugrad as torch
    >>> x = torch.tensor([[1., 4.], [3., 2.]])
    >>> torch.max(x), torch.max(x, 0).values, torch.max(x, 2 * torch.ones(2))
    (tensor(4.), tensor([3., 4.]), tensor([[2., 4.],
            [3., 2.]]))
    """
    return _extreme(F.max_all, F.max, F.maximum, "max", input, dim, keepdim, other, out)


@composite(name="min_of", at=("min", "Tensor.min"), kinds={"dim": "tensor|int?", "other": "tensor?"})
def min_of(F, input, dim=None, keepdim=False, *, other=None, out=None):
    """Smallest element of all, along `dim` with indices, or of pairs.

    Arguments as for `max`.

    >>> import plugrad as torch
    >>> torch.min(torch.tensor([3., 1., 2.]), 0).indices
    tensor(1)
    """
    return _extreme(F.min_all, F.min, F.minimum, "min", input, dim, keepdim, other, out)


@max_of.samples
@min_of.samples
def overloaded_samples(make):
    yield make(3, 4)
    yield make.args(make(3, 4), 1, keepdim=True)


# ---------------------------------------------------------------- middle elements


def _middle(xp, input, dim, keepdim, skip_nan):
    """The lower median along `dim` and its index; a NaN is the median unless NaNs are skipped."""
    one_dim("median", dim)
    refuse(BOOL_OR_COMPLEX, "median_cpu", input)
    _not_empty("median", input, dim)
    order = xp.argsort(input, axis=dim, kind="stable")  # NaNs come last
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
        empty = "nan" if input.dtype.kind == "f" else xp.iinfo(input.dtype).min
        return xp.full((), empty, input.dtype)
    return _middle(xp, input.reshape(-1), 0, False, skip_nan)[0]


@reduction(at=(), returns="values indices")
def median(xp, input, dim, keepdim=False):
    """Lower median along `dim` and its index; NaN if there is one."""
    return _middle(xp, input, dim, keepdim, False)


@reduction(at=(), returns="values indices")
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


for _op in (median, nanmedian):
    _op.vjp(chosen_vjp)
    _op.samples(along_samples)
for _op in (median_all, nanmedian_all):
    _op.vjp(whole_vjp)


@composite(name="median_of", at=("median", "Tensor.median"), kinds={"dim": "int?"})
def median_of(F, input, dim=None, keepdim=False, *, out=None):
    """Median of all elements; with `dim` those along it and their indices.

    Of an even number of elements it is the lower of the two in the middle; NaN if any element is.

    >>> import plugrad as torch
    >>> torch.median(torch.tensor([4., 1., 3., 2.]))
    tensor(2.)
    """
    return _extreme(F.median_all, F.median, None, "median", input, dim, keepdim, None, out)


@composite(name="nanmedian_of", at=("nanmedian", "Tensor.nanmedian"), kinds={"dim": "int?"})
def nanmedian_of(F, input, dim=None, keepdim=False, *, out=None):
    """Median as `median` gives it, of the elements that are not NaN.

    >>> import plugrad as torch
    >>> torch.nanmedian(torch.tensor([1., float("nan"), 3.]))
    tensor(1.)
    """
    return _extreme(F.nanmedian_all, F.nanmedian, None, "nanmedian", input, dim, keepdim, None, out)


median_of.samples(overloaded_samples)
nanmedian_of.samples(overloaded_samples)


@reduction(returns="values indices", kinds={"dim": "int"})
def mode(xp, input, dim=-1, keepdim=False):
    """Most frequent value along `dim`, and the index where it stands last.

    Of several the smallest. NaN equals no other NaN.

    >>> import plugrad as torch
    >>> torch.mode(torch.tensor([3, 1, 1, 2])).values
    tensor(1)
    """
    one_dim("mode", dim)
    refuse(COMPLEX, "mode", input)
    if not input.shape[dim]:
        raise IndexError(f"mode(): Expected reduction dim {dim} to have non-zero size.")
    lines = xp.moveaxis(input, dim, -1)
    ordered, n = xp.sort(lines, axis=-1), input.shape[dim]
    # An element that equals the one `k` places before it begins no run shorter than k + 1.
    longest, best = xp.ones(lines.shape[:-1], "int64"), ordered[..., 0]
    for k in range(1, n):
        repeated = ordered[..., k:] == ordered[..., : n - k]
        longer = repeated.any(axis=-1)
        if not longer.any():
            break
        first = xp.take_along_axis(ordered, repeated.argmax(axis=-1, keepdims=True), -1)[..., 0]
        best, longest = xp.where(longer, first, best), xp.where(longer, k + 1, longest)
    place = n - 1 - xp.argmax((lines == best[..., None])[..., ::-1], axis=-1)
    if keepdim:
        return xp.expand_dims(best, dim), xp.expand_dims(place, dim)
    return best + best.dtype.type(0), place


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
    if isinstance(q, (int, float)):
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
    low = F.floor(rank) if interpolation != "higher" else F.ceil(rank)
    result = F.gather(ordered, -1, F.expand(low, ordered.shape[:-1] + low.shape[-1:]).long())
    if interpolation in ("linear", "midpoint"):
        weight = rank - low if interpolation == "linear" else 0.5
        upper = F.ceil(rank)
        result = F.lerp(result, F.gather(ordered, -1, F.expand(upper, result.shape).long()), weight)
    result = F.movedim(result, -1, 0)
    return F.reshape(result, (tuple(q.shape) + kept))


@composite(kinds={"dim": "int?"})
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


@composite(kinds={"dim": "int?"})
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
