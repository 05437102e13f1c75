"""What ops do with jagged tensors: elementwise functions, copies, and what moves elements."""

from __future__ import annotations

import plugrad
from plugrad import Tensor
from plugrad.extend import axes
from plugrad.nested.creation import to_padded_tensor
from plugrad.nested.padding import without_gaps
from plugrad.nested.sizes import RaggedSize
from plugrad.nested.tensors import (
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

# What gives a tensor like the first argument, and asks for no dimension.
_OF_VALUES = (
    "clone alpha_dropout zeros_like ones_like empty_like full_like rand_like randn_like "
    "randint_like bernoulli where_or_nonzero where_method masked_fill float double half bfloat16 long int short char "
    "bool type_as to cpu cuda"
).split()


def alike(name, tensors):
    """Return the pattern of jagged tensors; RuntimeError if they are not ragged in the same way."""
    first, *others = tensors
    for one in others:
        if not one._raw.is_like(first._raw) or one.ndim != first.ndim:
            shapes = " and ".join(str(tuple(tensor.shape)) for tensor in (first, one))
            raise RuntimeError(
                f"cannot call {name} with inputs of shapes {shapes}: they are ragged in different ways. Make them of "
                "one tensor of offsets by nested_tensor_from_jagged(values, x.offsets())"
            )
    return first._raw.pattern()


def fitted(name, value, nested):
    """Return an operand in a form that broadcasts with the values of a jagged tensor."""
    if isinstance(value, NestedTensor):
        return values_of(value)
    if not isinstance(value, Tensor) or not value.ndim:
        return value
    array, ragged = nested._raw, nested._raw.ragged
    shape = (1,) * (nested.ndim - value.ndim) + tuple(value.shape)
    if len(shape) > nested.ndim or shape[ragged] != 1 or shape[0] not in (1, array.batch):
        raise RuntimeError(
            f"cannot call {name} with inputs of shapes {tuple(nested.shape)} and {tuple(value.shape)}: a dense operand "
            "must have the size 1 along the ragged dimension, and along the batch 1 or its size"
        )
    value = value.reshape(shape)
    if shape[0] == 1:
        return value.squeeze(0)
    rows = array.rows(array.values.shape[ragged - 1])
    return value.squeeze(ragged).index_select(0, plugrad.as_tensor(rows, device=value.device)).movedim(0, ragged - 1)


@form("jagged", "elementwise", *_OF_VALUES)
def elementwise(func, *args, **kwargs):
    """A function of each element, of one tensor or several that broadcast."""
    tensors = nested_among(args, kwargs)
    pattern = alike(func.__name__, tensors)
    args = [fitted(func.__name__, value, tensors[0]) for value in args]
    kwargs = {name: fitted(func.__name__, value, tensors[0]) for name, value in kwargs.items()}
    result = func(*args, **kwargs)
    same = isinstance(args[0], Tensor) and result is args[0] and isinstance(tensors[0], NestedTensor)
    return tensors[0] if same or result._raw is tensors[0]._raw.values else build(result, pattern)


def dropout_by(elementwise):
    """Return dropout of nested tensors of one layout, from the rule for its elementwise ops."""

    def dropout(func, input, p=0.5, *mode, **named):
        _draw(input, p, *mode, **named)
        return elementwise(func, input, p, *mode, **named)

    return dropout


def _draw(input, p, training=True, inplace=False, *, train=True):
    """Draw what PyTorch's dropout draws for nested tensors alone: a number for each element where p is 0 or 1, too."""
    if training and train and p in (0, 1):
        plugrad.empty(values_of(input).shape).bernoulli_(1 - p)


form("jagged", "dropout", "dropout_legacy")(dropout_by(elementwise))


@form("jagged", "in_place", "zero_", "fill_", "copy_")
def in_place(func, target, *args, **kwargs):
    """Write a nested tensor: its elements are those of a copy that was written."""
    if not isinstance(target, NestedTensor):
        raise RuntimeError(f"{func.__name__}: a dense tensor can't be written from a nested one; use the result of +")
    check_leaf(target)
    alike(func.__name__, nested_among((target, *args), kwargs))
    others = [fitted(func.__name__, one, target) for one in args]
    return take_over(target, elements_in_place(func, target, *others, **kwargs))


rules["jagged"]["to_padded_tensor"] = to_padded_tensor


@rule("jagged", "contiguous")
def contiguous(input, memory_format=None):
    return without_gaps(input)


# ---------------------------------------------------------------------------------------------------- dimensions


def inner(name, input, dim, extra=0):
    """Return the place in the values of a dimension that is neither batch nor ragged; RuntimeError for these."""
    dim = axes(dim, input.ndim + extra)
    if dim == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0: write it of x.unbind()")
    if dim == input._raw.ragged and not extra:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim: write it of x.unbind()")
    return dim - 1


def _behind(array, dim):
    """Return the ragged dimension after one was put in, or taken out, at a place of the values."""
    return array.ragged + (1 if dim < array.ragged else 0)


@rule("jagged", "unbind")
def unbind(input, dim=0):
    if axes(dim, input.ndim):
        raise RuntimeError(f"unbind(): nested tensors only support dim=0, got dim={dim}; write select(dim, i)")
    values, along = values_of(input), input._raw.ragged - 1
    return tuple([values.narrow(along, int(b), int(n)) for b, n in zip(*input._raw.bounds)])


@rule("jagged", "select")
def select(input, dim, index):
    if axes(dim, input.ndim) == 0:
        begins, lengths = input._raw.bounds
        if not -len(begins) <= index < len(begins):
            raise IndexError(f"select(): index {index} out of range for a nested tensor of {len(begins)} components")
        return values_of(input).narrow(input._raw.ragged - 1, int(begins[index]), int(lengths[index]))
    at = inner("select", input, dim)
    pattern = input._raw.with_values(None, input._raw.ragged - (at < input._raw.ragged - 1))
    return build(values_of(input).select(at, index), pattern)


@rule("jagged", "getitem", "__getitem__")
def getitem(input, index):
    index = index if isinstance(index, tuple) else (index,)
    first, *others = index
    if isinstance(first, int) and not isinstance(first, bool):
        component = select(input, 0, first)
        return component[tuple(others)] if others else component
    if first is Ellipsis:
        given = sum(one is not None for one in others)
        if any(one is Ellipsis for one in others) or given > input.ndim - 1:
            raise IndexError(f"too many indices for a nested tensor of {input.ndim} dimensions")
        whole, at = (slice(None),) * (input.ndim - given), input.ndim - given
    else:
        given = sum(one is not None for one in others) + 1
        whole, at, others = (first,), 1, others
    if any(one != slice(None) for one in whole):
        raise RuntimeError("slice(): not supported for NestedTensor on dim=0: index by an int, or x.unbind()")
    return _indexed(input, others, at)


def _indexed(input, items, dim):
    """Index the dimensions from `dim` on by ints, slices and None."""
    for item in items:
        if item is None:
            input, dim = unsqueeze(input, dim), dim + 1
        elif isinstance(item, int) and not isinstance(item, bool):
            input = select(input, dim, item)
        elif item == slice(None):
            dim += 1
        elif isinstance(item, slice):
            at = inner("slice", input, dim)
            values = values_of(input)
            input, dim = build(values[(slice(None),) * at + (item,)], input._raw.pattern()), dim + 1
        else:
            raise NotImplementedError(f"an index of {type(item).__name__} has no rule for nested tensors: x.unbind()")
    return input


@rule("jagged", "transpose", "swapaxes", "swapdims")
def transpose(input, dim0, dim1):
    dims = list(range(input.ndim))
    a, b = axes(dim0, input.ndim), axes(dim1, input.ndim)
    dims[a], dims[b] = dims[b], dims[a]
    return permute(input, dims)


@rule("jagged", "permute")
def permute(input, *dims):
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    dims = list(axes(tuple(dims), input.ndim))
    if len(dims) != input.ndim:
        raise RuntimeError(f"permute(): a nested tensor of {input.ndim} dimensions needs as many, not {len(dims)}")
    if dims[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT: it stays the first one")
    pattern = input._raw.with_values(None, dims.index(input._raw.ragged))
    return build(values_of(input).permute([d - 1 for d in dims[1:]]), pattern)


@rule("jagged", "unsqueeze")
def unsqueeze(input, dim):
    at = inner("unsqueeze", input, dim, 1)
    return build(values_of(input).unsqueeze(at), input._raw.with_values(None, _behind(input._raw, at)))


@rule("jagged", "squeeze")
def squeeze(input, dim=None):
    if dim is None:
        raise RuntimeError("squeeze(): nested tensors need dim, which can't be the batch or the ragged dimension")
    at = inner("squeeze", input, dim)
    if input.shape[at + 1] != 1:
        return input
    pattern = input._raw.with_values(None, input._raw.ragged - (at < input._raw.ragged - 1))
    return build(values_of(input).squeeze(at), pattern)


@form("jagged", "chunk", "split", "split_with_sizes", "tensor_split")
def split(func, input, parts, dim=0):
    at = axes(dim, input.ndim)
    if at == 0 and func.__name__ == "chunk":
        return _batches(input, parts)
    at = inner(func.__name__, input, dim)
    return tuple([build(part, input._raw.pattern()) for part in func(values_of(input), parts, at)])


def _batches(input, parts):
    """The components in some groups, each a nested tensor."""
    each = -(-len(input) // parts)
    components = unbind(input)
    groups = [components[i : i + each] for i in range(0, len(components), each)]
    return tuple([_of_components(group, input._raw.ragged) for group in groups])


def _of_components(components, ragged):
    lengths = plugrad.tensor([0, *(one.shape[ragged - 1] for one in components)], device=components[0].device)
    values = plugrad.cat(list(components), ragged - 1)
    return plugrad.nested.nested_tensor_from_jagged(values, lengths.cumsum(0), jagged_dim=ragged)


@form("jagged", "narrow")
def narrow(func, input, dim, start, length):
    return build(func(values_of(input), inner("narrow", input, dim), start, length), input._raw.pattern())


@form("jagged", "cat", "concat", "concatenate")
def cat(func, tensors, dim=0):
    first = next(one for one in tensors if isinstance(one, NestedTensor))
    at = inner("cat", first, dim)
    _require_nested("cat", tensors)
    return build(func([values_of(one) for one in tensors], at), alike("cat", tensors))


@form("jagged", "stack")
def stack(func, tensors, dim=0):
    _require_nested("stack", tensors)
    pattern = alike("stack", tensors)
    at = inner("stack", tensors[0], dim, 1)
    return build(func([values_of(one) for one in tensors], at), pattern.with_values(None, _behind(pattern, at)))


def _require_nested(name, tensors):
    for one in tensors:
        if not isinstance(one, NestedTensor):
            raise RuntimeError(f"{name}(): all tensors must be nested, got a dense one of shape {list(one.shape)}")


@rule("jagged", "expand", "broadcast_to")
def expand(input, *size):
    size = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    array = input._raw
    keeps = (-1, array.ragged_size)
    if len(size) != input.ndim or size[0] not in (-1, array.batch) or size[array.ragged] not in keeps:
        raise RuntimeError(
            f"expand(): cannot expand shape {tuple(input.shape)} to {tuple(size)}: batch and ragged dimension stay"
        )
    wanted = [-1 if isinstance(n, RaggedSize) else n for n in size[1:]]
    return build(values_of(input).expand(wanted), array.pattern())


@rule("jagged", "expand_as")
def expand_as(input, other):
    return expand(input, tuple(other.shape))


# ---------------------------------------------------------------------------------------------------- shapes


@rule("jagged", "view", "reshape")
def reshape(input, *shape):
    """The values in another shape: sizes before and behind the ragged one can be split and joined."""
    shape = list(shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
    array, wrong = input._raw, f"view(): cannot view shape {tuple(input.shape)} as {shape}"
    at = next((i for i, n in enumerate(shape) if isinstance(n, RaggedSize)), None)
    if at is None:  # -1 stands for the ragged size
        at = _place_of_ragged(array, shape)
    if at is None or not shape or shape[0] not in (-1, array.batch) or at == 0:
        raise RuntimeError(f"{wrong}: batch and ragged dimension stay; write x.shape[{array.ragged}], or -1, for that")
    if shape[at] not in (-1, array.ragged_size):
        raise RuntimeError(f"{wrong}: its ragged size is {array.ragged_size}")
    values = values_of(input)
    before, after = values.shape[: array.ragged - 1], values.shape[array.ragged :]
    new_before, new_after = shape[1:at], shape[at + 1 :]
    total = values.shape[array.ragged - 1]
    try:
        new_before = plugrad.empty(before, device="meta").reshape(new_before).shape
        new_after = plugrad.empty(after, device="meta").reshape(new_after).shape
    except RuntimeError as error:
        raise RuntimeError(f"{wrong}: {error}") from None
    return build(values.reshape(*new_before, total, *new_after), array.with_values(None, at))


def _place_of_ragged(array, shape):
    """Return which entry of a shape of numbers is the ragged one: the -1 before which the sizes are as they were."""
    count, at = 1, None
    for i, n in enumerate(shape[1:], 1):
        if n == -1 and count == _product(array.values.shape[: array.ragged - 1]):
            at = i
            break
        count *= n
    return at


def _product(sizes):
    count = 1
    for n in sizes:
        count *= n
    return count


@rule("jagged", "view_as", "reshape_as")
def reshape_as(input, other):
    return reshape(input, tuple(other.shape))


@form("jagged", "unflatten")
def unflatten(func, input, dim, sizes):
    at = inner("unflatten", input, dim)
    added = len(tuple(sizes)) - 1
    ragged = input._raw.ragged
    pattern = input._raw.with_values(None, ragged + (added if at < ragged - 1 else 0))
    return build(func(values_of(input), at, sizes), pattern)


@form("jagged", "flatten")
def flatten(func, input, start_dim=0, end_dim=-1):
    start, end = (axes(d, input.ndim) for d in (start_dim, end_dim))
    ragged = input._raw.ragged
    if start == 0 or start <= ragged <= end and start != end:
        what = "dim=0" if start == 0 else "ragged dim"
        raise RuntimeError(f"flatten(): not supported for NestedTensor on {what}: write x.values().flatten()")
    moved = ragged - (end - start if end < ragged else 0)
    return build(func(values_of(input), start - 1, end - 1), input._raw.with_values(None, moved))


@rule("jagged", "equal")
def equal(input, other):
    both = isinstance(input, NestedTensor) and isinstance(other, NestedTensor)
    return both and input._raw.is_like(other._raw) and plugrad.equal(dense(input), dense(other))
