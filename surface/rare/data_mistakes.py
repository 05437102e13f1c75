"""What can't become the data of a tensor, or its gradient."""

from __future__ import annotations

from plugrad import Tensor
from plugrad.subclasses.held import HeldArray


def check_data(tensor, value) -> None:
    """Raise RuntimeError unless `tensor.data = value` makes sense for tensors of two types, TypeError for no tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if tensor.layout != value.layout or isinstance(tensor._raw, HeldArray) != isinstance(value._raw, HeldArray):
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type: "
            f"{tensor.layout} and {value.layout}. Write a new variable, or tensor.to_dense()."
        )
    if tensor.requires_grad and not (value.is_floating_point() or value.is_complex()):
        raise RuntimeError(
            "data set to a tensor that requires gradients must be floating point or complex dtype, got "
            f"{value.dtype}: convert it by .to({tensor.dtype})"
        )


def refuse_grad(tensor, value) -> None:
    """Raise for what can't be the `.grad` of a tensor: TypeError if it is none itself, else RuntimeError."""
    if not isinstance(value, Tensor):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__!r}")
    if value is tensor:
        raise RuntimeError("can't assign Variable as its own grad")
    if value.shape != tensor.shape:
        sizes = f"{list(value.shape)}, the tensor has {list(tensor.shape)}"
        raise RuntimeError(f"assigned grad has data of a different size: {sizes}")
    what = "device" if value.device is not tensor.device else "type"
    types = f"{value._type}, the tensor has {tensor._type}"
    raise RuntimeError(f"attempting to assign a gradient with data of a different {what}: {types}")
