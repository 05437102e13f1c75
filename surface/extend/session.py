"""Records that a program or a notebook registers itself, without a package: `plugrad.extend.register`."""

from __future__ import annotations

from plugrad.errors import suggestion, warn
from plugrad.interrupts import held_back
from plugrad.registry import contract, entry_points, events, kernels, registration, store
from plugrad.registry.claims import core_has, discard, forget
from plugrad.registry.kinds import KINDS

_plugin = None


def register(*given, **by_kind):
    """Register records and classes from the program itself; return the first one.

    As those of an installed package they appear as `plugrad.NAME`, `Tensor.NAME`, `plugrad.nn.NAME`..., and ops also
    as `plugrad.ops.session.NAME`. Registering a name again, as by running a notebook's cell again, replaces what the
    program itself had registered under it, and nothing else: a name of plugrad's own stays plugrad's, with a warning,
    and a name of an installed package is ambiguous until `plugrad.registry.prefer(NAME, "session")`.

    Args:
        *given: ops, kernels, classes of layers, optimizers, schedulers, backends and hooks, told apart by their base.
        **by_kind: lists of others by kind, such as `inits=[ones_]`, `compilers=[fast]`, `losses=[MyLoss]`.

    Raises TypeError for anything that is not a record, or an incomplete one; then everything stays as it was.

    >>> import plugrad as torch
    >>> from plugrad.extend import register, unary
    >>> @unary()
    ... def doubled(xp, input):
    ...     return 2 * input
    >>> @doubled.vjp
    ... def doubled_vjp(F, g):
    ...     return 2 * g
    >>> register(doubled)
    <Op session.doubled (unary)>
    >>> torch.ones(2).doubled()
    tensor([2., 2.])
    >>> unregister(doubled)
    """
    unknown = set(by_kind) - set(KINDS)
    if unknown:
        raise TypeError(
            f"there is no kind {min(unknown)!r}{suggestion(min(unknown), KINDS)}; kinds are {', '.join(sorted(KINDS))}"
        )
    for kind, items in by_kind.items():
        if not isinstance(items, (list, tuple)):
            raise TypeError(f"register({kind}=...) takes a list: write register({kind}=[...]), not {items!r}")
    groups = {kind: list(items) for kind, items in by_kind.items()}
    for item in given:
        groups.setdefault(kind_of(item), []).append(item)
    if "kernels" in groups and store.loading_here():
        raise RuntimeError(
            "a plugin brings its kernels by the hook plugrad_kernels, each with an entry point in plugrad.kernels; "
            "register() is for programs"
        )
    groups = contract.adapt_records(groups, contract.CURRENT)
    for kind, items in groups.items():
        for item in items:
            KINDS[kind].check(item)
    _load_rivals(groups)
    with held_back(), store.lock:
        plugin = _session()
        replaced = [entry for entry in dict.fromkeys(plugin.brought.values()) if _is_among(entry, groups)]
        names = [dotted for entry in replaced for dotted in _withdraw(plugin, entry)]
        try:
            messages = registration.commit(plugin, groups)
        except Exception:
            if replaced:
                registration.commit(plugin, _by_kind(replaced))
            raise
        finally:  # not before, so that no thread misses a name that is only replaced
            _follow(names)
        _forget(plugin, groups)
        messages = [*messages, *_shadowed(plugin, groups)]
    for message in messages:
        warn(message)
    return next(iter((*given, *(item for items in by_kind.values() for item in items))), None)


def unregister(*given) -> None:
    """Take back what `register` entered, each under all of its names.

    Raises LookupError for what was not registered by the program.
    """
    with held_back(), store.lock:
        plugin = _session()
        for item in given:
            entries = [entry for entry in dict.fromkeys(plugin.brought.values()) if entry.value is item]
            if not entries:
                raise LookupError(f"{item!r} was not registered by this program, or was replaced since")
            for entry in entries:
                _follow(_withdraw(plugin, entry))
        if not plugin.brought:
            store.plugins.pop(plugin.id, None)


