"""What ops do with sparse tensors. Each rule computes with the values, which are dense; an op without one refuses."""

from __future__ import annotations

import numpy

import plugrad
from plugrad import Tensor
from plugrad.arguments import checked
from plugrad.extend import axes, from_raw
from plugrad.sparse import creation
from plugrad.sparse.arrays import BlockArray, SparseArray
from plugrad.sparse.tensors import (
    SparseTensor,
    build,
    cast_to,
    coalesce,
    coordinates,
    picked,
    rule,
    rules,
    to_dense,
    unsupported,
    values_of,
    wrap,
)  # fmt: skip
from plugrad.subclasses.held import check_leaf, take_over

# Functions that are 0 at 0: of the values alone.
_UNARY = (
    "abs neg sqrt square sign sgn sin tan asin atan sinh tanh asinh atanh expm1 log1p ceil floor round trunc frac erf "
    "erfinv deg2rad rad2deg relu isnan isinf isneginf isposinf signbit conj conj_physical real imag angle nan_to_num "
    "positive"
).split()
_OF_EACH_ENTRY = ("neg", "positive", "conj", "conj_physical")  # also right before entries of one place are added up
_CASTS = "float double half bfloat16 long int short char byte bool cfloat cdouble".split()


def elementwise(name):
    """Return the rule of a function of each element that is 0 at 0."""

    def compute(sparse, *args, **kwargs):
        sparse = coalesce(sparse) if sparse.is_sparse and name not in (*_OF_EACH_ENTRY, *_CASTS) else sparse
        values = values_of(sparse)
        result = getattr(values, name)(*args, **kwargs)
        return sparse if result is values else build(result, sparse._raw.pattern())

    return compute


for _name in (*_UNARY, *_CASTS):
    rules[_name] = elementwise(_name)
rules["functional_relu"] = rules["relu"]
rules |= {"to_dense": lambda sparse, dtype=None, masked_grad=None: _to_dtype(to_dense(sparse), dtype)}
rules["detach"] = SparseTensor.detach


def _to_dtype(tensor, dtype):
    return tensor if dtype is None else tensor.to(dtype)


def _is_number(value) -> bool:
    return not isinstance(value, Tensor) or value.ndim == 0 and not isinstance(value, SparseTensor)


# ---------------------------------------------------------------------------------------------------- copies


@rule("clone", "contiguous", "lift_fresh")
def clone(sparse, *, memory_format=None):
    return build(values_of(sparse).clone(), sparse._raw.pattern())


@rule("type")
def type_(sparse, dtype=None, non_blocking=False):
    if dtype is not None:
        return to(sparse, dtype)
    return values_of(sparse).type().replace("torch.", "torch.sparse.", 1)


@rule("to", "cpu", "type_as")
def to(sparse, *args, **kwargs):
    if any(isinstance(value, (plugrad.device, str)) and "cpu" not in str(value) for value in args):
        raise NotImplementedError("sparse tensors are on the CPU only: write x.to_dense().to(device)")
    given = [value.dtype if isinstance(value, Tensor) else value for value in args]
    if not given and not kwargs:
        return sparse
    values = values_of(sparse)
    result = values.to(*given, **kwargs)
    return sparse if result is values or result.dtype is sparse.dtype else build(result, sparse._raw.pattern())


@rule("zeros_like", "empty_like")
def zeros_like(sparse, *, dtype=None, layout=None, device=None, requires_grad=False, **others):
    if others.get("memory_format") is not None and sparse.layout is plugrad.sparse_coo:
        raise RuntimeError("memory format option is only supported by strided tensors: leave memory_format out")
    dtype, layout = dtype or sparse.dtype, layout or sparse.layout
    if layout is plugrad.strided:
        return plugrad.zeros(tuple(sparse.shape), dtype=dtype, requires_grad=requires_grad)
    array = sparse._raw
    values = numpy.zeros((0, *array.shape[array.sparse_dim :]), dtype.numpy)
    empty = SparseArray(numpy.zeros((array.sparse_dim, 0), numpy.int64), values, array.shape, True)
    blocksize = getattr(array, "blocksize", None) if layout in (plugrad.sparse_bsr, plugrad.sparse_bsc) else None
    return creation.to_sparse(wrap(empty), layout=layout, blocksize=blocksize).requires_grad_(requires_grad)


