"""Tensors whose data is an array object of its own, such as sparse ones: how they are made, and asked for a rule."""

from __future__ import annotations

import plugrad
from plugrad import registry
from plugrad.tensor.overriding import watch_classes


def name_of(function) -> str:
    """Return the name under which an intercepted function has a rule."""
    op = getattr(function, "__op__", None)
    return function.__name__ if op is None else op.name


def tensor_around(cls, array, ttype):
    """Return a tensor of a class around an array object; `ttype` is the type of ordinary tensors like it."""
    tensor = object.__new__(cls)
    tensor._data, tensor._type, tensor._edge, tensor._view = array, ttype.variant(), None, None
    watch_classes()
    return tensor


def take_over(target, result):
    """Give a tensor that is written in place the data and the history of a result; return the tensor."""
    target._data, target._type, target._edge = result._data, result._type, result._edge
    return target


# Elementwise functions whose records do not say that they broadcast: composites of others.
ELEMENTWISE = frozenset(
    "positive div_rounded nan_to_num float_power isclose true_divide celu selu square conj_physical angle sinc exp2 "
    "relu6 hardswish logsigmoid softsign rsub".split()
)


def is_elementwise(name, op=None) -> bool:
    """Whether an op computes each element of its result from the elements at that place."""
    base = name.removeprefix("functional_")
    if base in ELEMENTWISE:
        return True
    if op is None or base != name:
        op = registry.op(base) if base in registry.ops else None
    return op is not None and op.broadcasts


def writes_elements(name, op) -> bool:
    """Whether a name is that of the in-place form of an elementwise op."""
    return op is None and name.endswith("_") and not name.endswith("__") and is_elementwise(name[:-1])


def check_leaf(target) -> None:
    """Raise RuntimeError for a leaf that requires grad, which is about to be written."""
    if target.requires_grad and target.is_leaf and plugrad.is_grad_enabled():
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
