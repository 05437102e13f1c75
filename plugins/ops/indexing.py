"""Reading and writing by index: `x[...]`, `x[...] = value` and index_put."""

from __future__ import annotations

from contextlib import suppress

import numpy

import plugrad
from plugrad.extend import (
    Op,
    collect,
    composite,
    hookimpl,
    is_basic_index,
    native,
    native_function,
    op,
    tidy_index,
    view,
)

from . import _in_order_on_cuda as ordered
from . import _index as ix
from . import _places_on_cuda as cuda
from ._checks import converted, fitted, is_for_c
from ._index import ENDS, is_plain


@composite(at=())
def getitem(F, input, index):
    """`input[index]`: a view for ints, slices, None and Ellipsis; else a copy."""
    cls = index.__class__
    if cls is int or cls is slice and index.step is None and {index.start.__class__, index.stop.__class__} <= ENDS:
        return F.basic_index(input, index)
    if cls is tuple and is_plain(index):
        return F.basic_index(input, index)
    if cls is plugrad.Tensor and index.ndim and index.dtype in (plugrad.int64, plugrad.bool):
        return F.index_by(input, index)
    index = tidy_index(index)
    return F.basic_index(input, index) if is_basic_index(index) else F.advanced_index(input, index)


@getitem.samples
def getitem_samples(make):
    yield make(3, 4), (make.ints(2, 2, low=-3, high=3),)
    yield make(3, 4), (slice(1, None), make.ints(3, low=0, high=4))
    yield make(3, 4), (make.bool(3, 4),)
    yield make(3, 4, 2), (make.ints(2, low=0, high=3), slice(None), make.ints(2, low=0, high=2))
    yield make(3, 4, 2), (0, make.bool(4), None)


def _basic_node(input, index):
    """PyTorch's name for the node: that of the last step, a pick or a slice."""
    if index.__class__ is int:
        return "SelectBackward0"
    if index.__class__ is slice:
        return "SliceBackward0"
    for item in reversed(index):
        if item is not Ellipsis and item != _ALL:
            step = "Unsqueeze" if item is None else "Slice" if isinstance(item, slice) else "Select"
            return f"{step}Backward0"
    return "SliceBackward0"


_ALL = slice(None)


@view(at=(), node=_basic_node)
def basic_index(xp, input, index):
    """The view that ints, slices, None and Ellipsis select."""
    try:
        if index.__class__ is int:
            return input[index, ...]
        if index.__class__ is slice:
            return input[index]
        if Ellipsis in index:
            if index.count(Ellipsis) > 1:
                index = ix.two_steps(xp, input.shape, index)[0]
            return input[index]
        return input[(*index, Ellipsis)]  # the Ellipsis makes NumPy return a view where it would return a number
    except (IndexError, OverflowError) as error:
        raise ix.reworded(error, input.shape) from None


@basic_index.vjp
def basic_index_vjp(F, g, input_shape, index):
    index = index if isinstance(index, tuple) else (index,)
    kept = [i for n, i in enumerate(index) if i is not Ellipsis or Ellipsis not in index[:n]]
    return F.put_in_zeros(g, input_shape, tuple(kept))


@basic_index.samples
def basic_index_samples(make):
    yield make.args(make(3, 4), 1)
    yield make.args(make(3, 4), (slice(None), -1))
    yield make.args(make(3, 4), (Ellipsis, slice(0, 4, 2), None))


@basic_index.errors
def basic_index_errors(make):
    yield IndexError, "index 3 is out of bounds for dimension 0 with size 3", make.args(make(3), 3)
    yield IndexError, "too many indices for tensor of dimension 1", make.args(make(3), (0, 0))


@op(at=(), node="IndexBackward0", eight_bits=True)
def advanced_index(xp, input, index):
    """The copy that an index with arrays or masks selects."""
    try:
        basic, arrays = ix.two_steps(xp, input.shape, index)
        region = input[basic]
        ix.check_arrays(xp, region.shape, arrays)
        return xp.asarray(region[arrays], order="C")  # NumPy leaves the indexed dimensions in front
    except (IndexError, OverflowError) as error:
        raise ix.reworded(error, input.shape, by_tensors=True) from None


@advanced_index.meta
def advanced_index_meta(input, index):
    return ix.indexed_shape(tuple(input.shape), index), input.dtype


