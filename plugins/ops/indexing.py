"""Reading and writing by index: `x[...]`, and the ops that pick or write whole slices and masked elements."""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import Op, axes, collect, composite, hookimpl, is_basic_index, op, tidy_index, view

from . import _index as ix
from ._checks import element, fitted


@composite(at=())
def getitem(F, input, index):
    """`input[index]`: a view for ints, slices, None and Ellipsis; else a copy."""
    if index.__class__ is int or ix.is_plain(index):
        return F.basic_index(input, index)
    if index.__class__ is plugrad.Tensor and index.ndim and index.dtype in (plugrad.int64, plugrad.bool):
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
    except IndexError as error:
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


@op(at=(), node="IndexBackward0")
def advanced_index(xp, input, index):
    """The copy that an index with arrays or masks selects."""
    try:
        basic, arrays = ix.two_steps(xp, input.shape, index)
        return xp.asarray(input[basic][arrays], order="C")  # NumPy leaves the indexed dimensions in front
    except IndexError as error:
        raise ix.reworded(error, input.shape) from None


@advanced_index.meta
def advanced_index_meta(input, index):
    return ix.indexed_shape(tuple(input.shape), index), input.dtype


@advanced_index.vjp
def advanced_index_vjp(F, g, input_shape, index):
    return F.add_at(g, input_shape, index)


advanced_index.samples(getitem_samples)


@op(at=(), node="IndexBackward0")
def index_by(xp, input, index):
    """What one index array or mask selects: the short way of `advanced_index`."""
    if index.dtype.char == "l" and input.ndim and input.size:
        try:
            return input.take(index, 0)
        except IndexError as error:
            raise ix.reworded(error, input.shape) from None
    if index.dtype.kind == "b" and index.ndim and input.shape[: index.ndim] == index.shape:
        return input[index]
    return advanced_index.kernels["*"](xp, input, (index,))


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
        places = xp.arange(out.size).reshape(out.shape)[basic][arrays]
        ix.combine_at(xp, xp.add, out.reshape(-1), places.ravel(), xp.broadcast_to(values, places.shape).ravel())


@op(at=(), inplace="items", node="IndexPutBackward0", kinds={"value": "tensor|number"})
def setitem(xp, input, index, value):
    """A copy of `input` with `value` written at an index."""
    out = xp.array(input)
    if not ix.is_plain(index) or write_items(xp, out, index, value) is NotImplemented:
        assign(xp, out, tidy_index(index), value)
    return out


@setitem.meta
def setitem_meta(input, index, value):
    index = tidy_index(index)
    if is_basic_index(index):
        ix.check_expands(getattr(value, "shape", ()), ix.indexed_shape(tuple(input.shape), index))
    return input.shape, input.dtype


def assign(xp, out, index, value):
    """`out[index] = value` with PyTorch's rules for shapes and dtypes."""
    if not hasattr(value, "dtype"):
        value = fitted(out.dtype, value, infinite=True)
    single, region = getattr(value, "size", 1) == 1, None
    try:
        basic, arrays = ix.two_steps(xp, out.shape, index)
        region = out[basic]
        tensors = [part for part in arrays or () if hasattr(part, "dtype")]
        fills = single and len(tensors) == 1 and tensors[0].dtype.kind == "b"  # whatever else the index has
        if arrays and not fills and getattr(value, "dtype", out.dtype) != out.dtype:
            raise RuntimeError(
                f"Index put requires the source and destination dtypes match, got {out.dtype} for the "
                f"destination and {value.dtype} for the source."
            )
        region[arrays if arrays else ...] = value
    except IndexError as error:
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
    if not ix.is_plain(index) and getattr(getattr(index, "dtype", None), "char", "") not in ("l", "?"):
        return NotImplemented
    if type(value) is float and out.dtype.kind != "f":  # which may not fit
        return NotImplemented
    try:
        out[index] = value
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


