"""Everything that plugins brought, by name, and what happens between two that bring one name.

Nothing here runs at an op's call. Plugins hand over records; `commit` validates all of a plugin's records and then
enters all of them or none. Names that only a manifest promises (static entry points of guests), and names that more
than one plugin brings, are kept as claims: they are settled when the name is first used, by loading the one plugin
behind it, by the user's preference, or by an error that names the rivals.
"""

from __future__ import annotations

import os
import sys
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
ops: dict = {}  # primary name ("relu"; a guest's: "namespace.swish") -> Op
public: dict = {}  # dotted public name ("nn.functional.relu", "optim.SGD") -> Entry
tables: dict[str, dict] = {kind: {} for kind in KINDS}  # kind -> name -> Entry
backends: dict = {}  # device type -> Entry, whose value is None while only a manifest promises it
claims: dict = {}  # dotted public name -> plugins that promise or bring it, beside the provider of the public entry
_preferences: dict | None = None


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


# ---------------------------------------------------------------------------------------------------- looking up


def op(name: str):
    """Return the record of an op by its primary name, `namespace.name` or public name.

    Raises AttributeError, which names the nearest, when there is none.
    """
    found = ops.get(name)
    if found is not None:
        if claims:
            _load_kernels(name)
        return found
    entry = find(name) or find(f"ops.{name}")
    if entry is not None and entry.kind == "ops":
        return entry.value
    hidden = [record for key, record in ops.items() if key.endswith(f".{name}")]  # a guest's op without public name
    if len(hidden) == 1:
        return hidden[0]
    if hidden:
        raise AmbiguousNameError(f"{name!r} may be {' or '.join(record.qualname for record in hidden)}: write that")
    raise AttributeError(f"there is no op named {name!r}{suggestion(name, ops)}{_hint(name)}")


def resolve(dotted: str):
    """Return what a public name refers to, loading the plugin that promises it; AttributeError if there is none."""
    entry = find(dotted)
    if entry is None:
        from plugrad import loader

        entry = find(dotted) if loader.load_deferred() else None
    if entry is None:
        home, _, name = dotted.rpartition(".")
        near = [known.rpartition(".")[2] for known in public if known.rpartition(".")[0] == home]
        where = "'Tensor' object" if home == "Tensor" else f"module {f'plugrad.{home}' if home else 'plugrad'!r}"
        raise AttributeError(f"{where} has no attribute {name!r}{suggestion(name, near)}{_hint(name)}")
    if claims and entry.kind == "ops":
        _load_kernels(entry.name)
    return entry.target


def find(dotted: str):
    """Return the entry behind a public name, or None; loads the plugin that promises it.

    Raises AmbiguousNameError when several plugins bring the name and none is preferred, and PluginLoadError when the
    plugin behind it does not load.
    """
    if dotted not in claims:
        return public.get(dotted)
    from plugrad import loader

    with lock:
        while dotted in claims:
            entry = public.get(dotted)
            candidates = [*([entry.provider] if entry is not None else ()), *claims[dotted]]
            chosen = _choose(dotted, candidates)
            if entry is not None and chosen is entry.provider:
                return entry
            loader.load(chosen)
            found = chosen.brought.get(dotted)
            if found is None:  # the manifest promised the name, but not this place of it
                _discard(dotted, chosen)
                continue
            if any(rival.builtin for rival in candidates) and not getattr(found.value, "override", False):
                raise AmbiguousNameError(
                    f"{dotted!r} is plugrad's own; {chosen.id} is preferred, but may replace it only if it declares "
                    "its own with override=True"
                )
            public[dotted] = found
            claims[dotted] = [rival for rival in candidates if rival is not chosen]
            if not claims[dotted]:
                del claims[dotted]
    return public.get(dotted)


def _choose(dotted, candidates):
    """Return the plugin that a name is taken from: the preferred one, ours, or the only one."""
    wanted = preferred(dotted) if len(candidates) > 1 else None
    chosen = [plugin for plugin in candidates if wanted in (plugin.distribution, plugin.id)]
    chosen = chosen or [plugin for plugin in candidates if plugin.builtin] or candidates
    if len(chosen) == 1:
        return chosen[0]
    name = dotted.rpartition(".")[2]
    raise AmbiguousNameError(
        f"{dotted!r} is brought by {' and '.join(plugin.id for plugin in chosen)}: say which one you mean with "
        f"plugrad.registry.prefer({name!r}, {chosen[0].distribution!r}), with PLUGRAD_PREFER={name}="
        f'{chosen[0].distribution}, or with prefer = {{{name} = "{chosen[0].distribution}"}} under [tool.plugrad] in '
        "pyproject.toml"
    )


def _discard(dotted, plugin) -> None:
    claims[dotted] = [rival for rival in claims.get(dotted, ()) if rival is not plugin]
    if not claims[dotted]:
        del claims[dotted]


