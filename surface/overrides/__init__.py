"""`plugrad.overrides`: classes and modes that change what ops do.

Three ways, from the outside in. A `TorchFunctionMode` is asked about every call in its `with` block. A class with a
`__torch_function__` (a subclass of Tensor, or any class at all) is asked when one of its instances is an argument. A
`TorchDispatchMode` is asked below autograd: its ops have no history, backward passes through it, too, and composite
ops arrive as the ops that they are made of. What asks, and in which order, is in `plugrad.dispatch.interception`.
"""

from __future__ import annotations

import functools
import threading
from types import FunctionType

import plugrad
from plugrad import Tensor
from plugrad.dispatch import interception
from plugrad.graph.modes import Exit, Region, mode, region
from plugrad.registry import lazy_names
from plugrad.tensor.overriding import disabled, watch_classes

__all__ = [
    "DisableTorchFunctionSubclass", "TorchDispatchMode", "TorchFunctionMode", "WithoutDispatchModes",
    "_get_current_function_mode", "_get_current_function_mode_stack", "dispatch_mode_stack",
    "get_default_nowrap_functions", "handle_torch_function", "in_dispatch_mode", "get_ignored_functions",
    "get_overridable_functions", "get_testing_overrides", "has_torch_function", "is_tensor_like",
    "is_tensor_method_or_property", "redispatch_function", "resolve_name", "watch_classes", "wrap_torch_function",
]  # fmt: skip


class _InOrder(Exit):
    """The `__exit__` of a mode that may be left by hand only while no other, entered later, is on."""

    def __get__(self, context, owner=None):
        leave = super().__get__(context, owner)
        entered_by_hand = context is not None and isinstance(leave, functools.partial)
        return functools.partial(_leave_last, context, leave) if entered_by_hand else leave


def _leave_last(context, leave, *exception) -> None:
    if getattr(mode, context._stack)[-1:] != (context,):
        raise RuntimeError(f"{type(context).__name__} was left while another mode, entered later, is still on")
    leave(*exception)


class _StackMode(Region):
    """A context manager that puts itself on one of the thread's stacks."""

    _stack: str

    def changes(self):
        return {self._stack: (*getattr(mode, self._stack), self)}

    def __enter__(self):
        super().__enter__()
        return self

    __exit__ = _InOrder()


class TorchFunctionMode(_StackMode):
    """Base of modes that may take over calls: functions, methods, factories and all.

    Override `__torch_function__(self, func, types, args=(), kwargs=None)`; inside of it the mode itself is off, so
    `func(*args, **kwargs)` carries the call out.

    >>> import plugrad as torch
    >>> class InDouble(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         kwargs = dict(kwargs or {})
    ...         if func is torch.zeros:
    ...             kwargs.setdefault("dtype", torch.float64)
    ...         return func(*args, **kwargs)
    >>> with InDouble():
    ...     torch.zeros(2)
    tensor([0., 0.], dtype=torch.float64)
    """

    _stack = "function_modes"
    sees_walks = True  # whether it is told of `autograd.grad` and `backward`, and of no op in them

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{type(self).__name__} must define __torch_function__(func, types, args, kwargs)")


class TorchDispatchMode(_StackMode):
    """Base of modes that stand around the kernels of ops, below autograd.

    Override `__torch_dispatch__(self, func, types, args=(), kwargs=None)`: the tensors in `args` have no history, and
    what it returns is what autograd takes for the op's result. Inside of it the mode itself is off. An in-place op
    arrives as the op that computes its result.

    >>> import plugrad as torch
    >>> class Names(torch.overrides.TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> x = torch.ones(2, requires_grad=True)
    >>> with Names():
    ...     torch.exp(x).sum().backward()
    exp
    sum
    reshape
    broadcast_to
    conjugated
    mul
    """

    _stack = "dispatch_modes"

    def below_autograd(self, func, args, kwargs):
        """Carry out a call by `__torch_dispatch__`, unrecorded and below this mode."""
        with region(dispatch_modes=mode.dispatch_modes[:-1], pausing=True):
            result = self.__torch_dispatch__(func, (), args, kwargs)
        if result is NotImplemented:
            raise TypeError(f"{type(self).__name__}.__torch_dispatch__ does not implement {func.__name__}")
        if not isinstance(result, (Tensor, tuple, list)):
            raise TypeError(
                f"{type(self).__name__}.__torch_dispatch__ returned {result!r} for {func.__name__}, not a tensor: "
                "write `return func(*args, **(kwargs or {}))`"
            )
        return result

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{type(self).__name__} must define __torch_dispatch__(func, types, args, kwargs)")


def _get_current_function_mode():
    """Return the function mode that is asked next, None if there is none."""
    return (mode.function_modes or (None,))[-1]


def _get_current_function_mode_stack() -> list:
    """Return the function modes of this thread, the one that was entered last at the end."""
    return [*mode.function_modes]


def dispatch_mode_stack() -> list:
    """Return the dispatch modes of this thread, the one entered last at the end.

    >>> import plugrad as torch
    >>> torch.overrides.dispatch_mode_stack()
    []
    """
    return [*mode.dispatch_modes]


def in_dispatch_mode() -> bool:
    """Whether a dispatch mode was entered in this thread, be it off at present.

    >>> import plugrad as torch
    >>> torch.overrides.in_dispatch_mode()
    False
    """
    return any([state.modes.get("dispatch_modes") for state in mode.thread.states()])


