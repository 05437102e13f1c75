"""The named tuples that ops with several results return, such as `plugrad.return_types.max`."""

from __future__ import annotations


def __getattr__(name):
    # An op makes its tuple class at first use, and puts it here.
    from plugrad import registry

    found = None if name.startswith("__") else registry.op(name).returns
    if found is None:
        raise AttributeError(f"module 'plugrad.return_types' has no attribute {name!r}")
    return found