@advanced_index.vjp
def advanced_index_vjp(F, g, input_shape, index):
    return F.add_at(g, input_shape, index)


advanced_index.samples(getitem_samples)


@op(at=(), node="IndexBackward0", eight_bits=True)
def index_by(xp, input, index):
    """What one index array or mask selects: the short way of `advanced_index`."""
    if index.dtype.char == "l" and input.ndim and input.size:
        if xp.__name__ != "numpy":
            ix.check_arrays(xp, input.shape, (index,))
        try:
            return input.take(index, 0)
        except (IndexError, OverflowError) as error:
            raise ix.reworded(error, input.shape) from None
    if index.dtype.kind == "b" and index.ndim and input.shape[: index.ndim] == index.shape:
        return input[index]
    return advanced_index.kernels["*"](xp, input, (index,))


@index_by.kernel("cuda")
@native(cuda.take, otherwise=index_by)
def index_by_on_cuda(call, xp, input, index):
    if not input.ndim:
        return NotImplemented
    return cuda.taken(xp, input, index, 0, ix.range_error(len(input), IndexError), cuda.WRAPPING)


@index_by.meta
def index_by_meta(input, index):
    return advanced_index_meta(input, (index,))


@index_by.vjp
def index_by_vjp(F, g, input_shape, index):
    return F.add_at(g, input_shape, (index,))


@index_by.samples
def index_by_samples(make):
    yield make(3, 4), make.ints(2, 2, low=-3, high=3)
    yield make(3, 4), make.bool(3)


@op(at=())
def add_at(xp, input, shape, index):
    """Zeros of `shape` plus `input` at an index: `advanced_index`'s gradient."""
    out = xp.zeros(shape, input.dtype)
    accumulate(xp, out, index, input)
    return out


@add_at.kernel("cpu")
@native("add_slices", otherwise=add_at)
def add_at_in_c(call, xp, input, shape, index):
    rows = index[0]
    if len(index) != 1 or getattr(rows, "ndim", 0) < 1 or input.shape != (*rows.shape, *shape[1:]):
        return NotImplemented
    out = xp.zeros(shape, input.dtype)
    done = call(out, rows.reshape(-1), xp.ascontiguousarray(input).reshape(rows.size, *shape[1:]), 0, -1, True)
    return out if done is None else NotImplemented


@add_at.kernel("cuda")
@native(cuda.put_sums, otherwise=add_at)
def add_at_on_cuda(call, xp, input, shape, index):
    rows = index[0]
    if len(index) != 1 or getattr(rows, "ndim", 0) < 1 or input.shape != (*rows.shape, *shape[1:]):
        return NotImplemented
    error = ix.range_error(shape[0], IndexError)
    return cuda.added(xp, xp.zeros(shape, input.dtype), rows, input, 0, error, cuda.WRAPPING)


@add_at.meta
def add_at_meta(input, shape, index):
    return tuple(shape), input.dtype


@add_at.vjp
def add_at_vjp(F, g, index):
    return F.getitem(g, index)


@add_at.samples
def add_at_samples(make):
    yield make(5, 4), (3, 4), (make.ints(5, low=-3, high=3),)
    yield make(3, 2), (3, 4), (slice(None), make.ints(2, low=0, high=4))


def accumulate(xp, out, index, values):
    """`out[index] += values` where an element may be named more than once; `out` is C-contiguous."""
    basic, arrays = ix.two_steps(xp, out.shape, index)
    region = out[basic]
    if len(arrays) == 1 and arrays[0].dtype.kind == "b":
        region[arrays] += values
    elif len(arrays) == 1 and region.flags.c_contiguous and region.ndim:
        n, rows = region.shape[0], ix.index_array(xp, arrays[0])
        ix.check_range(xp, rows, n, IndexError, low=-n)
        values = xp.broadcast_to(values, rows.shape + region.shape[1:])
        if values.size:
            ix.add_slices(xp, region.reshape(1, n, -1), rows.ravel() % n, values)
    else:
        ix.check_arrays(xp, region.shape, arrays)
        places = xp.asarray(xp.arange(out.size).reshape(out.shape)[basic][arrays])
        if values.ndim > places.ndim:
            raise RuntimeError(
                f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of "
                f"shape {list(places.shape)}"
            )
        ix.combine_at(xp, xp.add, out.reshape(-1), places.ravel(), xp.broadcast_to(values, places.shape).ravel())


