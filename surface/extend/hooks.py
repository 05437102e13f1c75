"""Hooks on ops: what a program or plugin writes to see the calls of ops, and their backward."""

from __future__ import annotations

from plugrad import registry
from plugrad.dispatch.interception import Hook
from plugrad.graph import modes
from plugrad.graph.modes import Region, mode, region
from plugrad.graph.nodes import OutputSlot
from plugrad.interrupts import held_back


class OpHook(Hook, Region):
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
        """Called with node and gradients before the backward of a call that it saw."""

    def after_backward(self, node, grad_inputs, grad_outputs) -> None:
        """Called after that, with the gradients of its inputs, too."""

    def wants(self, op) -> bool:
        """Whether the hook is for an op."""
        return not self.ops or op.qualname in self.ops

    def around(self, call, run):
        """Return the result of a call, around which the hook's other methods are called."""
        _quietly(self.before, call)
        call.result = run()
        _quietly(self.after, call)
        _follow(self, call.op, call.result)
        return call.result

    def changes(self):
        return {"op_hooks": (*mode.op_hooks, self)}

    def __enter__(self):
        super().__enter__()
        return self

    def install(self):
        """Make the hook act in every thread; return it."""
        with held_back(), registry.lock:  # else of two that threads install at once one is lost
            modes.install((*modes.installed_hooks, self))
        return self

    def remove(self) -> None:
        """Undo `install`."""
        with held_back(), registry.lock:
            if self not in modes.installed_hooks:
                raise RuntimeError(f"{type(self).__name__} is not installed")
            modes.install(tuple([hook for hook in modes.installed_hooks if hook is not self]))

    @property
    def active(self) -> bool:
        """Whether the hook acts in this thread now."""
        return self in mode.op_hooks or self in modes.installed_hooks


def _quietly(function, *arguments):
    """Call a function of a hook, which may use ops itself: those no hook sees."""
    with region(in_hook=True):
        function(*arguments)


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