class WithoutDispatchModes(Region):
    """A context in which the dispatch modes of the thread entered last are off.

    All of them by default. `with` gives the list of those modes, the one that was entered last first.

    >>> import plugrad as torch
    >>> with torch.overrides.WithoutDispatchModes() as modes:
    ...     modes
    []
    """

    def __init__(self, count=None):
        self.count = count

    def changes(self):
        stack = mode.dispatch_modes
        return {"dispatch_modes": () if self.count is None else stack[: len(stack) - self.count]}

    def __enter__(self):
        stack = dispatch_mode_stack()
        super().__enter__()
        return stack[::-1][: self.count]


class DisableTorchFunctionSubclass(Region):
    """A context in which no class's `__torch_function__` is asked: Tensors are plain."""

    def changes(self):
        return {"no_override": True}


class _Hop(threading.local):
    """Whether the next function that asks for overrides is told of none."""

    skipped = False


_hop = _Hop()


def redispatch_function(func, types, args, kwargs):
    """Call a function from within a `__torch_function__`, past that override alone.

    Ops, methods and attributes of tensors are computed. Functions of Python's are run, and the ops in them ask the
    classes of their arguments and the modes that are on.

    >>> import plugrad as torch
    >>> class Telling(torch.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args, kwargs=None):
    ...         print(func.__name__)
    ...         return torch.overrides.redispatch_function(func, types, args, kwargs)
    >>> torch.nn.functional.linear(Telling(torch.ones(1, 2)), torch.ones(1, 2))
    linear
    tensor([[2.]])
    """
    kwargs = kwargs or {}
    if getattr(func, "__asks__", False):
        return func.__wrapped__(*args, **kwargs)
    if not isinstance(func, FunctionType) or func.__module__.startswith("plugrad"):
        with region(no_override=True, function_modes=()):
            return func(*args, **kwargs)
    _hop.skipped = True
    try:
        return func(*args, **kwargs)
    finally:
        _hop.skipped = False


def has_torch_function(relevant_args) -> bool:
    """Whether any of these arguments overrides ops, or a function mode is on."""
    if _hop.skipped:
        _hop.skipped = False
        return False
    return bool(mode.function_modes) or (not mode.no_override and bool(interception.overloaded(relevant_args, {})))


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Carry out a call of your own function by the overrides of arguments or modes.

    Raises TypeError when none of them implements it.
    """

    def nobody():
        raise TypeError(f"no argument of {plugrad.overrides.resolve_name(public_api)} overrides it")

    if mode.function_modes:
        return interception.handle(public_api, None, args, kwargs, nobody)
    return interception.override(public_api, interception.overloaded(relevant_args, {}) or nobody(), args, kwargs)


def is_asked(cls) -> bool:
    """Whether a class is asked now about what its tensors do."""
    return not mode.no_override and cls.__torch_function__ is not disabled


def ask_classes(func, args, kwargs):
    """Call a function that is no op, which modes and classes may take over."""
    return interception.handle(func, None, args, kwargs, lambda: func(*args, **kwargs))


def is_tensor_like(inp) -> bool:
    """Whether something is a Tensor, or of a class with a `__torch_function__`."""
    return hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func) -> bool:
    """Whether a function is a method of Tensor, or of one of its properties.

    >>> import plugrad as torch
    >>> torch.overrides.is_tensor_method_or_property(torch.Tensor.add)
    True
    """
    name = getattr(func, "__name__", "")
    if name in ("__get__", "__set__", "__delete__"):
        return isinstance(getattr(func, "__self__", None), property)
    return any(getattr(cls, name, None) is func for cls in Tensor.__mro__)


def wrap_torch_function(dispatcher):
    """Return a decorator of functions that arguments' classes may override.

    Args:
        dispatcher: function of the same arguments that returns those that may override it.
    """

    def decorate(func):
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        wrapped.__asks__ = True
        return wrapped

    return decorate


def seen_by_modes(function):
    """Decorate a function that makes tensors of data, which modes are to see."""

    @functools.wraps(function)
    def seen(*args, **kwargs):
        return ask_classes(seen, args, kwargs) if mode.function_modes else function(*args, **kwargs)

    seen.__sees_modes__ = True
    return seen


def not_ours(*args, **kwargs):
    """Return the arguments but for plugrad's own kinds of tensors.

    Sparse and nested ones know what ops they have.
    """
    given = (*args, *kwargs.values())
    return [one for one in given if not (isinstance(one, Tensor) and type(one).__module__.startswith("plugrad."))]


def overridable(function):
    """Decorate a function that is no op to ask its arguments' classes, as ops do.

    >>> import plugrad as torch
    >>> @torch.overrides.overridable
    ... def halves(x):
    ...     return x / 2
    >>> class Stranger:
    ...     @staticmethod
    ...     def __torch_function__(func, types, args=(), kwargs=None):
    ...         return func.__name__
    >>> halves(torch.ones(2)), halves(Stranger())
    (tensor([0.5000, 0.5000]), 'halves')
    """
    return wrap_torch_function(not_ours)(function)


__getattr__, __dir__ = lazy_names(
    globals(), None,
    {"overrides.asked": "get_default_nowrap_functions",
     "overrides.listing": "get_ignored_functions get_overridable_functions get_testing_overrides resolve_name"},
)  # fmt: skip
