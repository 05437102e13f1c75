"""Where the numbers of `arange(..., out=x)` and `linspace(..., out=x)` go."""

from __future__ import annotations

import warnings


def laid_as(op, numbers, out):
    """Return the numbers in the shape of `out` where they fill it just as it lies; warn where `out` gets another size.

    Of `linspace` and `logspace`, whose number is given, nothing is said.
    """
    if numbers.numel() == out.numel():
        return numbers.reshape(out.shape)
    if "step" in op.parameters and out.numel():
        warnings.warn(
            f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()} which does not "
            f"match the computed number of elements {numbers.numel()}. Note that this may occur as a result of "
            f"rounding error. The out tensor will be resized to a tensor of shape ({numbers.numel()},).",
            stacklevel=5,
        )
    return numbers
