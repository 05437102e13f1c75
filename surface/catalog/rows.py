"""What is registered or promised, as rows; a third-party plugin is listed from its manifest, without importing it."""

from __future__ import annotations

import inspect
import os
import re

from plugrad import registry
from plugrad.amp import policies
from plugrad.dispatch import source as generated
from plugrad.errors import describe, suggestion
from plugrad.registry import entry_points, kernels, preferences


def first_line(doc) -> str:
    """Return the first line of a docstring."""
    return next(iter((doc or "").strip().splitlines()), "")


def orders(op) -> int:
    """Return how often an op can be differentiated, by its record: 0, 1, or 2 for any number of times.

    Formulas are written in ops; once is the limit where one of those has no gradient itself.
    """
    if not op.differentiable or op.once:
        return int(op.differentiable)
    named = {name for formula in op.formulas for name in formula.function.__code__.co_names}
    keys = {*named, *(f"{op.scope}.{name}" for name in named)}
    return 1 if any(registry.ops[key].undifferentiable for key in keys if key in registry.ops) else 2


def op_row(op) -> dict:
    """Describe one op."""
    shown = op.names[0] if op.names else op.qualname
    return {
        "name": shown,
        "record": op.qualname,
        "signature": f"{shown.rpartition('.')[2]}({_parameters(op)})",
        "public": list(op.names),
        "aliases": [name for name in op.names if name not in (shown, f"Tensor.{shown}")],
        "backends": ["any" if backend == "*" else backend for backend in op.kernels],
        "orders": orders(op),
        "autocast": {device: word for device in ("cpu", "cuda") if (word := policies.described(op, device))},
        "family": op.family,
        "provider": op.provider.id,
        "loaded": True,
        "doc": first_line(op.doc),
    }


def _parameters(op) -> str:
    """Return the parameter list, with the defaults that generated code has under names of its own."""
    source = generated.signature_source(op, documented=True)
    return re.sub(r"\b_d_(\w+)", lambda match: repr(op.defaults[match[1]]), source)


def _promised_op(plugin, name) -> dict:
    names, last = registry.promised_names(plugin, "ops", name), name.rpartition(".")[2]
    return {
        "name": name, "record": f"{plugin.namespace}.{last}", "signature": f"{last}(...)", "public": list(names),
        "aliases": [], "backends": [], "orders": None, "family": None, "provider": plugin.id, "loaded": False,
        "doc": f"promised by {plugin.distribution} {plugin.version}, {plugin.status}",
    }  # fmt: skip


def op_rows(search=None, namespace=None, provider=None, family=None, gradient=None, hidden=False) -> list[dict]:
    """Describe all ops; what a third-party plugin only promises is listed from its manifest."""
    rows = [op_row(op) for op in registry.ops.values()]
    for plugin in registry.plugins.values():
        if plugin.status not in ("loaded", "loading"):
            rows += [_promised_op(plugin, name) for kind, name in plugin.promised if kind == "ops"]
    wanted = [row for row in rows if _matches(row, search, namespace, provider, family, gradient, hidden)]
    return sorted(wanted, key=_key)


def _key(row):
    return row["name"].lower()


def _matches(row, search, namespace, provider, family, gradient, hidden) -> bool:
    if not row["public"] and not hidden:
        return False
    texts = row["name"], row["record"], row["doc"], *row["public"]
    if search and not any(search.lower() in text.lower() for text in texts):
        return False
    if namespace is not None and not any(name.rpartition(".")[0] == namespace for name in row["public"]):
        return False
    if provider and provider not in (row["provider"], *row["provider"].split(":")):
        return False
    if gradient is not None and (row["orders"] is None or bool(row["orders"]) is not gradient):
        return False
    return family is None or row["family"] == family


def find_op(name: str):
    """Return the record of an op by any of its names, with or without `plugrad.`; None if there is none."""
    name = name.removeprefix("plugrad.").removeprefix("torch.")
    try:
        return registry.op(name)
    except registry.AmbiguousNameError:
        raise
    except AttributeError:
        return None


def names_of_ops() -> list[str]:
    """Return all names by which an op may be asked for."""
    return [*registry.ops, *(name for name, entry in registry.public.items() if entry.kind == "ops"), *registry.claims]


def entries(kind: str) -> list[dict]:
    """Describe what plugins brought or promise of one kind other than ops and backends."""
    rows = []
    for plugin in registry.plugins.values():
        mine = any(kind == promised for promised, _ in plugin.promised)
        if plugin.builtin and plugin.status == "not loaded" and (mine or plugin.indexed):  # that brings several kinds
            registry.load(plugin)
        for dotted, entry in plugin.brought.items():
            if entry.kind == kind:
                rows.append(_class_row(entry, dotted, plugin))
        if plugin.status not in ("loaded", "loading"):
            rows += [_promised_row(kind, name, plugin) for promised, name in plugin.promised if promised == kind]
    return sorted(rows, key=_key)


def _promised_row(kind, name, plugin) -> dict:
    return {
        "name": name, "public": f"{registry.HOMES[kind]}.{name}", "signature": "", "provider": plugin.id,
        "doc": f"promised by {plugin.distribution} {plugin.version}, {plugin.status}",
    }  # fmt: skip


def _class_row(entry, dotted, plugin) -> dict:
    try:
        signature = str(inspect.signature(entry.value))
    except (TypeError, ValueError):  # a callable that does not tell
        signature = "(...)"
    return {
        "name": entry.name, "public": dotted, "signature": f"{entry.name}{signature}", "provider": plugin.id,
        "doc": first_line(entry.value.__doc__),
    }  # fmt: skip