_fill_in_c = native_function("choose", lambda *call: NotImplemented, over=True)


def _put(xp, out, index, value):
    """`out[index] = value`; where a mask says what is to be one number, without counting that, for which CuPy waits."""
    if xp is numpy and index.__class__ is numpy.ndarray is out.__class__ and index.shape == out.shape:
        in_c = index.dtype.char == "?" and is_for_c(value)
        if in_c and _fill_in_c(out, index, True, True, value) is not NotImplemented:
            return
    if xp.__name__ != "numpy" and getattr(getattr(index, "dtype", None), "char", "") == "?":
        number = type(value) in (bool, int, float) or getattr(value, "shape", 0) == () and value.dtype == out.dtype
        if number and index.shape == out.shape[: index.ndim]:
            value = bool(value) if out.dtype.char == "?" and not hasattr(value, "dtype") else value
            xp.copyto(out, value, where=index.reshape(index.shape + (1,) * (out.ndim - index.ndim)))
            return
    if xp.__name__ != "numpy" and getattr(value, "ndim", 0):  # CuPy takes any value where an index has no elements
        index = _places(xp, index)
        if any(hasattr(part, "size") and not (part.size and part.ndim) for part in index):
            shape = out[index].shape
            extra = max(value.ndim - len(shape), 0)
            xp.broadcast_to(value.reshape(value.shape[extra:]) if value.shape[:extra] == (1,) * extra else value, shape)
    if xp is not numpy and (isinstance(index, tuple) or hasattr(index, "dtype")):
        ordered.put(xp, out, index, value)
    else:
        out[index] = value


def _places(xp, index):
    """Return an index as a tuple, with the places where a mask holds instead of it, for which CuPy waits anyway."""
    parts = index if isinstance(index, tuple) else (index,)
    masks = [getattr(getattr(part, "dtype", None), "char", "") == "?" and part.ndim > 0 for part in parts]
    return tuple(one for part, mask in zip(parts, masks) for one in (xp.nonzero(part) if mask else (part,)))


@op(at=(), inplace="items", node="IndexPutBackward0", kinds={"value": "tensor|number"}, eight_bits=True)
def setitem(xp, input, index, value):
    """A copy of `input` with `value` written at an index."""
    out = xp.array(input)
    if not is_plain(index) or write_items(xp, out, index, value) is NotImplemented:
        assign(xp, out, tidy_index(index), value)
    return out


@setitem.meta
def setitem_meta(input, index, value):
    index = tidy_index(index)
    if is_basic_index(index):
        ix.check_expands(getattr(value, "shape", ()), ix.indexed_shape(tuple(input.shape), index))
    return input.shape, input.dtype


def _filling(value, dtype):
    """Return an array of one element as what fills elements of a dtype; RuntimeError if it is out of its range."""
    return value.reshape(()) if value.dtype == dtype else fitted(dtype, value.reshape(()).item())


def assign(xp, out, index, value):
    """`out[index] = value` with PyTorch's rules for shapes and dtypes."""
    if not hasattr(value, "dtype"):
        value = fitted(out.dtype, value, infinite=True)
    single, region = getattr(value, "size", 1) == 1, None
    try:
        basic, arrays = ix.two_steps(xp, out.shape, index)
        region = out[basic]
        ix.check_arrays(xp, region.shape, arrays)
        tensors = [part for part in arrays or () if hasattr(part, "dtype")]
        fills = single and len(tensors) == 1 and tensors[0].dtype.kind == "b"  # whatever else the index has
        if arrays and not fills and getattr(value, "dtype", out.dtype) != out.dtype:
            if max(value.shape, default=1) > 1 or not value.size:
                with suppress(IndexError):
                    xp.broadcast_to(value, region[arrays].shape)  # a wrong shape is said first
            raise RuntimeError(
                f"Index put requires the source and destination dtypes match, got {out.dtype} for the "
                f"destination and {value.dtype} for the source."
            )
        if hasattr(value, "dtype"):
            value = _filling(value, out.dtype) if fills else converted(xp, value, out.dtype)
        _put(xp, region, (arrays[0] if len(arrays) == 1 else arrays) if arrays else ..., value)
    except (IndexError, OverflowError) as error:
        raise ix.reworded(error, out.shape) from None
    except (ValueError, TypeError):  # NumPy's for a boolean index and values of two dimensions
        if region is None:  # the index itself is wrong
            raise
        if not arrays:
            ix.check_expands(value.shape, region.shape)
        target = region[arrays].shape
        extra = max(getattr(value, "ndim", 0) - len(target), 0)
        if extra and (value.size == 1 or tuple(value.shape) == (1,) * extra + tuple(target)):
            region[arrays] = value.reshape(() if value.size == 1 else target)
            return
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing "
            f"result of shape {list(target)}"
        ) from None


