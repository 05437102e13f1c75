"""What exists and who brought it: names, entry points, loading and quarantine, preferences, the lock file.

The registry knows names and records, and none of what they are for. The layers above declare the kinds of records that
they take (`declare_kind`) and subscribe to what they have to follow (`plugrad.registry.events`).
"""

from __future__ import annotations

from plugrad.errors import AmbiguousNameError, PluginLoadError
from plugrad.registry.claims import candidates_for, choose, core_has, forget, is_meant
from plugrad.registry.entry_points import Plugin, describe_failure, promised_names
from plugrad.registry.events import reserve
from plugrad.registry.kinds import HOMES, KINDS, declare_kind
from plugrad.registry.loader import load, load_or_warn
from plugrad.registry.lookup import (
    backend,
    find,
    hint,
    loaded_backends,
    method_op,
    names_in,
    op,
    op_in,
    operator_op,
    reason,
    resolve,
    scope_of,
)
from plugrad.registry.namespaces import lazy_names
from plugrad.registry.preferences import normalise, preference, preferred
from plugrad.registry.registration import commit
from plugrad.registry.store import Entry, backends, claims, lock, ops, plugins, public, tables

__all__ = [
    "AmbiguousNameError", "Entry", "HOMES", "KINDS", "Plugin", "PluginLoadError", "backend", "backends",
    "candidates_for", "choose", "claims", "commit", "core_has", "declare_kind", "describe_failure", "find",
    "forget", "hint", "is_meant", "load", "load_or_warn", "loaded_backends", "lock", "method_op", "names_in",
    "normalise", "op", "op_in", "operator_op", "ops", "plugins", "prefer", "preference", "preferred", "promised_names",
    "public", "reason", "reserve", "resolve", "scope_of", "tables",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(globals(), None, {"registry.third_parties.decisions": "prefer"})
