"""Making nested tensors: from tensors of different sizes, from values and offsets, from parts of a dense tensor."""

from __future__ import annotations

import plugrad
from plugrad import Tensor
from plugrad.arguments import checked
from plugrad.backends import warn_once
from plugrad.nested.arrays import JaggedArray, ListArray
from plugrad.nested.padding import pad
from plugrad.nested.tensors import ListTensor, NestedTensor, build, jagged

_KINDS = {"dtype": "dtype?", "device": "device?", "layout": "layout?"}


_PROTOTYPE = (
    "The PyTorch API of nested tensors is in prototype stage and will change in the near future. We recommend "
    "specifying layout=torch.jagged when constructing a nested tensor: that layout has better operator coverage"
)


def _is_jagged(layout, name) -> bool:
    if layout is None or layout is plugrad.strided:
        warn_once("strided nested tensors", _PROTOTYPE, stacklevel=4)  # past `checked`, to who makes the tensor
        return False
    if layout is not jagged:
        raise RuntimeError(f"{name}(): unsupported layout for nested tensors: {layout}; write torch.jagged")
    return True


@checked(requires_grad="bool", pin_memory="bool?", **_KINDS)
def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """Return a nested tensor, a leaf, with copies of some tensors.

    Args:
        tensor_list: tensors of one number of dimensions, or what `torch.tensor` takes.
        dtype: of the elements, by default that of the first tensor.
        layout: `torch.strided`, in which the tensors may differ in every dimension, or `torch.jagged`, in which they
            differ in one, and for which there are more ops.
        device: where it is, by default where the first tensor is.
        requires_grad: whether it requires a gradient.

    Raises TypeError for what is no list, RuntimeError for tensors that don't go together.

    >>> import plugrad as torch
    >>> x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    >>> x.mean(-1).sum(1)
    tensor([2., 4.])
    """
    if not isinstance(tensor_list, (list, tuple)):
        raise TypeError("Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor")
    tensors = [one.detach() if isinstance(one, Tensor) else plugrad.as_tensor(one) for one in tensor_list]
    if tensors and dtype is None:
        dtype = tensors[0].dtype
    with plugrad.no_grad():
        nested = _joined(tensors, dtype, device, _is_jagged(layout, "nested_tensor"))
    return nested.requires_grad_(requires_grad)


@checked(**_KINDS)
def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """Return a nested tensor to which the history of some tensors leads.

    Args:
        ts: a list of tensors, or one tensor, whose first dimension is the batch; a nested tensor stays as it is.
        dtype, device, layout: as for nested_tensor.

    Raises TypeError for anything else, RuntimeError for tensors that don't go together.

    >>> import plugrad as torch
    >>> a, b = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    >>> (torch.nested.as_nested_tensor([a, b], layout=torch.jagged) * 2).sum().backward()
    >>> a.grad
    tensor([2., 2.])
    """
    if isinstance(ts, NestedTensor):
        if ts.layout is not layout:
            raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
        return ts.to(device=device, dtype=dtype)
    is_jagged = _is_jagged(layout, "as_nested_tensor")
    if isinstance(ts, (list, tuple)) and all(isinstance(one, Tensor) for one in ts):
        return _joined(list(ts), dtype, device, is_jagged)
    if not isinstance(ts, Tensor):
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors, not "
            f"{type(ts).__name__}"
        )
    if ts.dim() < 2:
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
    values, (count, length) = ts.to(device=device, dtype=dtype), ts.shape[:2]
    if not is_jagged:
        return build(values.reshape(-1), ListArray(None, [ts.shape[1:]] * count))
    offsets = plugrad.arange(count + 1, device=values.device) * length
    return build(values.flatten(0, 1), JaggedArray(None, offsets._raw))