# ---------------------------------------------------------------------------------------------------- sums, products


@rule("add", "__add__", "__radd__")
def add(input, other, *, alpha=1):
    if not isinstance(input, SparseTensor):  # to a dense tensor
        if _is_number(input) and not (isinstance(input, Tensor) and other.ndim == 0):
            raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
        if tuple(input.shape) != tuple(other.shape):
            raise RuntimeError(
                f"add: expected 'self' and 'other' to have same size, but self has size {list(input.shape)} while "
                f"other has size {list(other.shape)} (FYI: dense-sparse addition does not currently support "
                "broadcasting)"
            )
        places = tuple([from_raw(index) for index in other._raw.indices])
        values = values_of(other) if alpha == 1 else values_of(other) * alpha
        dtype = plugrad.result_type(input, values)
        if not places:
            return input + to_dense(other) * alpha
        return input.to(dtype).index_put(places, values.to(dtype), accumulate=True)
    if not isinstance(other, SparseTensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if tuple(input.shape) != tuple(other.shape):
        raise RuntimeError(f"The sizes of the operands must agree: {list(input.shape)} and {list(other.shape)}")
    values = values_of(other) if alpha == 1 else values_of(other) * alpha
    if input._raw.is_like(other._raw) and input._raw.is_coalesced:
        return build(values_of(input) + values, input._raw.pattern())
    one, two, layout = coordinates(input), other._raw.coordinates(), input.layout
    indices = numpy.concatenate([one._raw.indices, two.indices], 1)
    both = build(_joined([values_of(one), values]), SparseArray(indices, None, input.shape))
    is_merged = one._raw.is_coalesced and two.is_coalesced
    return creation.to_sparse(coalesce(both) if is_merged else both, layout=layout)


def _joined(values):
    dtype = values[0].dtype
    for value in values[1:]:
        dtype = plugrad.promote_types(dtype, value.dtype)
    return plugrad.cat([value.to(dtype) for value in values])


@rule("sub", "__sub__", "subtract")
def sub(input, other, *, alpha=1):
    return add(input, other, alpha=-alpha)


@rule("__rsub__", "rsub")
def rsub(input, other, *, alpha=1):
    return add(other, input, alpha=-alpha)


@rule("mul", "__mul__", "__rmul__", "multiply")
def mul(input, other):
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if _is_number(other):
        return build(values_of(input) * other, input._raw.pattern())
    if not isinstance(other, SparseTensor):
        if plugrad.broadcast_shapes(tuple(input.shape), tuple(other.shape)) != tuple(input.shape):
            raise NotImplementedError("mul: a dense factor must broadcast to the shape of the sparse one, not beyond")
        values = picked(other.expand(tuple(input.shape)), input._raw)
        return build(values_of(input) * values, input._raw.pattern())
    if isinstance(input._raw, BlockArray):
        return build(values_of(input) * values_of(other), input._raw.pattern())
    if tuple(input.shape) != tuple(other.shape):
        try:
            shape = plugrad.broadcast_shapes(tuple(input.shape), tuple(other.shape))
        except RuntimeError:
            sizes = f"{list(input.shape)}, {list(other.shape)}"
            raise RuntimeError(f"mul: operands have incompatible sizes: {sizes}") from None
        input, other = _sparse_broadcast_to(input, shape), _sparse_broadcast_to(other, shape)
    layout, input, other = input.layout, coalesce(input), coalesce(other)
    _, mine, theirs = numpy.intersect1d(input._raw.place(), other._raw.place(), True, True)
    pattern = SparseArray(input._raw.indices[:, mine], None, input.shape, True)
    product = values_of(input)[from_raw(mine)] * values_of(other)[from_raw(theirs)]
    return creation.to_sparse(build(product, pattern), layout=layout)


@rule("_sparse_broadcast_to")
def _sparse_broadcast_to(input, size):
    """Return a sparse tensor broadcast to a shape: its entries are repeated."""
    size = tuple(size)
    if tuple(input.shape) == size:
        return input
    input = creation.to_sparse(input)
    indices, values, count = input._raw.indices, values_of(input), input.sparse_dim()
    added = len(size) - input.ndim
    plugrad.broadcast_shapes(tuple(input.shape), size)
    dense = size[added + count :]
    values = values.expand(values.shape[0], *dense)
    lead = numpy.zeros((added, indices.shape[1]), numpy.int64)
    rows = numpy.concatenate([lead, indices])
    for d, n in enumerate(size[: added + count]):
        if d >= added and input.shape[d - added] == n:
            continue
        many = rows.shape[1]
        rows = numpy.repeat(rows, n, 1)
        rows[d] = numpy.tile(numpy.arange(n), many)
        values = values.repeat_interleave(n, 0)
    return build(values, SparseArray(rows, None, size))


@rule("div", "true_divide", "divide", "__truediv__", "div_rounded")
def div(input, other, *, rounding_mode=None):
    if not isinstance(input, SparseTensor) or not _is_number(other):
        kind = "floor division" if rounding_mode == "floor" else "division"
        raise RuntimeError(
            f"Sparse {kind} requires a scalar or zero-dim dense tensor divisor (got shape {list(other.shape)} for "
            "divisor): divide by other.to_dense()'s values at the entries instead"
        )
    input = coalesce(input) if rounding_mode and input.is_sparse else input
    return build(plugrad.div(values_of(input), other, rounding_mode=rounding_mode), input._raw.pattern())


@rule("floor_divide", "__floordiv__")
def floor_divide(input, other):
    return div(input, other, rounding_mode="floor")


@rule("pow", "__pow__")
def power(input, exponent):
    if not isinstance(input, SparseTensor) or not _is_number(exponent) or exponent == 0:
        raise NotImplementedError("pow of sparse tensors takes one exponent other than 0: its zeros stay zeros")
    input = coalesce(input) if input.is_sparse else input
    return build(values_of(input) ** exponent, input._raw.pattern())


def _in_place(function, name=""):
    """Return the in-place form of a rule: the tensor gets the data and the history of its result."""

    def write(target, *args, **kwargs):
        if name in _UNARY and name not in _OF_EACH_ENTRY and target.is_sparse and not target._raw.is_coalesced:
            raise RuntimeError(f"{name}_ requires coalesced input: write x = x.coalesce() before")
        if not isinstance(target, SparseTensor):  # a dense tensor, to which a sparse one is added
            return target.copy_(function(target, *args, **kwargs))
        check_leaf(target)
        result = cast_to(function(target, *args, **kwargs), target.dtype)
        return take_over(target, result)

    return write


_WITH_FORM_IN_PLACE = {*_UNARY, *"add sub mul div div_rounded floor_divide pow".split()} - {"real", "imag"}
for _name in _WITH_FORM_IN_PLACE:
    rules[f"{_name}_"] = _in_place(rules[_name], _name)
for _name in ("add", "sub", "mul", "truediv"):
    rules[f"__i{_name}__"] = _in_place(rules[f"__{_name}__"])
rules["zero_"] = _in_place(lambda sparse: zeros_like(sparse))


@rule("copy_")
def copy_(target, source, non_blocking=False):
    if not (isinstance(target, SparseTensor) and isinstance(source, SparseTensor)):
        raise RuntimeError(
            f"copy_() between dense and sparse Tensors is not implemented! Found self type = {target.type()} and src "
            f"type = {source.type()}: write x.to_dense() or x.to_sparse() first"
        )
    if target.is_sparse and source.is_sparse and tuple(target.shape) != tuple(source.shape):
        target.resize_as_sparse_(source)
    return _copied(target, source)


_copied = _in_place(lambda target, source: source.clone())


# ---------------------------------------------------------------------------------------------------- reductions


@rule("sum", "nansum")
def promoted_total(input, dim=None, keepdim=False, *, dtype=None):
    """`total` as the method: integers are added up as int64."""
    integral = not (input.is_floating_point() or input.is_complex())
    return total(input, dim, keepdim, dtype=plugrad.int64 if dtype is None and integral else dtype)


def total(input, dim=None, keepdim=False, *, dtype=None):
    """Sum over all dimensions, or some of them: sparse ones are left out of the indices."""
    values = values_of(input) if dtype is None else values_of(input).to(dtype)
    if dim is None or isinstance(dim, (tuple, list)) and not dim:
        return values.sum()
    dims = axes(tuple(dim) if isinstance(dim, (tuple, list)) else (dim,), input.ndim)
    array = input._raw.coordinates()
    count = array.sparse_dim
    inner = [d - count + 1 for d in dims if d >= count]
    values = values.sum(inner, keepdim) if inner else values
    shape = [1 if d in dims else n for d, n in enumerate(array.shape) if keepdim or d not in dims]
    kept = [d for d in range(count) if d not in dims]
    if not kept:
        return values.sum(0).reshape(shape) if any(d < count for d in dims) else values
    rows = range(count) if keepdim else kept
    indices = numpy.stack([numpy.zeros_like(array.indices[d]) if d in dims else array.indices[d] for d in rows])
    merged = any(d < count for d in dims)
    result = build(values, SparseArray(indices, None, shape, array.is_coalesced and not merged))
    return coalesce(result) if merged or inner else result


@rule("norm", "linalg_vector_norm", "native_norm")
def norm(input, p="fro", dim=None, keepdim=False, *, dtype=None):
    if dim is not None and len(dim if isinstance(dim, (tuple, list)) else (dim,)) != input.ndim:
        raise NotImplementedError("norm of a sparse tensor is that of all its elements: leave dim out")
    return values_of(coalesce(input)).reshape(-1).norm(p if p != "fro" else 2, dtype=dtype)


rules["any"] = lambda input, dim=None, keepdim=False: values_of(input).any()


# ---------------------------------------------------------------------------------------------------- shapes


def _permuted(input, dims):
    if isinstance(input._raw, BlockArray):
        return build(values_of(input).transpose(1, 2), input._raw.transposed()) if dims[0] else input
    array, count = input._raw.coordinates(), input._raw.sparse_dim
    if sorted(dims[:count]) != list(range(count)):
        raise RuntimeError(
            "transpositions between sparse and dense dimensions are not allowed. Only transpositions within sparse and "
            "dense dimensions are supported; write x.to_dense() first"
        )
    values = values_of(input).permute(0, *(d - count + 1 for d in dims[count:]))
    pattern = SparseArray(array.indices[list(dims[:count])], None, [array.shape[d] for d in dims])
    if input.is_sparse:
        return build(values, pattern)
    other = "sparse_csc" if input.is_sparse_csr else "sparse_csr"  # the same memory, seen by the other dimension
    mirrored = type(input._raw)(other, input._raw.starts, input._raw.others, None, pattern.shape)
    return build(values_of(input), mirrored)


@rule("t", "numpy_T", "adjoint")
def transposed(input):
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return _permuted(input, tuple(range(input.ndim))[::-1])


@rule("transpose", "swapaxes", "swapdims")
def transpose(input, dim0, dim1):
    dims = list(range(input.ndim))
    a, b = axes(dim0, input.ndim), axes(dim1, input.ndim)
    dims[a], dims[b] = dims[b], dims[a]
    return _permuted(input, dims)


@rule("permute")
def permute(input, *dims):
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    if len(dims) != input.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(dims)}"
        )
    return _permuted(input, list(axes(tuple(dims), input.ndim)))


