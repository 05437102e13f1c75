"""The hooks of a module: to register, to look at, and those that run after an error."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from plugrad import registry
from plugrad.nn import Module

__all__ = [
    "ModuleHook", "hooks", "register_backward_hook", "register_forward_hook", "register_forward_pre_hook",
    "register_full_backward_hook", "register_full_backward_pre_hook", "run_always_called",
]  # fmt: skip

# Tables of a module, in the order in which a call, its backward, saving and loading come to them.
_TABLES = {
    "forward_pre": "_forward_pre_hooks",
    "forward": "_forward_hooks",
    "backward_pre": "_backward_pre_hooks",
    "backward": "_backward_hooks",
    "state_dict_pre": "_state_dict_pre_hooks",
    "state_dict": "_state_dict_hooks",
    "load_state_dict_pre": "_load_state_dict_pre_hooks",
    "load_state_dict_post": "_load_state_dict_post_hooks",
}


_MIXED = (
    "Cannot use both regular backward hooks and full backward hooks {where}. Please use only one of them: "
    "register_full_backward_hook is the one to keep"
)


def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
    """Run ``hook(module, args)`` before every forward.

    Args:
        hook: may return new positional arguments: a tuple, or one value. With ``with_kwargs`` it is
            called as ``hook(module, args, kwargs)`` and may return ``(args, kwargs)``.
        prepend: run it before the module's other pre-hooks. Global ones always run first.
        with_kwargs: hand the keyword arguments to the hook too.

    >>> import plugrad as torch
    >>> double = torch.nn.Sequential()
    >>> handle = double.register_forward_pre_hook(lambda module, args: args[0] * 2)
    >>> double(torch.tensor([1.0]))
    tensor([2.])
    """
    marks = [self._forward_pre_hooks_with_kwargs] * bool(with_kwargs)
    return self._add_hook(self._forward_pre_hooks, hook, prepend, marks)


def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
    """Run ``hook(module, args, output)`` after every forward.

    Args:
        hook: may return another output. With ``with_kwargs`` it is called as
            ``hook(module, args, kwargs, output)``.
        prepend: run it before the module's other hooks. Global ones always run first.
        with_kwargs: hand the keyword arguments to the hook too.
        always_call: run it even if the call raises; the output is then None or what there was.

    >>> import plugrad as torch
    >>> negate = torch.nn.Sequential()
    >>> handle = negate.register_forward_hook(lambda module, args, output: -output)
    >>> negate(torch.tensor([1.0]))
    tensor([-1.])
    """
    marks = [self._forward_hooks_with_kwargs] * bool(with_kwargs)
    marks += [self._forward_hooks_always_called] * bool(always_call)
    return self._add_hook(self._forward_hooks, hook, prepend, marks)


def register_full_backward_pre_hook(self, hook, prepend=False):
    """Run ``hook(module, grad_output)`` when the outputs' gradients are known.

    Args:
        hook: may return a tuple of new gradients, used from there on. It must not change them in place.
        prepend: run it before the module's other backward pre-hooks.
    """
    return self._add_hook(self._backward_pre_hooks, hook, prepend)


def register_full_backward_hook(self, hook, prepend=False):
    """Run ``hook(module, grad_input, grad_output)`` behind the module's backward.

    Args:
        hook: may return a tuple of new gradients in place of ``grad_input``: one entry for each
            positional argument, None for those that are not tensors. It must not change its arguments
            in place.
        prepend: run it before the module's other backward hooks.

    Raises RuntimeError on a module that has old style backward hooks.

    >>> import plugrad as torch
    >>> layer = torch.nn.Sequential()
    >>> handle = layer.register_full_backward_hook(lambda module, grad_input, _: (grad_input[0] * 10,))
    >>> x = torch.tensor([1.0], requires_grad=True)
    >>> layer(x).sum().backward()
    >>> x.grad
    tensor([10.])
    """
    _set_backward_style(self, full=True)
    return self._add_hook(self._backward_hooks, hook, prepend)


def register_backward_hook(self, hook):
    """Run ``hook`` on forward's last node: prefer register_full_backward_hook."""
    _set_backward_style(self, full=False)
    return self._add_hook(self._backward_hooks, hook, False)


def _set_backward_style(module, full: bool) -> None:
    if module._is_full_backward_hook is (not full):
        raise RuntimeError(_MIXED.format(where=module._hooked_as[1]))
    module._is_full_backward_hook = full


@dataclass(frozen=True)
class ModuleHook:
    """One hook of a module.

    Attributes:
        kind: when it runs: "forward_pre", "forward", "backward_pre", "full_backward", "backward" (the old style),
            "state_dict_pre", "state_dict", "load_state_dict_pre", "load_state_dict_post".
        name: of the function.
        owner: the distribution that has the function, or the module in which it stands.
        order: when it runs among those of its kind, from 0.
        of_all_modules: whether it is one of all modules, which run first.
        function: the hook itself.
    """

    kind: str
    name: str
    owner: str
    order: int
    of_all_modules: bool
    function: object = field(repr=False)
    _table: object = field(repr=False, compare=False)
    _key: int = field(repr=False, compare=False)

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        self._table.pop(self._key, None)


def hooks(self) -> list:
    """Return the hooks of this module and of all modules, in the order of their calls.

    Each has ``kind``, ``name``, ``owner`` (the distribution or module it is from), ``order`` and ``remove()``.
    """
    known = []
    for kind, table_name in _TABLES.items():
        order = 0
        for holder in (Module._all_modules, self):
            table = vars(holder).get(table_name, {})
            named = "full_backward" if kind == "backward" and holder._is_full_backward_hook is not False else kind
            for key, function in table.items():
                described = _name(function), _owner(function)
                known.append(ModuleHook(named, *described, order, holder is not self, function, table, key))
                order += 1
    return known


def _name(function) -> str:
    inner = getattr(function, "func", function)  # of a partial
    return getattr(inner, "__qualname__", None) or type(inner).__qualname__


def _owner(function) -> str:
    inner = getattr(function, "func", function)
    place = getattr(inner, "__module__", None) or type(inner).__module__
    if place.partition(".")[0] == "plugrad":
        return "plugrad"
    plugin = registry.entry_points.owner_of(place)
    return place if plugin is None else plugin.distribution


def run_always_called(module, called, args, kwargs, result) -> None:
    """After an error in a module's call, run the hooks with ``always_call``; their errors only warn."""
    for owner, key, hook in module._all_forward_hooks():
        if key not in owner._forward_hooks_always_called or key in called:
            continue
        try:
            changed = owner._run_forward_hook(key, hook, module, args, kwargs, result)
            result = result if changed is None else changed
        except Exception as error:
            warnings.warn(
                f"{owner._hooked_as[0]} forward hook with ``always_call=True`` raised an exception that was"
                f" silenced as another error was raised in forward: {error}",
                stacklevel=5,
            )
