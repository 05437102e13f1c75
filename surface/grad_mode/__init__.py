"""`plugrad.autograd.grad_mode`: whether ops are recorded, and settings of backward, under PyTorch's longer path."""

from __future__ import annotations

from plugrad import enable_grad, inference_mode, no_grad, set_grad_enabled
from plugrad.errors import flag
from plugrad.graph.modes import ModeContext, mode
from plugrad.regions import declare

__all__ = [
    "enable_grad", "enforce_grad_layout_policy", "inference_mode", "is_multithreading_enabled", "no_grad",
    "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip

declare("multithreading", True)
declare("grad_layout", True)


class _Setting(ModeContext):
    """A mode that is set at once, and in a block put back behind it."""

    __slots__ = ("_value", "_previous")
    _name: str

    def __new__(cls, *args, **kwargs):
        return object.__new__(cls)

    def __init__(self, value):
        self._value, self._previous = flag(self._name, value), getattr(mode, self._name)
        setattr(mode, self._name, self._value)

    def changes(self):
        setattr(mode, self._name, self._previous)
        return {self._name: self._value}

    def __call__(self, function):
        setattr(mode, self._name, self._previous)
        return super().__call__(function)

    def clone(self):
        return type(self)(self._value)


class set_multithreading_enabled(_Setting):
    """Say whether backward may use threads of its own: at once, or for a block.

    It never does here.

    >>> import plugrad as torch
    >>> with torch.autograd.set_multithreading_enabled(False):
    ...     torch.autograd.is_multithreading_enabled()
    False
    """

    __slots__ = ()
    _name = "multithreading"

    def __init__(self, mode):
        super().__init__(mode)


class enforce_grad_layout_policy(_Setting):
    """Say whether gradients get their parameters' strides: at once, or in a block.

    Accepted: a gradient has here the order of elements in which it arrives, whatever is said.
    """

    __slots__ = ()
    _name = "grad_layout"

    def __init__(self, enable):
        super().__init__(enable)


def is_multithreading_enabled() -> bool:
    """Whether backward may use threads of its own in this thread."""
    return mode.multithreading
