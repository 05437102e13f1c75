"""What may stand between a call and the op that is called: function modes, overriding arguments, hooks, dispatch modes.

A call passes them in this order. A function mode (`plugrad.overrides.TorchFunctionMode`) sees it first, the one entered
last before the others; then an argument whose class overrides ops (`__torch_function__`); then the hooks on ops; then
the op runs. Below autograd, where history is no longer seen, the dispatch modes stand around the kernel.

Unused, all of it costs nothing. While a mode or hook is on, `modes.special` sends every call to the general path, which
asks here. A tensor of an overriding class has a variant of its tensor type, so that the fast path's own test of types
sends just its calls there.
"""

from __future__ import annotations

import functools
from functools import partial

from plugrad import nest
from plugrad.dispatch import arguments as kinds
from plugrad.dispatch.formulas import of_composites
from plugrad.graph import modes, rare
from plugrad.graph.modes import mode, region
from plugrad.tensor.overriding import disabled
from plugrad.tensor.tensor import Tensor, core_method, make, write_out

_NUMBERS = frozenset({int, float, bool, complex, str, type(None), slice})


def overloaded(args, kwargs) -> list:
    """Return the arguments whose classes override ops, one of each class, subclasses before their bases."""
    overriding: list = []
    for value in (*args, *kwargs.values()):
        for item in value if type(value) in (list, tuple) else (value,):
            if type(item) is Tensor or type(item) in _NUMBERS or isinstance(item, type):
                continue
            function = getattr(type(item), "__torch_function__", None)
            if function is None or function is disabled:
                continue
            if not any(type(item) is type(one) for one in overriding):
                place = next((i for i, one in enumerate(overriding) if isinstance(item, type(one))), len(overriding))
                overriding.insert(place, item)
    return overriding


def interested(op) -> bool:
    """Whether a mode or hook of this thread wants to see the calls of an op, or autocast its arguments."""
    if mode.function_modes or mode.autocast:
        return True
    if mode.in_hook:
        return False
    return any([hook.wants(op) for hook in (*mode.op_hooks, *modes.installed_hooks)])


def arguments(op, values, out=None) -> tuple:
    """Return the (args, kwargs) of a call as a user would write it: what has its default value is left out."""
    count = len(op.positional)
    args = list(values[:count])
    while args and len(args) > 1 and _is_default(op, op.positional[len(args) - 1], args[-1]):
        args.pop()
    named = zip(op.keyword_only, values[count:])
    kwargs = {name: value for name, value in named if not _is_default(op, name, value)}
    if out is not None:
        kwargs["out"] = out
    return tuple(args), kwargs


def _is_default(op, name, value) -> bool:
    default = op.defaults.get(name, op)  # which is no argument
    same_kind = type(value) is type(default) and isinstance(value, (int, float, str))
    return value is default or (same_kind and value == default)


def call(op, values, out, run):
    """Carry out a call of an op that somebody may want to take over; `run()` is the call itself."""
    func, args, kwargs = _as_written(op, values, out)
    if "dispatching classes" in modes.watched:
        run = partial(rare.call_of_dispatching, op, values, out, run)
    below = partial(rare.call_of_duals, op, values, out, run) if modes.levels else run
    return handle(func, op, args, kwargs, below)


def _as_written(op, values, out=None):
    """Return function, args and kwargs of a call; that of `1 - x` is `Tensor.__rsub__`."""
    args, kwargs = arguments(op, values, out)
    reflected = op.reflected_operator(values)
    return (reflected, (values[1], values[0]), kwargs) if reflected is not None else (op.function, args, kwargs)


def cast(op, values, out, run):
    """Return `run(values)`, by autocast with arguments of the dtypes in which it has the op computed."""
    return run(values) if not mode.autocast or out is not None else mode.autocast(op, values, run)


def composite(op, values, out=None):
    """Carry out a call of a composite op that somebody may want to take over."""
    count = len(op.positional)
    args, kwargs = arguments(op, values, out)

    def run(values):
        values = kinds.right(op, values)
        F, keywords = of_composites[op.scope], dict(zip(op.keyword_only, values[count:]))
        result = op.kernels["*"](F, *values[:count], **keywords)
        result = rare.fresh(result, values) if op.fresh else result
        result = result if op.trusted else rare.composed(op, result)
        return result if out is None else write_out(op, result, out, values=values)

    return handle(op.function, op, args, kwargs, lambda: cast(op, values, out, run))


