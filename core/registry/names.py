"""Everything that plugins brought, by name, and what happens between two that bring one name.

Nothing here runs at an op's call. Plugins hand over records; `commit` validates all of a plugin's records and then
enters all of them or none. Names that only a manifest promises (static entry points of guests), and names that more
than one plugin brings, are kept as claims: they are settled when the name is first used, by loading the one plugin
behind it, by the user's preference, or by an error that names the rivals.
"""

from __future__ import annotations

import sys
import threading

from plugrad.errors import AmbiguousNameError, PluginLoadError, describe, suggestion
from plugrad.registry import kernels, validation
from plugrad.registry.preferences import keeps_out_name, prefer, preference, preferred

__all__ = ["AmbiguousNameError", "Entry", "backend", "commit", "find", "op", "prefer", "preferred", "resolve"]

KINDS = (
    "ops", "kernels", "losses", "layers", "optimizers", "schedulers", "inits", "backends", "compilers", "hooks",
)  # fmt: skip
CLASS_HOME = {
    "losses": "nn",
    "layers": "nn",
    "optimizers": "optim",
    "schedulers": "optim.lr_scheduler",
    "inits": "nn.init",
    "compilers": "compilers",
    "hooks": "op_hooks",
}

lock = threading.RLock()
ops: dict = {}  # primary name ("relu"; a guest's: "namespace.swish") -> Op
public: dict = {}  # dotted public name ("nn.functional.relu", "optim.SGD", "backends.cpu") -> Entry
tables: dict[str, dict] = {kind: {} for kind in KINDS}  # kind -> name -> Entry
backends: dict = {}  # device type -> its backend; None until the device is first used
claims: dict = {}  # dotted public name -> plugins that promise or bring it, beside the provider of the public entry


class Entry:
    """One registered thing: its kind, name, value (an Op, a class, a function) and the plugin that brought it."""

    __slots__ = ("kind", "name", "value", "provider")

    def __init__(self, kind, name, value, provider):
        self.kind, self.name, self.value, self.provider = kind, name, value, provider

    @property
    def target(self):
        """What the public name refers to."""
        return self.value.function if self.kind == "ops" else self.value


# ---------------------------------------------------------------------------------------------------- looking up


def op(name: str):
    """Return the record of an op by its primary name, `namespace.name` or public name.

    Raises AttributeError, which names the nearest, when there is none.
    """
    found = ops.get(name)
    if found is not None:
        if claims:
            kernels.load_promised(name)
        return found
    entry = find(name) or find(f"ops.{name}")
    if entry is not None and entry.kind == "ops":
        return entry.value
    hidden = [record for key, record in ops.items() if key.endswith(f".{name}")]  # a guest's op without public name
    if len(hidden) == 1:
        return hidden[0]
    if hidden:
        raise AmbiguousNameError(f"{name!r} may be {' or '.join(record.qualname for record in hidden)}: write that")
    raise AttributeError(f"there is no op named {name!r}{suggestion(name, ops)}{hint(name)}")


def method_op(name: str):
    """Return the record of the op behind the method `Tensor.NAME`, which its in-place form follows."""
    _refuse_to_load(f"Tensor.{name}")
    entry = find(f"Tensor.{name}") or find(name)
    return entry.value if entry is not None and entry.kind == "ops" else op(name)


def operator_op(name: str):
    """Return the record of the op behind one of Python's operators: ours, unless the user prefers a guest's."""
    entry = find(f"Tensor.{name}")
    return op(name) if entry is None or entry.provider.builtin else entry.value


def resolve(dotted: str):
    """Return what a public name refers to, loading the plugin that promises it; AttributeError if there is none."""
    _refuse_to_load(dotted)
    entry = find(dotted)
    if entry is None:
        from plugrad.registry import loader

        entry = find(dotted) if loader.load_deferred() else None
    if entry is None:
        home, _, name = dotted.rpartition(".")
        near = [known.rpartition(".")[2] for known in public if known.rpartition(".")[0] == home]
        where = "'Tensor' object" if home == "Tensor" else f"module {f'plugrad.{home}' if home else 'plugrad'!r}"
        raise AttributeError(f"{where} has no attribute {name!r}{suggestion(name, near)}{hint(name)}")
    return entry.target


# Modules that ask for every name that dir() has, or every one that begins with some letters.
_LOOKING_ROUND = frozenset({"inspect", "pydoc", "rlcompleter"})