def _joined(tensors, dtype, device, is_jagged):
    """Return a nested tensor of a list of tensors."""
    if is_jagged and not tensors:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    for place, one in enumerate(tensors):
        if one.ndim != tensors[0].ndim:
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                f"{one.ndim} for Tensor at index {place} and dimension {tensors[0].ndim} for Tensor at index 0."
            )
    tensors = [one.to(device=device, dtype=dtype) for one in tensors]
    if not is_jagged:
        values = plugrad.cat([one.reshape(-1) for one in tensors]) if tensors else plugrad.zeros(0, dtype=dtype)
        return build(values, ListArray(None, [one.shape for one in tensors]))
    if not tensors[0].ndim:
        raise RuntimeError("When constructing a jagged nested tensor, all tensors must have at least one dimension")
    irregular = [d for d in range(tensors[0].ndim) if len({one.shape[d] for one in tensors}) > 1]
    if len(irregular) > 1:
        raise RuntimeError(
            f"jagged nested tensors differ in one dimension, and these tensors in dimensions {irregular}; leave out "
            "layout=torch.jagged"
        )
    along = irregular[0] if irregular else 0
    lengths = plugrad.tensor([0, *(one.shape[along] for one in tensors)], device=tensors[0].device)
    return build(plugrad.cat(tensors, along), JaggedArray(None, lengths.cumsum(0)._raw, None, along + 1))


