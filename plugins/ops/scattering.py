"""Ops that move elements to or from named places: gather, scatter and their reductions, slice_scatter..."""

from __future__ import annotations

import math

from plugrad.extend import Op, axes, broadcast_shapes, collect, composite, hookimpl, is_floating, is_integer, native, op

from . import _in_order_on_cuda as ordered
from . import _index as ix
from . import _places_on_cuda as cuda
from ._checks import element


def places(xp, index, dim):
    """The index that names `index` along `dim` and the own position along every other dimension."""
    grid = [xp.arange(n).reshape((-1,) + (1,) * (index.ndim - d - 1)) for d, n in enumerate(index.shape)]
    grid[dim] = index
    return tuple(grid)


def flat_places(xp, index, dim, shape):
    """The same as positions in a C-contiguous array of `shape`: one index array is faster than several."""
    flat, stride = None, 1
    for d in range(index.ndim - 1, -1, -1):
        if d == dim:
            part = index if stride == 1 else index * stride
        elif index.shape[d] > 1:
            part = xp.arange(0, index.shape[d] * stride, stride).reshape((-1,) + (1,) * (index.ndim - d - 1))
        else:
            part = None
        if part is not None:
            flat = part if flat is None else flat + part
        stride *= shape[d]
    return flat


def lifted(*arrays):
    """0-d arrays as 1-d ones."""
    return [a.reshape(1) if a.ndim == 0 else a for a in arrays]


