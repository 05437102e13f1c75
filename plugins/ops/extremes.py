"""Largest and smallest elements, and where they are."""

from __future__ import annotations

import pathlib
from operator import index

from plugrad.extend import (
    LEFT_OUT,
    Op,
    axes,
    collect,
    composite,
    hookimpl,
    keep_dims,
    load_inline,
    native,
    op,
    reduction,
)

from ._checks import COMPLEX, refuse, refuse_empty
from .reduction import reduced, summed_in_c

_of_row = load_inline(
    cuda=pathlib.Path(__file__).with_suffix(".cu"), name="extreme_of_row", arrays=3, numbers=1, per="rows",
    indices=(2,), types=("float32", "float64", "int32", "int64"),
)  # fmt: skip
_LONG = 1 << 17  # elements of a row for which a block of CUDA is enough


def one_dim(name, dim) -> None:
    """Raise TypeError when `dim` is not a single int."""
    if isinstance(dim, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'dim' must be int, not {type(dim).__name__}; "
            "torch.amax and torch.amin take several dimensions"
        )


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
    refuse_empty("amax", input, dim)
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
    refuse_empty("amin", input, dim)
    return extreme(xp, input, "min", dim, keepdim)


def extremes_in_c(op, is_min):
    """Give `amax` or `amin` its kernel in C."""

    @op.kernel("cpu")
    @native("extremes", otherwise=op)
    def in_c(call, xp, input, dim=None, keepdim=False):
        return summed_in_c(call, xp, input, dim, keepdim, is_min) if input.size else NotImplemented


extremes_in_c(amax, False)
extremes_in_c(amin, True)


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
    refuse_empty("aminmax", input, dim)
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
    refuse_empty(name, input, dim, IndexError)
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


@put_one.kernel("cpu")
@native("scatter_add", otherwise=put_one)
def put_one_in_c(call, xp, input, index, dim, size):
    if not index.size or input.dtype.kind != "f":
        return NotImplemented
    dim = axes(dim, input.ndim)
    out = xp.zeros(input.shape[:dim] + (size,) + input.shape[dim + 1 :], input.dtype)
    done = call(out, xp.ascontiguousarray(index), xp.ascontiguousarray(input), dim)
    return out if done is None else NotImplemented


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
    refuse_empty(method, input, dim)
    direct = input.strides[dim] == input.itemsize or xp.__name__ != "numpy"  # whose values nobody should wait for
    if direct:
        places = (xp.argmax if method == "max" else xp.argmin)(input, axis=dim, keepdims=True)
    else:  # a search of bytes, for which less is moved
        values = extreme(xp, input, method, dim, True)
        extremal = input == values
        if input.dtype.kind == "f" and bool((values != values).any()):
            extremal = extremal | (input != input)
        places = xp.argmax(extremal, axis=dim, keepdims=True)
    if input.ndim and input.flags.c_contiguous and axes(dim, input.ndim) == input.ndim - 1:
        starts = xp.arange(0, input.size, input.shape[-1]).reshape(places.shape)
        values = input.reshape(-1)[starts + places]
    elif direct or input.dtype.kind == "f" and not values.all():  # of zeros that one
        values = xp.take_along_axis(input, places, dim)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


@reduction(at=(), returns="values indices")
def max_(xp, input, dim, keepdim=False):
    """Largest elements along `dim`, and the indices of the first of them."""
    return _with_places(xp, input, "max", dim, keepdim)


@reduction(at=(), returns="values indices")
def min_(xp, input, dim, keepdim=False):
    """Smallest elements along `dim`, and the indices of the first of them."""
    return _with_places(xp, input, "min", dim, keepdim)


def extremes_in_c(op, least):
    """Give `max` or `min` along a dimension its kernel in C."""

    @op.kernel("cpu")
    @native("extreme_places", otherwise=op)
    def in_c(call, xp, input, dim, keepdim=False):
        shape = input.shape
        if dim.__class__ is not int or not input.size:
            return NotImplemented
        dim = axes(dim, input.ndim)
        shape = shape[:dim] + (1,) * keepdim + shape[dim + 1 :]
        values, places = xp.empty(shape, input.dtype), xp.empty(shape, "int64")
        return (values, places) if call(input, values, places, dim, dim + 1, least) is None else NotImplemented


extremes_in_c(max_, False)
extremes_in_c(min_, True)