@checked(values="tensor", offsets="tensor?", lengths="tensor?", jagged_dim="int?", min_seqlen="int?", max_seqlen="int?")
def nested_tensor_from_jagged(
    values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None
):  # fmt: skip
    """Return a nested tensor whose components lie one after another in a tensor.

    Args:
        values: the tensor; gradients lead to it, and it is not copied.
        offsets: where each component begins, and where the last one ends.
        lengths: how long each component is; needed only without offsets, or if there are gaps behind them.
        jagged_dim: the dimension of the nested tensor that is ragged, 1 unless given.
        min_seqlen, max_seqlen: the shortest and the longest length, which are computed here in any case.

    Raises RuntimeError without offsets and lengths, ValueError for a `jagged_dim` below 1.

    >>> import plugrad as torch
    >>> torch.nested.nested_tensor_from_jagged(torch.arange(5), torch.tensor([0, 2, 5])).unbind()
    (tensor([0, 1]), tensor([2, 3, 4]))
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets, lengths = plugrad.nn.functional.pad(lengths.cumsum(0), (1, 0)), None
    jagged_dim = 1 if jagged_dim is None else jagged_dim
    if jagged_dim < 1:
        raise ValueError(f"Expected jagged_dim >=1, but got {jagged_dim}.")
    if jagged_dim > values.ndim:
        raise RuntimeError(f"values of {values.ndim} dimensions have no place for jagged_dim={jagged_dim}")
    if offsets.ndim != 1 or not len(offsets) or lengths is not None and len(lengths) != len(offsets) - 1:
        raise RuntimeError("nested_tensor_from_jagged(): offsets must be a vector, with one element more than lengths")
    raw = None if lengths is None else lengths._raw
    return build(values, _checked(JaggedArray(None, offsets._raw, raw, jagged_dim), values.shape[jagged_dim - 1]))


def _checked(pattern, total):
    """Return a pattern whose components are within `total` places; RuntimeError otherwise."""
    begins, lengths = pattern.bounds
    if len(lengths) and (begins.min() < 0 or lengths.min() < 0 or (begins + lengths).max() > total):
        raise RuntimeError(
            f"offsets and lengths must say places from 0 to {total}, in order: they begin at {begins.tolist()[:8]} and "
            f"are {lengths.tolist()[:8]} long"
        )
    return pattern


@checked(tensor="tensor", dim="int", layout="layout?")
def narrow(tensor, dim, start, length, layout=plugrad.strided):
    """Return a nested tensor of a part of each row of a dense tensor.

    Args:
        tensor: a dense tensor; its first dimension is the batch.
        dim: the dimension that is narrowed: 1 in the jagged layout, 0 in the strided one.
        start, length: ints, or in the jagged layout tensors with one for each row.

    In the jagged layout it is a view, with gaps. Raises RuntimeError for other arguments.

    >>> import plugrad as torch
    >>> x = torch.arange(6).reshape(2, 3)
    >>> torch.nested.narrow(x, 1, torch.tensor([0, 1]), torch.tensor([1, 2]), layout=torch.jagged).unbind()
    (tensor([0]), tensor([4, 5]))
    """
    for name, value in (("start", start), ("length", length)):
        if not isinstance(value, (int, Tensor)):
            raise RuntimeError(f"{name} must be an integer or a tensor")
    if not _is_jagged(layout, "narrow"):
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        if dim:
            raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {dim}")
        return as_nested_tensor(plugrad.narrow(tensor, 0, start, length).unbind())
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    count, width = tensor.shape[:2]
    starts, lengths = (plugrad.as_tensor(one, device=tensor.device).expand(count) for one in (start, length))
    begins = plugrad.arange(count, device=tensor.device) * width + starts
    offsets = plugrad.cat([begins, begins.new_tensor([count * width])])
    pattern = _checked(JaggedArray(None, offsets._raw, lengths.contiguous()._raw), count * width)
    return build(tensor.flatten(0, 1), pattern)


@checked(tensor="tensor", mask="tensor")
def masked_select(tensor, mask):
    """Return a nested tensor of the elements of each row where a mask is True.

    >>> import plugrad as torch
    >>> mask = torch.tensor([[True, False], [True, True]])
    >>> torch.nested.masked_select(torch.arange(4).reshape(2, 2), mask).unbind()
    (tensor([0]), tensor([2, 3]))
    """
    for name, one in (("tensor", tensor), ("mask", mask)):
        if one.layout is not plugrad.strided or one.is_nested:
            raise RuntimeError(f"torch.nested.masked_select requires a strided {name}, given: {one.layout}")
    lengths = mask.expand(tensor.shape).sum(-1).reshape(-1)
    return nested_tensor_from_jagged(tensor.masked_select(mask), lengths=lengths)


def to_padded_tensor(input, padding, output_size=None, out=None):
    """Return a dense tensor with the components of a nested one, then a number.

    Args:
        input: a nested tensor.
        padding: the number.
        output_size: the size of the result; by default the smallest that holds all components.

    Raises RuntimeError for an `output_size` that is too small, and for what is not nested.

    >>> import plugrad as torch
    >>> x = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([3])], layout=torch.jagged)
    >>> torch.nested.to_padded_tensor(x, 0)
    tensor([[1, 2],
            [3, 0]])
    """
    if not isinstance(input, NestedTensor):
        raise RuntimeError("to_padded_tensor(): the input must be a nested tensor; nn.functional.pad pads dense ones")
    if out is not None:
        raise NotImplementedError("to_padded_tensor(): there is no out=; use the result")
    size = _of_components(input) if isinstance(input, ListTensor) else list(input._raw.shape)
    if not isinstance(input, ListTensor):
        if input._raw.lengths is not None:
            raise RuntimeError("to_padded_tensor(): not supported for nested tensors with holes; write x.contiguous()")
        size[input._raw.ragged] = input._raw.longest
    wanted = size if output_size is None else list(output_size)
    if len(wanted) != len(size):
        raise RuntimeError(f"Output size must have {len(size)} dimensions, but has {len(wanted)}")
    if any(n < m for n, m in zip(wanted, size)):
        raise RuntimeError("Value in output_size is less than NestedTensor padded size. Truncation is not supported.")
    if isinstance(input, ListTensor):
        parts = [_padded_behind(part, wanted[1:], padding) for part in input.unbind()]
        empty = plugrad.full(wanted, padding, dtype=input.dtype, device=input.device)
        parts += list(empty[len(parts) :].unbind())
        return plugrad.stack(parts) if parts else empty
    return _padded_behind(pad(input, padding), wanted, padding)


def _of_components(nested) -> list:
    shapes = nested._raw.shapes
    return [len(shapes), *(max(sizes) for sizes in zip(*shapes))]


def _padded_behind(tensor, size, padding):
    sides = [side for n, m in reversed(list(zip(size, tensor.shape))) for side in (0, n - m)]
    return plugrad.nn.functional.pad(tensor, sides, value=padding) if any(sides) else tensor
