"""Versions of the plugin contract: which of them a plugin was written for, and what makes older records right for now.

A plugin module states the range of versions that it works with, `plugrad_api = (1, 2)`; one that states nothing is
taken for the oldest. Every version back to `OLDEST` is served: what changed since is one adapter each.

Version 2: the Module of a loss comes with its op (`@loss`), so `plugrad_losses` is for those written by hand;
`plugrad_cli` returns commands like any other hook, where version 1 handed it the application to change.
"""

from __future__ import annotations

OLDEST, CURRENT = 1, 2


def negotiate(wanted, distribution: str) -> int:
    """Return the newest version that a plugin and this plugrad have in common.

    `wanted` is the plugin's `plugrad_api`: a pair (low, high), one number, or None. Raises ImportError when there is
    no common version, TypeError when it is something else.
    """
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


def adapt_hook(name: str, hook, version: int):
    """Return a plugin's implementation of a hook in the form in which the current version calls it."""
    return _returning_commands(hook) if version < 2 and name == "plugrad_cli" else hook


def adapt_records(records: dict, version: int) -> dict:
    """Return what a plugin's hooks gave, {kind: [record, ...]}, with the records that the current version expects."""
    derived = [op.loss_module for op in records.get("ops", ()) if hasattr(op, "loss_module")]
    losses = records.get("losses", [])
    twice = [module.__name__ for module in losses if any(module is one for one in derived)]
    if twice and version >= 2:
        raise TypeError(
            f"the hook plugrad_losses returned {twice[0]!r}, which comes with its op already: return only Modules of "
            "losses that were written by hand"
        )
    if derived or losses:
        records = {**records, "losses": [*(m for m in losses if m.__name__ not in twice), *derived]}
    return records


def _returning_commands(hook):
    """Turn version 1's `plugrad_cli(app)` into a hook that returns the commands which it adds to an application."""
    import functools
    import inspect

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
