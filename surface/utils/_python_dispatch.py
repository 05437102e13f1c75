"""The names under which PyTorch programs import the base of dispatch modes, and what they ask of subclasses."""

from plugrad import Tensor
from plugrad.overrides import TorchDispatchMode

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]


def is_traceable_wrapper_subclass(t) -> bool:
    """Whether a tensor is of a class that holds others, and says so by `__tensor_flatten__`."""
    subclass = isinstance(t, Tensor) and type(t) is not Tensor
    return subclass and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
