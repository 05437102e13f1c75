"""What all losses share: reductions, their derivatives, and the checks of arguments."""

from __future__ import annotations

import math
import warnings

import plugrad
from plugrad.extend import is_floating

REDUCTIONS = ("none", "mean", "sum")


def check_reduction(reduction) -> None:
    """Raise ValueError when `reduction` is none of "none", "mean" and "sum"."""
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        what = reduction if isinstance(reduction, str) else f"of type {type(reduction).__name__}: it"
        raise ValueError(f"{what} is not a valid value for reduction; write 'none', 'mean' or 'sum'")


def reduced(xp, values, reduction, dtype):
    """Return raw `values` as they are, their mean or their sum, as `dtype`."""
    if reduction == "none":
        return values if values.dtype == dtype else values.astype(dtype)
    total = values.sum(dtype="float32" if values.dtype.itemsize == 2 else None)
    if reduction == "mean":
        total = total / values.size if values.size else total * math.nan
    return total if total.dtype == dtype else total.astype(dtype)


def reduced_shape(shape, reduction):
    """Return the shape of a loss whose elements have the given shape."""
    return shape if reduction == "none" else ()


def each(g, reduction, shape):
    """Return the gradient of the elements, of the given shape, from that of their reduction."""
    return g / (math.prod(shape) or 1) if reduction == "mean" else g


def refuse_far(F, number, input):
    """Raise RuntimeError for a number that is larger than elements of `input` can be."""
    if not -128 < number < 128:
        F.full((2,), number, dtype=input.dtype, device=input.device)  # of one element half precision takes any


def reduce_values(F, values, reduction):
    """Return a tensor of losses, their mean or their sum; `reduction` was checked before or is checked here."""
    if reduction == "mean":
        return F.mean(values)
    if reduction == "sum":
        return F.sum(values)
    check_reduction(reduction)
    return values


def paired(F, input, target):
    """Return two tensors brought to one shape and dtype; different shapes are warned of, as they are mostly a slip."""
    if input.shape != target.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=4,
        )
        input, target = F.broadcast_tensors(input, target)
    if input.dtype is not target.dtype:
        dtype = plugrad.promote_types(input.dtype, target.dtype)
        input, target = input.to(dtype), target.to(dtype)
    return input, target


def refuse_derived(function, argument, tensor) -> None:
    """Raise PyTorch's error for a factor that requires grad where the loss has no derivative by it."""
    if tensor is not None and tensor.requires_grad and plugrad.is_grad_enabled():
        raise RuntimeError(
            f"The function {function!r} is not differentiable with respect to argument {argument!r}: detach() it"
        )


def refuse_integers(kernel, input) -> None:
    """Raise PyTorch's error when a loss is asked for integers."""
    if not is_floating(input.dtype):
        raise NotImplementedError(f'"{kernel}" not implemented for {input.dtype} tensors; convert with .float()')
