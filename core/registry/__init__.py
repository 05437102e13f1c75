"""What exists and who brought it: names, entry points, loading and quarantine, preferences, the lock file."""

from __future__ import annotations

from plugrad.registry.names import (
    CLASS_HOME,
    KINDS,
    AmbiguousNameError,
    Entry,
    backend,
    backends,
    candidates_for,
    choose,
    claims,
    commit,
    core_has,
    find,
    forget,
    hint,
    is_meant,
    loaded_backends,
    lock,
    method_op,
    names_in,
    op,
    operator_op,
    ops,
    prefer,
    preference,
    preferred,
    public,
    reason,
    resolve,
    settle_again,
    shadows,
    tables,
)

__all__ = [
    "AmbiguousNameError", "CLASS_HOME", "Entry", "KINDS", "backend", "backends", "candidates_for", "choose", "claims",
    "commit", "core_has", "find", "forget", "hint", "is_meant", "loaded_backends", "lock", "method_op", "names_in",
    "op", "operator_op", "ops", "prefer", "preference", "preferred", "public", "reason", "resolve",
    "settle_again", "shadows", "tables",
]  # fmt: skip
