"""What ops do with sparse tensors. Each rule computes with the values, which are dense; an op without one refuses."""

from __future__ import annotations

import numpy

import plugrad
from plugrad import Tensor
from plugrad.arguments import checked
from plugrad.extend import axes, from_raw
from plugrad.sparse import creation, resizing
from plugrad.sparse.arrays import SparseArray
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


@rule("resolve_conj", "resolve_neg")
def resolved(sparse):
    return sparse


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


for _name in ("ones_like", "full_like", "randn_like", "rand_like"):

    @rule(_name)
    def filled(sparse, *args, _name=_name, memory_format=None, **options):
        if sparse.is_sparse:
            raise unsupported(_name)
        return build(getattr(plugrad, _name)(values_of(sparse).detach(), *args, **options), sparse._raw.pattern())


@rule("empty_like")
def empty_like(sparse, *, layout=None, **options):
    if layout not in (None, sparse.layout):
        raise RuntimeError(
            f"empty_like with different sparse layout is not supported (self is {sparse.layout} but you requested "
            f"{layout}): write zeros_like"
        )
    return zeros_like(sparse, **options)


@rule("zeros_like")
def zeros_like(sparse, *, dtype=None, layout=None, device=None, requires_grad=False, **others):
    if others.get("memory_format") is not None and sparse.layout is plugrad.sparse_coo:
        raise RuntimeError("memory format option is only supported by strided tensors: leave memory_format out")
    dtype, layout = dtype or sparse.dtype, layout or sparse.layout
    if layout is plugrad.strided:
        return plugrad.zeros(tuple(sparse.shape), dtype=dtype, requires_grad=requires_grad)
    array, blocks = sparse._raw, layout in (plugrad.sparse_bsr, plugrad.sparse_bsc)
    return resizing.without_entries(
        array.shape, sparse.dense_dim(), dtype=dtype, layout=layout, requires_grad=requires_grad,
        blocksize=array.blocksize if blocks else (), index_dtype=array.parts()[0].dtype,
    )  # fmt: skip


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
        dtype = plugrad.result_type(input, other)
        values = values_of(other) if alpha == 1 else values_of(other).to(dtype) * alpha  # -1 is no uint8
        if not places:
            return input + to_dense(other) * alpha
        return input.to(dtype).index_put(places, values.to(dtype), accumulate=True)
    if not isinstance(other, SparseTensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if tuple(input.shape) != tuple(other.shape):
        raise RuntimeError(f"The sizes of the operands must agree: {list(input.shape)} and {list(other.shape)}")
    values = values_of(other)
    values = values if alpha == 1 else values.to(plugrad.promote_types(input.dtype, values.dtype)) * alpha
    if input._raw.is_like(other._raw) and input._raw.is_coalesced:
        return build(values_of(input) + values, input._raw.pattern())
    one, two, layout = coordinates(input), other._raw.coordinates(), input.layout
    indices = numpy.concatenate([one._raw.indices, two.indices], 1)
    both = build(joined([values_of(one), values]), SparseArray(indices, None, input.shape))
    is_merged = one._raw.is_coalesced and two.is_coalesced
    return creation.to_sparse(coalesce(both) if is_merged else both, layout=layout)


def joined(values):
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
    if not input.ndim and isinstance(other, SparseTensor) and (other.ndim or input._raw.is_coalesced):
        input, other = other, input  # the scalar, of two scalars the one whose entries are added up, comes second
    if _is_number(other) or not other.ndim:
        other, values = to_dense(other) if isinstance(other, SparseTensor) else other, values_of(input)
        if not input.ndim and isinstance(other, Tensor):  # two scalars, of which the values of one are no scalar
            values = values.to(plugrad.promote_types(input.dtype, other.dtype))
        return build(values * other, input._raw.pattern())
    if not isinstance(other, SparseTensor):
        shape = plugrad.broadcast_shapes(tuple(input.shape), tuple(other.shape))
        input = input if tuple(input.shape) == shape else coalesce(_sparse_broadcast_to(input, shape))
        return build(values_of(input) * picked(other.expand(shape), input._raw), input._raw.pattern())
    if not input.is_sparse and input._raw.is_like(other._raw):
        return build(values_of(input) * values_of(other), input._raw.pattern())
    if tuple(input.shape) != tuple(other.shape):
        try:
            shape = plugrad.broadcast_shapes(tuple(input.shape), tuple(other.shape))
        except RuntimeError:
            sizes = f"{list(input.shape)}, {list(other.shape)}"
            raise RuntimeError(f"mul: operands have incompatible sizes: {sizes}") from None
        input, other = _sparse_broadcast_to(input, shape), _sparse_broadcast_to(other, shape)
    layout, input, other = input.layout, coalesce(input), coalesce(other)
    if input.sparse_dim() != other.sparse_dim():
        return mul(input, to_dense(other))
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
        if not isinstance(target, SparseTensor):  # a dense tensor, whose other operand is sparse
            result = function(target, *args, **kwargs)
            result = to_dense(result) if isinstance(result, SparseTensor) else result
            return target.copy_(cast_to(result, target.dtype))
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


class _Sum(plugrad.autograd.Function):
    """The sum of elements, also of those that are not stored: each has a gradient."""

    @staticmethod
    def forward(ctx, sparse, dim, keepdim, dtype):
        ctx.shape, ctx.dtype = tuple(sparse.shape), sparse.dtype
        dims = tuple(dim) if isinstance(dim, (tuple, list)) else () if dim is None else (dim,)
        ctx.dims = () if keepdim or not dims else axes(dims, sparse.ndim)
        return total(sparse, dim, keepdim, dtype=dtype)

    @staticmethod
    def backward(ctx, grad):
        grad = to_dense(grad) if isinstance(grad, SparseTensor) else grad
        for dim in sorted(ctx.dims):
            grad = grad.unsqueeze(dim)
        return grad.to(ctx.dtype).expand(ctx.shape), None, None, None


@rule("sum", "nansum")
def promoted_total(input, dim=None, keepdim=False, *, dtype=None):
    """`total` as the method: integers are added up as int64."""
    integral = not (input.is_floating_point() or input.is_complex())
    dtype = plugrad.int64 if dtype is None and integral else dtype
    if input.requires_grad and plugrad.is_grad_enabled():
        return _Sum.apply(input, dim, keepdim, dtype)
    return total(input, dim, keepdim, dtype=dtype)


def total(input, dim=None, keepdim=False, *, dtype=None):
    """Sum over all dimensions, or some of them: sparse ones are left out of the indices."""
    overall = dim is None or isinstance(dim, (tuple, list)) and not dim
    input = input if overall else coordinates(input)
    values = values_of(input) if dtype is None else values_of(input).to(dtype)
    if overall:
        return values.sum()
    dims = axes(tuple(dim) if isinstance(dim, (tuple, list)) else (dim,), input.ndim)
    array, count = input._raw, input._raw.sparse_dim
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


# ---------------------------------------------------------------------------------------------------- parts


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


@rule("select", "select_copy")
def select(input, dim, index):
    dim = axes(dim, input.ndim)
    if not -input.shape[dim] <= index < input.shape[dim]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}"
        )
    if dim < input._raw.batch_dim:
        pattern = input._raw.pattern()
        pattern.starts, pattern.others = (part.take(index, dim) for part in pattern.parts())
        pattern.shape = (*pattern.shape[:dim], *pattern.shape[dim + 1 :])
        return build(values_of(input).select(dim, index), pattern)
    if input._raw.batch_dim and dim < input._raw.batch_dim + 2:
        raise RuntimeError(
            "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors. Select "
            "from the batch first, or write x.to_sparse()"
        )
    chosen = index_select(coordinates(input), dim, plugrad.tensor([index]))
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