@op(inplace=True, like="input", kinds={"indices": "indices"}, autocast={"cuda": "promote"})
def index_put(xp, input, indices, values, accumulate=False):
    """A copy of `input` with `values` written (or added) at an index of tensors.

    `indices` is a tuple of int64 or bool tensors as in `input[indices]`; `values` broadcasts to what they select and
    has the dtype of `input`. With `accumulate` values meant for one element are summed.

    >>> import plugrad as torch
    >>> torch.index_put(torch.zeros(3), (torch.tensor([0, 0]),), torch.ones(2), accumulate=True)
    tensor([2., 0., 0.])
    """
    index = tidy_index(tuple(indices))
    if values.dtype != input.dtype:
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


def vector(xp, name, index, error=IndexError):
    """A 1-d int64 index for `index_select` and its like."""
    if index.ndim > 1:
        raise error(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    ix.check_index_dtype(name, index)
    return ix.index_array(xp, index.reshape(-1))


@op()
def index_select(xp, input, dim, index):
    """The slices of `input` along `dim` that the 1-d `index` names.

    >>> import plugrad as torch
    >>> torch.index_select(torch.tensor([5, 6, 7]), 0, torch.tensor([2, 0]))
    tensor([7, 5])
    """
    dim, index = axes(dim, input.ndim), vector(xp, "index_select", index)
    array = input if input.ndim else input.reshape(1)
    if input.ndim == 0 and index.size != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)")
    if index.size:
        low, high = ix.extent(index)
        if low < 0 or high >= array.shape[dim]:
            # PyTorch's class of it depends on the dimension.
            error = RuntimeError if dim and array.shape[dim] else IndexError
            raise error(f"index out of range in self: it must lie in [0, {array.shape[dim] - 1}]")
    out = array.take(index, dim)
    return out if input.ndim else out.reshape(())


@index_select.meta
def index_select_meta(input, dim, index):
    if not input.ndim:
        return (), input.dtype
    dim = axes(dim, input.ndim)
    return (*input.shape[:dim], index.shape[0] if index.ndim else 1, *input.shape[dim + 1 :]), input.dtype


@index_select.vjp
def index_select_vjp(F, g, input_shape, dim, index):
    return F.index_add(F.new_zeros(g, input_shape), dim, index, g)


@index_select.samples
def index_select_samples(make):
    yield make.args(make(4, 3), 0, make.ints(5, low=0, high=4))
    yield make.args(make(4, 3), -1, make.ints(2, low=0, high=3))


def checked_source(name, input, dim, index, source, error=RuntimeError):
    """PyTorch's tests of the slices that go in where `index` says."""
    if source.dtype != input.dtype:
        raise RuntimeError(
            f"{name}_(): self and source expected to have the same dtype (the same scalar type), but got "
            f"(self) {input.dtype} and (source) {source.dtype}"
        )
    count = source.shape[dim] if source.ndim else 1
    if index.size != count:
        raise error(
            f"{name}_(): Number of indices ({index.size}) should be equal to source.size(dim): ({count}), "
            f"for dim: {dim}"
        )
    if source.shape[:dim] + source.shape[dim + 1 :] != input.shape[:dim] + input.shape[dim + 1 :]:
        raise RuntimeError(
            f"{name}_(): source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(input.shape)} source.shape = {list(source.shape)}"
        )


@op(inplace=True, like="input", kinds={"source": "tensor"})
def index_add(xp, input, dim, index, source, *, alpha=1):
    """`input` plus `alpha` times the slices of `source` where `index` says.

    `index` is 1-d and names places along `dim`. Slices meant for one place are summed.

    >>> import plugrad as torch
    >>> torch.index_add(torch.zeros(3), 0, torch.tensor([0, 0]), torch.ones(2))
    tensor([2., 0., 0.])
    """
    dim, index = axes(dim, input.ndim), vector(xp, "index_add", index)
    checked_source("index_add", input, dim, index, source)
    if input.ndim == 0:
        return xp.asarray(input + alpha * source.reshape(()))
    ix.check_range(xp, index, input.shape[dim])
    out = xp.array(input, order="C", copy=True)
    if out.size and index.size:
        before = math.prod(out.shape[:dim])
        slices = source if alpha == 1 else (source * alpha).astype(out.dtype)
        ix.add_slices(xp, out.reshape(before, out.shape[dim], -1), index, slices)
    return out


