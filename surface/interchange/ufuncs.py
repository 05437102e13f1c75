"""NumPy's functions of arrays on tensors: `numpy.exp(tensor)`."""

from __future__ import annotations

import operator

import numpy

from plugrad import Tensor, is_grad_enabled
from plugrad.autograd.graph import increment_version

_OPERATORS = {
    "multiply": "mul", "subtract": "sub", "divide": "truediv", "floor_divide": "floordiv", "remainder": "mod",
    "less": "lt", "greater": "gt", "less_equal": "le", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
    "bitwise_and": "and_", "bitwise_or": "or_", "bitwise_xor": "xor", "left_shift": "lshift", "right_shift": "rshift",
}  # fmt: skip
_TORCH_NAMES = {"power": "pow", "equal": "eq"}  # others have NumPy's name, too
_COMPARISONS = {"less", "greater", "less_equal", "greater_equal", "equal", "not_equal"}


def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
    """Run NumPy's ufuncs on tensors that need no gradient; refuse to lose a gradient silently."""
    name, plain = ufunc.__name__, method == "__call__" and not out and not kwargs
    compares, left = name in _COMPARISONS, inputs[0]
    if plain and len(inputs) == 2 and (
        isinstance(left, numpy.generic) or compares and isinstance(left, numpy.ndarray) and not left.ndim
    ):
        operation = getattr(operator, _OPERATORS.get(name) or _TORCH_NAMES.get(name, name), None)
        if operation is not None:  # on the left, as on the right, a scalar is a number; compared, it is an array
            return operation(float(left) if isinstance(left, numpy.bool_) else left.item(), self)
    for value in inputs:
        if isinstance(value, Tensor) and value.requires_grad and is_grad_enabled() and not compares:
            raise TypeError(
                f"numpy.{ufunc.__name__} on a Tensor that requires grad would lose its gradient: write "
                f"torch.{_TORCH_NAMES.get(ufunc.__name__, ufunc.__name__)}(...), or x.detach() if that is meant"
            )
    inputs = tuple([value.detach() if compares and isinstance(value, Tensor) else value for value in inputs])
    arrays = [value._shared() if isinstance(value, Tensor) else value for value in inputs]
    if out is not None:
        kwargs["out"] = tuple(value._shared() if isinstance(value, Tensor) else value for value in out)
    result = getattr(ufunc, method)(*arrays, **kwargs)
    for value in (*(out or ()), *inputs[: method == "at"]):
        if isinstance(value, Tensor):
            increment_version(value)
    if isinstance(result, tuple):
        return tuple(self._from_raw(numpy.asarray(item)) for item in result)
    return self._from_raw(numpy.asarray(result))
