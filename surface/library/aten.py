"""Ops into which PyTorch's dispatcher takes others apart, for programs that call or name them as `torch.ops.aten.X`."""

from __future__ import annotations

from importlib import import_module

import plugrad
from plugrad import absent
from plugrad.foreach import function as each
from plugrad.nn import functional as F


def _alias(input):
    return input.view_as(input)


def _lift(input):
    return input


def _index(input, indices):
    return input[tuple(slice(None) if index is None else index for index in indices)]


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
    "_convolution": convolution, "_local_scalar_dense": plugrad.Tensor.item, "_log_softmax": _log_softmax,
    "_pin_memory": plugrad.Tensor.pin_memory, "_softmax": _softmax, "_to_copy": _to_copy,
    "_unsafe_view": plugrad.Tensor.view, "alias": _alias, "convolution": convolution, "index": _index, "lift": _lift,
    "lift_fresh": _lift, "sym_numel": plugrad.Tensor.numel, "sym_size": plugrad.Tensor.size,
    "sym_stride": plugrad.Tensor.stride,
}  # fmt: skip


def inner(name):
    """Return the function of such an op; None if there is none of that name."""
    if name.startswith("_foreach_"):
        return each(name)
    if name in _INNER or not (name.startswith("_") or name == "slice"):
        return _INNER.get(name)
    return vars(import_module("plugrad.native.aten")).get(name) or absent.named(f"ops.aten.{name}")
