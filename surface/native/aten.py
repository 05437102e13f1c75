"""Functions that PyTorch has below its public ones: `torch.ops.aten.NAME`, some of them `torch._NAME` as well.

Exported graphs, decompositions and tests call them. The ops of plugrad are `torch.ops.aten.NAME` by themselves; here is
what has another name or order of arguments there.
"""

from __future__ import annotations

import builtins
import math

import plugrad
from plugrad.foreach import function as each
from plugrad.nn import functional as F


def slice(input, dim=0, start=None, end=None, step=1):
    """Return the view of every `step`-th slice from `start` to `end` along a dimension."""
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    if not input.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor: reshape it to (1,) first")
    start, end, _ = builtins.slice(start, end).indices(input.shape[dim])
    view = input.narrow(dim, start, max(end - start, 0))
    return view if step == 1 else plugrad.movedim(plugrad.movedim(view, dim, 0)[::step], 0, dim)


def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """Return the gradient of `softmax`, given its result."""
    grad, output = _wide(grad_output), _wide(output)
    product = grad * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    """Return the gradient of `log_softmax`, given its result."""
    grad = _wide(grad_output)
    return (grad - _wide(output).exp() * grad.sum(dim, keepdim=True)).to(input_dtype)


def _wide(tensor):
    """The tensor as its sums are taken: half precision in float32."""
    return tensor.float() if tensor.dtype.itemsize == 2 else tensor


def _safe_softmax(input, dim, dtype=None):
    """Return `softmax`, which is zero where all along `dim` is minus infinity."""
    empty = (input == -math.inf).all(dim, keepdim=True)
    return plugrad.softmax(input.masked_fill(empty, 0), dim, dtype=dtype).masked_fill(empty, 0)


def native_dropout_backward(grad_output, mask, scale):
    """Return the gradient of `native_dropout`, which kept what is in `mask`."""
    return grad_output * (mask.to(grad_output.dtype) * scale)


def _native_batch_norm_legit(input, weight, bias, *args, **kwargs):
    """Return (result, mean, 1 / root of the variance) of `batch_norm`.

    Called with (running_mean, running_var, training, momentum, eps), or without running statistics, by
    (training, momentum, eps).
    """
    names = ("running_mean", "running_var", "training", "momentum", "eps")[-5 if len(args) + len(kwargs) > 3 else -3 :]
    given = dict(zip(names, args, strict=False)) | kwargs
    running = given.pop("running_mean", None), given.pop("running_var", None)
    return plugrad.native_batch_norm(input, weight, bias, *running, **given)


def _batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps):
    """Return what `native_batch_norm` does in training, and an empty reserve of bytes."""
    parts = plugrad.native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return *parts, input.new_empty(0, dtype=plugrad.uint8)


def _upsample_bilinear2d_aa(
    input, output_size=None, align_corners=False, scales_h=None, scales_w=None, *, scale_factors=None
):  # fmt: skip
    """Return images resized with a filter against aliasing; `scales` count even where a size is given."""
    if output_size is None:
        return F.interpolate(input, None, scale_factors, mode="bilinear", align_corners=align_corners, antialias=True)
    apart = [
        1 / scale if scale else old / new
        for old, new, scale in zip(input.shape[2:], output_size, (scales_h, scales_w), strict=True)
    ]
    flags = "linear corners antialias" if align_corners else "linear antialias"
    return plugrad.ops.aten.resample(input, tuple(output_size), tuple(apart), flags)


def max_pool2d_with_indices_backward(
    grad_output, input, kernel_size, stride, padding, dilation, ceil_mode, indices
):  # fmt: skip
    """Return the gradient of `max_pool2d`: what reached each maximum, added up at its place."""
    nothing = plugrad.zeros_like(input)
    flat = plugrad.where(nothing.bool(), input, nothing).flatten(-2)  # the input keeps its place in the graph
    return flat.scatter_add(-1, indices.flatten(-2), grad_output.flatten(-2)).reshape(input.shape)


