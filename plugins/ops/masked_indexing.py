"""Ops that read or write single elements at flat positions or through a bool mask: take, put, masked_fill..."""

from __future__ import annotations

from plugrad.extend import Op, broadcast_shapes, collect, elementwise, hookimpl, native, op, refuse_outside

from . import _index as ix
from ._checks import NUMBERS, element, fitted, is_for_c


@op()
def take(xp, input, index):
    """The elements at flat positions; negative ones count from the end.

    >>> import plugrad as torch
    >>> torch.take(torch.tensor([[4, 3], [2, 1]]), torch.tensor([0, -1]))
    tensor([4, 1])
    """
    ix.check_index_dtype("take", index, ("int64",))
    if input.size == 0 and index.size:
        raise IndexError("take(): tried to take from an empty tensor")
    refuse_positions(xp, index, input.size)
    return input.reshape(-1)[index] if index.size else xp.empty(index.shape, input.dtype)


def refuse_positions(xp, index, size):
    def outside(worst):
        return IndexError(f"out of range: tried to access index {worst} on a tensor of {size} elements.")

    refuse_outside(xp, index, -size, size, outside)


@take.meta
def take_meta(input, index):
    return index.shape, input.dtype


@take.vjp
def take_vjp(F, g, input_shape, index):
    return F.put(F.new_zeros(g, input_shape), index, g, True)


@take.samples
def take_samples(make):
    yield make.args(make(3, 4), make.ints(5, low=0, high=12))


@op(inplace=True, like="input", kinds={"source": "tensor"})
def put(xp, input, index, source, accumulate=False):
    """A copy of `input` with `source` written (or added) at flat positions.

    >>> import plugrad as torch
    >>> torch.put(torch.zeros(2, 2), torch.tensor([1, -1]), torch.tensor([5.0, 6.0]))
    tensor([[0., 5.],
            [0., 6.]])
    """
    ix.check_index_dtype("put_", index, ("int64",))
    if source.dtype != input.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{input.dtype} and source.dtype = {source.dtype}"
        )
    if source.size != index.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.size}, index.numel() = {index.size}"
        )
    refuse_positions(xp, index, input.size)
    out = xp.array(input, order="C", copy=True)
    if index.size and accumulate:
        ix.combine_at(xp, xp.add, out.reshape(-1), index.ravel() % input.size, source.ravel())
    elif index.size:
        out.reshape(-1)[index.ravel()] = source.ravel()
    return out


@put.vjp("input")
def put_vjp_input(F, g, index, accumulate):
    return g if accumulate else F.put(g, index, F.new_zeros(g, index.shape))


@put.vjp("source")
def put_vjp_source(F, g, index, source_shape):
    return F.reshape(F.take(g, index), source_shape)


@put.samples
def put_samples(make):
    yield make.args(make(3, 4), make.ints(3, low=0, high=12), make(3), True)


def refuse_mask(name, mask) -> None:
    """Raise RuntimeError unless a mask is one of bools."""
    if mask.dtype.kind != "b":
        raise RuntimeError(
            f"{name} only supports boolean masks, but got mask with dtype {mask.dtype}; write mask.bool()"
        )


@elementwise(
    tensors=("input", "mask", "value"), same=("input",), inplace=True, kinds={"value": "tensor|number"},
    fits=("value",), node={"MaskedFillBackward1": "isinstance(value, Tensor)"}, any_order="rows",
)  # fmt: skip
def masked_fill(xp, input, mask, value):
    """`input` with `value` (a number or a 0-d tensor) where the bool `mask` is True.

    >>> import plugrad as torch
    >>> torch.masked_fill(torch.zeros(2), torch.tensor([True, False]), 5.0)
    tensor([5., 0.])
    """
    refuse_mask("masked_fill_", mask)
    if getattr(value, "ndim", 0):
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    value = element(input.dtype, value)
    if getattr(value, "dtype", input.dtype) != input.dtype:
        value = fitted(input.dtype, value.item())
    return xp.where(mask, value, input)


@masked_fill.kernel("cpu")
@native("choose", otherwise=masked_fill)
def masked_fill_in_c(call, xp, input, mask, value):
    if value.__class__ in NUMBERS:
        return call(input, mask, True, True, value) if is_for_c(value) else NotImplemented
    return NotImplemented if getattr(value, "ndim", 1) else call(input, value, mask, True, False)


@masked_fill.vjp("input")
def masked_fill_vjp_input(F, g, mask):
    return F.masked_fill(g, mask, 0)


@masked_fill.vjp("value")
def masked_fill_vjp_value(F, g, mask):
    return F.masked_fill(g, ~mask, 0)


@masked_fill.samples
def masked_fill_samples(make):
    yield make.args(make(2, 3), make.bool(2, 3), 1.5)
    yield make.args(make(2, 3), make.bool(3), make())


@op(eight_bits=True)
def masked_select(xp, input, mask):
    """The elements where the bool `mask` is True, as a 1-d tensor.

    `mask` and `input` broadcast.

    >>> import plugrad as torch
    >>> torch.masked_select(torch.tensor([5, 6]), torch.tensor([False, True]))
    tensor([6])
    """
    if mask.dtype.kind != "b":
        raise RuntimeError("masked_select: expected BoolTensor for mask; write mask.bool()")
    shape = broadcast_shapes(input.shape, mask.shape)
    return xp.broadcast_to(input, shape)[xp.broadcast_to(mask, shape)]


@masked_select.meta
def masked_select_meta(input, mask):
    raise NotImplementedError("masked_select has no result shape on the meta device: it depends on the mask's values")


@masked_select.vjp
def masked_select_vjp(F, g, input_shape, mask):
    shape = broadcast_shapes(input_shape, mask.shape)
    return F.sum_to_size(F.masked_scatter(F.new_zeros(g, shape), mask, g), input_shape)


@masked_select.samples
def masked_select_samples(make):
    yield make.args(make(2, 3), make.bool(2, 3))
    yield make.args(make(3), make.bool(2, 3))


@op(inplace=True, any_order=True, kinds={"source": "tensor"})
def masked_scatter(xp, input, mask, source):
    """`input` with the elements of `source`, in order, where the bool `mask` is True.

    >>> import plugrad as torch
    >>> torch.masked_scatter(torch.zeros(3), torch.tensor([True, False, True]), torch.tensor([5.0, 6.0]))
    tensor([5., 0., 6.])
    """
    refuse_mask("masked_scatter_", mask)
    if source.dtype != input.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got {input.dtype} and {source.dtype}"
        )
    shape = broadcast_shapes(input.shape, mask.shape)
    out, mask = xp.array(xp.broadcast_to(input, shape)), xp.broadcast_to(mask, shape)
    count = int(mask.sum())
    if source.size < count:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    out[mask] = source.ravel()[:count]
    return out


@masked_scatter.meta
def masked_scatter_meta(input, mask, source):
    return broadcast_shapes(input.shape, mask.shape), input.dtype


@masked_scatter.vjp("input")
def masked_scatter_vjp_input(F, g, input_shape, mask):
    return F.sum_to_size(F.masked_fill(g, mask, 0), input_shape)


@masked_scatter.vjp("source")
def masked_scatter_vjp_source(F, g, mask, source_shape):
    picked, size = F.masked_select(g, mask), 1
    for n in source_shape:
        size *= n
    return F.reshape(F.put_in_zeros(picked, (size,), (slice(picked.shape[0]),)), source_shape)


@masked_scatter.samples
def masked_scatter_samples(make):
    yield make.args(make(2, 3), make.bool(2, 3), make(6))


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
