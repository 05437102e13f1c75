"""Steps of optimizers that are recorded: gradients flow through them, to parameters, gradients, state and options.

An algorithm's `update` changes raw arrays in place. Here it runs on arrays that hold tensors: each operation is
recorded, and what it writes "in place" is a new tensor, so that nothing which a gradient needs is overwritten.
"""

from __future__ import annotations

import operator

import numpy

import plugrad
from plugrad import Tensor, enable_grad, no_grad
from plugrad.subclasses import WrapperArray

_NAMES = {"power": "pow", "absolute": "abs", "fabs": "abs"}  # NumPy's names for what has another one here


def step(optimizer):
    """Take a step with all groups, recorded."""
    for group in optimizer.param_groups:
        step_group(optimizer, group)


def step_group(optimizer, group):
    """Update the parameters of one group that have gradients, recorded.

    RuntimeError for a parameter that is a leaf: nothing can be recorded before it.
    """
    if group.get("capturable"):
        plugrad.optim.batching.check_capturable(group)
    options, numbers = _with_history(group), optimizer._plain(group)
    with enable_grad():
        for p in dict.fromkeys(group["params"]):
            if p.grad is not None:
                _update(optimizer, p, options, optimizer.slots(numbers))


def _with_history(group) -> dict:
    """Return the options of a group, as numbers where they have no gradient."""

    def kept(value):
        if isinstance(value, tuple):
            return tuple(map(kept, value))
        return value.item() if isinstance(value, Tensor) and not value.requires_grad else value

    return {name: value if name == "params" else kept(value) for name, value in group.items()}


def _update(optimizer, p, options, slots):
    own, state, arrays = optimizer.state[p], {"fresh": False}, {}
    for name, initial in slots.items():
        value = own.get(name)
        if not isinstance(value, Tensor):
            state["fresh"] |= value is None
            value = own[name] = _slot(optimizer, p, initial, value)
        if callable(initial):
            arrays[name] = _Array.of(value)
        else:
            state[name] = value.clone() if value.requires_grad else value.item()
    scalars = [name for name in state if name != "fresh"]
    optimizer.advance(state, options)
    for name in scalars:
        if isinstance(state[name], Tensor):
            own[name].copy_(state[name])
        else:
            with no_grad():
                own[name].fill_(state[name])
    target = _Array.of(p)
    gradient = _Array.of(-p.grad if options.get("maximize") else p.grad)
    given = state | arrays
    type(optimizer).update(_Recorded(optimizer), _Functions(), target, gradient, given, options)
    for name, array in arrays.items():
        if given[name] is not array:  # bound anew, instead of written into
            array[...] = given[name]
    for array, tensor in ((target, p), *[(array, own[name]) for name, array in arrays.items()]):
        array.write(tensor)


def _slot(optimizer, p, initial, value):
    """Return one kind of state for a parameter; where its elements are its class's matter, the class makes it."""
    if callable(initial) and isinstance(p._raw, WrapperArray):
        return _value(initial(_Functions(), _Like(p.detach())))
    return optimizer._make_slot(p, initial, value)


class OnTensors:
    """The turn of parameters whose class holds their elements: the same update, on tensors, unrecorded."""

    done, begun = 0, False

    def __init__(self, optimizer, group):
        self.optimizer, self.group = optimizer, group

    def params(self):
        """Return the parameters whose turn this is."""
        return [p for p in self.group["params"] if p.grad is not None]

    def take(self):
        """Update them all."""
        self.begun, numbers = True, self.optimizer._plain(self.group)
        with no_grad():
            for p in self.params():
                _update(self.optimizer, p, numbers, self.optimizer.slots(numbers))
                self.done += 1


class _Recorded:
    """An optimizer as `update` sees it, whose scratch arrays are new each time."""

    def __init__(self, optimizer):
        self._optimizer = optimizer

    def __getattr__(self, name):
        return getattr(self._optimizer, name)

    @staticmethod
    def scratch(xp, like, slot=0):
        """Return an array that is yet to be written."""
        return _Array(like.value)


class _Functions:
    """The functions of an array module on such arrays; the last argument may be one that takes the result."""

    def __getattr__(self, name):
        function = getattr(plugrad, _NAMES.get(name, name), None)
        if function is None:
            raise NotImplementedError(
                f"differentiable=True: the update calls xp.{name}, of which there is no recorded form; override step() "
                "with operations on tensors instead"
            )
        count = getattr(getattr(numpy, name, None), "nin", 3 if name == "clip" else None)

        def call(*args, out=None, **kwargs):
            if out is None and count is not None and len(args) > count:
                args, out = args[:count], args[count]
            result = _Array(function(*map(_value, args), **kwargs))
            return result if out is None else out.take(result)

        return call


def _value(item):
    return item.value if isinstance(item, _Array) else item


class _Array:
    """A tensor in the place of an array: what is written to it is another tensor from then on."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    @classmethod
    def of(cls, tensor):
        """Return an array of a tensor that may be overwritten later, complex numbers as pairs."""
        return cls(plugrad.view_as_real(tensor.clone()) if tensor.is_complex() else tensor.clone())

    def write(self, tensor):
        """Give a tensor this value, in place."""
        tensor.copy_(plugrad.view_as_complex(self.value) if tensor.is_complex() else self.value)

    def take(self, other):
        """Hold another value from now on."""
        self.value = _value(other)
        return self

    def fill(self, number):
        """Be this number everywhere."""
        self.value = plugrad.full_like(self.value, number)

    def __setitem__(self, index, other):
        value = _value(other)
        value = value if isinstance(value, Tensor) else plugrad.full_like(self.value, value)
        chosen = _value(index)
        if chosen is Ellipsis:
            self.value = value.expand_as(self.value)
        elif isinstance(chosen, Tensor) and chosen.dtype == plugrad.bool:
            self.value = plugrad.where(chosen, value, self.value)
        else:
            raise NotImplementedError(
                "differentiable=True: the update writes to a part of an array that is not chosen by a mask; override "
                "step() with operations on tensors instead"
            )

    def __getattr__(self, name):
        value = object.__getattribute__(self, "value")
        if name == "size":
            return value.numel()
        result = getattr(value, name)
        return (lambda *args, **kwargs: _Array(result(*map(_value, args), **kwargs))) if callable(result) else result

    def __neg__(self):
        return _Array(-self.value)


class _Like(_Array):
    """A tensor in the place of the array that state is made like."""

    __slots__ = ()

    @property
    def dtype(self):
        """The dtype as arrays have it."""
        return self.value._raw.dtype


def _define(name):
    function = getattr(operator, name)
    setattr(_Array, f"__{name}__", lambda self, other: _Array(function(self.value, _value(other))))
    if name not in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(_Array, f"__r{name}__", lambda self, other: _Array(function(_value(other), self.value)))
        setattr(_Array, f"__i{name}__", lambda self, other: self.take(function(self.value, _value(other))))


for _name in ("add", "sub", "mul", "truediv", "pow", "lt", "le", "gt", "ge", "eq", "ne"):
    _define(_name)
