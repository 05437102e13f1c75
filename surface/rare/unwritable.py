"""Why a tensor can't be written in place, and which other numbers than Python's may be assigned."""

from __future__ import annotations

import numpy

from plugrad.devices import dtypes


def refuse_leaf():
    """Raise the error of a write to a leaf that requires grad."""
    hint = "wrap it in `with torch.no_grad():` to update a parameter, or write the operation out of place"
    raise RuntimeError(f"a leaf Variable that requires grad is being used in an in-place operation: {hint}")


def refuse_view_of_leaf():
    """Raise the error of a write to a view of a leaf that requires grad."""
    what = "a view of a leaf Variable that requires grad is being used in an in-place operation"
    raise RuntimeError(f"{what}: clone() the leaf first, or wrap the write in `with torch.no_grad():`")


def refuse_real(op):
    """Raise the error of an op whose result is real, in place of a complex tensor."""
    raise RuntimeError(
        f"In-place {op.name} is not supported for complex tensors: the result is real; write x = x.{op.name}()"
    )


def refuse_shape(target, result):
    """Raise the error of a result that has another shape than the tensor it is written to."""
    raise RuntimeError(
        f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(result.shape)}: an "
        "in-place result must have the shape of the tensor it is written to"
    )


def number_assigned(target, value):
    """Return an integer of NumPy's that is assigned to elements as one of Python's; TypeError for all else."""
    if not isinstance(value, (numpy.integer, numpy.ndarray)) or not dtypes.is_integer(value.dtype) or value.ndim:
        raise TypeError(f"can't assign a {type(value).__name__} to a torch.{target.dtype.name} tensor")
    return value.item()
