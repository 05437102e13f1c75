"""`torch.nn._reduction`: what the names of reductions, and the flags of old, are as PyTorch's numbers."""

from __future__ import annotations

import warnings

from plugrad.extend import legacy_reduction

_NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Return PyTorch's number of a reduction; ValueError if there is none of that name.

    >>> get_enum("none"), get_enum("mean"), get_enum("sum")
    (0, 1, 2)
    """
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2)
        return 1
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction; write one of 'none', 'mean', 'sum'")
    return _NUMBERS[reduction]


def legacy_get_string(size_average, reduce, emit_warning: bool = True) -> str:
    """Return the name of the reduction that the flags `size_average` and `reduce` mean.

    >>> legacy_get_string(False, None, emit_warning=False)
    'sum'
    """
    return legacy_reduction(size_average, reduce, warn=emit_warning)


def legacy_get_enum(size_average, reduce, emit_warning: bool = True) -> int:
    """Return PyTorch's number of the reduction that the flags `size_average` and `reduce` mean."""
    return get_enum(legacy_reduction(size_average, reduce, warn=emit_warning))
