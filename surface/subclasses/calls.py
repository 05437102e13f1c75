"""Calls of ops that go to the `__torch_dispatch__` of an argument's class, and the history of what it returns."""

from __future__ import annotations

import plugrad
from plugrad import Tensor, nest
from plugrad.dispatch.interception import _as_written
from plugrad.dispatch.interpreter import make_node
from plugrad.graph.modes import LEAF, mode, region
from plugrad.graph.nodes import OutputSlot
from plugrad.subclasses.arrays import WrapperArray, attributes_of
from plugrad.tensor.tensor import as_class, from_raw, make


def dispatching(values) -> list:
    """Return the classes among nested arguments that have a `__torch_dispatch__`, subclasses before their bases."""
    classes: list = []
    for value in nest.leaves(list(values)):
        cls = type(value)
        if cls is not Tensor and isinstance(value, Tensor) and hasattr(cls, "__torch_dispatch__"):
            if cls not in classes:
                place = next((i for i, one in enumerate(classes) if issubclass(cls, one)), len(classes))
                classes.insert(place, cls)
    return classes


def detached(value):
    """Return a tensor as its class gets it: without history, and with what else it has."""
    if not isinstance(value, Tensor):
        return value
    if value._view is not None:
        value._refresh()
    if isinstance(value._raw, WrapperArray):
        return value._raw.captured(value).tensor()
    if value._type.symbolic:
        return from_raw(value._raw)
    plain = make(value._raw, value._type.plain)
    if type(value) is Tensor:
        return plain
    instance = as_class(plain, type(value))
    for name, attribute in attributes_of(value).items():
        setattr(instance, name, attribute)
    return instance


def ask(classes, func, args, kwargs):
    """Return what the first class that implements a call makes of it, below autograd."""
    with region(pausing=True, no_override=False):
        for cls in classes:
            result = cls.__torch_dispatch__(func, tuple(classes), args, kwargs)
            if result is not NotImplemented:
                return result
    raise TypeError(
        f"Multiple dispatch failed for {func.__name__!r}; all __torch_dispatch__ handlers returned NotImplemented: "
        f"{', '.join(cls.__name__ for cls in classes)}"
    )


def asked(func, args) -> bool:
    """Whether a function that is no op was carried out by the class of an argument, which it then has asked."""
    classes = dispatching(args)
    if classes:
        given = nest.change(detached, list(args))
        ask(classes, func, tuple(given), {})
        _take_over(args[0], given[0])
    return bool(classes)


def _take_over(target, given) -> None:
    """Give what a class wrote to the attributes that its class gave to what stood for it."""
    before = attributes_of(target)
    for name, attribute in attributes_of(given).items():
        if before.get(name, target) is not attribute:
            setattr(target, name, attribute)


def call_of_dispatching(op, values, out, run):
    """Carry out a call of an op by the class of an argument, if one dispatches; `run()` is the call itself."""
    classes = dispatching((*values, out))
    if not classes:
        return run()
    func, args, kwargs = _as_written(op, nest.change(detached, list(values)), out)
    result = ask(classes, func, args, kwargs)
    return with_history(op, values, saved(values), result) if mode.grad and op.formulas else result


def write_of_dispatching(func, op, values, run):
    """Carry out an in-place call by the class of an argument, if one dispatches; the history is the target's then."""
    classes, target = dispatching(values), values[0]
    if not classes:
        return run()
    if mode.grad and target._edge is LEAF:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation: wrap it in "
            "`with torch.no_grad():` to update it, or write the operation out of place"
        )
    before = saved(values)
    args, kwargs = _as_written(op, nest.change(detached, list(values)))[1:]
    ask(classes, func, args, kwargs)
    _take_over(target, args[0])
    if mode.grad and op.formulas:
        node = make_node(op, values, before, saved([target])[0])
        if node is not None:
            target._edge = node
    return target


def saved(values) -> list:
    """Return the arguments as nodes save them: arrays in the place of tensors."""
    return nest.change(_saved, list(values))


def _saved(value):
    if not isinstance(value, Tensor):
        return getattr(value, "numpy", value) if type(value).__name__ == "dtype" else value
    if value._view is not None:
        value._refresh()
    return value._raw.captured(value) if isinstance(value._raw, WrapperArray) else value._raw


def with_history(op, values, raw, result):
    """Return the results of a class as those of an op that was recorded."""
    if isinstance(result, Tensor):
        result = _own(result)
        node = make_node(op, values, raw, _saved(result)) if result._type.is_differentiable else None
        if node is not None:
            result._edge = node
        return result
    if not isinstance(result, (tuple, list)):
        return result
    results = [_own(item) if isinstance(item, Tensor) else item for item in result]
    node = make_node(op, values, raw, tuple(map(_saved, results)))
    if node is not None:
        node.outputs = tuple([(item._raw.shape, item._type.plain) for item in results])
        for i, item in enumerate(results):
            if item._type.is_differentiable:
                item._edge = OutputSlot(node, i)
    return type(result)(*results) if hasattr(result, "_fields") else type(result)(results)


def _own(result):
    """Return a result to which a history may be given: one that has one already is another tensor's."""
    return result if result._edge is None else detached(result)


def ones_like(tensor):
    """Return the gradient of ones with which backward begins at a tensor, as its class makes it."""
    return ask([type(tensor)], plugrad.ones_like, (detached(tensor),), {})


def item_of(tensor):
    """Return the only element of a tensor without memory, which its class knows, if it dispatches."""
    if isinstance(tensor._raw, WrapperArray):
        return ask([type(tensor)], Tensor.item, (detached(tensor),), {})
    raise RuntimeError("Tensor.item() cannot be called on meta tensors: they have no data")