def backend_rows(load=False) -> list[dict]:
    """Describe the backends: whether each can run here, or why not. Imports third-party ones only if told to."""
    rows = []
    for name in sorted(registry.backends):
        dotted = f"backends.{name}"
        providers = " or ".join(sorted(plugin.id for plugin in registry.candidates_for(dotted)))
        row = {"name": name, "state": "not loaded", "reason": None, "provider": providers}
        try:
            chosen = registry.choose(dotted)[0]
            ours, row["provider"] = chosen.builtin, chosen.id
        except registry.AmbiguousNameError:
            ours = True  # asking imports nobody: it says who the rivals are
        if load or ours or registry.backends[name] is not None:
            row["reason"] = registry.reason(name)
            row["state"] = "available" if row["reason"] is None else "not available"
        else:
            row["reason"] = "not asked yet; `plugrad backends --load` imports it"
        rows.append(row)
    return rows


def providers() -> list[str]:
    """Return the names by which plugins that bring ops or backends may be asked for: distributions and plugins."""
    kinds = {"ops", "backends"}
    bringing = [plugin for plugin in registry.plugins.values() if plugin.builtin or kinds & set(dict(plugin.promised))]
    return list(dict.fromkeys(name for plugin in bringing for name in (plugin.distribution, plugin.id)))


def ops_of(provider) -> list[str]:
    """Return the records' names of the ops of a plugin or distribution, None for all; loads third-party ones."""
    for plugin in registry.plugins.values():
        if plugin.status == "not loaded" and any(kind == "ops" for kind, _ in plugin.promised):
            if provider in (None, plugin.id, plugin.distribution):
                registry.load_or_warn(plugin)
    return [name for name, op in registry.ops.items() if provider in (None, op.provider.id, op.provider.distribution)]


def backends_of(provider) -> list[str]:
    """Return the device types whose backends a plugin or distribution brings."""
    candidates = {name: registry.candidates_for(f"backends.{name}") for name in sorted(registry.backends)}
    return [name for name, plugins in candidates.items() if any(provider in (p.id, p.distribution) for p in plugins)]


def load_everything() -> None:
    """Load all plugins that may be loaded; those that fail say so in their rows."""
    for plugin in registry.plugins.values():
        if plugin.status == "not loaded":
            try:
                registry.load(plugin)
            except registry.PluginLoadError:
                continue  # kept in the plugin, which is what is listed


def remarks() -> list[str]:
    """Return lines below the list of plugins: what was not imported, and what is blocked but not there."""
    waiting = [plugin for plugin in registry.plugins.values() if plugin.status == "not loaded" and not plugin.builtin]
    lines = []
    if waiting:
        lines.append(f"not loaded until used: {len(waiting)} third-party; `plugrad plugins --load` imports them")
    for name, copies in entry_points.twice.items():
        lines.append(f"{name} is installed several times, {copies}: uninstall all of them, and install it again")
    return lines + unmatched()


def unmatched() -> list[str]:
    """Return lines about what is to be kept out, or let in, and is not there."""
    lines = []
    others = [plugin for plugin in registry.plugins.values() if not plugin.builtin]
    blocked = [(item, one.label) for one in preferences.sources() for item in one.settings.get("block", ())]
    for item, source in blocked if others else ():
        names = {dotted.rpartition(".")[2] for plugin in others for dotted in plugin.hidden}
        names |= {dotted for plugin in others for dotted in plugin.hidden}
        ids = {name for plugin in others for name in (plugin.distribution, plugin.id)}
        if preferences.bare(item) not in names and preferences.normalise(item) not in ids:
            lines.append(f"{item!r} is to be kept out ({source}), and nobody brings it{suggestion(item, names | ids)}")
    ids = {name for plugin in others for name in (plugin.distribution, plugin.id)}
    for item in filter(None, map(str.strip, os.environ.get("PLUGRAD_PLUGINS", "").split(","))):
        if preferences.normalise(item) not in ids:
            lines.append(f"{item!r} may load (PLUGRAD_PLUGINS), and nobody is called so{suggestion(item, ids)}")
    return lines


def shadowed(plugin) -> list[str]:
    """Return names and kernels that a plugin brings, or promises, while something else of that name is in force."""
    return [dotted for dotted in (plugin.brought or plugin.claimed) if _shadows(dotted, plugin)]


def _shadows(dotted: str, plugin) -> bool:
    if dotted.startswith("kernels."):
        return dotted in plugin.brought and kernels.choose(dotted)[0] is not plugin.brought[dotted]
    if registry.core_has(dotted):
        return True
    entry = registry.public.get(dotted)
    if entry is not None:
        return entry.provider is not plugin
    return not plugin.builtin and any(rival.builtin for rival in registry.claims.get(dotted, ()))


_SHOWN = 12  # promised names in the table; `--verbose` has all


def plugin_row(plugin) -> dict:
    """Describe one plugin: where it is from, how far it got, what it brings."""
    counts: dict = {}
    for entry in {id(entry.value): entry for entry in plugin.brought.values()}.values():
        counts[entry.kind] = counts.get(entry.kind, 0) + 1
    promised = [f"{kind}: {name}" for kind, name in plugin.promised if not plugin.brought]
    if len(promised) > _SHOWN:
        promised[_SHOWN:] = [f"{len(promised) - _SHOWN} more"]
    return {
        "id": plugin.id,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "status": plugin.status,
        "stage": plugin.stage,
        "import_ms": round(plugin.seconds * 1000, 2),
        "brings": [f"{count} {kind}" for kind, count in counts.items()] or promised,
        "names": sorted(plugin.brought or plugin.claimed),
        "shadowed": shadowed(plugin),
        "blocked": plugin.hidden,
        "error": plugin.reason if plugin.error is None else describe(plugin.error),
        "traceback": plugin.traceback,
    }
