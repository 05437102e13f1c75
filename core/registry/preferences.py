"""What the user decided about plugins: which one to prefer, which to keep out, where falling back is allowed.

Four places are asked in this order, and the first that says something about a preference decides: calls of this
module's functions, the environment, the nearest pyproject.toml (`[tool.plugrad]`), the user's own file. What is to be
kept out is the sum of all places. Files are read once, and only when there is something to decide.
"""

from __future__ import annotations

import os
import pathlib
import re
import sys

from plugrad.errors import warn

KEYS = ("prefer", "block", "fallback", "accelerator")
_chosen: dict[str, str] = {}  # by calls of `prefer`
_sources: list | None = None


class Source:
    """One place of settings: a label to show, and what it says by key."""

    __slots__ = ("label", "settings")

    def __init__(self, label, settings):
        self.label, self.settings = label, settings


def normalise(name: str) -> str:
    """Return a distribution's name in the form in which equal names are equal (PEP 503); "dist:plugin" keeps its end.

    >>> from plugrad.registry.preferences import normalise
    >>> normalise("Plugrad_Swish"), normalise("plugrad.lion:Lion")
    ('plugrad-swish', 'plugrad-lion:Lion')
    """
    distribution, colon, plugin = name.strip().partition(":")
    return re.sub(r"[-_.]+", "-", distribution).lower() + colon + plugin


def bare(name: str) -> str:
    """Return a public name as settings have it: `plugrad.swish` and `torch.swish` are "swish"."""
    return name.strip().removeprefix("plugrad.").removeprefix("torch.")


# ---------------------------------------------------------------------------------------------------- reading


def sources() -> list[Source]:
    """Return the places that say something, the strongest first; calls of `prefer` come before all of them."""
    global _sources
    if _sources is None:
        places = [_environment()]
        project = project_file()
        if project is not None:
            places.append(Source(str(project), _read(project, ("tool", "plugrad"))))
        if user_file().is_file():
            places.append(Source(str(user_file()), _read(user_file(), ())))
        _sources = places
    return _sources


def forget() -> None:
    """Read the places again when they are next asked."""
    global _sources
    _sources = None


def project_file() -> pathlib.Path | None:
    """Return the nearest pyproject.toml of the working directory and those above it."""
    try:
        here = pathlib.Path.cwd()
    except OSError:  # the working directory was deleted
        return None
    return next((folder / "pyproject.toml" for folder in (here, *here.parents) if _is_file(folder)), None)


def _is_file(folder) -> bool:
    try:
        return (folder / "pyproject.toml").is_file()
    except OSError:
        return False


def user_file() -> pathlib.Path:
    """Return the file of settings for all projects of the user, which need not exist.

    The same as `typer.get_app_dir("plugrad")`, but importing plugrad does not import typer.
    """
    if sys.platform == "win32":
        home = os.environ.get("APPDATA", "~")
    elif sys.platform == "darwin":
        home = "~/Library/Application Support"
    else:
        home = os.environ.get("XDG_CONFIG_HOME", "~/.config")
    return pathlib.Path(os.path.expanduser(home)) / "plugrad" / "config.toml"


def _environment() -> Source:
    prefer = {}
    for item in _split("PLUGRAD_PREFER"):
        name, equals, distribution = item.partition("=")
        if equals and name.strip() and distribution.strip():
            prefer[bare(name)] = normalise(distribution)
        else:
            warn(f"PLUGRAD_PREFER is a list of NAME=DISTRIBUTION with commas between; {item!r} is left out")
    settings = {"prefer": prefer, "block": _split("PLUGRAD_BLOCK")}
    allowed = _split("PLUGRAD_FALLBACK")
    if allowed:
        first = allowed[0].lower()
        settings["fallback"] = {"1": True, "all": True, "0": False, "none": False}.get(first, allowed)
    if os.environ.get("PLUGRAD_ACCELERATOR"):
        settings["accelerator"] = os.environ["PLUGRAD_ACCELERATOR"]
    return Source("the environment", settings)


def _split(variable) -> list[str]:
    return [part.strip() for part in os.environ.get(variable, "").split(",") if part.strip()]


def _read(file, path) -> dict:
    """Return the settings of a TOML file's table; what is not as it should be costs a warning and is left out."""
    try:
        data = file.read_bytes()
        # Parsing takes longer than all the rest of discovery; most files say nothing about plugins.
        if not any(key.encode() in data for key in KEYS):
            return {}
        import tomllib

        table = tomllib.loads(data.decode())
    except (OSError, ValueError) as error:  # also a TOMLDecodeError or UnicodeDecodeError
        warn(f"{file} can't be read, so its settings for plugrad don't count: {error}")
        return {}
    for part in path:
        table = table.get(part, {})
        if not isinstance(table, dict):
            warn(f"{part} in {file} must be a table, not {table!r}")
            return {}
    return {key: value for key in KEYS if key in table and _fits(file, key, value := table[key])} | _prefer(table)


def _prefer(table) -> dict:
    """Return the preferences of a table with normalised distributions, if they are right."""
    prefer = table.get("prefer")
    if not isinstance(prefer, dict) or not all(isinstance(value, str) for value in prefer.values()):
        return {}
    return {"prefer": {bare(name): normalise(value) for name, value in prefer.items()}}


def _fits(file, key, value) -> bool:
    """Whether a setting is of its key's form; if not, warn."""
    if key == "prefer":
        wanted, right = '{NAME = "DISTRIBUTION"}', isinstance(value, dict) and _strings(value.values())
    elif key == "block":
        wanted, right = 'a list such as ["plugrad-foo", "swish"]', isinstance(value, list) and _strings(value)
    elif key == "fallback":
        wanted = 'true, false, or a list such as ["conv2d"]'
        right = isinstance(value, bool) or (isinstance(value, list) and _strings(value))
    else:
        wanted, right = 'a device such as "cuda"', isinstance(value, str)
    if not right:
        warn(f"{key} in {file} must be {wanted}, not {value!r}")
    return right


def _strings(values) -> bool:
    return all(isinstance(value, str) for value in values)


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
    """Return (distribution, label of its source) for a public name; (None, None) if there is no preference.

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
    if allowed is not None and not set(names) & set(map(normalise, _split("PLUGRAD_PLUGINS"))):
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
        if any(form(item) in names for item in source.settings.get("block", ())):
            where = "PLUGRAD_BLOCK" if source.label == "the environment" else f"`block` in {source.label}"
            return f"{where} keeps it out"
    return None