def refuse_shapes(name, input, dim, index, src=None):
    """PyTorch's tests of the index of `gather` and `scatter`."""
    if index.size == 0:
        return
    ix.check_index_dtype(name, index)
    if max(index.ndim, 1) != max(input.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    if src is not None and max(src.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    for d in range(index.ndim):
        if input.ndim and d != dim and index.shape[d] > input.shape[d]:
            raise RuntimeError(
                f"Size does not match at dimension {d}: Expected index {list(index.shape)} to be no larger "
                f"than self {list(input.shape)} apart from dimension {dim}"
            )
        if src is not None and src.ndim and index.shape[d] > src.shape[d]:
            raise RuntimeError(
                f"Expected index {list(index.shape)} to be no larger than self {list(input.shape)} apart "
                f"from dimension {dim} and to be no larger size than src {list(src.shape)}"
            )


@op(any_order=True)
def gather(xp, input, dim, index, *, sparse_grad=False):
    """Elements of `input` at the places that `index` names along `dim`.

    `index` is int64 or int32 with as many dimensions as `input`, and gives the result its shape:
    `out[i, j] = input[index[i, j], j]` for `dim=0`. Raises `RuntimeError` when an index is out of range.

    >>> import plugrad as torch
    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    dim = axes(dim, input.ndim)
    refuse_shapes("gather", input, dim, index)
    if index.size == 0:
        return xp.empty(index.shape, input.dtype)
    array, at = lifted(input, index)
    ix.check_range(xp, at, array.shape[dim], dim=dim)
    at = ix.index_array(xp, at)
    if array.flags.c_contiguous:
        return array.reshape(-1).take(flat_places(xp, at, dim, array.shape)).reshape(index.shape)
    return array[places(xp, at, dim)].reshape(index.shape)


@gather.kernel("cpu")
@native("gather", otherwise=gather)
def gather_in_c(call, xp, input, dim, index, *, sparse_grad=False):
    if not index.size:
        return NotImplemented
    out = xp.empty(index.shape, input.dtype)
    return out if call(input, index, out, axes(dim, input.ndim)) is None else NotImplemented


@gather.kernel("cuda")
@native(cuda.take, otherwise=gather)
def gather_on_cuda(call, xp, input, dim, index, *, sparse_grad=False):
    if not input.ndim or index.ndim != input.ndim:
        return NotImplemented
    dim = axes(dim, input.ndim)
    return cuda.taken(xp, input, index, dim, ix.range_error(input.shape[dim], dim=dim), False)


@gather.meta
def gather_meta(input, dim, index, *, sparse_grad=False):
    return index.shape, input.dtype


@gather.vjp
def gather_vjp(F, g, input_shape, dim, index):
    return F.scatter_add(F.new_zeros(g, input_shape), dim, index, g)


@gather.vjp_kernel("cpu")
@native("scatter_add")
def gather_grad_in_c(call, xp, g, input_shape, dim, index):
    if not index.size:
        return NotImplemented
    out = xp.zeros(input_shape, g.dtype)
    done = call(out, index, xp.ascontiguousarray(g), axes(dim, len(input_shape)))
    return out if done is None else NotImplemented


@gather.vjp_kernel("cuda")
def gather_grad_on_cuda(xp, g, input_shape, dim, index):
    if not input_shape or g.dtype.char not in "fd":
        return NotImplemented
    dim = axes(dim, len(input_shape))
    error = ix.range_error(input_shape[dim], dim=dim)
    return cuda.added(xp, xp.zeros(input_shape, g.dtype), index, g, dim, error, False)


@gather.samples
def gather_samples(make):
    yield make.args(make(3, 4), 0, make.ints(2, 4, low=0, high=3))
    yield make.args(make(3, 4), -1, make.ints(3, 2, low=0, high=4))


def corner(index, src):
    """The part of `src` that `index` covers."""
    return src[tuple([slice(n) for n in index.shape])] if src.shape != index.shape else src


@op(
    inplace=True, like="input", kinds={"src": "tensor|number?", "value": "number?"},
    node={"ScatterBackward1": "value is not None or not isinstance(src, Tensor)"},
)  # fmt: skip
def scatter(xp, input, dim, index, src=None, *, value=None, reduce=None):
    """A copy of `input` with `src` at the places that `index` names along `dim`.

    `src` is a tensor of the dtype of `input` or (also as `value`) a number; `reduce` is None, "add" or "multiply".
    With `dim=0`: `out[index[i, j], j] = src[i, j]`.

    >>> import plugrad as torch
    >>> torch.scatter(torch.zeros(3), 0, torch.tensor([2, 0]), torch.tensor([5.0, 7.0]))
    tensor([7., 0., 5.])
    """
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if src is not None and value is not None:
        raise TypeError("scatter() received an invalid combination of arguments: it takes src or value, not both")
    src = value if src is None else src
    if src is None:
        raise TypeError("scatter() missing 1 required argument: 'src', a tensor, or 'value', a number")
    src = element(input.dtype, src)
    dim, tensor = axes(dim, input.ndim), hasattr(src, "dtype")
    if tensor and src.dtype != input.dtype and (src.ndim or value is None):
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    refuse_shapes("scatter", input, dim, index, src if tensor and value is None else None)
    out = xp.array(input, order="C")  # not .copy(): a NumPy number may come in
    if index.size == 0:
        return out
    array, at = lifted(out, index)
    ix.check_range(xp, at, array.shape[dim], dim=dim)
    where, part = places(xp, ix.index_array(xp, at), dim), corner(at, *lifted(src)) if tensor and value is None else src
    if reduce is None:
        ordered.put(xp, array, where, part)
    else:
        flat = xp.ravel_multi_index(where, array.shape).ravel()
        part = xp.broadcast_to(xp.asarray(part, dtype=out.dtype), at.shape).ravel()
        memory = array.reshape(-1)
        ix.combine_at(xp, combine(xp, "sum" if reduce == "add" else "prod"), memory, flat, part)
    return out


@scatter.vjp("input")
def scatter_vjp_input(F, g, dim, index, reduce):
    refuse_reduce(reduce)
    return F.scatter(g, dim, index, 0)


@scatter.vjp("src")
def scatter_vjp_src(F, g, dim, index, reduce, src_shape):
    refuse_reduce(reduce)
    return into_corner(F, F.gather(g, dim, index), src_shape)


@scatter.samples
def scatter_samples(make):
    yield make.args(make(3), 0, make.ints(1, low=0, high=3), make())
    yield make.args(make(), 0, make.ints(low=0, high=1), make(3))
    yield make.args(make(3, 4), 0, plugrad_permutation(make, 3, 4), make(3, 4))
    yield make.args(make(3, 4), 1, make.ints(3, 1, low=0, high=4), 2.5)


def refuse_reduce(reduce):
    if reduce is not None:
        raise NotImplementedError(
            "the derivative of scatter with reduce= is not defined; use scatter_reduce or scatter_add"
        )


def into_corner(F, g, shape):
    """Gradient of `corner`: zeros where `index` does not reach. What has no dimension stands for one element."""
    if not shape or not g.ndim:
        g = F.reshape(g, (1,) * len(shape)) if math.prod(g.shape) else F.new_zeros(g, shape)
    return g if tuple(g.shape) == tuple(shape) else F.put_in_zeros(g, shape, tuple([slice(n) for n in g.shape]))


def plugrad_permutation(make, n, m):
    """An index without repeated places, for which the order of writing does not matter."""
    import plugrad

    return plugrad.arange(n).reshape(n, 1).expand(n, m).flip(0)


@op(inplace=True, like="input", autocast={"cuda": "promote"})
def scatter_add(xp, input, dim, index, src):
    """`input` plus `src`, added at the places that `index` names along `dim`.

    >>> import plugrad as torch
    >>> torch.scatter_add(torch.zeros(3), 0, torch.tensor([2, 2]), torch.tensor([5.0, 7.0]))
    tensor([ 0.,  0., 12.])
    """
    return scatter_reduced(xp, input, dim, index, src, "sum", True)


@scatter_add.kernel("cpu")
@native("scatter_add", otherwise=scatter_add)
def scatter_add_in_c(call, xp, input, dim, index, src):
    if not index.size:
        return NotImplemented
    out = xp.array(input, order="C", copy=True)
    return out if call(out, index, xp.ascontiguousarray(src), axes(dim, input.ndim)) is None else NotImplemented


@scatter_add.kernel("cuda")
@native(cuda.put_sums, otherwise=scatter_add)
def scatter_add_on_cuda(call, xp, input, dim, index, src):
    if not input.ndim or src.dtype != input.dtype or input.dtype.char not in "fd":
        return NotImplemented
    dim = axes(dim, input.ndim)
    error = ix.range_error(input.shape[dim], dim=dim)
    return cuda.added(xp, cuda.duplicate(xp, input), index, src, dim, error, False)


@scatter_add.vjp("input")
def scatter_add_vjp_input(F, g):
    return g


@scatter_add.vjp("src")
def scatter_add_vjp_src(F, g, dim, index, src_shape):
    return into_corner(F, F.gather(g, dim, index), src_shape)


@scatter_add.samples
def scatter_add_samples(make):
    yield make.args(make(3), 0, make.ints(1, low=0, high=3), make())
    yield make.args(make(3, 4), 0, make.ints(2, 4, low=0, high=3), make(2, 4))


def combine(xp, reduce):
    """The ufunc that a `reduce` name stands for."""
    return {"sum": xp.add, "mean": xp.add, "prod": xp.multiply, "amax": xp.maximum, "amin": xp.minimum}[reduce]


def identity(xp, reduce, dtype):
    """What leaves every number as it is under `reduce`."""
    if reduce in ("amax", "amin"):
        if is_floating(dtype):
            return -xp.inf if reduce == "amax" else xp.inf
        if dtype.kind == "b":
            return reduce == "amin"
        limits = xp.iinfo(dtype)
        return limits.min if reduce == "amax" else limits.max
    return 1 if reduce == "prod" else 0


def scatter_reduced(xp, input, dim, index, src, reduce, include_self):
    """The common kernel of `scatter_add` and `scatter_reduce`."""
    dim = axes(dim, input.ndim)
    if src.dtype != input.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    refuse_shapes("scatter", input, dim, index, src)
    out = xp.array(input, order="C", copy=True)
    if index.size == 0:
        return out
    array, at, src = lifted(out, index, src)
    ix.check_range(xp, at, array.shape[dim], dim=dim)
    flat = xp.ravel_multi_index(places(xp, ix.index_array(xp, at), dim), array.shape).ravel()
    memory = array.reshape(-1)
    if not include_self:
        memory[flat] = identity(xp, reduce, out.dtype)
    ix.combine_at(xp, combine(xp, reduce), memory, flat, corner(at, src).ravel())
    if reduce == "mean":
        counts = xp.full(memory.shape, int(include_self), "int64")
        ix.combine_at(xp, xp.add, counts, flat, xp.ones_like(flat))
        counts = xp.maximum(counts, 1)
        memory[...] = memory // counts if is_integer(out.dtype) else memory / counts.astype(out.real.dtype)
    return out


@op(inplace=True, like="input")
def scatter_reduce(xp, input, dim, index, src, reduce, *, include_self=True):
    """`input` combined with `src` at the places that `index` names along `dim`.

    `reduce` is "sum", "prod", "mean", "amax" or "amin"; with `include_self=False` the values that `input` has at
    those places do not count.

    >>> import plugrad as torch
    >>> torch.scatter_reduce(torch.zeros(2), 0, torch.tensor([0, 0]), torch.tensor([5.0, 7.0]), "amax")
    tensor([7., 0.])
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    return scatter_reduced(xp, input, dim, index, src, reduce, include_self)


@scatter_reduce.vjp("input", "src")
def scatter_reduce_vjp(F, g, input, dim, index, src, reduce, include_self, y):
    if reduce == "prod":
        return scatter_prod_grads(F, g, input, dim, index, src, include_self, y)
    part = src[tuple([slice(n) for n in index.shape])] if src.ndim else src
    if reduce == "sum":
        spread = g
    elif reduce == "mean":
        ones = F.ones_like(input) if include_self else F.zeros_like(input)
        spread = g / F.clamp(F.scatter_add(ones, dim, index, F.ones_like(part)), 1)
    else:  # extremes share the gradient evenly
        own = F.where(input == y, F.ones_like(input), F.zeros_like(input))
        if not include_self:
            own = F.scatter(own, dim, index, 0)
        hits = F.where(part == F.gather(y, dim, index), F.ones_like(part), F.zeros_like(part))
        spread = g / F.clamp(F.scatter_add(own, dim, index, hits), 1)
        untouched = F.scatter(F.ones_like(input), dim, index, 0)
        own = F.where(untouched != 0, untouched, own)
        return own * spread, into_corner(F, hits * F.gather(spread, dim, index), src.shape)
    kept = spread if include_self else F.scatter(spread, dim, index, 0)
    return kept, into_corner(F, F.gather(spread, dim, index), src.shape)


@scatter_reduce.samples
def scatter_reduce_samples(make):
    for reduce in ("sum", "mean", "prod", "amax"):
        yield make.args(make(3, 4), 0, make.ints(2, 4, low=0, high=3), make(2, 4), reduce)
    yield make.args(make(3, 4), 1, make.ints(3, 2, low=0, high=4), make(3, 2), "mean", include_self=False)


def scatter_prod_grads(F, g, input, dim, index, src, include_self, y):
    """Gradients of products, also where a factor is zero.

    The gradient of a factor is the product divided by it; of a zero, the product of the others.
    """
    part = src[tuple([slice(n) for n in index.shape])] if src.ndim else src
    base = input if include_self else F.scatter(input, dim, index, 1)
    safe_base = F.where(base == 0, F.ones_like(base), base)
    safe_part = F.where(part == 0, F.ones_like(part), part)
    of_input = g * F.scatter_reduce(safe_base, dim, index, part, "prod") / safe_base
    if not include_self:
        of_input = F.scatter(of_input, dim, index, 0)
    is_zero = F.where(part == 0, F.ones_like(part), F.zeros_like(part))
    zeros = F.gather(F.scatter_add(F.zeros_like(base), dim, index, is_zero), dim, index)
    others = F.gather(F.scatter_reduce(base, dim, index, safe_part, "prod"), dim, index)
    of_zero = F.where(zeros == 1, others, F.zeros_like(others))
    of_part = F.where(is_zero != 0, of_zero, F.gather(y, dim, index) / safe_part)
    return of_input, into_corner(F, F.gather(g, dim, index) * of_part, src.shape)


@composite(inplace=True, kinds={"source": "tensor"})
def index_reduce(F, input, dim, index, source, reduce, *, include_self=True):
    """`input` combined with the slices of `source` where `index` says.

    `index` is 1-d and names places along `dim`; `reduce` is "prod", "mean", "amax" or "amin".

    >>> import plugrad as torch
    >>> torch.index_reduce(torch.ones(2), 0, torch.tensor([0, 0]), torch.tensor([5.0, 7.0]), "prod")
    tensor([35.,  1.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    if index.ndim > 1:
        raise IndexError(f"index_reduce_(): Index is supposed to be a vector, but got dim: {index.ndim}")
    if source.dtype != input.dtype:
        raise RuntimeError(
            f"index_reduce_(): self and source must have the same scalar type, got {input.dtype} and {source.dtype}"
        )
    dim = axes(dim, input.ndim)
    count = source.shape[dim] if source.ndim else 1
    if index.numel() != count:
        raise RuntimeError(
            f"index_reduce_(): Number of indices ({index.numel()}) should be equal to source.size(dim): "
            f"({count}), for dim: {dim}"
        )
    if source.ndim == 0:
        index = F.reshape(index, ())
    else:
        index = F.expand(F.reshape(index, (-1,) + (1,) * (source.ndim - dim - 1)), source.shape)
    return F.scatter_reduce(input, dim, index, source, reduce, include_self=include_self)


@index_reduce.samples
def index_reduce_samples(make):
    for reduce in ("prod", "mean", "amin"):
        yield make(3, 4), 0, make.ints(5, low=0, high=3), make(5, 4), reduce


@composite(kinds={"dim": "int?"})
def take_along_dim(F, input, indices, dim=None):
    """`gather` with an index that broadcasts.

    Without `dim` both tensors are flattened. Negative indices count from the end.

    >>> import plugrad as torch
    >>> x = torch.tensor([[3, 1], [2, 4]])
    >>> torch.take_along_dim(x, x.argmax(1, keepdim=True), 1)
    tensor([[3],
            [4]])
    """
    if dim is None:
        return F.gather(F.reshape(input, (-1,)), 0, F.reshape(indices, (-1,)))
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    if "int64" not in str(indices.dtype):
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long (torch.int64) but got {indices.dtype}; "
            "write indices.long()"
        )
    dim = axes(dim, input.ndim)
    shape = list(
        broadcast_shapes(input.shape[:dim] + input.shape[dim + 1 :], indices.shape[:dim] + indices.shape[dim + 1 :])
    )
    indices = F.where(indices < 0, indices + input.shape[dim], indices)
    along = [tuple(shape[:dim]) + (t.shape[dim],) + tuple(shape[dim:]) for t in (input, indices)]
    return F.gather(F.expand(input, along[0]), dim, F.expand(indices, along[1]))


@take_along_dim.samples
def take_along_dim_samples(make):
    yield make(3, 4), make.ints(3, 1, low=-4, high=4), 1
    yield make(3, 4), make.ints(5, low=0, high=12)


def embed(F, input, src, index, region_shape):
    """`setitem` for a source that must have exactly the shape of the slice."""
    if tuple(src.shape) != tuple(region_shape):
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(region_shape)}"
        )
    return F.setitem(input, index, src)


@composite(kinds={"index": "int"})
def select_scatter(F, input, src, dim, index):
    """A copy of `input` with `src` as the slice number `index` along `dim`.

    >>> import plugrad as torch
    >>> torch.select_scatter(torch.zeros(2, 2), torch.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    return embed(F, input, src, (slice(None),) * axes(dim, input.ndim) + (index,), F.select(input, dim, index).shape)


@select_scatter.samples
def select_scatter_samples(make):
    yield make(3, 4), make(3), 1, -1


@composite(kinds={"start": "int?", "end": "int?"})
def slice_scatter(F, input, src, dim=0, start=None, end=None, step=1):
    """A copy of `input` with `src` as its slice `start:end:step` along `dim`.

    >>> import plugrad as torch
    >>> torch.slice_scatter(torch.zeros(3), torch.ones(2), 0, 1, 3)
    tensor([0., 1., 1.])
    """
    if step < 1:
        raise RuntimeError(f"slice step must be positive, but it is {step}")
    index = (slice(None),) * axes(dim, input.ndim) + (slice(start, end, step),)
    return embed(F, input, src, index, F.getitem(input, index).shape)


@slice_scatter.samples
def slice_scatter_samples(make):
    yield make(3, 4), make(3, 2), 1, 0, None, 2


@composite()
def diagonal_scatter(F, input, src, offset=0, dim1=0, dim2=1):
    """A copy of `input` with `src` as a diagonal.

    >>> import plugrad as torch
    >>> torch.diagonal_scatter(torch.zeros(2, 2), torch.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    region = F.diagonal(input, offset, dim1, dim2)
    if tuple(src.shape) != tuple(region.shape):
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(region.shape)}"
        )
    on = F.diagonal_in_zeros(F.ones_like(src), input.shape, offset, dim1, dim2)
    return F.where(on != 0, F.diagonal_in_zeros(src.to(input.dtype), input.shape, offset, dim1, dim2), input)


@diagonal_scatter.samples
def diagonal_scatter_samples(make):
    yield make(3, 4), make(3), 1


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
