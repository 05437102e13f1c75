"""Reductions that add up: sums, means, products, and what is counted."""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import (
    Op,
    collect,
    composite,
    hookimpl,
    is_integral,
    is_single_or_double,
    keep_dims,
    multilinear,
    native,
    reduction,
)

from . import _sums_on_cuda as cuda
from ._checks import dtype_word

_LONG = 1024  # slices along a dimension from which they are reduced in stages
_BLOCKS = 256  # slices that one stage reduces
_ROW = 512  # elements that are added up naively
_LARGE = 4096  # elements from which a sum is split into rows


def reduced(input, method, dim=None, keepdim=False, join=None):
    """`input.sum`, `.max` or `.min` over `dim` (None, an int or a tuple) of a raw array; `join` is `maximum` or so.

    Array libraries reduce a dimension that is not contiguous in memory slice after slice: sums lose accuracy with
    the number of slices, and short slices are slow. A long dimension is taken as blocks, which are reduced together, in
    long slices, and then its inside.
    """
    if dim.__class__ is tuple:
        k = len(dim)
        if k == 0:
            dim = None
        elif 1 < k < input.ndim and dim == tuple(range(k)) and input.flags.c_contiguous and input.size:
            result = reduced(input.reshape(-1, *input.shape[k:]), method, 0, join=join)
            return result.reshape((1,) * k + result.shape) if keepdim else result
    if dim.__class__ is int and input.shape[dim] > _LONG and input.ndim > 1 and input.strides[dim] > input.itemsize:
        shape, n, before = input.shape, input.shape[dim], (slice(None),) * dim
        inside = n // _BLOCKS
        cut = inside * _BLOCKS
        parts = input[(*before, slice(cut))].reshape(shape[:dim] + (_BLOCKS, inside) + shape[dim + 1 :])
        result = reduced(getattr(parts, method)(axis=dim), method, dim, keepdim, join)
        if cut == n:
            return result
        rest = getattr(input[(*before, slice(cut, n))], method)(axis=dim, keepdims=keepdim)
        return join(result, rest) if join else result + rest
    return getattr(input, method)(axis=dim, keepdims=keepdim)


def _row_sums(xp, rows):
    """Sums of the rows of a contiguous float matrix: `einsum` has the fastest loop for rows, but adds naively."""
    n, k = rows.shape
    if k <= 2 * _ROW:
        return xp.einsum("ij->i", rows)
    if n == 1 and k % _ROW:
        cut = k - k % _ROW
        return _row_sums(xp, rows[:, :cut]) + rows[:, cut:].sum(axis=1)
    if k % _ROW:
        return rows.sum(axis=1)
    return xp.einsum("ij->i", rows.reshape(-1, _ROW)).reshape(n, -1).sum(axis=1)


def total(xp, input, dim=None, keepdim=False):
    """Sum of a raw array over `dim` (None, an int or a tuple), accurate and fast along every dimension."""
    if input.dtype.itemsize < 4 and input.dtype.kind in "fV":  # a gradient's: the public function widens beforehand
        return total(xp, input.astype("float32"), dim, keepdim).astype(input.dtype)
    if input.size < _LARGE or not is_single_or_double(input.dtype) or not input.flags.c_contiguous:
        return reduced(input, "sum", dim, keepdim)
    ndim, shape = input.ndim, input.shape
    dims = range(ndim) if dim is None or dim == () else dim if dim.__class__ is tuple else (dim,)
    split = ndim
    while split and split - 1 in dims:
        split -= 1
    if split == ndim:
        return reduced(input, "sum", dim, keepdim)
    rows = input.reshape(math.prod(shape[:split]), math.prod(shape[split:]))
    result = _row_sums(xp, rows).reshape(shape[:split])
    rest = tuple(sorted(d for d in dims if d < split))
    result = reduced(result, "sum", rest) if rest else result
    return result.reshape([1 if d in dims else shape[d] for d in range(ndim)]) if keepdim else result


def cast(result, dtype):
    """The result in the dtype asked for: array libraries widen small integers and bool on their own."""
    return result if dtype is None or result.dtype == dtype else result.astype(dtype)


def count_of(shape, dim):
    """Number of elements of `shape` that a reduction over `dim` joins into one."""
    if dim is None or dim == () or not len(shape):
        return math.prod(shape)
    return math.prod([shape[d] for d in dim]) if isinstance(dim, (tuple, list)) else shape[dim]


