"""What may stand between a call and the op that is called: function modes, overriding arguments, hooks, dispatch modes.

A call passes them in this order. A function mode (`plugrad.overrides.TorchFunctionMode`) sees it first, the one entered
last before the others; then an argument whose class overrides ops (`__torch_function__`); then the hooks on ops; then
the op runs. Below autograd, where history is no longer seen, the dispatch modes stand around the kernel.

Unused, all of it costs nothing. While a mode or hook is on, `modes.special` sends every call to the general path, which
asks here. A tensor of an overriding class has a variant of its tensor type, so that the fast path' own test of types
sends just its calls there.
"""

from __future__ import annotations

from plugrad import registry
from plugrad.dispatch.namespaces import F
from plugrad.graph import modes
from plugrad.graph.modes import mode
from plugrad.graph.nodes import OutputSlot
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
    """Whether a mode or hook of this thread wants to see the calls of an op."""
    if mode.function_modes:
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
    if name not in op.defaults:
        return False
    default = op.defaults[name]
    same_kind = type(value) is type(default) and isinstance(value, (int, float, str))
    return value is default or (same_kind and value == default)


def call(op, values, out, run):
    """Carry out a call of an op that somebody may want to take over; `run()` is the call itself."""
    func, args, kwargs = _as_written(op, values, out)
    return handle(func, op, args, kwargs, run)


def _as_written(op, values, out=None):
    """Return function, args and kwargs of a call; that of `1 - x` is `Tensor.__rsub__`."""
    args, kwargs = arguments(op, values, out)
    reflected = op.reflected_operator(values)
    return (reflected, (values[1], values[0]), kwargs) if reflected is not None else (op.function, args, kwargs)


def composite(op, values, out=None):
    """Carry out a call of a composite op that somebody may want to take over."""

    count = len(op.positional)
    args, kwargs = arguments(op, values, out)

    def run():
        result = op.kernels["*"](F, *values[:count], **dict(zip(op.keyword_only, values[count:])))
        return result if out is None else write_out(op, result, out)

    return handle(op.function, op, args, kwargs, run)


def factory(op, values, options, run):
    """Carry out a call of a factory (`zeros`, `randn`...) that a mode or hook may want to see."""
    args, kwargs = arguments(op, values)
    kwargs.pop("dtype", None)
    kwargs.update((name, value) for name, value in options.items() if value is not None and value is not False)

    def innermost():
        return below_autograd(op.function, args, kwargs) if mode.dispatch_modes else run()

    return handle(op.function, op, args, kwargs, innermost)


def method(func, run, *args):
    """Carry out a call of a method that is no op: `detach`, item assignment."""
    return handle(func, None, args, {}, run)


@core_method("_detach_of_subclass")
def _detach_of_subclass(self):
    return method(Tensor.detach, lambda: make(self._data, self._type.plain), self)


def in_place(func, op, values, run):
    """Carry out a call of the in-place form of an op."""
    return handle(func, op, *arguments(op, values), run)


def handle(func, op, args, kwargs, run):
    """Give modes, overriding arguments and hooks their say in one call; `run()` is the call itself."""
    stack = mode.function_modes
    if stack:
        mode.function_modes = stack[:-1]
        try:
            types = tuple([type(item) for item in overloaded(args, kwargs)])
            result = stack[-1].__torch_function__(func, types, args, kwargs)
        finally:
            mode.function_modes = stack
        return _implemented(result, func, [type(stack[-1])])
    if not mode.no_override:
        overriding = overloaded(args, kwargs)
        if overriding:
            return override(func, overriding, args, kwargs)
    hooks = () if op is None or mode.in_hook else (*modes.installed_hooks, *mode.op_hooks)
    return around(hooks, op, func, args, kwargs, run) if hooks else run()


def override(func, overriding, args, kwargs):
    """Return what the first overriding argument that wants to makes of a call.

    Raises TypeError when none implements it.
    """
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
    return _raw(below_autograd(*_as_written(op, [_detached(value) for value in values])))


def below_autograd(func, args, kwargs):
    """Call the last dispatch mode, with itself taken off the stack and nothing recorded."""
    stack, grad = mode.dispatch_modes, mode.grad
    mode.dispatch_modes, mode.grad = stack[:-1], False
    try:
        result = stack[-1].__torch_dispatch__(func, (), args, kwargs)
    finally:
        mode.dispatch_modes, mode.grad = stack, grad
    if result is NotImplemented:
        raise TypeError(f"{type(stack[-1]).__name__}.__torch_dispatch__ does not implement {func.__name__}")
    if not isinstance(result, (Tensor, tuple, list)):
        raise TypeError(
            f"{type(stack[-1]).__name__}.__torch_dispatch__ returned {result!r} for {func.__name__}, not a tensor: "
            "write `return func(*args, **(kwargs or {}))`"
        )
    return result


