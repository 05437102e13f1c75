"""Kinds of arguments and errors for wrong ones: they stand beside the core, and come when a function is generated."""

from __future__ import annotations

from plugrad.registry.namespaces import lazy_names

__getattr__, __dir__ = lazy_names(globals(), None, {"arguments": "are_ints kinds_of right wrong"})