# ---------------------------------------------------------------- sums and means


@reduction(
    promote="int64", autocast={"cuda": "set_dtype"}, node={"SumBackward1": "dim is not None"}, keeps_given=True
)  # fmt: skip
def sum_(xp, input, dim=None, keepdim=False, *, dtype=None):
    """Sum of all elements, or along `dim`.

    Args:
        input: any tensor; integers and bool are added up as int64.
        dim: int or tuple of ints; None for all.
        keepdim: keep the reduced dimensions with size 1.
        dtype: the input is converted to it first.

    >>> import plugrad as torch
    >>> torch.sum(torch.tensor([[1, 2], [3, 4]]), dim=0)
    tensor([4, 6])
    """
    return cast(total(xp, input, dim, keepdim), dtype)


@sum_.kernel("cpu")
@native("sums", otherwise=sum_)
def sum_in_c(call, xp, input, dim=None, keepdim=False, *, dtype=None):
    return NotImplemented if dtype is not None else summed_in_c(call, xp, input, dim, keepdim, 1)


def summed_in_c(call, xp, input, dim, keepdim, scale, roots=False):
    """Sum over neighbouring dimensions, divided by `scale`; NotImplemented for what is not served.

    With `roots` the square roots of the sums of squares.

    With the function `extremes` the largest elements, and where `scale` is true the smallest; with `products` products.
    """
    ndim = input.ndim
    if dim.__class__ is int:
        first, last = dim, dim + 1
    elif dim is None or not dim:
        first, last = 0, ndim
    else:
        first, last = min(dim), max(dim) + 1
        if last - first != len(dim):
            return NotImplemented if roots else _in_runs(call, xp, input, sorted(dim), keepdim, scale)
    shape = input.shape
    out = xp.empty(shape[:first] + (1,) * (keepdim and last - first) + shape[last:], input.dtype)
    return out if call(input, out, first, last, scale, roots) is None else NotImplemented


def _in_runs(call, xp, input, dims, keepdim, scale):
    """The same over dimensions that are not neighbours: run after run of them, the last first."""
    shape, first = input.shape, len(dims) - 1
    while first and dims[first - 1] + 1 == dims[first]:
        first -= 1
    if not input.size:
        return NotImplemented
    here = scale if not first or scale.__class__ is bool else 1  # a mean divides once
    input = summed_in_c(call, xp, input, tuple(dims[first:]), True, here)
    if first and input is not NotImplemented:
        input = summed_in_c(call, xp, input, tuple(dims[:first]), True, scale)
    if keepdim or input is NotImplemented:
        return input
    return input.reshape([n for dim, n in enumerate(shape) if dim not in dims])


@sum_.kernel("cuda")
@native(cuda.rows, otherwise=sum_, halves=True)
def sum_on_cuda(call, xp, input, dim=None, keepdim=False, *, dtype=None):
    return NotImplemented if dtype is not None else cuda.summed(xp, input, dim, keepdim)


multilinear(sum_, "input")


@sum_.vjp
def sum_vjp(F, g, input_shape, dim, keepdim):
    return F.expand(keep_dims(F, g, input_shape, dim, keepdim), input_shape)


def _nansum_dtypes(dtype, asked):
    if dtype.is_complex:
        raise RuntimeError(_NANSUM_COMPLEX)
    if asked.is_complex and dtype.is_floating_point:
        raise NotImplementedError(f"\"nansum\" not implemented for '{asked._label}': write nansum(input).to(dtype)")


_NANSUM_COMPLEX = "nansum does not support complex inputs: write input.nan_to_num(0).sum()"


@reduction(promote="int64", meet=_nansum_dtypes)
def nansum(xp, input, dim=None, keepdim=False, *, dtype=None):
    """Sum of the elements that are not NaN.

    >>> import plugrad as torch
    >>> torch.nansum(torch.tensor([1., float("nan"), 2.]))
    tensor(3.)
    """
    if input.dtype.kind == "c" and dtype is None:
        raise RuntimeError(_NANSUM_COMPLEX)
    return cast(total(xp, xp.where(input == input, input, input.dtype.type(0)), dim, keepdim), dtype)


@nansum.vjp
def nansum_vjp(F, g, input, dim, keepdim):
    return F.where(input == input, F.expand(keep_dims(F, g, input.shape, dim, keepdim), input.shape), 0.0)


