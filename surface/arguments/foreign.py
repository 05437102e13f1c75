"""NumPy's own errors in PyTorch's types and words: memory, dtypes that a function lacks, axes, matrices."""

from __future__ import annotations

import numpy

_TOO_BIG = ("array is too big", "Maximum allowed", "negative dimensions", "cannot fit")


def translated(op, error):
    """Return the error that PyTorch would raise in the place of one of NumPy's; None if it may stand as it is."""
    text = str(error)
    if isinstance(error, MemoryError) or isinstance(error, ValueError) and text.startswith(_TOO_BIG):
        return RuntimeError(f"{op.name}(): not enough memory for the result: {text or 'memory is full'}")
    if isinstance(error, numpy.exceptions.AxisError):
        return IndexError(f"Dimension out of range: {text}")
    if isinstance(error, TypeError) and (text.startswith("ufunc ") or "did not contain a loop" in text):
        return NotImplementedError(f'"{op.name}" not implemented for the dtypes of its arguments ({text})')
    return None