def _detached(value):
    if isinstance(value, Tensor):
        return make(value._data, value._type.plain)
    if type(value) in (list, tuple):
        return type(value)([_detached(item) for item in value])
    return value


def _raw(value):
    if isinstance(value, Tensor):
        return value._data
    return tuple([_raw(item) for item in value]) if isinstance(value, (list, tuple)) else value


# ---------------------------------------------------------------------------------------------------- hooks on ops


class OpCall:
    """One call as hooks see it: `op` (the record), `name`, `args`, `kwargs`, `depth`, and after it `result`.

    `depth` is 0 for what the program calls, 1 for what a composite op calls, and so on.
    """

    __slots__ = ("op", "name", "args", "kwargs", "depth", "result")

    def __init__(self, op, func, args, kwargs, depth):
        self.op, self.args, self.kwargs, self.depth = op, args, kwargs, depth
        self.name = func.__name__ if hasattr(func, "__op__") or func.__name__[:2] != "__" else op.name
        self.result = None


class OpHook:
    """Base of hooks on ops: subclass it, and override what you want to see.

    An instance is a context manager that acts in its thread; `install()` makes it act everywhere until `remove()`.

    Args:
        *ops: names of the ops it is for, as they are public ("relu", "nn.functional.conv2d"); none means all.

    >>> import plugrad as torch
    >>> from plugrad.extend import OpHook
    >>> class Names(OpHook):
    ...     def before(self, call):
    ...         print("  " * call.depth + call.name)
    >>> x = torch.ones(2)
    >>> with Names():
    ...     y = torch.nn.functional.tanhshrink(x)
    tanhshrink
      tanh
      sub
    """

    def __init__(self, *ops):
        self.ops = frozenset([registry.op(name).qualname for name in ops])

    def before(self, call) -> None:
        """Called before the op runs, with an `OpCall`."""

    def after(self, call) -> None:
        """Called after the op ran, with the same `OpCall`, which now has the `result`."""

    def before_backward(self, node, grad_outputs) -> None:
        """Called before the backward of a call that this hook saw, with the node and the gradients of its outputs."""

    def after_backward(self, node, grad_inputs, grad_outputs) -> None:
        """Called after that, with the gradients of its inputs, too."""

    def wants(self, op) -> bool:
        """Whether the hook is for an op."""
        return not self.ops or op.qualname in self.ops

    def __enter__(self):
        mode.op_hooks = (*mode.op_hooks, self)
        modes.count_watched(+1)
        return self

    def __exit__(self, *exc):
        hooks = list(mode.op_hooks)
        if self not in hooks:
            raise RuntimeError(f"{type(self).__name__} was left more often than entered in this thread")
        hooks.remove(self)
        mode.op_hooks = tuple(hooks)
        modes.count_watched(-1)

    def install(self):
        """Make the hook act in every thread; return it."""
        modes.installed_hooks = (*modes.installed_hooks, self)
        modes.count_watched(+1)
        return self

    def remove(self) -> None:
        """Undo `install`."""
        if self not in modes.installed_hooks:
            raise RuntimeError(f"{type(self).__name__} is not installed")
        modes.installed_hooks = tuple([hook for hook in modes.installed_hooks if hook is not self])
        modes.count_watched(-1)

    @property
    def active(self) -> bool:
        """Whether the hook acts in this thread now."""
        return self in mode.op_hooks or self in modes.installed_hooks


def around(hooks, op, func, args, kwargs, run):
    """Run a call with hooks before and after it, and have them called at its backward."""
    wanted = [hook for hook in hooks if hook.wants(op)]
    call = OpCall(op, func, args, kwargs, mode.depth)
    for hook in wanted:
        _quietly(hook.before, call)
    mode.depth += 1
    try:
        call.result = run()
    finally:
        mode.depth -= 1
    for hook in reversed(wanted):
        _quietly(hook.after, call)
        _follow(hook, op, call.result)
    return call.result


def _quietly(function, *arguments):
    """Call a function of a hook, which may use ops itself: those no hook sees."""
    previous, mode.in_hook = mode.in_hook, True
    try:
        function(*arguments)
    finally:
        mode.in_hook = previous


def _follow(hook, op, result) -> None:
    """Have a hook called at the backward of a call, if it asks for that and the call was recorded as a node."""
    watches_before = type(hook).before_backward is not OpHook.before_backward
    watches_after = type(hook).after_backward is not OpHook.after_backward
    if not (watches_before or watches_after):
        return
    first = result[0] if isinstance(result, (list, tuple)) and result else result
    node = getattr(first, "_edge", None)
    if isinstance(node, OutputSlot):
        node = node.edges[0]
    if getattr(node, "op", None) is not op:  # a composite has no node of its own, its ops are followed themselves
        return
    if watches_before:
        node.register_prehook(lambda grads: _quietly(hook.before_backward, node, grads) if hook.active else None)
    if watches_after:
        node.register_hook(lambda *grads: _quietly(hook.after_backward, node, *grads) if hook.active else None)
