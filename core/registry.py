"""The tables of what exists: records by kind and name, who brought them, and the conflicts between them.

Nothing here runs at an op's call. Plugins hand over records; `commit` validates all of a plugin's records and then
enters all of them or none. Names that only a manifest promises (static entry points of guests) are kept as claims,
and the plugin behind a claim is loaded when the name is first used.
"""

from __future__ import annotations

import threading

KINDS = ("ops", "kernels", "losses", "layers", "optimizers", "schedulers", "inits", "backends", "compilers")
_CLASS_HOME = {
    "losses": "nn",
    "layers": "nn",
    "optimizers": "optim",
    "schedulers": "optim.lr_scheduler",
    "inits": "nn.init",
    "compilers": "compilers",
}

lock = threading.RLock()
ops: dict = {}  # primary name -> Op
public: dict = {}  # dotted public name ("nn.functional.relu", "optim.SGD") -> Entry
tables: dict[str, dict] = {kind: {} for kind in KINDS}  # kind -> name -> Entry
backends: dict = {}  # device type -> Entry or claim
ambiguous: dict = {}  # dotted public name -> list of providers that claim it
claims: dict = {}  # dotted public name -> list of plugins whose manifest promises it


class AmbiguousNameError(AttributeError):
    """Two plugins bring one name, and the user has not said which to prefer."""


class Entry:
    """One registered thing: its kind, name, value (an Op, a class, a function) and the plugin that brought it."""

    __slots__ = ("kind", "name", "value", "provider")

    def __init__(self, kind, name, value, provider):
        self.kind, self.name, self.value, self.provider = kind, name, value, provider

    @property
    def target(self):
        """What the public name refers to."""
        return self.value.function if self.kind == "ops" else self.value


def op(name: str):
    """Return the record of an op by its primary name or `namespace.name`; AttributeError names the nearest."""
    found = ops.get(name)
    if found is None:
        _load_claim(f"ops.{name}") or _load_claim(name)
        found = ops.get(name)
        if found is None:
            entry = public.get(name)
            if entry is not None and entry.kind == "ops":
                return entry.value
            raise AttributeError(f"there is no op named {name!r}{suggestion(name, ops)}")
    return found


def resolve(dotted: str):
    """Return what a public name refers to, loading the plugin that promises it; AttributeError if there is none."""
    entry = public.get(dotted)
    if entry is None and _load_claim(dotted):
        entry = public.get(dotted)
    if entry is None:
        if dotted in ambiguous:
            raise AmbiguousNameError(
                f"{dotted!r} is brought by {' and '.join(ambiguous[dotted])}: name one with "
                f"`[tool.plugrad] prefer` in pyproject.toml or PLUGRAD_PREFER={dotted}=DISTRIBUTION"
            )
        home, _, name = dotted.rpartition(".")
        near = [known.rpartition(".")[2] for known in public if known.rpartition(".")[0] == home]
        module = f"plugrad.{home}" if home else "plugrad"
        raise AttributeError(f"module {module!r} has no attribute {name!r}{suggestion(name, near)}{_failed_hint()}")
    return entry.target


def _load_claim(dotted: str) -> bool:
    """Load the plugins whose manifests promise a name; return whether there was any."""
    plugins = claims.pop(dotted, None)
    if not plugins:
        return False
    from plugrad import loader

    for plugin in plugins:
        loader.load(plugin)
    return True


def _failed_hint() -> str:
    from plugrad import loader

    failed = [plugin.id for plugin in loader.plugins.values() if plugin.error is not None]
    return f" (these plugins failed to load: {', '.join(failed)}; see `plugrad plugins`)" if failed else ""


def suggestion(name: str, known) -> str:
    """Return '; did you mean ...?' for the nearest known name, or nothing."""
    import difflib

    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def names_in(home: str) -> list[str]:
    """Return the public names directly under a namespace: '' is plugrad itself, 'Tensor' its methods."""
    prefix = f"{home}." if home else ""
    found = set()
    for dotted in (*public, *claims):
        if dotted.startswith(prefix) and "." not in dotted[len(prefix) :]:
            found.add(dotted[len(prefix) :])
    return sorted(found)


