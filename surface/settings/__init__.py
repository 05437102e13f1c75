"""Where settings for plugins are written: the environment, the nearest pyproject.toml, the user's own file."""

from __future__ import annotations

import os
import pathlib
import sys

from plugrad.errors import suggestion, warn
from plugrad.registry.preferences import bare, normalise, split

__all__ = ["KEYS", "Source", "project_file", "read", "user_file"]

KEYS = ("prefer", "block", "fallback", "accelerator")


class Source:
    """One place of settings: a label to show, and what it says by key."""

    __slots__ = ("label", "settings")

    def __init__(self, label, settings):
        self.label, self.settings = label, settings


def read() -> list[Source]:
    """Return the places that say something, the strongest first."""
    places = [_environment()]
    project = project_file()
    if project is not None:
        places.append(Source(str(project), _read(project, ("tool", "plugrad"))))
    if user_file().is_file():
        places.append(Source(str(user_file()), _read(user_file(), ())))
    return places


def project_file() -> pathlib.Path | None:
    """Return the nearest pyproject.toml of the working directory and those above it that are of the same project.

    The search ends at the root of a repository and at the user's home. Another user's file does not count.
    """
    try:
        here = pathlib.Path.cwd()
    except OSError:  # the working directory was deleted
        return None
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if _exists(file):
            return file if _is_own(file) else None
        if any(_exists(folder / mark) for mark in (".git", ".hg")) or str(folder) == os.path.expanduser("~"):
            return None
    return None


def _exists(file) -> bool:
    try:
        return file.exists()
    except OSError:
        return False


def _is_own(file) -> bool:
    """Whether a file belongs to who runs the program; if not, and it has settings for plugrad, warn."""
    try:
        own = not hasattr(os, "getuid") or file.stat().st_uid == os.getuid()
        if not own and b"plugrad" in file.read_bytes():
            warn(f"{file} belongs to another user, so its settings for plugrad don't count")
        return own and file.is_file()
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
    for item in split("PLUGRAD_PREFER"):
        name, equals, distribution = item.partition("=")
        if equals and name.strip() and distribution.strip():
            prefer[bare(name)] = normalise(distribution)
        else:
            warn(f"PLUGRAD_PREFER is a list of NAME=DISTRIBUTION with commas between; {item!r} is left out")
    settings = {"prefer": prefer, "block": split("PLUGRAD_BLOCK")}
    allowed = split("PLUGRAD_FALLBACK")
    if allowed:
        first = allowed[0].lower()
        settings["fallback"] = {"1": True, "all": True, "0": False, "none": False}.get(first, allowed)
    if os.environ.get("PLUGRAD_ACCELERATOR"):
        settings["accelerator"] = os.environ["PLUGRAD_ACCELERATOR"]
    return Source("the environment", settings)


def _read(file, path) -> dict:
    """Return the settings of a TOML file's table; what is not as it should be costs a warning and is left out."""
    try:
        data = file.read_bytes()
        # Parsing takes longer than all the rest of discovery; most projects say nothing about plugins.
        if path and b"plugrad" not in data:
            return {}
        import tomllib

        table = tomllib.loads(data.decode())
    except (OSError, ValueError, RecursionError) as error:  # also a TOMLDecodeError or UnicodeDecodeError
        warn(f"{file} can't be read, so its settings for plugrad don't count: {error}")
        return {}
    for part in path:
        table = table.get(part, {})
        if not isinstance(table, dict):
            warn(f"{part} in {file} must be a table, not {table!r}")
            return {}
    for key in [key for key in table if key not in KEYS]:
        warn(f"{file} has no setting {key!r} for plugrad{suggestion(key, KEYS)}; there are {', '.join(KEYS)}")
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
