"""Which plugins are installed here, byte by byte: writing that down, and comparing later.

A lock file names every distribution with plugins, its version, and the SHA-256 of its RECORD, the list that pip
installed with the hash of each file. Nothing is imported. Compiled bytecode, for which RECORD has no hash, is not
covered, and neither are those of an editable install, whose RECORD does not list its source.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.machinery
import importlib.util
import json
import pathlib

from plugrad.registry import entry_points

FORMAT = 1
HEADER = """\
# Distributions with plugins of plugrad, as `plugrad plugins lock` found them; `plugrad plugins verify` compares.
# record: SHA-256 of the distribution's RECORD, which has the hashes of its files.
"""


class Locked:
    """One distribution as it was found: `record` is None if it has no RECORD, `note` says what can't be verified."""

    __slots__ = ("name", "version", "record", "note", "installed")

    def __init__(self, name, version, record, note=None, installed=None):
        self.name, self.version, self.record, self.note, self.installed = name, version, record, note, installed


def present() -> list[Locked]:
    """Return the installed distributions with plugins, plugrad itself left out."""
    return [_describe(one) for one in entry_points.installed() if one.name != "plugrad"]


def _describe(one) -> Locked:
    data = _record(one.distribution)
    note = None
    if data is None:
        note = "it has no RECORD (not installed by pip), so its files can't be verified"
    elif _editable(one.distribution):
        note = "it is an editable install: its source is not in RECORD and can't be verified"
    elif not isinstance(one.distribution.locate_file(""), pathlib.Path):
        note = "it is in an archive, whose files can't be verified one by one"
    digest = None if data is None else hashlib.sha256(data).hexdigest()
    return Locked(one.name, one.version, digest, note, one)


def _record(distribution) -> bytes | None:
    """Return the bytes of RECORD, None if there is none."""
    text = distribution.read_text("RECORD")
    if text is None:
        return None
    for path, _ in _files(text):
        file = distribution.locate_file(path)
        if path.endswith(".dist-info/RECORD") and isinstance(file, pathlib.Path):
            return file.read_bytes() if file.is_file() else text.encode()
    return text.encode()


_WITHOUT_HASH = (".pyc", ".dist-info/RECORD", ".dist-info/RECORD.jws", ".dist-info/RECORD.p7s")


def _files(text) -> list[tuple]:
    """Return (path, "algorithm=digest" or "") for the lines of a RECORD."""
    return [(row[0], row[1]) for row in csv.reader(text.splitlines()) if len(row) >= 2]


