"""Looking up what plugins brought: a name is settled, and the plugin behind it loaded, when it is first used.

Nothing here runs when an op is called.
"""

from __future__ import annotations

import sys

from plugrad.errors import AmbiguousNameError, PluginLoadError, describe, suggestion
from plugrad.registry import events
from plugrad.registry.claims import settle
from plugrad.registry.entry_points import owner_of
from plugrad.registry.store import backends, claims, lock, ops, public


def op(name: str):
    """Return the record of an op by its primary name, `namespace.name` or public name.

    Raises AttributeError, which names the nearest, when there is none.
    """
    record = ops.get(name)
    if record is not None:
        if claims:
            load_kernels(name)
        return record
    entry = find(name) or find(f"ops.{name}")
    if entry is not None and entry.kind == "ops":
        return entry.value
    hidden = [record for key, record in ops.items() if key.endswith(f".{name}")]  # an op without public name
    if len(hidden) == 1:
        return hidden[0]
    if hidden:
        raise AmbiguousNameError(f"{name!r} may be {' or '.join(record.qualname for record in hidden)}: write that")
    raise AttributeError(f"there is no op named {name!r}{suggestion(name, ops)}{hint(name)}")


def op_in(scope: str | None, name: str):
    """Return the record that a name means in the code of the namespace `scope`.

    It is the distribution's own or plugrad's own (None), whatever the user prefers; AttributeError if neither has it.
    """
    for whose in dict.fromkeys((scope, None)):
        key = name if whose is None else f"{whose}.{name}"
        entry = None if key in ops or whose is None else find(f"ops.{key}")  # promised by a module not yet loaded
        record = ops.get(key) if entry is None else entry.value
        if record is None:
            own = (one for one in ops.values() if one.scope == whose)
            record = next((one for one in own if name in one.names or f"nn.functional.{name}" in one.names), None)
        if record is not None:
            load_kernels(record.qualname)
            return record
    others = [one.qualname for one in ops.values() if one.name == name]
    more = f" ({' and '.join(others)} is another package's: import its record, and write F(record))" if others else ""
    whose = "plugrad" if scope is None else f"{scope} and plugrad"
    more = more or suggestion(name, ops) + hint(name)
    raise AttributeError(f"there is no op named {name!r} among those of {whose}{more}")


def scope_of(record) -> str | None:
    """Return the namespace of a third party's record; the program's own: "session"."""
    plugin = record.provider or owner_of(record.module)
    if record.provider is None and plugin is not None and plugin.status == "not loaded":
        events.publish(events.on_needed, plugin, True)  # its module was imported by its name: the rest of it is needed
    return "session" if plugin is None else None if plugin.builtin else plugin.namespace


def load_kernels(name: str) -> None:
    """Load the plugins that promise kernels for an op; one that fails costs a warning, the op works without it."""
    for plugin in claims.pop(f"kernels.{name}", ()):
        if plugin.status != "loading":
            events.publish(events.on_needed, plugin, True)


def method_op(name: str):
    """Return the op behind the method `Tensor.NAME`, which its in-place form follows."""
    _refuse_to_load(f"Tensor.{name}")
    entry = find(f"Tensor.{name}") or find(name)
    return entry.value if entry is not None and entry.kind == "ops" else op(name)


def operator_op(name: str):
    """Return the op behind a Python operator: ours, or a third party's if preferred."""
    entry = find(f"Tensor.{name}")
    return op(name) if entry is None or entry.provider.builtin else entry.value


def resolve(dotted: str):
    """Return what a public name refers to, loading its plugin; AttributeError if none."""
    _refuse_to_load(dotted)
    entry = find(dotted)
    if entry is None and any([more() for more in events.on_unknown]):
        entry = find(dotted)
    if entry is None:
        home, _, name = dotted.rpartition(".")
        near = [known.rpartition(".")[2] for known in public if known.rpartition(".")[0] == home]
        where = "'Tensor' object" if home == "Tensor" else f"module {f'plugrad.{home}' if home else 'plugrad'!r}"
        raise AttributeError(f"{where} has no attribute {name!r}{suggestion(name, near)}{hint(name)}")
    return entry.target(dotted)