def backend(name: str):
    """Return the backend of a device type, importing its plugin at first use."""
    entry = backends.get(name)
    if entry is None:
        raise RuntimeError(f"there is no backend for device {name!r}; known: {', '.join(sorted(backends))}")
    if entry.value is None:
        from plugrad import loader

        loader.load(entry.provider)
        entry = backends[name]
        if entry.value is None:
            raise loader.PluginLoadError(f"the plugin {entry.provider.id} promises backend {name!r} but brings none")
    if isinstance(entry.value, type):
        entry.value = entry.value()
    return entry.value


def loaded_backends() -> list[str]:
    """Return the names of the backends whose plugins are loaded."""
    return [name for name, entry in backends.items() if entry.value is not None]


def commit(provider, records: dict) -> None:
    """Enter all records of one plugin, given as {kind: [record, ...]}, or none of them.

    Raises TypeError when a record is invalid and ValueError when one clashes with what the core keeps for itself.
    """
    planned: list[tuple[str, Entry]] = []
    new_ops: dict = {}
    own = provider.builtin
    for kind, items in records.items():
        for item in items:
            if kind == "ops":
                _plan_op(item, provider, own, new_ops, planned)
            elif kind == "kernels":
                continue
            else:
                name = getattr(item, "name", None) if kind == "backends" else item.__name__
                entry = Entry(kind, name, item, provider)
                planned.append((f"{_CLASS_HOME.get(kind, kind)}.{name}", entry))
    with lock:
        for dotted, entry in planned:
            if entry.kind == "backends":
                known = backends.get(entry.name)
                if known is not None and known.provider is not provider and known.value is not None:
                    raise ValueError(f"backend {entry.name!r} is already brought by {known.provider.id}")
        ops.update(new_ops)
        for dotted, entry in planned:
            if entry.kind == "backends":
                backends[entry.name] = entry
                tables["backends"][entry.name] = entry
                continue
            _enter(dotted, entry, own)
        for name, record in new_ops.items():
            tables["ops"][name] = Entry("ops", name, record, provider)
            if record.inplace:
                _install_inplace(record)
        for addition in records.get("kernels", ()):
            addition.apply()
    provider.brought = [(entry.kind, dotted) for dotted, entry in planned]


def _plan_op(record, provider, own, new_ops, planned):
    """Check one op record and plan its names; a guest's op also gets a name under its namespace."""
    if own:
        record.trusted = True
        if record.name in new_ops or record.name in ops:
            raise ValueError(f"op {record.name!r} is declared twice: in {record.module} and {_owner(record.name, new_ops)}")
        key = record.name
    else:
        key = record.qualname = f"{provider.namespace}.{record.name}"
    record.validate()
    record.provider = provider
    new_ops[key] = record
    for dotted in record.names:
        planned.append((dotted, Entry("ops", record.name, record, provider)))
    if not own:
        planned.append((f"ops.{key}", Entry("ops", record.name, record, provider)))


def _install_inplace(record):
    from plugrad.tensor import install_inplace

    methods = [dotted.removeprefix("Tensor.") for dotted in record.names if dotted.startswith("Tensor.")]
    for name in dict.fromkeys((record.name, *methods)):
        install_inplace(name)


def _owner(name, new_ops):
    return (new_ops.get(name) or ops[name]).module


def _enter(dotted: str, entry: Entry, own: bool) -> None:
    """Give a public name to an entry, unless somebody else has it: then nobody gets it silently."""
    known = public.get(dotted)
    if known is not None and known.provider is not entry.provider:
        if known.provider.builtin:
            entry.provider.shadowed.append(dotted)
            return
        ambiguous.setdefault(dotted, [known.provider.id]).append(entry.provider.id)
        del public[dotted]
        return
    if known is not None and own and known.value is not entry.value:
        raise ValueError(f"{dotted!r} is declared twice: by {known.name!r} and {entry.name!r} ({entry.provider.id})")
    if dotted in ambiguous:
        ambiguous[dotted].append(entry.provider.id)
        return
    public[dotted] = entry
    if dotted.startswith("Tensor."):
        from plugrad.tensor import install_method

        install_method(dotted[7:])
    if entry.kind not in ("ops", "kernels", "backends"):
        tables[entry.kind][entry.name] = entry