def _refuse_to_load(dotted) -> None:
    """Raise AttributeError for a name that is only promised, when all names are asked for, as `help(plugrad)` does."""
    promised = dotted in claims and dotted not in public
    if promised and all(one.status == "not loaded" for one in claims[dotted]) and _caller() in _LOOKING_ROUND:
        raise AttributeError(f"plugrad.{dotted} is not loaded")


def _caller() -> str:
    """Return the name of the module outside of plugrad that asks."""
    frame, name = sys._getframe(1), "plugrad"
    while frame is not None and f"{name}.".startswith("plugrad."):
        name, frame = frame.f_globals.get("__name__", ""), frame.f_back
    return name


def find(dotted: str):
    """Return the entry behind a public name, or None; loads the plugin that promises it.

    Raises AmbiguousNameError when several plugins bring the name and none is preferred, and PluginLoadError when the
    plugin behind it does not load.
    """
    if not claims:
        return public.get(dotted)
    while True:
        with lock:
            chosen = _settle(dotted)
        if chosen is None:
            break
        from plugrad.registry import loader

        loader.load(chosen)  # outside of the lock: importing waits for other threads that may wait for it
    entry = public.get(dotted)
    if entry is not None and entry.kind == "ops":
        kernels.load_promised(entry.name)
    return entry


def _settle(dotted):
    """Make the chosen plugin's entry the public one; return the plugin instead if it must be loaded first."""
    while dotted in claims:
        entry = public.get(dotted)
        candidates = candidates_for(dotted)
        chosen, _ = choose(dotted)
        if entry is not None and chosen is entry.provider:
            return None
        if chosen.status != "loaded" and dotted not in chosen.brought:
            return chosen
        found = chosen.brought.get(dotted)
        if found is None:  # the manifest promised the name, but not this place of it
            _discard(dotted, chosen)
            continue
        replaces = not chosen.builtin and any(rival.builtin for rival in candidates)
        if replaces and not getattr(found.value, "override", False):
            raise AmbiguousNameError(
                f"{dotted!r} is plugrad's own; {chosen.id} is preferred, but may replace it only if it declares "
                "its own with override=True"
            )
        public[dotted] = found
        claims[dotted] = [rival for rival in candidates if rival is not chosen]
        if not claims[dotted]:
            del claims[dotted]
    return None


def candidates_for(dotted: str) -> list:
    """Return the plugins that bring or promise a public name; the one in force, if any is, comes first."""
    entry = public.get(dotted)
    return [*([entry.provider] if entry is not None else ()), *claims.get(dotted, ())]


def is_meant(plugin, wanted: str | None) -> bool:
    """Whether a preference, "distribution" or "distribution:name", means a plugin."""
    return wanted in (plugin.distribution, plugin.id)


def choose(dotted: str) -> tuple:
    """Return the plugin that a name is taken from, the preferred one, ours, or the only one, and why it is that.

    Raises AmbiguousNameError if there is no telling.
    """
    candidates = candidates_for(dotted)
    wanted, source = preference(dotted) if len(candidates) > 1 else (None, None)
    preferred_ones = [plugin for plugin in candidates if is_meant(plugin, wanted)]
    chosen = preferred_ones or [plugin for plugin in candidates if plugin.builtin] or candidates
    if len(chosen) == 1:
        why = "plugrad's own come first" if len(candidates) > 1 else "nobody else brings it"
        return chosen[0], f"preferred by {source}" if preferred_ones else why
    chosen = sorted(chosen, key=lambda plugin: plugin.id)
    name = dotted if dotted.startswith("backends.") else dotted.rpartition(".")[2]
    one = chosen[0].distribution if chosen[0].distribution != chosen[1].distribution else chosen[0].id
    unhelpful = f" ({source} prefers {wanted!r}, which is none of them)" if wanted and not preferred_ones else ""
    raise AmbiguousNameError(
        f"{dotted!r} is brought by {' and '.join(plugin.id for plugin in chosen)}{unhelpful}: say which one you mean "
        f"with `plugrad prefer {name} {one}`, with PLUGRAD_PREFER={name}={one}, or with "
        f"plugrad.registry.prefer({name!r}, {one!r})"
    )


def _discard(dotted, plugin) -> None:
    claims[dotted] = [rival for rival in claims.get(dotted, ()) if rival is not plugin]
    if not claims[dotted]:
        del claims[dotted]


# ---------------------------------------------------------------------------------------------------- settling again


def settle_again(name: str) -> None:
    """Forget which function stands behind a name, bare or dotted, after the user's preferences changed."""
    with lock:
        for dotted in list(claims):
            if name in (dotted, dotted.rpartition(".")[2]):
                forget(dotted)
        kernels.settle_again(name)