@index_add.vjp("input")
def index_add_vjp_input(F, g):
    return g


@index_add.vjp("source")
def index_add_vjp_source(F, g, dim, index, alpha, source_shape):
    return F.reshape(F.index_select(g, dim, index), source_shape) * alpha


@index_add.samples
def index_add_samples(make):
    yield make.args(make(4, 3), 0, make.ints(5, low=0, high=4), make(5, 3))
    yield make.args(make(4, 3), 1, make.ints(2, low=0, high=3), make(4, 2), alpha=2)


@op(inplace=True, like="input", any_order=True, kinds={"source": "tensor"}, autocast={"cpu": "promote"})
def index_copy(xp, input, dim, index, source):
    """A copy of `input` with the slices of `source` where `index` says.

    `index` is 1-d and names places along `dim`.

    >>> import plugrad as torch
    >>> torch.index_copy(torch.zeros(3), 0, torch.tensor([2]), torch.ones(1))
    tensor([0., 0., 1.])
    """
    dim = axes(dim, input.ndim)
    ix.check_index_dtype("index_copy_", index, ("int64",))
    index = vector(xp, "index_copy_", index)
    checked_source("index_copy", input, dim, index, source, IndexError)
    if input.ndim == 0:
        return source.reshape(()).copy()
    ix.check_range(xp, index, input.shape[dim], IndexError, dim, "index_copy_(): ")
    out = xp.array(input)
    out[(slice(None),) * dim + (index,)] = source
    return out


@index_copy.vjp("input")
def index_copy_vjp_input(F, g, dim, index):
    return F.index_fill(g, dim, index, 0)


@index_copy.vjp("source")
def index_copy_vjp_source(F, g, dim, index, source_shape):
    return F.reshape(F.index_select(g, dim, index), source_shape)


@index_copy.samples
def index_copy_samples(make):
    yield make.args(make(4, 3), 1, make.ints(1, low=0, high=3), make(4, 1))


@op(inplace=True, like="input", kinds={"value": "tensor|number"})
def index_fill(xp, input, dim, index, value):
    """A copy of `input` with `value` in the slices named by `index`.

    `value` is a number or a 0-d tensor; `index` is 1-d and names places along `dim`.

    >>> import plugrad as torch
    >>> torch.index_fill(torch.zeros(3), 0, torch.tensor([2]), 1)
    tensor([0., 0., 1.])
    """
    if getattr(value, "ndim", 0):
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if index.dtype != "int64":
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    if isinstance(value, complex) and input.dtype.kind != "c":
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    value = element(input.dtype, value)
    dim, out = axes(dim, input.ndim), xp.array(input)
    n = input.shape[dim] if input.ndim else 1
    ix.check_range(xp, index, n, IndexError, dim, low=-n)
    lifted = out if input.ndim else out.reshape(1)
    lifted[(slice(None),) * dim + (index.reshape(-1),)] = value
    return out


@index_fill.vjp("input")
def index_fill_vjp_input(F, g, dim, index):
    return F.index_fill(g, dim, index, 0)


@index_fill.vjp("value")
def index_fill_vjp_value(F, g, dim, index):
    return F.sum(F.where(F.index_fill(F.zeros_like(g), dim, index, 1) != 0, g, 0.0))


@index_fill.samples
def index_fill_samples(make):
    yield make.args(make(4, 3), 1, make.ints(2, low=0, high=3), 2.5)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