@reduction(node={"MeanBackward1": "dim is not None"}, keeps_given=True)
def mean(xp, input, dim=None, keepdim=False, *, dtype=None):
    """Arithmetic mean of all elements, or along `dim`.

    Arguments as for `sum`. Raises `RuntimeError` for integers: convert them, or give `dtype`.

    >>> import plugrad as torch
    >>> torch.mean(torch.tensor([[1., 2.], [3., 5.]]), 1)
    tensor([1.5000, 4.0000])
    """
    if is_integral(input.dtype):
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {dtype_word(input.dtype)}; write input.float().mean() or give dtype="
        )
    return total(xp, input, dim, keepdim) / input.dtype.type(count_of(input.shape, dim))


@mean.kernel("cpu")
@native("sums", otherwise=mean)
def mean_in_c(call, xp, input, dim=None, keepdim=False, *, dtype=None):
    if dtype is not None:
        return NotImplemented
    return summed_in_c(call, xp, input, dim, keepdim, count_of(input.shape, dim))


@mean.kernel("cuda")
@native(cuda.rows, otherwise=mean, halves=True)
def mean_on_cuda(call, xp, input, dim=None, keepdim=False, *, dtype=None):
    count = count_of(input.shape, dim)
    return NotImplemented if dtype is not None else cuda.summed(xp, input, dim, keepdim, count)


multilinear(mean, "input")


@mean.vjp
def mean_vjp(F, g, input_shape, dim, keepdim):
    g = keep_dims(F, g, input_shape, dim, keepdim) / max(count_of(input_shape, dim), 1)
    return F.expand(g, input_shape)


@composite()
def nanmean(F, input, dim=None, keepdim=False, *, dtype=None):
    """Mean of the elements that are not NaN; NaN where there is none.

    >>> import plugrad as torch
    >>> torch.nanmean(torch.tensor([1., float("nan"), 2.]))
    tensor(1.5000)
    """
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{input.dtype}; write input.float()"
        )
    if dtype is not None and not isinstance(dtype, type) and is_integral(dtype.numpy) or dtype in (int, bool):
        raise RuntimeError(
            "nanmean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. "
            f"Got: {dtype}"
        )
    return F.nansum(input, dim, keepdim, dtype=dtype) / F.sum(input == input, dim, keepdim)


@nanmean.samples
def nanmean_samples(make):
    yield make(3, 4)
    yield make.args(make(3, 4), 1, keepdim=True)


# ---------------------------------------------------------------- products


@reduction(
    promote="int64", kinds={"dim": "int?"}, autocast={"cpu": "float32", "cuda": "set_dtype"},
    node={"ProdBackward1": "dim is not None"}, keeps_given=True,
)  # fmt: skip
def prod(xp, input, dim=None, keepdim=False, *, dtype=None):
    """Product of all elements, or along `dim` (an int).

    Integers and bool are multiplied as int64. The gradient is right where elements are zero.

    >>> import plugrad as torch
    >>> torch.prod(torch.tensor([[1, 2], [3, 4]]), 1)
    tensor([ 2, 12])
    """
    if isinstance(dim, tuple):
        raise TypeError("prod(): argument 'dim' must be int, not tuple; call it once for each dimension")
    return cast(input.prod(axis=dim, keepdims=keepdim), dtype)


@prod.kernel("cpu")
@native("products", otherwise=prod)
def prod_in_c(call, xp, input, dim=None, keepdim=False, *, dtype=None):
    if dtype is not None or isinstance(dim, tuple):
        return NotImplemented
    return summed_in_c(call, xp, input, dim, keepdim, 1)


@prod.vjp
def prod_vjp(F, g, input, y, dim, keepdim):
    shape = input.shape
    if not len(shape):
        return g
    # Where this is differentiated itself, a quotient by what is next to zero has no digits left.
    if not isinstance(input, plugrad.Tensor) and F.all(input != 0):
        g, y = keep_dims(F, g, shape, dim, keepdim), keep_dims(F, y, shape, dim, keepdim)
        return g * F.conjugated(y / input)
    # Multiply what stands before and after each element.
    if dim is None:
        input, dim = F.reshape(input, (-1,)), 0
        g = F.reshape(g, (1,))
    else:
        g = keep_dims(F, g, shape, dim, keepdim)
    left = F.cumprod(shift(F, input, dim, 1.0), dim)
    right = F.flip(F.cumprod(shift(F, F.flip(input, (dim,)), dim, 1.0), dim), (dim,))
    return F.reshape(g * F.conjugated(left * right), shape)


