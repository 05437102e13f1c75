"""Hooks around the steps of optimizers and around their checkpoints."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable

from plugrad.graph.hooks import RemovableHandle, add_hook
from plugrad.nn.tables import Table

_global_step_pre_hooks: dict[int, Callable] = OrderedDict()
_global_step_post_hooks: dict[int, Callable] = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer.

    The hook may return new `(args, kwargs)`. The handle's `remove()` takes it off again.
    """
    return add_hook(_global_step_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    return add_hook(_global_step_post_hooks, hook)


def with_hooks(step):
    """Wrap a class's `step` so that the hooks run around it, and once where it calls super().step()."""

    @functools.wraps(step)
    def hooked_step(self, *args, **kwargs):
        if type(self).step is not hooked_step:
            return step(self, *args, **kwargs)
        self._opt_called = True
        before, after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
        if not (before or after or _global_step_pre_hooks or _global_step_post_hooks):
            return step(self, *args, **kwargs)
        args = (self, *args)
        for hook in (*_global_step_pre_hooks.values(), *before.values()):
            replaced = hook(self, args, kwargs)
            if replaced is None:
                continue
            if not (isinstance(replaced, tuple) and len(replaced) == 2):
                raise RuntimeError(
                    f"a step pre-hook must return None or a tuple (new_args, new_kwargs), but got {replaced}"
                )
            args, kwargs = replaced
        result = step(*args, **kwargs)
        for hook in (*after.values(), *_global_step_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    return hooked_step


class Hooked:
    """The hook tables of an optimizer and the methods that fill them."""

    _optimizer_step_pre_hooks, _optimizer_step_post_hooks = Table(), Table()
    _optimizer_state_dict_pre_hooks, _optimizer_state_dict_post_hooks = Table(), Table()
    _optimizer_load_state_dict_pre_hooks, _optimizer_load_state_dict_post_hooks = Table(), Table()

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new ones."""
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`; `prepend` puts it before others."""
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another."""
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading, on a copy or what it returns."""
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after loading."""
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)