def _load_kernels(name: str) -> None:
    """Load the plugins that promise kernels for an op; one that fails costs a warning, the op works without it."""
    for plugin in claims.pop(f"kernels.{name}", ()):
        from plugrad import loader

        if plugin.status != "loading":  # it is the plugin's own registration that asks
            loader.load_or_warn(plugin)


# ---------------------------------------------------------------------------------------------------- preferences


def prefer(name: str, distribution: str) -> None:
    """Say which distribution a name is taken from when several bring it.

    `name` is a bare name ("swish": also the method and the functional form) or a dotted one ("optim.Lion"). A plugin
    can replace something of plugrad's own only if it also declares that with `override=True`.
    """
    from plugrad.loader import normalise

    _preference_table()[name] = normalise(distribution)
    for dotted in claims:
        home, _, last = dotted.rpartition(".")
        if name not in (dotted, last):
            continue
        if home == "Tensor":
            from plugrad.tensor import install_inplace, install_method

            install_method(last)
            install_inplace(last)
        else:
            module = sys.modules.get(f"plugrad.{home}" if home else "plugrad")
            vars(module).pop(last, None) if module is not None else None


def preferred(dotted: str) -> str | None:
    """Return the distribution that the user prefers for a name, by the dotted name or its last part."""
    table = _preference_table()
    return table.get(dotted) or table.get(dotted.rpartition(".")[2])


def _preference_table() -> dict:
    """Return the user's preferences: the environment's go before those of the nearest pyproject.toml."""
    global _preferences
    if _preferences is None:
        from plugrad.loader import normalise

        table = _pyproject_preferences()
        for item in os.environ.get("PLUGRAD_PREFER", "").split(","):
            name, equals, distribution = item.partition("=")
            if equals:
                table[name.strip()] = distribution.strip()
        _preferences = {name: normalise(str(distribution)) for name, distribution in table.items()}
    return _preferences


