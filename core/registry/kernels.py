"""Kernels that plugins bring for ops of others, and which one runs when several are there for one op and device.

An op's own kernel for a device comes first; a third party's replaces it only with `override=True` and the user's
preference. Where the op has only its general kernel, that of the one plugin that brings another runs. Of two neither
runs until the user prefers one: the op goes on with its general kernel, and a warning names both.
"""

from __future__ import annotations

from plugrad.registry import lookup, preferences
from plugrad.registry.claims import forget, is_meant
from plugrad.registry.store import Entry, ops, tables

brought: dict[str, list] = {}  # "kernels.DEVICE.OP" -> entries, one for each plugin
_own: dict = {}  # the same -> the op's own kernel for the device, or None


def plan(given, provider, new_ops: list) -> list[tuple]:
    """Return (dotted name, op, entry) for each of a plugin's kernels; an error if one can't serve its op."""
    planned: dict = {}
    for kernel in given:
        record = _op(kernel.op_name, new_ops)
        if not provider.builtin:
            kernel.check_fits(record)
        dotted = f"kernels.{kernel.backend}.{record.qualname}"
        if dotted in planned:
            raise ValueError(f"{provider.id} brings two kernels of op {kernel.op_name!r} for {kernel.backend!r}")
        planned[dotted] = (dotted, record, Entry("kernels", dotted, kernel, provider))
    return list(planned.values())


def _op(name, new_ops):
    for record in new_ops:
        if name in (record.name, record.qualname):
            return record
    return ops.get(name) or lookup.op(name)


def enter(planned, provider) -> list[str]:
    """Enter the kernels of one plugin; return what to warn of."""
    messages = []
    for dotted, record, entry in planned:
        why = preferences.keeps_out_name(provider, dotted, record.name)
        if why is not None:
            provider.hidden[dotted] = why
            continue
        _own.setdefault(dotted, record.kernels.get(entry.value.backend))
        brought.setdefault(dotted, []).append(entry)
        provider.brought[dotted] = tables["kernels"][dotted] = entry
        messages.append(settle(dotted, record))
    return list(filter(None, messages))


def choose(dotted: str) -> tuple:
    """Return (entry, why) of the plugin's kernel that runs under a dotted name; the entry is None if none does."""
    rivals, own = brought.get(dotted, []), _own.get(dotted)
    wanted, source = preferences.preference(dotted)
    for entry in rivals:
        if is_meant(entry.provider, wanted):
            if own is None or entry.value.override:
                return entry, f"preferred by {source}"
            return None, f"{entry.provider.id} is preferred by {source}, but its kernel does not say override=True"
    if own is not None:
        return None, "the op's own kernel comes first"
    if wanted == "plugrad":
        return None, f"preferred by {source}"
    if len(rivals) == 1:
        return rivals[0], "the only kernel for that device"
    return None, "neither of two runs until you prefer one" if rivals else "no plugin brings another"


def settle(dotted, record) -> str | None:
    """Let the chosen kernel run that is there for an op under a dotted name; return what to warn of, if anything."""
    rivals, own = brought[dotted], _own[dotted]
    device = dotted.split(".")[1]
    chosen, why = choose(dotted)
    function = own if chosen is None else chosen.value.function
    if record.kernels.get(device) is not function:
        if function is None:
            del record.kernels[device]
        else:
            record.kernels[device] = function
        in_use = record._function is not None
        record.changed()
        for name in (*record.names, f"Tensor.{record.name}") if in_use else ():
            forget(name)
    if chosen is not None:
        told = record.trusted and why.endswith("pyproject.toml")
        return f"{dotted} is that of {chosen.provider.id} in place of plugrad's own, {why}" if told else None
    if "override=True" in why:
        return f"{dotted}: {why}"
    if own is None and len(rivals) > 1 and preferences.preferred(dotted) != "plugrad":
        providers = sorted((entry.provider for entry in rivals), key=lambda plugin: plugin.id)
        return (
            f"{' and '.join(plugin.id for plugin in providers)} bring kernels of op {record.qualname!r} for "
            f"{device!r}: its general kernel runs until you say `plugrad prefer {dotted} {providers[0].distribution}`"
        )
    return None