def forget(dotted: str) -> None:
    """Drop what namespaces remember for a public name, so that the registry is asked again."""
    home, _, last = dotted.rpartition(".")
    if home == "Tensor":
        from plugrad.tensor.tensor import install_inplace, install_method, install_operators

        install_method(last)
        install_inplace(last)
        install_operators(last)
    elif not core_has(dotted):
        module = sys.modules.get(f"plugrad.{home}" if home else "plugrad")
        if module is not None:
            vars(module).pop(last, None)


def core_has(dotted: str) -> bool:
    """Whether plugrad's core itself defines a name, which no plugin can then have."""
    import plugrad

    home, _, last = dotted.rpartition(".")
    if home == "Tensor":
        from plugrad.tensor.tensor import CORE_NAMES

        return last in CORE_NAMES
    module = sys.modules.get(f"plugrad.{home}" if home else "plugrad")
    if module is plugrad and last in ("save", "load", "vmap", *plugrad._SUBMODULES, *plugrad._LEGACY_NAMES):
        return True
    if module is None or last not in vars(module):
        return False
    value = vars(module)[last]
    values = [plugin.brought[dotted].value for plugin in candidates_for(dotted) if dotted in plugin.brought]
    return not any(value is one or getattr(value, "__op__", None) is one for one in values)


def shadows(dotted: str, plugin) -> bool:
    """Whether something else is in force where a plugin brings or promises a name or kernel."""
    if dotted.startswith("kernels."):
        return kernels.shadows(dotted, plugin)
    if core_has(dotted):
        return True
    entry = public.get(dotted)
    if entry is not None:
        return entry.provider is not plugin
    return not plugin.builtin and any(rival.builtin for rival in claims.get(dotted, ()))


# ---------------------------------------------------------------------------------------------------- messages


def hint(name) -> str:
    """Return what an unknown name may have to do with: plugins that are blocked or failed."""
    from plugrad.registry import entry_points

    for plugin in entry_points.plugins.values():
        named = name == plugin.namespace or any(name == promised.rpartition(".")[2] for _, promised in plugin.promised)
        reason = plugin.reason if named else None
        hidden = [why for dotted, why in plugin.hidden.items() if name in (dotted, dotted.rpartition(".")[2])]
        if reason or hidden:
            return f" ({plugin.id} brings it, but {reason or hidden[0]})"
    failed = [plugin.id for plugin in entry_points.plugins.values() if plugin.error is not None]
    more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
    return f" (these plugins failed to load: {', '.join(failed[:3])}{more}; see `plugrad plugins`)" if failed else ""


def names_in(home: str, failed=False) -> list[str]:
    """Return the public names directly under a namespace: '' is plugrad itself, 'Tensor' its methods.

    Names that only failed plugins promise are left out, unless `failed` asks for them, too.
    """
    prefix = f"{home}." if home else ""
    living = (dotted for dotted, rivals in claims.items() if failed or any(plugin.error is None for plugin in rivals))
    rest = {dotted[len(prefix) :] for dotted in (*public, *living) if dotted.startswith(prefix)}
    if home == "ops":  # holds the namespaces of guests
        return sorted({name.partition(".")[0] for name in rest})
    return sorted(name for name in rest if "." not in name)


# ---------------------------------------------------------------------------------------------------- backends


def backend(name: str):
    """Return the backend of a device type, importing its plugin at first use.

    Raises RuntimeError for an unknown device, AmbiguousNameError when two plugins bring it, PluginLoadError when its
    plugin fails.
    """
    found = backends.get(name)
    if found is not None:
        return found
    entry = find(f"backends.{name}") if name in backends else None
    if entry is None:
        raise RuntimeError(f"there is no backend for device {name!r}; known: {', '.join(sorted(backends))}{hint(name)}")
    made = entry.value
    if isinstance(made, type):
        try:
            made = made()
        except BaseException as error:
            if entry.provider.builtin or isinstance(error, KeyboardInterrupt):
                raise
            raise PluginLoadError(
                f"the backend {name!r} of {entry.provider.id} can't be made: {describe(error)}"
            ) from error
    with lock:
        if backends.get(name) is None:
            backends[name] = made
    return backends[name]


def reason(name: str) -> str | None:
    """Return why a device can't be used here, None if it can. Imports its plugin."""
    try:
        why = backend(name).available()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a guest's backend does, sys.exit() included
        return describe(error)
    if why is None or isinstance(why, str):
        return why
    return f"its available() must return None where it can be used, else the reason as text; it returned {why!r}"


