"""Versions of the plugin contract, and what makes older records right for now.

A plugin module states the range of versions that it works with, `plugrad_api = (1, 2)`; one that states nothing is
taken for the oldest. Every version back to `OLDEST` is served: what changed since is one adapter
each, of records here, of hooks in `plugrad.registry.third_parties`.

Version 2: the Module of a loss comes with its op (`@loss`), so `plugrad_losses` is for those written by hand;
`plugrad_cli` returns commands like any other hook, where version 1 handed it the application to change.
"""

from __future__ import annotations

OLDEST, CURRENT = 1, 2


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
