"""The named tuples that ops with several results return, such as `plugrad.return_types.max`."""

from __future__ import annotations

from plugrad import registry


def __getattr__(name):
    # An op makes its tuple class at first use, and puts it here.
    cls = None if name.startswith("__") else registry.op(name).returns
    if cls is None:
        raise AttributeError(f"module 'plugrad.return_types' has no attribute {name!r}")
    return cls
