"""What the user decided about plugins: which one to prefer, which to keep out, where falling back is allowed.

Four places are asked in this order, and the first that says something about a preference decides: calls of this
module's functions, the environment, the nearest pyproject.toml (`[tool.plugrad]`), the user's own file. What is to be
kept out is the sum of all places. They are read once, and only when there is something to decide, by
`plugrad.registry.settings` beside the core.
"""

from __future__ import annotations

import os
import re

_chosen: dict[str, str] = {}  # by calls of `prefer`
_sources: list | None = None


def normalise(name: str) -> str:
    """Return a distribution's name by PEP 503; the plugin of "dist:plugin" stays.

    >>> from plugrad.registry.preferences import normalise
    >>> normalise("Plugrad_Swish"), normalise("plugrad.lion:Lion")
    ('plugrad-swish', 'plugrad-lion:Lion')
    """
    distribution, colon, plugin = name.strip().partition(":")
    return re.sub(r"[-_.]+", "-", distribution).lower() + colon + plugin


def bare(name: str) -> str:
    """Return a public name as settings have it: `plugrad.swish` and `torch.swish` are "swish"."""
    return name.strip().removeprefix("plugrad.").removeprefix("torch.")


def split(variable: str) -> list[str]:
    """Return what an environment variable lists, with commas between."""
    return [part.strip() for part in os.environ.get(variable, "").split(",") if part.strip()]


def sources() -> list:
    """Return the places that say something, the strongest first; calls of `prefer` come before all of them."""
    global _sources
    if _sources is None:
        from plugrad.registry.settings import read

        _sources = read()
    return _sources


def forget() -> None:
    """Read the places again when they are next asked."""
    global _sources
    _sources = None


def setting(key: str):
    """Return (value, label of its source) of the strongest place that sets a key; (None, None) if none does."""
    for source in sources():
        if key in source.settings:
            return source.settings[key], source.label
    return None, None


# ---------------------------------------------------------------------------------------------------- preferring


def set_preference(name: str, distribution: str | None) -> None:
    """Remember for this process which distribution is preferred for a name; None undoes that."""
    if distribution is None:
        _chosen.pop(name, None)
    else:
        _chosen[name] = normalise(distribution)


def tables() -> list[tuple[str, dict]]:
    """Return pairs (label, {name: distribution}), the strongest first."""
    places = [(source.label, source.settings.get("prefer", {})) for source in sources()]
    return [("plugrad.registry.prefer", _chosen), *places]


def preference(dotted: str) -> tuple:
    """Return (distribution, label of its source) for a name, or (None, None).

    Within one place the dotted name goes before its last part; a kernel is meant by its dotted name alone.
    """
    keys = (dotted,) if dotted.startswith("kernels.") else (dotted, dotted.rpartition(".")[2])
    for label, table in tables():
        for key in keys:
            if key in table:
                return table[key], label
    return None, None


def preferred(dotted: str) -> str | None:
    """Return the distribution that the user prefers for a name, None if there is none."""
    return preference(dotted)[0]


# ---------------------------------------------------------------------------------------------------- keeping out


def keeps_out(plugin) -> str | None:
    """Return why a third party's plugin must not be loaded, as the end of a sentence; None if it may."""
    names = (plugin.distribution, plugin.id)
    allowed = os.environ.get("PLUGRAD_PLUGINS")
    if allowed is not None and not set(names) & set(map(normalise, split("PLUGRAD_PLUGINS"))):
        return "PLUGRAD_PLUGINS does not let it load"
    return _blocked(names, normalise)


def keeps_out_name(plugin, dotted: str, name: str) -> str | None:
    """Return why a name that a plugin brings is blocked, as the end of a sentence; None if it is not.

    `name` is the name of the op, class or function, which stands for all its public names. Only what was installed
    can be kept out: neither plugrad's own names nor what the program registers itself.
    """
    if plugin.builtin or plugin.distribution == "session":
        return None
    return _blocked((dotted, name, dotted.rpartition(".")[2]), bare)


def _blocked(names, form) -> str | None:
    for source in sources():
        if "block" in source.settings and any(form(item) in names for item in source.settings["block"]):
            where = "PLUGRAD_BLOCK" if source.label == "the environment" else f"`block` in {source.label}"
            return f"{where} keeps it out"
    return None