def kind_of(item) -> str:
    """Return the kind that a record or class is of by its base; TypeError when that does not say."""
    for kind in KINDS.values():
        if kind.base is not None and kind.matches(item):
            return kind.name
    raise TypeError(
        f"register() can't tell what {item!r} is: write its kind, as in register(inits=[...]) or "
        "register(compilers=[...])"
    )


def _load_rivals(groups) -> None:
    """Load what else has the names of records, since with the registry locked nothing may be loaded.

    Who loads a plugin holds that one's lock and waits for the registry's.
    """
    for kind, items in groups.items():
        for item in items:
            if kind == "kernels":
                store.ops.get(item.op_name)
                continue
            names = item.names if kind == "ops" else [f"{KINDS[kind].home}.{KINDS[kind].name_of(item)}"]
            for dotted in names:
                store.public.get(dotted)


def _session():
    """Return the plugin that stands for the program itself."""
    global _plugin
    if _plugin is None:
        _plugin = entry_points.Plugin("session", "-", "main", "__main__", False)
        _plugin.kinds.add("plugin")
        _plugin.status = "loaded"
    store.plugins[_plugin.id] = _plugin
    return _plugin


def _is_among(entry, groups) -> bool:
    if entry.kind == "kernels":
        mine = entry.value
        return any((k.op_name, k.backend) == (mine.op_name, mine.backend) for k in groups.get("kernels", ()))
    return any(KINDS[entry.kind].name_of(item) == entry.name for item in groups.get(entry.kind, ()))


def _by_kind(entries) -> dict:
    groups: dict = {}
    for entry in entries:
        group = groups.setdefault(entry.kind, [])
        if not any(item is entry.value for item in group):
            group.append(entry.value)
    return groups


def _follow(names) -> None:
    """Have whoever installed something for the names take it away where nobody brings them any more."""
    for dotted in names:
        events.publish(events.on_forget, dotted)


def _withdraw(plugin, entry) -> list[str]:
    """Take back everything that was entered for one entry of the session; return the names that it had."""
    names = []
    for dotted in [dotted for dotted, one in plugin.brought.items() if one is entry]:
        if entry.kind == "kernels":
            del plugin.brought[dotted]
            kernels.brought[dotted].remove(entry)
            kernels.settle(dotted, store.ops[dotted.split(".", 2)[2]])  # the next in line runs again
            continue
        forget(dotted)
        del plugin.brought[dotted]
        if store.public.get(dotted) is entry:
            del store.public[dotted]
        if plugin in store.claims.get(dotted, ()):
            discard(dotted, plugin)
        names.append(dotted)
    if entry.kind == "ops":
        store.ops.pop(f"{plugin.namespace}.{entry.name}", None)
        names += [f"ops.{plugin.namespace}.{entry.name}", f"Tensor.{entry.name}"]  # whose in-place form Tensor has
    elif entry.kind == "backends" and store.public.get(f"backends.{entry.name}") is None:
        store.backends.pop(entry.name, None)
        names.append(f"backends.{entry.name}")
    return names


def _forget(plugin, groups) -> None:
    """Have the names that were just entered looked up again by whoever remembers others."""
    for dotted, entry in plugin.brought.items():
        if entry.kind != "kernels" and _is_among(entry, groups):
            forget(dotted)


def _shadowed(plugin, groups) -> list[str]:
    """Return what to warn of: names that stay plugrad's own."""
    taken = [
        entry for dotted, entry in plugin.brought.items()
        if entry.kind != "kernels" and _is_among(entry, groups) and _is_ours(dotted)
    ]  # fmt: skip
    return [
        f"{name!r} is plugrad's own and stays so"
        + (f"; yours is plugrad.ops.{plugin.namespace}.{name}" if kind == "ops" else "; give yours another name")
        for kind, name in dict.fromkeys((entry.kind, entry.name) for entry in taken)
    ]


def _is_ours(dotted) -> bool:
    entry = store.public.get(dotted)
    return core_has(dotted) or (entry is not None and entry.provider.builtin)
