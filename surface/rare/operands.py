"""Numbers beside tensors of half precision, and tuples of tensors that results are written to."""

from __future__ import annotations

import numpy

from plugrad import Tensor

_LARGEST = {"float16": 65504.0, "bfloat16": 2.0**128 - 2.0**120}


def narrow(op, raw, half) -> None:
    """Round operands of an elementwise op to half precision, as PyTorch does before it computes in single.

    Numbers that the op declares as `exact` stay as they are. Raises RuntimeError for those of its `fits` that are
    larger than any element can be.
    """
    for position in dict.fromkeys(op.promoted + op.fits):
        value, exact = raw[position], op.parameters[position] in op.exact
        if hasattr(value, "dtype") and position in op.promoted:
            if value.dtype != half.numpy and (value.ndim or not exact):
                raw[position] = value.astype(half.numpy)
            continue
        value = value.item() if hasattr(value, "item") and not value.ndim else value
        if not isinstance(value, (int, float)) or value.__class__ is bool:
            continue
        if position in op.fits and _LARGEST[half.name] < abs(value) < float("inf"):
            raise RuntimeError(f"value cannot be converted to type {half.name} without overflow: it is {value}")
        with numpy.errstate(over="ignore"):
            rounded = float(half.numpy.type(float(value)))
        raw[position] = value if exact or rounded == value else rounded


def check_outs(op, result, out) -> None:
    """Raise what PyTorch raises if a tuple given as `out=` does not suit the results: their number, and indices."""
    if len(out) != len(result):
        raise TypeError(f"{op.name}(): argument 'out' must be a tuple of {len(result)} Tensors, not of {len(out)}")
    for one, other in zip(result, out):
        whole = not (one.dtype.is_floating_point or one.dtype.is_complex)
        if isinstance(other, Tensor) and one is not result[0] and whole and other.dtype is not one.dtype:
            what = f"Expected out tensor to have dtype {one.dtype}, but got {other.dtype} instead"
            raise RuntimeError(f"{op.name}(): {what}")
