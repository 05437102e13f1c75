"""How a third party's plugin is loaded: contained, and checked before anything of it is entered."""

from __future__ import annotations

from plugrad.process_state import Contained
from plugrad.registry.store import loading
from plugrad.registry.third_parties.checks import check_hooks, check_promises

__all__ = ["load"]


def load(plugin, gather, commit) -> list[str]:
    """Load a plugin by the two stages of the loader, and return what to warn of."""
    with loading():
        with Contained():
            given = gather(plugin, check_hooks)
        plugin.stage = "registration"
        check_promises(plugin, given)
        return commit(plugin, given)
