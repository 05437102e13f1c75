"""Ops that pick or write the slices along one dimension that a 1-d index names: index_select, index_add..."""

from __future__ import annotations

import math

from plugrad.extend import Op, axes, collect, hookimpl, native, op, refuse_outside

from . import _in_order_on_cuda as ordered
from . import _index as ix
from . import _places_on_cuda as cuda
from ._checks import element, fitted


def vector(xp, name, index, error=IndexError):
    """A 1-d int64 index for `index_select` and its like."""
    if index.ndim > 1:
        raise error(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    ix.check_index_dtype(name, index)
    return ix.index_array(xp, index.reshape(-1))


def _outside(size, dim):
    error = RuntimeError if dim else IndexError  # PyTorch's class of it depends on the dimension
    return lambda worst: error(f"index out of range in self: it must lie in [0, {size - 1}], and one is {worst}")


@op(eight_bits=True)
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
        if not array.shape[dim]:
            error = IndexError if array.ndim == 1 else RuntimeError
            raise error(
                f"index out of range in self: self indexing axis dim should be positive, but dimension {dim} is empty"
            )
        refuse_outside(xp, index, 0, array.shape[dim], _outside(array.shape[dim], dim or not array.size))
    out = array.take(index, dim)
    return out if input.ndim else out.reshape(())


@index_select.kernel("cpu")
@native("take", otherwise=index_select)
def index_select_in_c(call, xp, input, dim, index):
    if input.dtype.char not in "fd" or index.ndim != 1 or not input.ndim:
        return NotImplemented
    dim, size = axes(dim, input.ndim), input.shape
    out = xp.empty(size[:dim] + index.shape + size[dim + 1 :], input.dtype)
    return out if call(input, index, out, dim, False) is None else NotImplemented


@index_select.kernel("cuda")
@native(cuda.take, otherwise=index_select)
def index_select_on_cuda(call, xp, input, dim, index):
    if not input.ndim or index.ndim != 1:
        return NotImplemented
    dim = axes(dim, input.ndim)
    return cuda.taken(xp, input, index, dim, _outside(input.shape[dim], dim), True)


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
        slices = source if alpha == 1 else (source * fitted(out.dtype, alpha)).astype(out.dtype)
        ix.add_slices(xp, out.reshape(before, out.shape[dim], -1), index, slices)
    return out


@index_add.kernel("cpu")
@native("add_slices", otherwise=index_add)
def index_add_in_c(call, xp, input, dim, index, source, *, alpha=1):
    if alpha != 1 or index.ndim != 1 or not input.ndim:
        return NotImplemented
    out = xp.array(input, order="C", copy=True)
    done = call(out, index, xp.ascontiguousarray(source), axes(dim, input.ndim), -1, False)
    return out if done is None else NotImplemented


@index_add.kernel("cuda")
@native(cuda.put_sums, otherwise=index_add)
def index_add_on_cuda(call, xp, input, dim, index, source, *, alpha=1):
    if not input.ndim or index.ndim != 1 or input.dtype.char not in "fd" or not input.size:
        return NotImplemented
    dim = axes(dim, input.ndim)
    checked_source("index_add", input, dim, index, source)
    error = ix.range_error(input.shape[dim])
    return cuda.added(xp, cuda.duplicate(xp, input), index, source, dim, error, True, alpha)


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
    ordered.put(xp, out, (slice(None),) * dim + (index,), source)
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


@op(
    inplace=True, like="input", kinds={"value": "tensor|number"},
    node={"IndexFillBackward1": "isinstance(value, Tensor)"},
)  # fmt: skip
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
