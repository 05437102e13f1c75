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
import urllib.parse
import urllib.request
import warnings

from plugrad import registry
from plugrad.catalog import lockfile
from plugrad.catalog.why import preference_rows
from plugrad.errors import AmbiguousNameError, describe
from plugrad.registry import entry_points, settings

LOCK = "plugrad.lock"


def examine() -> list[dict]:
    """Return what is wrong, as rows of "subject", "problem" and "advice"; none if all is well."""
    looks = (plugins, copies, manifests, names, files, preferred, locked, versions, threads, cuda)
    return [dict(zip(("subject", "problem", "advice"), row)) for look in looks for row in look()]


def plugins():
    """Yield the plugins that failed, or whose module is not there."""
    for plugin in registry.plugins.values():
        if plugin.status == "failed":
            problem = f"failed at {plugin.stage}: {describe(plugin.error)}"
            yield plugin.id, problem, f"see `plugrad plugins --verbose`; upgrade {plugin.distribution} or uninstall it"
        elif plugin.status == "not loaded" and not plugin.builtin:
            top = plugin.value.partition(":")[0].partition(".")[0]
            try:
                there = importlib.util.find_spec(top) is not None
            except (ImportError, ValueError):
                there = False
            if not there:
                yield plugin.id, f"its module {top!r} can't be found", f"install {plugin.distribution} again"


def copies():
    """Yield the distributions that are installed several times."""
    for name, text in entry_points.twice.items():
        yield name, f"it is installed several times: {text}", "uninstall all of them, and install it again"


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


def versions():
    """Yield the distributions that plugrad needs in another version."""
    try:
        needed = importlib.metadata.requires("plugrad") or ()
    except importlib.metadata.PackageNotFoundError:
        yield "plugrad", "its metadata are missing", "install plugrad again"
        return
    for requirement in needed:
        parts = re.fullmatch(r"([\w.-]+)\s*((?:[<>=!~]=?\s*[\w.]+\s*,?\s*)*)", requirement.partition(";")[0].strip())
        if parts is None or "extra ==" in requirement:
            continue
        try:
            version = importlib.metadata.version(parts[1])
        except importlib.metadata.PackageNotFoundError:
            yield parts[1], "plugrad needs it, and it is not installed", f'pip install "{parts[0]}"'
            continue
        for sign, bound in re.findall(r"(>=|<=|<|>)\s*([\w.]+)", parts[2]):
            have, limit = _release(version), _release(bound)
            if not {">=": have >= limit, "<=": have <= limit, "<": have < limit, ">": have > limit}[sign]:
                yield parts[1], f"version {version} is installed, plugrad needs {parts[2]}", f'pip install "{parts[0]}"'


def _release(version: str) -> list[int]:
    return [int(number) for number in re.match(r"[\d.]*", version)[0].strip(".").split(".") if number]


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
    wheels = sorted({
        name for one in importlib.metadata.distributions()
        if (name := (one.metadata["Name"] or "").lower()).startswith("cupy")
    })  # fmt: skip
    if len(wheels) > 1:
        yield "cupy", f"{' and '.join(wheels)} are installed, of which one can work", "uninstall all but one"
    if wheels and "cuda" in registry.backends:
        why = registry.reason("cuda")
        if why is not None:
            yield wheels[0], f"the device cuda can't be used: {why}", "install the CuPy that fits the driver's CUDA"
