"""What the user decided about names, and what that changes."""

from __future__ import annotations

from plugrad.errors import warn
from plugrad.registry import kernels, preferences
from plugrad.registry.claims import forget
from plugrad.registry.store import backends, claims, loading_here, lock, ops, public


def prefer(name: str, distribution: str | None) -> None:
    """Say for this process from which distribution a name of several is taken.

    Args:
        name: a bare name ("swish": also the method and the functional form), a dotted one ("optim.Lion"), a device
            ("backends.npu"), or the kernel of an op on a device ("kernels.cuda.conv2d").
        distribution: its distribution, or the plugin as "distribution:name"; None takes the preference back.

    Something of plugrad's own is replaced only by a plugin that also declares that with `override=True`.
    Raises RuntimeError for a device that is in use already.
    """
    if loading_here():
        raise RuntimeError("a plugin can't set the user's preferences while it is loaded")
    name = preferences.bare(name)
    last = name.rpartition(".")[2]
    if name in (last, f"backends.{last}") and backends.get(last) is not None:
        if f"backends.{last}" in claims:
            raise RuntimeError(f"device {last!r} is in use already: say which backend you prefer before its first use")
    preferences.set_preference(name, distribution)
    meant = [dotted for dotted in claims if name in (dotted, dotted.rpartition(".")[2])]
    for dotted in meant:  # loads what has the name: with the registry locked nothing may be loaded
        public.get(dotted)
    with lock:  # forget which function stands behind the name
        for dotted in meant:
            forget(dotted)
        message = kernels.settle(name, ops[name.split(".", 2)[2]]) if name in kernels.brought else None
        if message is not None:
            warn(message)