def _pyproject_preferences() -> dict:
    import pathlib
    import tomllib

    for folder in (pathlib.Path.cwd(), *pathlib.Path.cwd().parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            with file.open("rb") as stream:
                table = tomllib.load(stream).get("tool", {}).get("plugrad", {}).get("prefer", {})
            return dict(table)
    return {}


# ---------------------------------------------------------------------------------------------------- messages


def _hint(name) -> str:
    """Return what an unknown name may have to do with: plugins that are blocked or failed."""
    from plugrad import loader

    for plugin in loader.plugins.values():
        if plugin.status == "blocked" and any(promised == name for _, promised in plugin.promised):
            return f" ({plugin.id} brings it, but PLUGRAD_PLUGINS does not let it load)"
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
    rest = {dotted[len(prefix) :] for dotted in (*public, *claims) if dotted.startswith(prefix)}
    if home == "ops":  # holds the namespaces of guests
        return sorted({name.partition(".")[0] for name in rest})
    return sorted(name for name in rest if "." not in name)


# ---------------------------------------------------------------------------------------------------- backends


def backend(name: str):
    """Return the backend of a device type, importing its plugin at first use."""
    entry = backends.get(name)
    if entry is None:
        raise RuntimeError(f"there is no backend for device {name!r}; known: {', '.join(sorted(backends))}")
    if entry.value is None:
        from plugrad import loader

        chosen = _choose(f"backends.{name}", [entry.provider, *claims.get(f"backends.{name}", ())])
        loader.load(chosen)
        entry = backends[name]
        if entry.value is None:
            raise loader.PluginLoadError(f"the plugin {entry.provider.id} promises backend {name!r} but brings none")
    if isinstance(entry.value, type):
        entry.value = entry.value()
    return entry.value


def loaded_backends() -> list[str]:
    """Return the names of the backends whose plugins are loaded."""
    return [name for name, entry in backends.items() if entry.value is not None]


# ---------------------------------------------------------------------------------------------------- registration


def commit(provider, records: dict) -> None:
    """Enter all records of one plugin, given as {kind: [record, ...]}, or none of them.

    Raises TypeError when a record is invalid and ValueError when one clashes with what the core keeps for itself.
    """
    planned: list[tuple[str, Entry]] = []
    new_ops: dict = {}
    own = provider.builtin
    for kind, items in records.items():
        for item in items:
            if not own:
                _check_record(kind, item)
            if kind == "ops":
                _plan_op(item, provider, own, new_ops, planned)
            elif kind != "kernels":
                planned.append(_plan(kind, item, provider))
    with lock:
        kernels = [_plan_kernel(kernel, provider, new_ops) for kernel in records.get("kernels", ())]
        ops.update(new_ops)
        for dotted, entry in planned:
            _enter(dotted, entry, own)
        for name, record in new_ops.items():
            tables["ops"][name] = Entry("ops", name, record, provider)
            if record.inplace:
                _install_inplace(record)
            if record.inplace:
                _install_inplace(record)
        for dotted, kernel, record in filter(None, kernels):
            kernel.apply(record)
            provider.brought[dotted] = tables["kernels"][dotted] = Entry("kernels", dotted, kernel, provider)
        for dotted in provider.claimed:
            if dotted not in provider.brought and dotted in claims:
                _discard(dotted, provider)


def _install_inplace(record):
    """Give an op's in-place form to Tensor, under the op's own name and those of its methods."""
    from plugrad.tensor import install_inplace

    methods = [dotted.removeprefix("Tensor.") for dotted in record.names if dotted.startswith("Tensor.")]
    for name in dict.fromkeys((record.name, *methods)):
        install_inplace(name)


def _plan(kind, item, provider):
    """Return the dotted name and the entry of anything but an op or kernel."""
    name = getattr(item, "name", None) if kind == "backends" else item.__name__
    dotted = f"{_CLASS_HOME.get(kind, kind)}.{name}"
    if kind == "backends":
        known = backends.get(name)
        if known is not None and known.provider is not provider and known.value is not None:
            raise ValueError(f"backend {name!r} is already brought by {known.provider.id}")
    return dotted, Entry(kind, name, item, provider)


def _plan_op(record, provider, own, new_ops, planned):
    """Check one op record and plan its names; a guest's op also gets a name under its namespace."""
    if own:
        record.trusted = True
        key = record.name
    else:
        key = record.qualname = f"{provider.namespace}.{record.name}"
    if key in new_ops or key in ops:
        first = new_ops.get(key) or ops[key]
        raise ValueError(f"op {key!r} is declared twice: in {first.module} and {record.module}")
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


def _plan_kernel(kernel, provider, new_ops):
    """Return (dotted name, kernel, op record), or None for a replacement that the user has not asked for."""
    record = new_ops.get(kernel.op_name) or op(kernel.op_name)
    dotted = f"kernels.{kernel.backend}.{record.qualname}"
    if kernel.backend in record.kernels:
        if not kernel.override:
            raise ValueError(
                f"op {kernel.op_name!r} already has a kernel for {kernel.backend!r} (from "
                f"{record.kernels[kernel.backend].__module__}); declare this one with override=True to replace it"
            )
        if preferred(dotted) not in (provider.distribution, provider.id):
            provider.shadowed.append(dotted)
            return None
    return dotted, kernel, record


def _check_record(kind, item) -> None:
    """Raise TypeError when a guest's hook returned what its kind is not, or an op without its gradient."""
    from plugrad import extend

    base = {
        "ops": extend.Op, "kernels": extend.Kernel, "losses": extend.Module, "layers": extend.Module,
        "optimizers": extend.Optimizer, "schedulers": extend.LRScheduler, "backends": extend.Backend,
    }.get(kind)  # fmt: skip
    if kind in ("ops", "kernels"):
        right = isinstance(item, base)
    elif kind == "backends":
        right = isinstance(item, base) or (isinstance(item, type) and issubclass(item, base))
    else:
        right = isinstance(item, type) and issubclass(item, base) if base else callable(item)
    if not right:
        plural = "records" if kind in ("ops", "kernels") else "classes"
        wanted = "callables" if base is None else f"{base.__name__} {plural}"
        raise TypeError(f"the hook plugrad_{kind} must return {wanted}; it returned {item!r}")
    if kind == "ops" and item.broadcasts and item.promote in ("float", "same"):
        if not item.formulas and not item.undifferentiable:
            raise TypeError(f"op {item.name!r} has no gradient: declare it with @{item.name}.vjp, or say vjp=None")


def _enter(dotted: str, entry: Entry, own: bool) -> None:
    """Give a public name to an entry, unless somebody else has or claims it: then it is settled at first use."""
    entry.provider.brought[dotted] = entry
    if entry.kind == "backends":
        backends[entry.name] = tables["backends"][entry.name] = entry
        return
    known = public.get(dotted)
    if known is not None and known.provider is entry.provider and known.value is not entry.value:
        raise ValueError(f"{dotted!r} is declared twice: by {known.name!r} and {entry.name!r} ({entry.provider.id})")
    if dotted.startswith("Tensor."):
        from plugrad.tensor import install_method

        install_method(dotted[7:])
    rivals = [plugin for plugin in claims.get(dotted, ()) if plugin is not entry.provider]
    if not own and (rivals or (known is not None and known.provider is not entry.provider)):
        claims[dotted] = [*rivals, entry.provider]
        if known is not None and known.provider.builtin:
            entry.provider.shadowed.append(dotted)
        return
    public[dotted] = entry
    if not own:
        claims.pop(dotted, None)
    if entry.kind != "ops":
        tables[entry.kind][entry.name] = entry
