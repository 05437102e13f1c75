"""How a third party's plugin is loaded: contained, and checked before anything of it is entered."""

from __future__ import annotations

from plugrad.process_state import Contained
from plugrad.registry.loader import hook_name
from plugrad.registry.store import loading
from plugrad.registry.third_parties.checks import check_hooks, check_promises
from plugrad.registry.third_parties.versions import adapted, negotiate

__all__ = ["load", "negotiate", "prepare"]


def load(plugin, gather, commit) -> list[str]:
    """Load a plugin by the two stages of the loader, and return what to warn of."""
    with loading():
        with Contained():
            given = gather(plugin, negotiate, prepare)
        plugin.stage = "registration"
        check_promises(plugin, given)
        return commit(plugin, given)


def prepare(plugin, hooks: dict, version: int) -> None:
    """Bring hooks, by the name of the attribute that they are, to the current version, and check them."""
    for attribute, function in hooks.items():
        hooks[attribute] = adapted(hook_name(attribute, function), function, version)
    check_hooks(plugin, [(hook_name(attribute, function), function) for attribute, function in hooks.items()])
