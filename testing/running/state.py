"""A memory of finished checks, in a file: what is in it need not be run again until sources change."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import pathlib
import re
import sys
import tomllib
import types

import numpy

import plugrad

FOLDER = ".plugrad_check"
TEXTS = {"id", "subject", "kind", "check", "status", "message", "origin"}  # of a row
OPTIONAL = {"argument", "distribution", "version", "plugin"}  # texts or None


class State:
    """What is finished, in a file: used again only while the sources, versions and the device are the same.

    `rows` are the finished rows among the job's cases, `known` is how many were there at the start, `note` says what
    became of an older file.
    """

    def __init__(self, job):
        self.file = pathlib.Path(FOLDER) / f"{_slug(job.target)}-{job.device}.jsonl"
        self.key, self.rows, self.note = job.key(), [], None
        kept = self._read()
        wanted = {row["id"] for row in job.rows}
        self.rows = [row for row in kept if row["id"] in wanted]
        self.known = len(self.rows)
        self._write(kept)

    def _read(self) -> list:
        if not self.file.is_file():
            return []
        lines = self.file.read_text(errors="replace").splitlines()
        rows = []
        for line in lines:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):  # the line that was being written when the run was broken off
                continue
            if isinstance(row, dict) and (not rows or _is_finished(row)):
                rows.append(row)
        if not rows or rows[0].get("key") != self.key:
            self.note = f"sources or versions have changed since {self.file} was written: all checks are run again"
            return []
        return rows[1:]

    def _write(self, rows) -> None:
        """Write the file anew: what was kept of it, or nothing but the key."""
        self.file.parent.mkdir(exist_ok=True)
        (self.file.parent / ".gitignore").write_text("*\n")
        self.file.write_text("".join(json.dumps(row) + "\n" for row in ({"key": self.key}, *rows)))

    def add(self, row) -> None:
        """Note a finished check."""
        with self.file.open("a") as stream:
            stream.write(json.dumps(row) + "\n")


def _is_finished(row: dict) -> bool:
    """Whether a row says all that is reported of a finished check."""
    return (
        row.keys() == {*TEXTS, *OPTIONAL, "seconds"}
        and all(isinstance(row[name], str) for name in TEXTS)
        and all(isinstance(row[name], str | None) for name in OPTIONAL)
        and isinstance(row["seconds"], (int, float))
        and row["status"] in ("passed", "failed", "skipped")
    )


def _slug(target) -> str:
    return re.sub(r"[^\w.-]+", "_", "+".join(target) if isinstance(target, tuple) else str(target or "third-party"))


def key(plugins, device) -> str:
    """Return a hash of all that a result depends on: versions, and the sources of plugrad and of loaded plugins."""
    digest = hashlib.sha256(repr((sys.version, numpy.__version__, plugrad.__version__, device)).encode())
    files = {file for folder in _folders() for file in pathlib.Path(folder).rglob("*.py")}
    for plugin in sorted(plugins, key=lambda plugin: plugin.id):
        digest.update(f"{plugin.id} {plugin.version}".encode())
        files.update(() if plugin.builtin else _sources(plugin))
    for file in sorted(files):
        digest.update(str(file).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _folders() -> list:
    """Return the folders of plugrad's own packages, which lie in different places in a source tree."""
    home = pathlib.Path(plugrad.__file__).parent
    project = home.parent / "pyproject.toml"
    if not project.is_file():  # installed: all is in one place
        return [home]
    folders = tomllib.loads(project.read_text())["tool"]["setuptools"]["package-dir"]
    return [home.parent / folder for folder in folders.values()]


def _sources(plugin) -> list:
    """Return the Python files of the package that a plugin is in, and of the modules that its modules use."""
    top = plugin.value.partition(":")[0].partition(".")[0]
    module = sys.modules.get(top)
    files = [file for folder in getattr(module, "__path__", ()) for file in pathlib.Path(folder).rglob("*.py")]
    waiting = [name for name in sys.modules if name == top or name.startswith(f"{top}.")]
    seen = set(waiting)
    while waiting:
        module = sys.modules[waiting.pop()]
        if getattr(module, "__file__", None) and module.__file__.endswith(".py"):
            files.append(pathlib.Path(module.__file__))
        used = {getattr(value, "__module__", None) for value in vars(module).values()}
        used |= {value.__name__ for value in vars(module).values() if isinstance(value, types.ModuleType)}
        if module.__name__.partition(".")[0] == top or not hasattr(module, "__path__"):  # else it is a library
            used |= _imported(module)
        fresh = {name for name in used - seen if isinstance(name, str) and name in sys.modules and _is_helper(name)}
        seen |= fresh
        waiting += fresh
    return list(dict.fromkeys(files))


def _imported(module) -> set:
    """Return the names that the source of a module imports, in its functions, too: of constants nothing else tells."""
    file = getattr(module, "__file__", None)
    if not file or not file.endswith(".py"):
        return set()
    names: set = set()
    for node in ast.walk(ast.parse(pathlib.Path(file).read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = importlib.util.resolve_name("." * node.level + (node.module or ""), module.__package__)
            names.update((home, *(f"{home}.{alias.name}" for alias in node.names)))
    return names


def _is_helper(name) -> bool:
    """Whether a module is neither Python's nor plugrad's nor of a library whose version counts."""
    top = name.partition(".")[0]
    return top not in sys.stdlib_module_names and top not in ("numpy", "plugrad", "scipy", "__main__")
