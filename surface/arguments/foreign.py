"""NumPy's and CuPy's own errors in PyTorch's types and words: memory, dtypes that a function lacks, axes, matrices."""

from __future__ import annotations

import numpy

import plugrad

_SHAPES = ("cannot reshape array", "input operand has more dimensions", "could not broadcast", "operands could not")
_NO_SUCH_TYPE = ("ufunc ", "Wrong type (", "cupy.add.at only supports")
_TOO_DEEP = ("maximum supported dimension", "number of dimensions must be within", "ndmin must be")
_TOO_BIG = ("array is too big", "Maximum allowed", "negative dimensions", "cannot fit")


def translated(op, error):
    """Return the error that PyTorch would raise in the place of one of NumPy's; None if it may stand as it is."""
    text = str(error)
    if isinstance(error, MemoryError) or isinstance(error, ValueError) and text.startswith(_TOO_BIG):
        here = type(error).__module__.startswith(("builtins", "numpy"))  # not the memory of a device
        kind = RuntimeError if here else plugrad.OutOfMemoryError
        return kind(f"{op.name}(): not enough memory for the result: {text or 'memory is full'}")
    if isinstance(error, (ValueError, IndexError)) and text.startswith(_TOO_DEEP):
        told = "tensors have at most 64 dimensions, as NumPy's arrays; join some of them by flatten()"
        return RuntimeError(f"{op.name}(): {told}")
    if isinstance(error, numpy.linalg.LinAlgError):
        return plugrad.linalg.LinAlgError(f"{op.name}(): {text}")
    if isinstance(error, ValueError) and text.startswith(_SHAPES):
        return RuntimeError(f"{op.name}(): the shapes of the arguments do not fit ({text})")
    if isinstance(error, numpy.exceptions.AxisError):
        return IndexError(f"Dimension out of range: {text}")
    if isinstance(error, OverflowError) and "out of bounds for" in text:
        return RuntimeError(f"value cannot be converted without overflow: {text}")
    if isinstance(error, TypeError) and (text.startswith(_NO_SUCH_TYPE) or "did not contain a loop" in text):
        return NotImplementedError(f'"{op.name}" not implemented for the dtypes of its arguments ({text})')
    return None
