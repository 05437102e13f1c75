"""Which version of the plugin contract a plugin was written for, and what makes its hooks right for now."""

from __future__ import annotations

import functools
import inspect

from plugrad.registry.contract import CURRENT, OLDEST


def negotiate(plugin) -> int:
    """Return the newest version that a plugin, once imported, and this plugrad have in common.

    Its `plugrad_api` is a pair (low, high), one number, or missing. Raises ImportError when there is no common version,
    TypeError when it is something else.
    """
    wanted, distribution = getattr(plugin.module, "plugrad_api", None), plugin.distribution
    if wanted is None:
        return OLDEST
    pair = (wanted, wanted) if isinstance(wanted, int) else wanted
    right = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(type(bound) is int for bound in pair)
    if not right or pair[0] > pair[1]:
        raise TypeError(f"plugrad_api must be a pair of versions such as ({OLDEST}, {CURRENT}), not {wanted!r}")
    low, high = pair
    if low > CURRENT or high < OLDEST:
        advice = f"a newer plugrad, or an older {distribution}" if low > CURRENT else f"a newer {distribution}"
        raise ImportError(
            f"it was written for plugin API {low} to {high}, this plugrad has {OLDEST} to {CURRENT}: install {advice}"
        )
    return min(high, CURRENT)


def adapted(name: str, hook, version: int):
    """Return a plugin's implementation of a hook in the form in which the current version calls it."""
    return _returning_commands(hook) if version < 2 and name == "plugrad_cli" else hook


def _returning_commands(hook):
    """Turn version 1's `plugrad_cli(app)` into a hook that returns the commands which it adds to an application."""
    if "app" not in inspect.signature(hook).parameters:
        return hook

    @functools.wraps(hook)
    def plugrad_cli():
        import typer

        app = typer.Typer()
        hook(app=app)
        return [app]

    del plugrad_cli.__wrapped__  # its signature is what pluggy validates
    return plugrad_cli
