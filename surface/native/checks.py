"""The checks with which PyTorch's own functions refuse arguments, and which libraries call, too."""

from __future__ import annotations

from functools import partial

import plugrad
from plugrad import Tensor
from plugrad.overrides import handle_torch_function, has_torch_function

__all__ = [
    "_assert", "_assert_async", "_check", "_check_index", "_check_is_size", "_check_not_implemented",
    "_check_tensor_all", "_check_tensor_all_with", "_check_type", "_check_value", "_check_with",
]  # fmt: skip


def _check_with(error_type, cond, message=None) -> None:
    """Raise an error of that type unless a condition holds; `message()` is its text."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type("Expected cond to be True, but got False: give the check a message")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


_check = partial(_check_with, RuntimeError)
_check_index = partial(_check_with, IndexError)
_check_value = partial(_check_with, ValueError)
_check_type = partial(_check_with, TypeError)
_check_not_implemented = partial(_check_with, NotImplementedError)


def _check_is_size(i, message=None, *, max=None) -> None:
    """Raise RuntimeError unless `i` is a size, at most `max`."""
    _check(i >= 0 and (max is None or i <= max), message)


def _check_tensor_all_with(error_type, cond, message=None) -> None:
    """Raise an error of that type unless all elements of a bool tensor are true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not plugrad.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, cond.all().item(), message)


_check_tensor_all = partial(_check_tensor_all_with, RuntimeError)


def _assert(condition, message):
    """Raise AssertionError with the message unless the condition holds; a class with overrides is asked."""
    if type(condition) is not Tensor and has_torch_function((condition,)):
        return handle_torch_function(_assert, (condition,), condition, message)
    if not condition:
        raise AssertionError(message)
    return None


def _assert_async(input, assert_msg="") -> None:
    """Raise RuntimeError unless a tensor of one element is true."""
    if not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")