# Modules that ask for every name in dir(), or for every one with a given prefix.
_BROWSERS = frozenset({"inspect", "pydoc", "rlcompleter"})


def _refuse_to_load(dotted) -> None:
    """Raise AttributeError for a name that is only promised, when all names are asked for, as `help(plugrad)` does."""
    promised = claims.get(dotted) if dotted not in public else None
    if promised and all(one.status == "not loaded" for one in promised) and _caller() in _BROWSERS:
        raise AttributeError(f"plugrad.{dotted} is not loaded")


def _caller() -> str:
    """Return the name of the module outside of plugrad that asks."""
    frame, name = sys._getframe(1), "plugrad"
    while frame is not None and f"{name}.".startswith("plugrad."):
        name, frame = frame.f_globals.get("__name__", ""), frame.f_back
    return name


_generation = 0  # of what stands behind the names: one more whenever that changes


@events.on_forget.append
def _count_change(dotted) -> None:
    global _generation
    _generation += 1


def kept(find, keep):
    """Return what `find()` finds behind a name, and keep it by `keep(value)`, unless that changes meanwhile."""
    before, value = _generation, find()
    with lock:  # in which other threads change names
        if before == _generation:
            keep(value)
    return value


def find(dotted: str):
    """Return the entry behind a public name, or None; loads its plugin.

    Raises AmbiguousNameError when several plugins bring the name and none is preferred, and PluginLoadError when the
    plugin behind it does not load.
    """
    entry = public.get(dotted)
    if entry is not None and not (claims and (dotted in claims or f"kernels.{entry.name}" in claims)):
        return entry
    while True:
        with lock:  # in which a name that is only replaced may be gone for a moment
            chosen, entry = settle(dotted), public.get(dotted)
        if chosen is None:
            break
        # Outside of the lock: importing waits for other threads, which may wait for it.
        events.publish(events.on_needed, chosen, False)
    if entry is not None and entry.kind == "ops":
        load_kernels(entry.name)
    return entry


def hint(name) -> str:
    """Return what an unknown name may be of: plugins that are blocked or failed."""
    return "".join([why(name) for why in events.on_missing])


def names_in(home: str, failed=False) -> list[str]:
    """Return the public names in a namespace: '' is plugrad, 'Tensor' its methods.

    Names that only failed plugins promise are left out, unless `failed` asks for them, too.
    """
    prefix = f"{home}." if home else ""
    living = (dotted for dotted, rivals in claims.items() if failed or any(plugin.error is None for plugin in rivals))
    rest = {dotted[len(prefix) :] for dotted in (*public, *living) if dotted.startswith(prefix)}
    if home == "ops":  # holds the namespaces of third parties
        return sorted({name.partition(".")[0] for name in rest})
    return sorted(name for name in rest if "." not in name)


# ---------------------------------------------------------------------------------------------------- backends


def backend(name: str):
    """Return the backend of a device type, importing its plugin at first use.

    Raises RuntimeError for an unknown device, AmbiguousNameError when two plugins bring it, PluginLoadError when its
    plugin fails.
    """
    known = backends.get(name)
    if known is not None:
        return known
    entry = find(f"backends.{name}") if name in backends else None
    if entry is None:
        raise RuntimeError(f"there is no backend for device {name!r}; known: {', '.join(sorted(backends))}{hint(name)}")
    instance = entry.value
    if isinstance(instance, type):
        try:
            instance = instance()
        except BaseException as error:
            if entry.provider.builtin or isinstance(error, KeyboardInterrupt):
                raise
            raise PluginLoadError(
                f"the backend {name!r} of {entry.provider.id} can't be made: {describe(error)}"
            ) from error
    with lock:
        if backends.get(name) is None:
            backends[name] = instance
    return backends[name]


def reason(name: str) -> str | None:
    """Return why a device can't be used here, None if it can. Imports its plugin."""
    try:
        why = backend(name).available()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a third party's backend does, sys.exit() included
        return describe(error)
    if why is None or isinstance(why, str):
        return why
    return f"its available() must return None where it can be used, else the reason as text; it returned {why!r}"


def loaded_backends() -> list[str]:
    """Return the names of the backends that are in use."""
    return [name for name, instance in backends.items() if instance is not None]
