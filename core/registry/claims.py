"""What happens between plugins that bring one name: who claims it, and which of them has it.

Names that only a manifest promises (static entry points of third parties), and names that more than one plugin brings,
are kept as claims. They are settled when the name is first used: by loading the one plugin behind it, by the user's
preference, or by an error that names the rivals.
"""

from __future__ import annotations

import sys

from plugrad.errors import AmbiguousNameError, warn
from plugrad.registry import events
from plugrad.registry.preferences import preference
from plugrad.registry.store import claims, public

_told: set = set()  # names of plugrad's own that a project's file has replaced


def settle(dotted):
    """Make the chosen plugin's entry the public one; return the plugin instead if it must be loaded first."""
    while dotted in claims:
        present = public.get(dotted)
        candidates = candidates_for(dotted)
        chosen, why = choose(dotted)
        if present is not None and chosen is present.provider:
            return None
        if chosen.status != "loaded" and dotted not in chosen.brought:
            return chosen
        entry = chosen.brought.get(dotted)
        if entry is None:  # the manifest promised the name, but not this place of it
            discard(dotted, chosen)
            continue
        replaces = not chosen.builtin and any(rival.builtin for rival in candidates)
        if replaces and not getattr(entry.value, "override", False):
            raise AmbiguousNameError(
                f"{dotted!r} is plugrad's own; {chosen.id} is preferred, but may replace it only if it declares "
                "its own with override=True"
            )
        if replaces and why.endswith("pyproject.toml") and entry.name not in _told:
            _told.add(entry.name)
            warn(f"{entry.name!r} is that of {chosen.id} in place of plugrad's own, {why}")
        public[dotted] = entry
        claims[dotted] = [rival for rival in candidates if rival is not chosen]
        if not claims[dotted]:
            del claims[dotted]
    return None


def candidates_for(dotted: str) -> list:
    """Return the plugins that bring or promise a public name; the one in force first."""
    entry = public.get(dotted)
    return [*([entry.provider] if entry is not None else ()), *claims.get(dotted, ())]


def is_meant(plugin, wanted: str | None) -> bool:
    """Whether a preference, "distribution" or "distribution:name", means a plugin."""
    return wanted in (plugin.distribution, plugin.id)


def choose(dotted: str) -> tuple:
    """Return a name's plugin (the preferred, ours or the only one) and why it is that.

    Raises AmbiguousNameError if it can't be told.
    """
    candidates = candidates_for(dotted)
    wanted, source = preference(dotted) if len(candidates) > 1 else (None, None)
    preferred_ones = [plugin for plugin in candidates if is_meant(plugin, wanted)]
    chosen = preferred_ones or [plugin for plugin in candidates if plugin.builtin] or candidates
    if len(chosen) == 1:
        why = "plugrad's own come first" if len(candidates) > 1 else "no other plugin brings it"
        return chosen[0], f"preferred by {source}" if preferred_ones else why
    chosen = sorted(chosen, key=lambda plugin: plugin.id)
    name = dotted if dotted.startswith(("backends.", "cli.")) else dotted.rpartition(".")[2]
    one = chosen[0].distribution if chosen[0].distribution != chosen[1].distribution else chosen[0].id
    unhelpful = f" ({source} prefers {wanted!r}, which is none of them)" if wanted and not preferred_ones else ""
    raise AmbiguousNameError(
        f"{dotted!r} is brought by {' and '.join(plugin.id for plugin in chosen)}{unhelpful}: say which one you mean "
        f"with `plugrad prefer {name} {one}`, with PLUGRAD_PREFER={name}={one}, or with "
        f"plugrad.registry.prefer({name!r}, {one!r})"
    )


def discard(dotted, plugin) -> None:
    """Remove a plugin from those that claim a name."""
    claims[dotted] = [rival for rival in claims.get(dotted, ()) if rival is not plugin]
    if not claims[dotted]:
        del claims[dotted]


def forget(dotted: str) -> None:
    """Make whoever remembers what a public name refers to ask the registry again."""
    events.publish(events.on_forget, dotted)
    home, _, last = dotted.rpartition(".")
    if not core_has(dotted):
        module = sys.modules.get(f"plugrad.{home}" if home else "plugrad")
        if module is not None:
            vars(module).pop(last, None)


def core_has(dotted: str) -> bool:
    """Whether plugrad's core itself defines a name, which no plugin can then have."""
    home, _, last = dotted.rpartition(".")
    if last in events.reserved.get(home, ()):
        return True
    module = sys.modules.get(f"plugrad.{home}" if home else "plugrad")
    if module is None or last not in vars(module):
        return False
    value = vars(module)[last]
    values = [plugin.brought[dotted].value for plugin in candidates_for(dotted) if dotted in plugin.brought]
    return not any(value is one or getattr(value, "__op__", None) is one for one in values)