@rule("unsqueeze")
def unsqueeze(input, dim):
    array, dim = input._raw.coordinates(), axes(dim, input.ndim + 1)
    shape = (*array.shape[:dim], 1, *array.shape[dim:])
    if dim > array.sparse_dim:
        return build(values_of(input).unsqueeze(dim - array.sparse_dim + 1), SparseArray(array.indices, None, shape))
    indices = numpy.insert(array.indices, dim, 0, axis=0)
    return build(values_of(input), SparseArray(indices, None, shape))


@rule("cat", "concat")
def cat(tensors, dim=0):
    for place, one in enumerate(tensors):
        if not isinstance(one, SparseTensor) or not one.is_sparse:
            raise RuntimeError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {place}. Convert it by "
                ".to_sparse()"
            )
    first = tensors[0]._raw
    dim, start, indices = axes(dim, first.ndim), 0, []
    _check_alike([one._raw for one in tensors], dim)
    total, values = sum(one._raw.shape[dim] for one in tensors), []
    for one in tensors:
        moved, size = one._raw.indices.copy(), one._raw.shape[dim]
        if dim < first.sparse_dim:
            moved[dim] += start
            values.append(values_of(one))
        else:  # each element is as long as the result is, and zero where the other tensors have theirs
            values.append(_between_zeros(values_of(one), dim - first.sparse_dim + 1, start, total - start - size))
        start += size
        indices.append(moved)
    shape = (*first.shape[:dim], total, *first.shape[dim + 1 :])
    return build(_joined(values), SparseArray(numpy.concatenate(indices, 1), None, shape))


