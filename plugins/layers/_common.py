"""What layers share: parameters of a shape, and sizes given as one number or one per dimension."""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import Parameter


def parameter(*shape, device=None, dtype=None):
    """Return a Parameter with undefined values: `reset_parameters` gives it some."""
    return Parameter(plugrad.empty(shape, device=device, dtype=dtype))


def per_dimension(value, n: int) -> tuple:
    """Return a size for each of n dimensions: an iterable as it is, a number n times."""
    return tuple(value) if hasattr(value, "__iter__") else (value,) * n


def within(tensor, bound: float) -> None:
    """Fill a tensor uniformly on [-bound, bound)."""
    plugrad.nn.init.uniform_(tensor, -bound, bound)


def reset_affine(weight, bias, fan_in: int) -> None:
    """Fill weight and bias uniformly on +-1 / sqrt(fan_in), as linear layers and convolutions begin.

    For the weight this is Kaiming's distribution (arXiv:1502.01852) for a slope of sqrt(5).
    """
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
    if weight.numel():
        within(weight, bound)
    if bias is not None:
        within(bias, bound)