@setitem.writer
def write_items(xp, out, index, value):
    """Write at a plain index, or one array of indices or mask."""
    if not is_plain(index):
        if not isinstance(index, type(out)) or index.dtype.char not in ("l", "?"):
            return NotImplemented
        ix.check_arrays(xp, out.shape, (index,))
        if xp.__name__ == "cupy" and index.dtype.char == "?" and xp.fill_where(out, index, value):
            return None
    if out.dtype.kind != "f" and (type(value) is float or out.dtype.kind == "V"):  # which may not fit
        return NotImplemented
    try:
        _put(xp, out, index, value)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # before anything was written
        return NotImplemented


@setitem.vjp("input")
def setitem_vjp_input(F, g, index):
    return F.setitem(g, index, 0)


@setitem.vjp("value")
def setitem_vjp_value(F, g, index, value_shape):
    return sum_to_value(F, F.getitem(g, index), value_shape)


@setitem.samples
def setitem_samples(make):
    yield make.args(make(3, 4), 1, make(4))
    yield make.args(make(3, 4), (slice(None), slice(1, 3)), make(3, 1))
    yield make.args(make(3, 4), ([2, 0], slice(1, 3)), make(2, 2))


def sum_to_value(F, g, shape):
    """Sum `g` to the shape of what was broadcast into it; that may have more leading ones than `g` has dimensions."""
    extra = max(len(shape) - g.ndim, 0)
    return F.reshape(F.sum_to_size(g, tuple(shape[extra:])), shape)


@op(inplace=True, like="input", kinds={"indices": "indices"}, autocast={"cuda": "promote"}, eight_bits=True)
def index_put(xp, input, indices, values, accumulate=False):
    """A copy of `input` with `values` written (or added) at an index of tensors.

    `indices` is a tuple of int64 or bool tensors as in `input[indices]`; `values` broadcasts to what they select and
    has the dtype of `input`. With `accumulate` values meant for one element are summed.

    >>> import plugrad as torch
    >>> torch.index_put(torch.zeros(3), (torch.tensor([0, 0]),), torch.ones(2), accumulate=True)
    tensor([2., 0., 0.])
    """
    index = tidy_index(tuple(indices))
    masks = [one for one in index if hasattr(one, "dtype") and one.dtype.kind == "b"]
    fills = not accumulate and values.size == 1 and len(masks) == sum(one is not None for one in index) == 1
    if fills:  # as masked_fill() does
        values = xp.asarray(_filling(values, input.dtype), input.dtype).reshape(())
    elif values.dtype != input.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {input.dtype} for the "
            f"destination and {values.dtype} for the source."
        )
    out = xp.array(input, order="C", copy=True)
    if accumulate:
        adding(xp, out, index, values)
    else:
        assign(xp, out, index, values)
    return out


adding = accumulate  # `index_put` has a parameter of that name


@index_put.vjp("input")
def index_put_vjp_input(F, g, indices, accumulate):
    return g if accumulate else F.setitem(g, tuple(indices), 0)


@index_put.vjp("values")
def index_put_vjp_values(F, g, indices, values_shape):
    return sum_to_value(F, F.getitem(g, tuple(indices)), values_shape)


@index_put.samples
def index_put_samples(make):
    yield make(3, 4), (make.ints(5, low=0, high=3),), make(5, 4), True
    yield make(3, 4), (make.bool(3),), make(4)


advanced_index.gathers = index_by.gathers = {"index": "cpu"}
setitem.gathers = {"index": "cpu", "value": "number"}
index_put.gathers = {"indices": "cpu", "values": "number"}


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