def loaded_backends() -> list[str]:
    """Return the names of the backends that are in use."""
    return [name for name, made in backends.items() if made is not None]


# ---------------------------------------------------------------------------------------------------- registration


def commit(provider, given: dict) -> list[str]:
    """Enter all records of one plugin, given as {kind: [record, ...]}, or none of them; return what to warn of.

    Raises TypeError when a record is invalid and ValueError when one clashes with another of its plugin's.
    """
    planned: list[tuple[str, Entry]] = []
    new_ops: dict = {}
    own = provider.builtin
    for kind, items in given.items():
        for item in items:
            if not own:
                validation.check(kind, item)
            if kind == "ops":
                _plan_op(item, provider, own, new_ops, planned)
            elif kind != "kernels":
                name = item.name if kind == "backends" else item.__name__
                planned.append((f"{CLASS_HOME.get(kind, kind)}.{name}", Entry(kind, name, item, provider)))
    _check_twice(planned)
    found = kernels.plan(given.get("kernels", ()), provider, new_ops)
    with lock:
        if not own:
            planned = _without_hidden(provider, planned, new_ops)
        ops.update(new_ops)
        for dotted, entry in planned:
            _enter(dotted, entry, own)
        for name, record in new_ops.items():
            record.provider = provider
            tables["ops"][name] = Entry("ops", name, record, provider)
            if record.inplace:
                _install_inplace(record)
        for dotted in provider.claimed:
            if dotted not in provider.brought and dotted in claims:
                _discard(dotted, provider)
        return kernels.enter(found, provider)


def _plan_op(record, provider, own, new_ops, planned):
    """Check one op record and plan its names; a guest's op also gets a name under its namespace."""
    key = record.name if own else f"{provider.namespace}.{record.name}"
    if key in new_ops or key in ops:
        first = new_ops.get(key) or ops[key]
        raise ValueError(f"op {key!r} is declared twice: in {first.module} and {record.module}")
    if record.provider not in (None, provider):
        raise ValueError(f"op {record.name!r} is already registered: {record.provider.id} brought it")
    record.validate()
    record.trusted, record.qualname = own, key
    if own and record.complex is None:
        record.complex = True
    new_ops[key] = record
    for dotted in record.names:
        planned.append((dotted, Entry("ops", record.name, record, provider)))
    if not own:
        planned.append((f"ops.{key}", Entry("ops", record.name, record, provider)))


def _check_twice(planned) -> None:
    seen: dict = {}
    for dotted, entry in planned:
        known = seen.setdefault(dotted, entry)
        if known.value is not entry.value:
            raise ValueError(
                f"{dotted!r} is declared twice: by {known.name!r} and {entry.name!r} ({entry.provider.id})"
            )


def _without_hidden(provider, planned, new_ops) -> list:
    """Leave out the names that the user keeps out, and whole ops if their own name is meant."""
    kept = []
    for dotted, entry in planned:
        why = keeps_out_name(provider, dotted, entry.name)
        if why is None:
            kept.append((dotted, entry))
            continue
        provider.hidden[dotted] = why
        if entry.kind == "ops" and keeps_out_name(provider, entry.name, entry.name):
            new_ops.pop(entry.value.qualname, None)
    return kept


def _install_inplace(record):
    """Give an op's in-place form to Tensor, under the op's own name and those of its methods."""
    from plugrad.tensor.tensor import install_inplace

    methods = [dotted.removeprefix("Tensor.") for dotted in record.names if dotted.startswith("Tensor.")]
    for name in dict.fromkeys((record.name, *methods)):
        install_inplace(name)


def _enter(dotted: str, entry: Entry, own: bool) -> None:
    """Give a public name to an entry, unless somebody else has or claims it: then it is settled at first use."""
    entry.provider.brought[dotted] = entry
    if entry.kind == "backends":
        backends.setdefault(entry.name, None)
    if dotted.startswith("Tensor."):
        from plugrad.tensor.tensor import install_method

        install_method(dotted[7:])
    known = public.get(dotted)
    rivals = [plugin for plugin in claims.get(dotted, ()) if plugin is not entry.provider]
    if not own and (rivals or (known is not None and known.provider is not entry.provider)):
        claims[dotted] = [*rivals, entry.provider]
        return
    public[dotted] = entry
    if rivals:
        claims[dotted] = rivals
    else:
        claims.pop(dotted, None)
    if entry.kind != "ops":
        tables[entry.kind][entry.name] = entry
