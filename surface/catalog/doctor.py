"""What is wrong with an installation, and what to do about it: the rows that `plugrad doctor` prints.

Nothing of third parties is imported: what is told is read from metadata, files and what has been loaded anyway.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import sys
import urllib.parse
import urllib.request
import warnings
from importlib.machinery import PathFinder

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion

from plugrad import registry
from plugrad.catalog import compiled, lockfile
from plugrad.catalog.rows import unmatched
from plugrad.catalog.why import preference_rows
from plugrad.errors import AmbiguousNameError, describe
from plugrad.registry import entry_points, settings

LOCK = "plugrad.lock"


def examine() -> list[dict]:
    """Return what is wrong, as rows of "subject", "problem" and "advice"; none if all is well."""
    looks = (
        plugins, copies, leftovers, manifests, names, files, preferred, locked, versions, threads, cuda,
        compiled.extension, compiled.compiler, compiled.cache,
    )  # fmt: skip
    return [_row(*row) for look in looks for row in look()]


def decided() -> list[dict]:
    """Return what the user keeps out, as such rows: nothing is wrong with it, but it explains what is missing."""
    rows = [_row(*row) for row in compiled.left_out()]
    for plugin in registry.plugins.values():
        if plugin.status == "blocked":
            rows.append(_row(plugin.id, f"it is kept out: {plugin.reason}", _MEANT))
        last = {dotted.rpartition(".")[2]: reason for dotted, reason in plugin.hidden.items()}
        rows += [_row(name, f"that of {plugin.id} is kept out: {why}", _MEANT) for name, why in last.items()]
    return rows


_MEANT = "nothing, if that is meant; else take it out there"


def _row(subject, problem, advice) -> dict:
    return {"subject": subject, "problem": problem, "advice": advice}


def plugins():
    """Yield the plugins that failed, or whose module is not there."""
    for plugin in registry.plugins.values():
        if plugin.status == "failed":
            problem = f"failed at {plugin.stage}: {describe(plugin.error)}"
            yield plugin.id, problem, f"see `plugrad plugins --verbose`; upgrade {plugin.distribution} or uninstall it"
        elif plugin.status == "not loaded" and not plugin.builtin:
            gone = _gone(plugin.value.partition(":")[0])
            if gone is not None:
                yield plugin.id, f"its module {gone!r} can't be found", f"install {plugin.distribution} again"


def _gone(module: str) -> str | None:
    """Return the module, or the first package that it is in, which can't be found; nothing is imported for that."""
    where, name = None, ""
    for part in module.split("."):
        name = f"{name}.{part}".lstrip(".")
        try:
            spec = importlib.util.find_spec(part) if where is None else PathFinder.find_spec(name, where)
            where = None if spec is None else list(spec.submodule_search_locations or ())
        except (ImportError, ValueError):
            spec = None
        except KeyError:  # a namespace package in another one, of which only its import tells
            return None
        if spec is None:
            return name or module
    return None


def copies():
    """Yield the distributions that are installed several times."""
    for name, text in entry_points.twice.items():
        yield name, f"it is installed several times: {text}", "uninstall all of them, and install it again"


def leftovers():
    """Yield what is left of distributions that pip did not remove whole."""
    for entry in dict.fromkeys(sys.path):
        try:
            files = sorted(os.listdir(entry or "."))
        except OSError:
            continue
        for name in files:
            place = pathlib.Path(entry) / name
            if name.startswith("~") and name.endswith(".dist-info"):
                yield name, f"pip was interrupted, and left it in {entry}; it does not count", f"delete {place}"
            elif name.endswith(".dist-info") and "[plugrad" in _read(place / "entry_points.txt"):
                metadata = _read(place / "METADATA")
                if "\nName:" not in "\n" + metadata.partition("\n\n")[0]:
                    what = "has no name" if metadata else "is missing"
                    problem = f"its METADATA {what} in {entry}, so its plugins don't count"
                    yield name, problem, f"install it again, or delete {place}"