@prod.samples
def prod_samples(make):
    yield make(3, 4)
    yield make.args(make(3, 4), 1)
    yield make.args(make(3, 4), 0, True)


def shift(F, input, dim, fill):
    """`input` moved by one along `dim`, away from the start, where `fill` comes in."""
    before = (slice(None),) * (dim % input.ndim)
    first = F.full_like(input[(*before, slice(0, 1))], fill)
    return F.cat([first, input[(*before, slice(0, -1))]], dim)


# ---------------------------------------------------------------- log of a sum of exponentials


@reduction(promote="float", aliases=("special.logsumexp",), ref="scipy.special.logsumexp", autocast={"cuda": "float32"})
def logsumexp(xp, input, dim, keepdim=False):
    """Logarithm of the sum of exponentials along `dim`, without overflow.

    >>> import plugrad as torch
    >>> torch.logsumexp(torch.tensor([1000., 1000.]), 0)
    tensor(1000.6932)
    """
    axis = None if dim == () else dim
    if 0 in input.shape:
        return xp.log(total(xp, xp.exp(input), axis, keepdim))
    high = input.real.max(axis=axis, keepdims=True)
    high = xp.where(xp.isfinite(high), high, high.dtype.type(0))
    result = xp.log(total(xp, xp.exp(input - high), axis, True)) + high
    return result if keepdim else result.squeeze(axis)


@logsumexp.kernel("cpu")
@native("logsumexp", otherwise=logsumexp)
def logsumexp_in_c(call, xp, input, dim, keepdim=False):
    last = input.ndim - 1
    if dim != last and dim != (last,):
        return NotImplemented
    out = xp.empty(input.shape[:-1] + (1,) * keepdim, input.dtype)
    return out if call(input, out) is None else NotImplemented


@logsumexp.vjp
def logsumexp_vjp(F, g, y, input, dim, keepdim):
    g, y = keep_dims(F, g, input.shape, dim, keepdim), keep_dims(F, y, input.shape, dim, keepdim)
    return g * F.conjugated(F.exp(input - y))


@logsumexp.samples
def logsumexp_samples(make):
    yield make.args(make(3, 4), 0)
    yield make.args(make(3, 4), (0, 1), True)
    yield make.args(make(3, 4, low=-800, high=800), 1)


# ---------------------------------------------------------------- counting


def _logical(test, input, dim, keepdim):
    """PyTorch answers uint8 for uint8, bool for everything else, and reduces nothing for `dim=()`."""
    result = input != 0 if dim == () else test(axis=dim, keepdims=keepdim)
    return result.astype(input.dtype) if input.dtype.char == "B" else result


@reduction(promote="bool", eight_bits=True)
def all_(xp, input, dim=None, keepdim=False):
    """Whether all elements, or all along `dim`, are true (not zero).

    >>> import plugrad as torch
    >>> torch.all(torch.tensor([[True, False], [True, True]]), 0)
    tensor([ True, False])
    """
    return _logical(input.all, input, dim, keepdim)


@reduction(promote="bool", eight_bits=True)
def any_(xp, input, dim=None, keepdim=False):
    """Whether any element, or any along `dim`, is true (not zero).

    >>> import plugrad as torch
    >>> torch.any(torch.tensor([0., 2.]))
    tensor(True)
    """
    return _logical(input.any, input, dim, keepdim)


@reduction(promote="index", vjp=None, variadic="dim")
def count_nonzero(xp, input, dim=None):
    """Number of elements, of all or along `dim`, that are not zero.

    >>> import plugrad as torch
    >>> torch.count_nonzero(torch.tensor([[0, 2], [3, 4]]), dim=0)
    tensor([1, 2])
    """
    return (input != 0).sum(axis=None if dim == () else dim, dtype="int64")


@composite(autocast={"cpu": "float32"})
def trace(F, input):
    """Sum of the diagonal of a matrix.

    Raises `RuntimeError` unless `input` has two dimensions.

    >>> import plugrad as torch
    >>> torch.trace(torch.tensor([[1., 2.], [3., 4.]]))
    tensor(5.)
    """
    if "bool" in str(input.dtype):
        raise NotImplementedError("\"trace\" not implemented for 'Bool': write input.int()")
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return F.sum(F.diagonal(input))


@trace.samples
def trace_samples(make):
    yield make(3, 4)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
