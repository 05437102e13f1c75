"""The hooks of a module to look at, and those that run after an error."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from plugrad import registry
from plugrad.nn import Module

__all__ = ["ModuleHook", "hooks_of", "run_always_called"]

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


def hooks_of(module) -> list:
    """Return all hooks that concern a module, in the order in which they run."""
    hooks = []
    for kind, table_name in _TABLES.items():
        order = 0
        for holder in (Module._all_modules, module):
            table = vars(holder).get(table_name, {})
            named = "full_backward" if kind == "backward" and holder._is_full_backward_hook is not False else kind
            for key, function in table.items():
                described = _name(function), _owner(function)
                hooks.append(ModuleHook(named, *described, order, holder is not module, function, table, key))
                order += 1
    return hooks


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