def _editable(distribution) -> bool:
    try:
        return bool(json.loads(distribution.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return False


# ---------------------------------------------------------------------------------------------------- lock files


def write(file) -> list[Locked]:
    """Write a lock file; return what it lists."""
    distributions = present()
    parts = [HEADER, f"format = {FORMAT}\n"]
    for one in distributions:
        parts.append(f"\n[[distribution]]\nname = {json.dumps(one.name)}\nversion = {json.dumps(one.version)}\n")
        if one.record is not None:
            parts.append(f'record = "sha256:{one.record}"\n')
    pathlib.Path(file).write_text("".join(parts), encoding="utf-8")
    return distributions


def read(file) -> list[Locked]:
    """Read a lock file. Raises OSError when it can't be read, ValueError when it is not one."""
    import tomllib

    try:
        table = tomllib.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError(f"{file} is damaged: it is nested too deeply") from None
    if table.get("format") != FORMAT:
        raise ValueError(f"{file} is not a lock file of format {FORMAT}: write one with `plugrad plugins lock {file}`")
    listed = table.get("distribution", [])
    for one in listed if isinstance(listed, list) else [listed]:
        texts = [one.get("name"), one.get("version"), one.get("record", "")] if isinstance(one, dict) else [None]
        if not all(isinstance(text, str) and text.isprintable() for text in texts):
            raise ValueError(f"{file} is damaged: each [[distribution]] needs a name and a version, not {one!r}")
    return [
        Locked(one["name"], one["version"], one["record"].removeprefix("sha256:") if "record" in one else None)
        for one in listed
    ]


def compare(locked: list[Locked]) -> list[tuple[str, str, str]]:
    """Return (distribution, kind, text) for all that differs from a lock file's list.

    The kinds are "added", "missing", "version", "record", "file" and "elsewhere".
    """
    wanted, here = {one.name: one for one in locked}, {one.name: one for one in present()}
    differences = []
    for name in sorted({*wanted, *here}):
        if name not in wanted:
            differences.append((name, "added", f"version {here[name].version} is installed and not in the lock file"))
        elif name not in here:
            differences.append((name, "missing", f"version {wanted[name].version} is locked and not installed"))
        else:
            differences += [(name, *difference) for difference in _compare_one(wanted[name], here[name])]
    return differences


def _compare_one(wanted, present) -> list[tuple[str, str]]:
    if wanted.version != present.version:
        return [("version", f"version {present.version} is installed, {wanted.version} is locked")]
    differences = []
    if wanted.record != present.record:
        what = "it has no RECORD any more" if present.record is None else "its RECORD is another one than was locked"
        differences.append(("record", what))
    return differences + check_files(present)


def check_files(locked: Locked) -> list[tuple[str, str]]:
    """Return ("file" or "elsewhere", text) for the files of a distribution that are not as its RECORD says."""
    distribution = locked.installed.distribution
    text = distribution.read_text("RECORD")
    if text is None or not isinstance(distribution.locate_file(""), pathlib.Path):
        return []
    differences, places = [], set()
    for path, expected in _files(text):
        file = pathlib.Path(distribution.locate_file(path))
        places.add(_resolved(file))
        if not expected:
            if not path.endswith(_WITHOUT_HASH):
                differences.append(("file", f"{path} has no hash in RECORD, so it can't be verified"))
            continue
        algorithm, _, digest = expected.partition("=")
        if not file.is_file():
            differences.append(("file", f"{path} is gone"))
        elif algorithm not in hashlib.algorithms_guaranteed:
            differences.append(("file", f"{path} has a hash of the unknown kind {algorithm!r} in RECORD"))
        else:
            actual = base64.urlsafe_b64encode(hashlib.new(algorithm, file.read_bytes()).digest()).decode().rstrip("=")
            if actual != digest.rstrip("="):
                differences.append(("file", f"{path} is not what RECORD says"))
    return differences if locked.note else differences + _unlisted(places) + _elsewhere(locked, places)


def _unlisted(places) -> list[tuple[str, str]]:
    """Return what could be imported from the distribution's packages and is not in its RECORD.

    Such a file may stand before one that is: `op/__init__.py` is imported in place of `op.py`.
    """
    suffixes = tuple(importlib.machinery.all_suffixes())
    packages = {str(pathlib.Path(place).parent) for place in places if place.endswith("__init__.py")}
    tops = {package for package in packages if str(pathlib.Path(package).parent) not in packages}
    return [
        ("file", f"{file} is not in RECORD")
        for package in sorted(tops)
        for file in sorted(pathlib.Path(package).rglob("*"))
        if file.name.endswith(suffixes) and file.parent.name != "__pycache__" and _resolved(file) not in places
    ]


def _elsewhere(locked, places) -> list[tuple[str, str]]:
    """Return the plugin modules that would be imported from another place than the distribution's own files."""
    differences = []
    for package in sorted({value.partition(":")[0].partition(".")[0] for _, _, value in locked.installed.points}):
        try:
            spec = importlib.util.find_spec(package)  # of a top-level name: imports nothing
        except (ImportError, ValueError):
            spec = None
        if spec is None:
            differences.append(("elsewhere", f"its module {package!r} can't be found"))
        elif spec.origin is not None and spec.has_location and _resolved(spec.origin) not in places:
            differences.append(("elsewhere", f"its module {package!r} would be imported from {spec.origin}"))
    return differences


def _resolved(file) -> str:
    return str(pathlib.Path(file).resolve())
