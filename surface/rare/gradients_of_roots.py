"""The gradient that a walk starts with, where it is not as it should be: converted, or refused."""

from __future__ import annotations

from plugrad import Tensor
from plugrad.backends import following


def filled(name, tensor):
    """Return "ones" or "zeros" of the shape of a tensor, a raw array, made on its device."""
    with following.on(tensor.device):
        return getattr(tensor._type.plain, name)(tensor._raw.shape)


def fitting_gradient(tensor, gradient, position: int) -> Tensor:
    """Return the gradient of root number `position` in the root's type; an error if it does not fit the root."""
    if gradient is None:
        if tensor.numel() != 1:
            raise RuntimeError(
                "grad can be implicitly created only for scalar outputs; reduce the output first (.sum(), .mean()) or "
                f"pass a gradient of its shape {list(tensor.shape)}"
            )
        raise RuntimeError("grad can be implicitly created only for real scalar outputs but got " + repr(tensor.dtype))
    if not isinstance(gradient, Tensor):
        raise TypeError(
            f"gradients can be either Tensors or None, but got {type(gradient).__name__}; write torch.tensor(...)"
        )
    if gradient.shape != tensor.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{position}] has a shape of {gradient.shape} and output[{position}] has a "
            f"shape of {tensor.shape}."
        )
    if gradient.dtype.is_complex is not tensor.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype: got "
            f"{gradient.dtype} and {tensor.dtype}; write gradient.to({tensor.dtype}) or .real"
        )
    if gradient.device is not tensor.device and gradient.ndim:
        raise RuntimeError(
            f"invalid gradient at index {position} - expected device {tensor.device} but got {gradient.device}; move "
            f"it with .to({str(tensor.device)!r})"
        )
    same = gradient.dtype is tensor.dtype and gradient.device is tensor.device
    return gradient if same else gradient.to(tensor.device, tensor.dtype)


def refuse_root(position: int) -> None:
    """Raise RuntimeError for a tensor without history that a walk should start at."""
    raise RuntimeError(
        f"element {position} of tensors does not require grad and does not have a grad_fn: call requires_grad_() on "
        "the inputs before the computation, and check that it did not run under no_grad() or on detach()ed tensors"
    )