def _unsafe_masked_index(input, mask, indices, fill):
    """Return `input[indices]` where `mask` is True, else `fill`; indices beyond the end do no harm elsewhere."""
    if not input.numel():
        shape = plugrad.broadcast_shapes(mask.shape, *(index.shape for index in indices if index is not None))
        return input.new_full((*shape, *input.shape[len(indices) :]), fill)
    return input[_inside(input, indices)].masked_fill(~mask, fill)


def _unsafe_masked_index_put_accumulate(input, mask, indices, values):
    """Return `input` with `values` added at `indices` where `mask` is True."""
    if not input.numel():
        return input.clone()
    return input.index_put(_inside(input, indices), values.masked_fill(~mask, 0), accumulate=True)


def _inside(input, indices):
    """Indices for use in brackets, those outside of the tensor at its nearest end; None is a whole dimension."""
    return tuple(
        builtins.slice(None) if index is None else index.clamp(-size, size - 1)
        for index, size in zip(indices, input.shape, strict=False)
    )


def _chunk_cat(tensors, dim, num_chunks):
    """Split each tensor along `dim` into chunks, the last one filled up with zeros; join chunk by chunk, flattened."""
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    ndim = tensors[0].ndim
    dim = dim + ndim if dim < 0 else dim
    lead = tensors[0].shape[:dim]
    if any(not one.numel() or one.shape[:dim] != lead for one in tensors):
        raise RuntimeError("_chunk_cat expects same sizes of 0,...,dim-1 dimensions, and no empty tensor")
    rows = []
    for one in tensors:
        size = -(-one.shape[dim] // num_chunks) * num_chunks
        filler = one.new_zeros((*lead, size - one.shape[dim], *one.shape[dim + 1 :]))
        rows.append(plugrad.cat([one, filler], dim).reshape(*lead, num_chunks, -1))
    return plugrad.cat(rows, -1)


# ---------------------------------------------------------------------------------------------------- other names


def _alias(input):
    return input.view_as(input)


def _lift(input):
    return input


def _index(input, indices):
    return input[tuple(builtins.slice(None) if index is None else index for index in indices)]


def _to_copy(input, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    memory_format = plugrad.preserve_format if memory_format is None else memory_format
    return input.to(device, dtype, non_blocking, copy=True, memory_format=memory_format)


def _softmax(input, dim, half_to_float):
    return input.softmax(dim, dtype=plugrad.float32 if half_to_float else None)


def _log_softmax(input, dim, half_to_float):
    return input.log_softmax(dim, dtype=plugrad.float32 if half_to_float else None)


def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *switches):
    """Convolve, over as many dimensions as the weight has behind its first two; transposed or not."""
    name = f"conv{'_transpose' if transposed else ''}{weight.dim() - 2}d"
    if transposed:
        return getattr(F, name)(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return getattr(F, name)(input, weight, bias, stride, padding, dilation, groups)


_INNER = {
    **{one.__name__: one for one in (
        _batch_norm_with_update, _chunk_cat, _log_softmax_backward_data, _native_batch_norm_legit, _safe_softmax,
        _softmax_backward_data, _unsafe_masked_index, _unsafe_masked_index_put_accumulate, _upsample_bilinear2d_aa,
        max_pool2d_with_indices_backward, native_dropout_backward, slice,
    )},
    "_convolution": convolution, "_local_scalar_dense": plugrad.Tensor.item, "_log_softmax": _log_softmax,
    "_pin_memory": plugrad.Tensor.pin_memory, "_softmax": _softmax, "_to_copy": _to_copy,
    "_unsafe_view": plugrad.Tensor.view, "alias": _alias, "convolution": convolution, "index": _index, "lift": _lift,
    "lift_fresh": _lift, "sym_numel": plugrad.Tensor.numel, "sym_size": plugrad.Tensor.size,
    "sym_stride": plugrad.Tensor.stride,
}  # fmt: skip


def inner_op(name):
    """Return an op that PyTorch takes others apart into; None if there is none."""
    return each(name) if name.startswith("_foreach_") else _INNER.get(name)
