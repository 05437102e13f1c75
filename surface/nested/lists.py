"""What ops do with nested tensors of the strided layout: with all elements if elementwise, else with each component."""

from __future__ import annotations

import plugrad
from plugrad import Tensor
from plugrad.extend import axes
from plugrad.nested.arrays import ListArray
from plugrad.nested.creation import to_padded_tensor
from plugrad.nested.ragged import _OF_VALUES, dropout_by
from plugrad.nested.tensors import (
    ListTensor,
    NestedTensor,
    build,
    dense,
    elements_in_place,
    form,
    nested_among,
    rule,
    rules,
    values_of,
)  # fmt: skip
from plugrad.subclasses.held import check_leaf, take_over

rules["strided"]["to_padded_tensor"] = to_padded_tensor


def joined(parts):
    """Return a nested tensor of components, with their history."""
    values = plugrad.cat([part.reshape(-1) for part in parts]) if parts else plugrad.zeros(0)
    return build(values, ListArray(None, [part.shape for part in parts]))


@rule("strided", "unbind")
def unbind(input, dim=0):
    if axes(dim, input.ndim):
        raise RuntimeError(f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead.")
    array = input._raw
    flat = values_of(input).split(array.counts) if array.shapes else ()
    return tuple([part.view(shape) for part, shape in zip(flat, array.shapes)])


@rule("strided", "select")
def select(input, dim, index):
    if axes(dim, input.ndim):
        return joined([part.select(dim - 1 if dim > 0 else dim, index) for part in unbind(input)])
    if not -input.size(0) <= index < input.size(0):
        raise IndexError(f"index {index} is out of bounds for dimension 0 with size {input.size(0)}")
    return unbind(input)[index]


@rule("strided", "getitem", "__getitem__")
def getitem(input, index):
    first, *others = index if isinstance(index, tuple) else (index,)
    if isinstance(first, bool) or not isinstance(first, int):
        raise NotImplementedError("a nested tensor of the strided layout is indexed by an int first: see x.unbind()")
    part = select(input, 0, first)
    return part[tuple(others)] if others else part


@form("strided", "elementwise", *_OF_VALUES)
def elementwise(func, *args, **kwargs):
    """A function of each element; of several tensors, all are nested with components of the same sizes."""
    first, *others = nested_among(args, kwargs)
    for one in others:
        if not one._raw.is_like(first._raw):
            raise RuntimeError(
                f"{func.__name__} does not support broadcasting when given a NestedTensor: the components have sizes "
                f"{first._raw.shapes[:4]} and {one._raw.shapes[:4]}"
            )
    if any(_is_dense_operand(one) for one in (*args, *kwargs.values())):
        return _with_dense(func, first, args, kwargs)
    result = func(*map(dense, args), **{name: dense(value) for name, value in kwargs.items()})
    return first if result._raw is first._raw.values else build(result, first._raw.pattern())


form("strided", "dropout", "dropout_legacy")(dropout_by(elementwise))


def _is_dense_operand(value) -> bool:
    return isinstance(value, Tensor) and not isinstance(value, NestedTensor) and value.ndim > 0


def _with_dense(func, nested, args, kwargs):
    """A dense operand (batch, 1..., n) is a row of each component's."""
    given = [one for one in (*args, *kwargs.values()) if _is_dense_operand(one)]
    if any(one.ndim != nested.ndim or one.shape[0] != nested.size(0) for one in given):
        raise RuntimeError(
            "Expected both self and other to be nested, but got a nested self and non-nested other: a dense operand "
            "must have the number of dimensions of the nested one, and a row for each component"
        )

    def of(value, i):
        return unbind(value)[i] if isinstance(value, NestedTensor) else value[i] if _is_dense_operand(value) else value

    return joined([
        func(*[of(one, i) for one in args], **{name: of(one, i) for name, one in kwargs.items()})
        for i in range(nested.size(0))
    ])  # fmt: skip


@form("strided", "in_place", "zero_", "fill_", "copy_")
def in_place(func, target, *args, **kwargs):
    """Write a nested tensor: its elements are those of a copy that was written."""
    check_leaf(target)
    others = nested_among(args, kwargs)
    if not isinstance(target, NestedTensor) or any(not one._raw.is_like(target._raw) for one in others):
        raise RuntimeError(f"{func.__name__}: operands must be nested tensors with components of the same sizes")
    return take_over(target, elements_in_place(func, target, *args, **kwargs))


@rule("strided", "contiguous")
def contiguous(input, memory_format=None):
    return input


# ---------------------------------------------------------------------------------------------------- components


def _component_dim(name, input, dim, extra=0):
    """Return the dimension of the components that is a dimension of the batch; RuntimeError for the first one."""
    dim = axes(dim, input.ndim + extra)
    if dim == 0:
        raise RuntimeError(f"{name}(): not supported along dimension 0 of nested tensors, which is the batch")
    return dim - 1


@form("strided", "softmax", "log_softmax", "functional_softmax", "functional_log_softmax", "unsqueeze", "squeeze")
def along_one(func, input, dim, *args, **kwargs):
    """An op along one dimension of each component."""
    at = _component_dim(func.__name__, input, dim, func.__name__ == "unsqueeze")
    return joined([func(part, at, *args, **kwargs) for part in unbind(input)])


@form("strided", "transpose", "swapaxes", "swapdims")
def transpose(func, input, dim0, dim1):
    a, b = (_component_dim("transpose", input, d) for d in (dim0, dim1))
    return joined([func(part, a, b) for part in unbind(input)])


@form("strided", "chunk")
def chunk(func, input, chunks, dim=0):
    at = _component_dim("chunk", input, dim)
    return tuple([joined(parts) for parts in zip(*(func(part, chunks, at) for part in unbind(input)))])


@rule("strided", "narrow")
def narrow(input, dim, start, length):
    if axes(dim, input.ndim):
        raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {dim}")
    return joined(unbind(input)[start : start + length])


@rule("strided", "cat", "concat", "concatenate")
def cat(tensors, dim=0):
    if not all(isinstance(one, ListTensor) for one in tensors):
        raise RuntimeError("cat(): expected all tensors to be nested ones of the strided layout")
    if axes(dim, tensors[0].ndim) == 0:
        return joined([part for one in tensors for part in unbind(one)])
    return joined([plugrad.cat(parts, dim - 1 if dim > 0 else dim) for parts in zip(*map(unbind, tensors))])


@rule("strided", "view", "reshape")
def reshape(input, *shape):
    shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if not shape or shape[0] not in (-1, input.size(0)):
        raise RuntimeError(f"reshape: the first size must be {input.size(0)}, the number of components: {list(shape)}")
    sizes = [-1 if not isinstance(n, int) else n for n in shape[1:]]
    return joined([part.reshape(sizes) for part in unbind(input)])


@form("strided", "sum", "mean", "amax", "amin", "prod")
def reduction(func, input, dim=None, keepdim=False, **options):
    if dim is None:
        return func(values_of(input), **options)
    dims = axes(tuple(dim) if isinstance(dim, (tuple, list)) else (dim,), input.ndim)
    if dims != (input.ndim - 1,):
        raise RuntimeError(
            f"NestedTensor can only be reduced across the last dimension for now got dimension {dims[0]} instead; "
            "reduce x.unbind(), or make it with layout=torch.jagged"
        )
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    return joined([func(part, -1, True, **options) for part in unbind(input)])


@form("strided", "linear", "layer_norm", "rms_norm", "functional_layer_norm", "functional_rms_norm")
def layer(func, input, *args, **kwargs):
    return joined([func(part, *args, **kwargs) for part in unbind(input)])


@form("strided", "embedding", "functional_embedding")
def embedding(func, *args, **kwargs):
    index = next(one for one in args if isinstance(one, NestedTensor))
    return joined([func(*[part if one is index else one for one in args], **kwargs) for part in unbind(index)])


@form("strided", "matmul", "bmm")
def matmul(func, input, mat2):
    if not isinstance(input, NestedTensor) or not isinstance(mat2, NestedTensor):
        raise RuntimeError("Expected both to be nested, but got a nested and a non-nested one; or write linear")
    return joined([plugrad.matmul(one, two) for one, two in zip(unbind(input), unbind(mat2))])


@form("strided", "scaled_dot_product_attention")
def attention(func, query, key, value, *args, **kwargs):
    if not all(isinstance(one, NestedTensor) for one in (query, key, value)):
        raise RuntimeError("scaled_dot_product_attention: query, key and value must all be nested tensors")
    return joined([func(*parts, *args, **kwargs) for parts in zip(*map(unbind, (query, key, value)))])
