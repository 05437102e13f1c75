"""The names under which PyTorch programs import the base of dispatch modes, and ask of modes and subclasses."""

import contextlib

from plugrad import Tensor
from plugrad.overrides import TorchDispatchMode, WithoutDispatchModes, dispatch_mode_stack, in_dispatch_mode

__all__ = [
    "BaseTorchDispatchMode", "TorchDispatchMode", "_disable_current_modes", "_get_current_dispatch_mode",
    "_get_current_dispatch_mode_stack", "_pop_mode_temporarily", "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass", "return_and_correct_aliasing", "transform_subclass",
]  # fmt: skip

_disable_current_modes, _get_current_dispatch_mode_stack = WithoutDispatchModes, dispatch_mode_stack


class BaseTorchDispatchMode(TorchDispatchMode):
    """A dispatch mode that changes nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode():
    """Return the dispatch mode that is asked next, None if there is none.

    >>> with BaseTorchDispatchMode() as mode:
    ...     _get_current_dispatch_mode() is mode
    True
    """
    return (dispatch_mode_stack() or [None])[-1]


@contextlib.contextmanager
def _pop_mode_temporarily(k=None):
    """Have the dispatch mode that was entered last off for a block, which gets it; RuntimeError if there is none."""
    if not dispatch_mode_stack():
        raise RuntimeError("Trying to pop from empty mode stack: no dispatch mode is on in this thread")
    with WithoutDispatchModes(1) as modes:
        yield modes[0]


def is_in_torch_dispatch_mode(include_infra_modes=True) -> bool:
    """Whether a dispatch mode was entered in this thread."""
    return in_dispatch_mode()


def is_traceable_wrapper_subclass(t) -> bool:
    """Whether a tensor is of a class that holds others, and says so by `__tensor_flatten__`."""
    subclass = isinstance(t, Tensor) and type(t) is not Tensor
    return subclass and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """Return a tensor of the class of `t` that holds what `callback(attribute, tensor)` makes of the tensors in it.

    `outer_size` and `outer_stride` are those of the result, by default those of `t`. Raises AssertionError if the class
    makes a tensor of another size.
    """
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    held = {name: callback(name, getattr(t, name)) for name in names}
    result = type(t).__tensor_unflatten__(held, context, size, stride)
    if tuple(result.shape) != tuple(size):
        raise AssertionError(
            f"Expected return value from {type(t).__name__}.__tensor_unflatten__() to have shape equal to "
            f"{tuple(size)}, but got: {tuple(result.shape)}"
        )
    return result


def return_and_correct_aliasing(func, args, kwargs, out):
    """Return what a `__torch_dispatch__` returns for a call: the tensor that was written, if one was, or `out`.

    What a view shares with its base is known of plugrad's ops without it.
    """
    name = func.__name__
    return args[0] if name.endswith("_") and not name.endswith("__") else (kwargs or {}).get("out", out)
