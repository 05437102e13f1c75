"""What is registered or promised, as plain rows: the functions behind the commands that list things."""

from __future__ import annotations

import re

from plugrad import codegen, loader, registry


def first_line(doc) -> str:
    """Return the first line of a docstring."""
    return next(iter((doc or "").strip().splitlines()), "")


def orders(op) -> int:
    """Return how often an op can be differentiated, by its record: 0, 1, or 2 for any number of times.

    Formulas are written in ops; once is the limit where one of those has no gradient itself.
    """
    if not op.differentiable:
        return 0
    named = {name for formula in op.formulas for name in formula.function.__code__.co_names}
    return 1 if any(name in registry.ops and registry.ops[name].undifferentiable for name in named) else 2


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
        "family": op.family,
        "provider": op.provider.id,
        "loaded": True,
        "doc": first_line(op.doc),
    }


def _parameters(op) -> str:
    """Return the parameter list, with the defaults that generated code has under names of its own."""
    source = codegen.signature_source(op, documented=True)
    return re.sub(r"\b_d_(\w+)", lambda found: repr(op.defaults[found[1]]), source)


def _promised_op(plugin, name) -> dict:
    names = loader.promised_names(plugin, "ops", name)
    return {
        "name": name, "record": f"{plugin.namespace}.{name}", "signature": f"{name}(...)", "public": list(names),
        "aliases": [], "backends": [], "orders": None, "family": None, "provider": plugin.id, "loaded": False,
        "doc": f"promised by {plugin.distribution} {plugin.version}, {plugin.status}",
    }  # fmt: skip


def op_rows(search=None, namespace=None, provider=None, family=None, gradient=None, hidden=False) -> list[dict]:
    """Describe all ops; what a guest only promises is listed from its manifest, without importing it."""
    rows = [op_row(op) for op in registry.ops.values()]
    for plugin in loader.plugins.values():
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
    for plugin in loader.plugins.values():
        for dotted, entry in plugin.brought.items():
            if entry.kind == kind:
                rows.append(_class_row(entry, dotted, plugin))
        if plugin.status not in ("loaded", "loading"):
            rows += [_promised_row(kind, name, plugin) for promised, name in plugin.promised if promised == kind]
    return sorted(rows, key=_key)


def _promised_row(kind, name, plugin) -> dict:
    return {
        "name": name, "public": f"{loader.HOME[kind]}.{name}", "signature": "", "provider": plugin.id,
        "doc": f"promised by {plugin.distribution} {plugin.version}, {plugin.status}",
    }  # fmt: skip


def _class_row(entry, dotted, plugin) -> dict:
    import inspect

    try:
        signature = str(inspect.signature(entry.value))
    except (TypeError, ValueError):  # a callable that does not tell
        signature = "(...)"
    return {
        "name": entry.name, "public": dotted, "signature": f"{entry.name}{signature}", "provider": plugin.id,
        "doc": first_line(entry.value.__doc__),
    }  # fmt: skip


def backend_rows() -> list[dict]:
    """Describe the backends: whether each can run here, or why not. Imports them."""
    rows = []
    for name, entry in sorted(registry.backends.items()):
        try:
            reason = registry.backend(name).available()
        except (ImportError, AttributeError, RuntimeError) as error:  # a guest's backend that does not load
            reason = loader.describe(error)
        state = "available" if reason is None else "not available"
        rows.append({"name": name, "state": state, "reason": reason, "provider": entry.provider.id})
    return rows


def plugin_row(plugin) -> dict:
    """Describe one plugin: where it is from, how far it got, what it brings."""
    counts: dict = {}
    for entry in {id(entry.value): entry for entry in plugin.brought.values()}.values():
        counts[entry.kind] = counts.get(entry.kind, 0) + 1
    promised = [f"{kind}: {name}" for kind, name in plugin.promised if not plugin.brought]
    return {
        "id": plugin.id,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "status": plugin.status,
        "stage": plugin.stage,
        "import_ms": round(plugin.seconds * 1000, 2),
        "brings": [f"{count} {kind}" for kind, count in counts.items()] or promised,
        "names": sorted(plugin.brought),
        "shadowed": plugin.shadowed,
        "error": None if plugin.error is None else loader.describe(plugin.error),
        "traceback": plugin.traceback,
    }


def explain(name: str) -> list[str]:
    """Return lines that say where a name comes from and who else claims it; none when nobody knows the name."""
    name = name.removeprefix("plugrad.").removeprefix("torch.")
    everything = dict.fromkeys((*registry.public, *registry.claims))
    places = [dotted for dotted in everything if name in (dotted, dotted.rpartition(".")[2])]
    lines = []
    for dotted in places:
        entry, rivals = registry.public.get(dotted), registry.claims.get(dotted, ())
        if entry is not None:
            source = entry.value.module if entry.kind == "ops" else entry.value.__module__
            lines.append(f"plugrad.{dotted}: {entry.name!r} of {entry.kind}, from {entry.provider.id} ({source})")
        elif len(rivals) == 1:
            lines.append(f"plugrad.{dotted}: promised by {rivals[0].id}, which is {rivals[0].status}")
        else:
            lines.append(f"plugrad.{dotted}: ambiguous, {' and '.join(plugin.id for plugin in rivals)} bring it")
        wanted = registry.preferred(dotted) if rivals else None
        if wanted:
            lines.append(f"    you prefer {wanted}")
        if entry is not None:
            lines += [f"    also brought by {plugin.id}, which does not replace it" for plugin in rivals]
    lines += _trouble(name)
    return lines


def _trouble(name) -> list[str]:
    found = []
    for plugin in loader.plugins.values():
        if any(promised == name for _, promised in plugin.promised):
            if plugin.status == "blocked":
                found.append(f"{plugin.id} brings {name!r}, but PLUGRAD_PLUGINS does not let it load")
            elif plugin.error is not None:
                found.append(loader.describe_failure(plugin))
    return found