def _between_zeros(values, dim, before, after):
    sides = [values.new_zeros([*values.shape[:dim], size, *values.shape[dim + 1 :]]) for size in (before, after)]
    return plugrad.cat([sides[0], values, sides[1]], dim)


def _check_alike(arrays, dim):
    first = arrays[0]
    inner = (first.sparse_dim, first.ndim - first.sparse_dim)
    for place, one in enumerate(arrays):
        if one.ndim != first.ndim or any(n != m for d, (n, m) in enumerate(zip(one.shape, first.shape)) if d != dim):
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first.shape)} (except in the concatenating dimension), "
                f"but found shape: {list(one.shape)} at position {place}."
            )
        if one.sparse_dim != inner[0]:
            raise RuntimeError(
                f"All tensors must have the same sparse_dim and dense_dim: {inner[0]}, {inner[1]}, but tensor at "
                f"position {place} has {one.sparse_dim}, {one.ndim - one.sparse_dim}."
            )


@rule("stack")
def stack(tensors, dim=0):
    return cat([unsqueeze(one, axes(dim, one.ndim + 1)) for one in tensors], dim)


@rule("index_select")
def index_select(input, dim, index):
    """The entries at some places along a dimension, in the order of the index."""
    array, dim = coordinates(input)._raw, axes(dim, input.ndim)
    if dim >= array.sparse_dim:
        return build(values_of(input).index_select(dim - array.sparse_dim + 1, index), array.pattern())
    wanted = index._raw.reshape(-1)
    if wanted.size and (wanted.min() < -array.shape[dim] or wanted.max() >= array.shape[dim]):
        raise IndexError(f"index_select(): index out of range for dimension {dim} of size {array.shape[dim]}")
    order = numpy.argsort(array.indices[dim], kind="stable")
    row, wanted = array.indices[dim][order], wanted % max(array.shape[dim], 1)
    begin = numpy.searchsorted(row, wanted)
    counts = numpy.searchsorted(row, wanted, "right") - begin
    places = numpy.repeat(numpy.arange(wanted.size), counts)
    step = numpy.arange(counts.sum()) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
    entries = order[numpy.repeat(begin, counts) + step]
    indices = array.indices[:, entries].copy()
    indices[dim] = places
    shape = (*array.shape[:dim], wanted.size, *array.shape[dim + 1 :])
    pattern = SparseArray(indices, None, shape, array.is_coalesced and dim == 0)
    return build(values_of(input)[from_raw(entries)], pattern)


