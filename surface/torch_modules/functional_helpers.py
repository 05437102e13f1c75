"""Private functions of `torch.nn.functional` that copies of PyTorch's layers, in many packages, import."""

from __future__ import annotations

import math
import warnings

import plugrad
from plugrad import Tensor
from plugrad.nn import functional


def _in_projection_packed(q, k, v, w, b=None) -> list:
    """Project queries, keys and values of size E by weights (3 E, E) and biases (3 E) that stand one upon the other.

    >>> import plugrad as torch
    >>> x, w = torch.ones(1, 2), torch.cat([torch.eye(2), 2 * torch.eye(2), 3 * torch.eye(2)])
    >>> torch.nn.functional._in_projection_packed(x, x, x, w)
    [tensor([[1., 1.]]), tensor([[2., 2.]]), tensor([[3., 3.]])]
    """
    return [
        functional.linear(*parts) for parts in zip((q, k, v), w.chunk(3), (None,) * 3 if b is None else b.chunk(3))
    ]


def _in_projection(q, k, v, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None) -> tuple:
    """Project queries, keys and values to the size E of the queries; AssertionError for other shapes."""
    size = q.size(-1)
    parts = [("query", q, w_q, b_q), ("key", k, w_k, b_k), ("value", v, w_v, b_v)]
    for name, x, weight, bias in parts:
        if weight.shape != (size, x.size(-1)):
            wanted = (size, x.size(-1))
            raise AssertionError(f"expecting {name} weights shape of {wanted}, but got {weight.shape}")
        if bias is not None and bias.shape != (size,):
            raise AssertionError(f"expecting {name} bias shape of {(size,)}, but got {bias.shape}")
    return tuple([functional.linear(x, weight, bias) for _, x, weight, bias in parts])


def _none_or_dtype(input):
    """The dtype of a tensor, None for None; RuntimeError for anything else."""
    if input is None or isinstance(input, Tensor):
        return None if input is None else input.dtype
    raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """Return a mask as numbers to add to scores: minus infinity where a boolean one is True.

    Raises AssertionError for masks of integers; a dtype other than that of the `other_name`d mask is warned of.

    >>> import plugrad as torch
    >>> torch.nn.functional._canonical_mask(torch.tensor([True, False]), "mask", None, "", torch.float32)
    tensor([-inf, 0.])
    """
    if mask is None:
        return None
    if mask.dtype is not plugrad.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=2,
        )
    if mask.is_floating_point():
        return mask
    return plugrad.zeros_like(mask, dtype=target_type).masked_fill_(mask, -math.inf)


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dimension that `softmax` takes where none is given, with a warning."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _verify_batch_size(size) -> None:
    """Raise ValueError for an input from which no statistics of channels can be had."""
    if math.prod(size) == size[1]:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def _verify_spatial_size(size) -> None:
    """Raise ValueError for an input from which no statistics of single images can be had."""
    if math.prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {size}")


def _no_grad_embedding_renorm_(weight, input, max_norm: float, norm_type: float) -> None:
    """Scale the rows of a weight that are looked up down to a norm, in place and without history."""
    plugrad.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