def _read(file) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def manifests():
    """Yield the editable installs whose pyproject.toml promises other names than were installed."""
    import tomllib

    for one in entry_points.installed():
        try:
            origin = json.loads(one.distribution.read_text("direct_url.json") or "{}")
            if not origin.get("dir_info", {}).get("editable"):
                continue
            folder = urllib.request.url2pathname(urllib.parse.urlparse(origin["url"]).path)
            project = tomllib.loads((pathlib.Path(folder) / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        except (OSError, ValueError, KeyError, AttributeError):
            continue
        groups = project.get("entry-points", {})
        wanted = {(group, name, value) for group, points in groups.items() for name, value in points.items()}
        wanted = {point for point in wanted if point[0].partition(".")[0] == "plugrad"}
        if wanted != {tuple(point) for point in one.points}:
            problem = f"{folder} promises other names in pyproject.toml than were installed"
            yield one.name, problem, f"install it again: pip install -e {folder}"


def names():
    """Yield the names that several plugins bring, and nobody has chosen among them."""
    told = set()
    for dotted in list(registry.claims):
        try:
            registry.choose(dotted)
        except AmbiguousNameError as error:
            last = dotted.rpartition(".")[2]
            if last not in told:
                told.add(last)
                problem, _, advice = str(error).partition(": ")
                yield last, problem, advice


def files():
    """Yield what is wrong in the files and variables of settings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        settings.read()
    for warning in caught:
        yield "settings", str(warning.message).removeprefix("plugrad: "), "correct it there"
    for line in unmatched():
        yield "settings", line, "correct it there"


def preferred():
    """Yield preferences for what is not there."""
    for row in preference_rows():
        if row["remark"] is not None and "nobody" in row["remark"]:
            advice = f"install {row['distribution']}, or take the preference out of {row['source']}"
            yield row["name"], f"{row['distribution']} is preferred, and {row['remark']}", advice


def locked():
    """Yield what differs from the lock file in the working directory."""
    if not pathlib.Path(LOCK).is_file():
        return
    try:
        differences = lockfile.compare(lockfile.read(LOCK))
    except (OSError, ValueError) as error:
        yield LOCK, describe(error), f"write it again: plugrad plugins lock {LOCK}"
        return
    for name, _, text in differences:
        yield name, text, f"install what {LOCK} says, or write it again: plugrad plugins lock {LOCK}"


def _field(distribution, name) -> str:
    """Return a field of a distribution's metadata, which may be anything, in whatever encoding."""
    return entry_points.field_of("\n" + (entry_points.text_of(distribution, "METADATA") or ""), name)


def versions():
    """Yield the distributions that plugrad, or one with plugins, needs in another version."""
    for one in entry_points.installed():
        for needed in _needs(entry_points.text_of(one.distribution, "METADATA") or ""):
            name, wanted = needed.name, needed.specifier
            version = next((_field(copy, "Version") for copy in importlib.metadata.distributions(name=name)), None)
            if version is None:
                yield name, f"{one.name} needs it, and it is not installed", f'pip install "{name}{wanted}"'
                continue
            if not _fits(version, wanted):
                problem = f"version {version} is installed, {one.name} needs {wanted}"
                yield name, problem, f'pip install "{name}{wanted}"'


def _fits(version, wanted) -> bool:
    try:
        return wanted.contains(version, prereleases=True)
    except InvalidVersion:  # of what somebody built by hand
        return False


def _needs(metadata: str):
    """Yield the requirements that a distribution has here, by the text of its METADATA; its extras are left out."""
    header = metadata.replace("\r\n", "\n").partition("\n\n")[0]
    for line in re.findall(r"^Requires-Dist:(.*)$", header, re.M):
        try:
            needed = Requirement(line.strip())
        except InvalidRequirement:
            continue
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            yield needed


def threads():
    """Yield the variables that give NumPy's linear algebra a number of threads that makes no sense here."""
    have = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        value = os.environ.get(name, "")
        if value and not (value.isdigit() and int(value) > 0):
            yield name, f"it must be a number of threads, not {value!r}", f"unset it, or write {name}={have}"
        elif value and int(value) > have:
            yield name, f"{value} threads share {have} processors, which is slow", f"write {name}={have}"


def cuda():
    """Yield what keeps an installed CuPy from being used."""
    names = {_field(one, "Name").lower() for one in importlib.metadata.distributions()}
    wheels = sorted(name for name in names if name.startswith("cupy"))
    if len(wheels) > 1:
        yield "cupy", f"{' and '.join(wheels)} are installed, of which one can work", "uninstall all but one"
    if wheels and "cuda" in registry.backends:
        why = registry.reason("cuda")
        if why is not None:
            yield wheels[0], f"the device cuda can't be used: {why}", "install the CuPy that fits the driver's CUDA"