@rule("select")
def select(input, dim, index):
    dim = axes(dim, input.ndim)
    if not -input.shape[dim] <= index < input.shape[dim]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}"
        )
    chosen = index_select(input, dim, plugrad.tensor([index]))
    return total(chosen, dim if input.ndim > 1 else None).to(input.dtype)


@rule("getitem", "__getitem__")
def getitem(input, index):
    dim, result = 0, input
    for item in index if isinstance(index, tuple) else (index,):
        if item is None:
            result, dim = plugrad.unsqueeze(result, dim), dim + 1
        elif isinstance(item, slice) and item == slice(None) and dim < result.ndim:
            dim += 1
        elif isinstance(item, (int, numpy.integer)) and not isinstance(item, bool):
            result = plugrad.select(result, dim, int(item))
        else:
            raise unsupported(f"an index of {type(item).__name__}")
    if result is input and index != ():
        raise unsupported("an index that takes all")
    return result


@rule("__setitem__")
def setitem(input, index, value):
    if isinstance(input, SparseTensor):
        raise TypeError("Cannot assign to a sparse tensor: its zeros have no memory; write to what .to_dense() returns")
    raise RuntimeError(
        "copy_() between dense and sparse Tensors is not implemented! Assign what .to_dense() of the value returns"
    )


@checked(input="tensor", mask="tensor")
def sparse_mask(input, mask):
    """The elements of a tensor at the entries of a sparse one."""
    if not isinstance(mask, SparseTensor):
        raise NotImplementedError("sparse_mask: the mask must be a sparse tensor: convert it by .to_sparse()")
    if tuple(input.shape) != tuple(mask.shape):
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(input.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    return build(picked(input, mask._raw), mask._raw.pattern())
