"""What can't become the data of a tensor."""

from __future__ import annotations


def check_data(tensor, value) -> None:
    """Raise RuntimeError unless `tensor.data = value` makes sense for tensors of two types."""
    if tensor.layout != value.layout:
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type: "
            f"{tensor.layout} and {value.layout}. Write a new variable, or tensor.to_dense()."
        )
    if tensor.requires_grad and not (value.is_floating_point() or value.is_complex()):
        raise RuntimeError(
            "data set to a tensor that requires gradients must be floating point or complex dtype, got "
            f"{value.dtype}: convert it by .to({tensor.dtype})"
        )
