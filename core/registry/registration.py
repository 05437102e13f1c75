"""Entering what a plugin brought: all of its records, or none of them."""

from __future__ import annotations

from plugrad.registry import entry_points, events, kernels
from plugrad.registry.claims import discard
from plugrad.registry.kinds import KINDS
from plugrad.registry.preferences import keeps_out_name
from plugrad.registry.store import Entry, backends, claims, lock, ops, public, tables


def commit(provider, given: dict) -> list[str]:
    """Enter all records {kind: [...]} of a plugin, or none; return what to warn of.

    Raises TypeError when a record is invalid and ValueError when one clashes with another of its plugin's.
    """
    planned: list[tuple[str, Entry]] = []
    new_ops: dict = {}
    own = provider.builtin
    for kind, items in given.items():
        for item in items:
            if not own:
                KINDS[kind].check(item)
            if kind == "ops":
                _plan_op(item, provider, own, new_ops, planned)
            elif kind != "kernels":
                name = KINDS[kind].name_of(item)
                planned.append((f"{KINDS[kind].home}.{name}", Entry(kind, name, item, provider)))
    _check_twice(planned)
    planned_kernels = kernels.plan(given.get("kernels", ()), provider, [entry.value for entry in new_ops.values()])
    for dotted, _ in planned:  # loads what has a name already: with the registry locked nothing may be loaded
        public.get(dotted)
    with lock:
        changing = () if own else (ops, public, claims, backends, provider.brought, provider.hidden, *tables.values())
        before = [(table, dict(dict.items(table))) for table in changing]
        try:
            if not own:
                planned = _without_hidden(provider, planned, new_ops)
            tables["ops"].update(new_ops)
            records = {key: entry.value for key, entry in new_ops.items()}
            ops.update(records)
            for dotted, entry in planned:
                _enter(dotted, entry, own)
            if not provider.indexed:
                events.publish(events.on_public_names, [dotted for dotted, _ in planned])
            for record in records.values():
                record.provider = provider
                if not own:
                    record.reset()  # what was generated before did not know whose it is
            for dotted in provider.claimed:
                if dotted not in provider.brought and dotted in claims:
                    discard(dotted, provider)
                    events.publish(events.on_forget, dotted)
            if not provider.indexed:
                events.publish(events.on_ops, records.values())
            for table in (ops, public):
                table.promised = {key: plugin for key, plugin in table.promised.items() if plugin is not provider}
            return kernels.enter(planned_kernels, provider)
        except BaseException:  # a subscriber's, or for want of memory or frames: here is no call that needs any
            for table, entries in before:
                for name in dict.keys(table) - entries.keys():
                    del table[name]
                table.update(entries)
            raise


def _plan_op(record, provider, own, new_ops, planned):
    """Check one op record and plan its names; a third party's op also gets a name under its namespace."""
    key = record.name if own else f"{provider.namespace}.{record.name}"
    if key in new_ops or ops.get(key) is not None:
        first = new_ops[key].value if key in new_ops else ops[key]
        raise ValueError(f"op {key!r} is declared twice: in {first.module} and {record.module}")
    owner = record.provider or (provider if own else entry_points.owner_of(record.module))
    foreign = owner is not None and not owner.builtin and owner.distribution != provider.distribution
    if owner is not provider and (record.provider is not None or foreign):
        raise ValueError(f"op {record.name!r} is of {owner.id}, which brings it itself: leave it out of the hook")
    record.trusted, record.qualname = own, key
    if own and record.complex is None:
        record.complex = True
    entry = new_ops[key] = Entry("ops", record.name, record, provider)
    planned += [(dotted, entry) for dotted in (record.names if own else (*record.names, f"ops.{key}"))]


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


def _enter(dotted: str, entry: Entry, own: bool) -> None:
    """Give a public name to an entry, unless somebody else has or claims it: then it is settled at first use."""
    entry.provider.brought[dotted] = entry
    if entry.kind == "backends":
        backends.setdefault(entry.name, None)
    known, rivals = public.get(dotted), ()
    if dotted in claims:
        rivals = [plugin for plugin in claims.pop(dotted) if plugin is not entry.provider]
    if not own and (rivals or (known is not None and known.provider is not entry.provider)):
        claims[dotted] = [*rivals, entry.provider]
        return
    public[dotted] = entry
    if rivals:
        claims[dotted] = rivals
    if entry.kind != "ops":
        tables[entry.kind][entry.name] = entry