def extremes_of_rows_on_cuda(op, least):
    """Give `max` or `min` along the last dimension its kernel for CUDA."""

    @op.kernel("cuda")
    @native(_of_row, otherwise=op)
    def on_cuda(call, xp, input, dim, keepdim=False):
        shape = input.shape
        if dim.__class__ is not int or dim != input.ndim - 1 or not 0 < shape[dim] <= _LONG or not input.size:
            return NotImplemented
        shape = shape[:dim] + (1,) * keepdim
        values, places = xp.empty(shape, input.dtype), xp.empty(shape, "int64")
        return (values, places) if call(input, values, places, least) is None else NotImplemented


extremes_of_rows_on_cuda(max_, False)
extremes_of_rows_on_cuda(min_, True)


@reduction(at=(), node="MaxBackward1")
def max_all(xp, input):
    """Largest of all elements."""
    refuse(COMPLEX, "max_all", input)
    refuse_empty("max", input, None)
    return input.max()


@reduction(at=(), node="MinBackward1")
def min_all(xp, input):
    """Smallest of all elements."""
    refuse(COMPLEX, "min_all", input)
    refuse_empty("min", input, None)
    return input.min()


def whole_vjp(F, g, y, input):
    """Gradient of one element picked from all: shared by all equal ones; NaN counts as equal to NaN."""
    if not len(input.shape):
        return g
    ties = (input == y) | ((input != input) & (y != y))
    share = g / F.sum(F.where(ties, F.ones_like(input), 0.0))
    return F.where(ties, F.reshape(share, (1,) * len(input.shape)), 0.0)  # a NaN stays where it belongs


def extreme_of_all_in_c(op, is_min):
    """Give `max` or `min` of all elements its kernel in C."""

    @op.kernel("cpu")
    @native("extremes", otherwise=op)
    def in_c(call, xp, input):
        result = xp.empty((), input.dtype)
        return result if input.size and call(input, result, 0, input.ndim, is_min) is None else NotImplemented


extreme_of_all_in_c(max_all, False)
extreme_of_all_in_c(min_all, True)

for _op in (max_, min_):
    _op.vjp(chosen_vjp)
    _op.samples(along_samples)
for _op in (max_all, min_all):
    _op.vjp(whole_vjp)


def overloaded(whole, along, pair, name, input, dim, keepdim, other, out):
    """Send `max(x)`, `max(x, 1)` and `max(x, y)` to their ops."""
    more = {} if out is None else {"out": out}
    given, keepdim = keepdim is not LEFT_OUT, keepdim is True
    if hasattr(dim, "requires_grad") and (given or pair is None):  # a tensor without dimensions stands for an int
        dim = index(dim)
    other = dim if other is None and hasattr(dim, "requires_grad") else other
    if given and (dim is LEFT_OUT or other is not None):
        raise TypeError(f"{name}() received an invalid combination of arguments: keepdim needs an int for dim")
    if other is not None:
        return pair(input, other, **more)
    if dim is LEFT_OUT:
        return whole(input, **more)
    one_dim(name, dim)
    return along(input, dim, keepdim, **more)


OVERLOADED = {"dim": "tensor|int...", "keepdim": "bool...", "other": "tensor?", "out": "any"}


@composite(name="max_of", at=("max", "Tensor.max"), kinds=OVERLOADED)
def max_of(F, input, dim=LEFT_OUT, keepdim=LEFT_OUT, *, other=None, out=None):
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
    if dim is LEFT_OUT and other is out is None and keepdim is LEFT_OUT:
        return F.max_all(input)
    return overloaded(F.max_all, F.max, F.maximum, "max", input, dim, keepdim, other, out)


@composite(name="min_of", at=("min", "Tensor.min"), kinds=OVERLOADED)
def min_of(F, input, dim=LEFT_OUT, keepdim=LEFT_OUT, *, other=None, out=None):
    """Smallest element of all, along `dim` with indices, or of pairs.

    Arguments as for `max`.

    >>> import plugrad as torch
    >>> torch.min(torch.tensor([3., 1., 2.]), 0).indices
    tensor(1)
    """
    if dim is LEFT_OUT and other is out is None and keepdim is LEFT_OUT:
        return F.min_all(input)
    return overloaded(F.min_all, F.min, F.minimum, "min", input, dim, keepdim, other, out)


@max_of.samples
@min_of.samples
def overloaded_samples(make):
    yield make(3, 4)
    yield make.args(make(3, 4), 1, keepdim=True)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