def factory(op, values, options, run):
    """Carry out a call of a factory (`zeros`, `randn`...) that a mode or hook may want to see."""
    args, kwargs = arguments(op, values)
    kwargs.pop("dtype", None)
    kwargs.update((name, value) for name, value in options.items() if value is not None and value is not False)

    def innermost():
        return mode.dispatch_modes[-1].below_autograd(op.function, args, kwargs) if mode.dispatch_modes else run()

    return handle(op.function, op, args, kwargs, innermost)


def method(func, run, *args):
    """Carry out a call of a method that is not an op: `detach`, item assignment."""
    return handle(func, None, args, {}, run)


@core_method("_detach_of_subclass")
def _detach_of_subclass(self):
    return method(Tensor.detach, lambda: _detached(self), self)


def in_place(func, op, values, run):
    """Carry out a call of the in-place form of an op: autocast leaves it alone, its dtype is that of what it writes."""

    def uncast():
        with region(autocast=None):
            if "dispatching classes" in modes.watched:
                return rare.write_of_dispatching(func, op, values, run)
            return run()

    return handle(func, op, *arguments(op, values), uncast)


def handle(func, op, args, kwargs, run):
    """Give modes, overriding arguments and hooks their say in one call; `run()` is the call itself."""
    stack = mode.function_modes
    if stack:
        with region(function_modes=stack[:-1]):
            types = tuple([type(item) for item in overloaded(args, kwargs)])
            result = stack[-1].__torch_function__(func, types, args, kwargs)
        return _implemented(result, func, [type(stack[-1])])
    if not mode.no_override:
        overriding = overloaded(args, kwargs)
        if overriding:
            return override(func, overriding, args, kwargs)
    hooks = () if op is None or mode.in_hook else (*modes.installed_hooks, *mode.op_hooks)
    return around(hooks, OpCall(op, func, args, kwargs, mode.depth), run) if hooks else run()


def override(func, overriding, args, kwargs):
    """Return what the first overriding argument that wants to makes of a call; TypeError where none does."""
    if "overriding classes" not in modes.watched:
        rare.note_class()
    types, result = tuple([type(item) for item in overriding]), NotImplemented
    for item in overriding:
        result = type(item).__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            break
    return _implemented(result, func, types)


def _implemented(result, func, types):
    if result is NotImplemented:
        name = f"{func.__module__}.{getattr(func, '__qualname__', func.__name__)}"
        raise TypeError(
            f"Multiple dispatch failed for {name!r}; all __torch_function__ handlers returned NotImplemented: "
            f"{', '.join(cls.__name__ for cls in types)}"
        )
    return result


# ---------------------------------------------------------------------------------------------------- dispatch modes


def dispatch(op, values):
    """Let the dispatch mode that was entered last run an op on tensors without history; return raw results."""
    detached = nest.change(_detached, list(values))
    return _raw(mode.dispatch_modes[-1].below_autograd(*_as_written(op, detached)))


def _detached(value):
    if not isinstance(value, Tensor):
        return value
    return rare.detached(value) if value._type.symbolic else make(value._raw, value._type.plain)


def _raw(value):
    if isinstance(value, Tensor):
        return value._raw
    return tuple([_raw(item) for item in value]) if isinstance(value, (list, tuple)) else value


# ---------------------------------------------------------------------------------------------------- hooks on ops


class OpCall:
    """One call as hooks see it: `op`, `name`, `args`, `kwargs`, `depth`, `result`.

    `depth` is 0 for what the program calls, 1 for what a composite op calls, and so on.
    """

    __slots__ = ("op", "name", "args", "kwargs", "depth", "result")

    def __init__(self, op, func, args, kwargs, depth):
        reflected = func.__name__[:3] == "__r" and func is op.reflected_operator(args[::-1])  # of sub(1, x)
        self.op, self.args, self.kwargs, self.depth = op, args[::-1] if reflected else args, kwargs, depth
        self.name = func.__name__ if func.__name__[:2] != "__" else op.name
        self.result = None


class Hook:
    """What may stand around calls of ops. Plugins derive from `plugrad.extend.OpHook`, which knows how."""

    def wants(self, op) -> bool:
        """Whether the hook is for an op."""
        raise NotImplementedError(f"{type(self).__name__} does not derive from plugrad.extend.OpHook")

    def around(self, call, run):
        """Return the result of a call, an `OpCall`, which `run()` carries out."""
        return run()


def around(hooks, call, run):
    """Run a call with the hooks that want it around it, the first one outermost."""
    for hook in reversed(hooks):
        if hook.wants(call.op):
            run = functools.partial(hook.around, call, run)
    with region(depth=mode.depth + 1):
        return run()
