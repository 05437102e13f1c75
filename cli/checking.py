"""Running checks: in processes, with a memory of what is finished, and as a JUnit report."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
import sys
import time

FOLDER = ".plugrad_check"


def row_of(case, status=None, message="", seconds=0.0) -> dict:
    """Describe a case, and what came of it: "passed", "failed", "skipped" (it does not apply), or None: not run."""
    named = re.search(r"argument '(\w+)'", message) if status == "failed" else None
    plugin = case.provider
    return {
        "id": case.id,
        "subject": case.subject,
        "kind": case.kind,
        "check": case.name,
        "status": status,
        "argument": named and named[1],
        "message": message,
        "origin": case.origin,
        "distribution": plugin and plugin.distribution,
        "version": plugin and plugin.version,
        "plugin": plugin and plugin.id,
        "seconds": round(seconds, 4),
    }


def run_case(case) -> dict:
    """Run one case and return its row."""
    started = time.perf_counter()
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a plugin prints is no part of the report
            reason = case.run()
    except AssertionError as error:
        return row_of(case, "failed", str(error), time.perf_counter() - started)
    return row_of(case, "passed" if reason is None else "skipped", reason or "", time.perf_counter() - started)


class Job:
    """The cases of one command."""

    def __init__(self, target, device, cases, jobs=1, timeout=None):
        self.target, self.device, self.cases, self.jobs, self.timeout = target, device, cases, jobs, timeout

    def run(self, finished=()):
        """Yield the row of each case that is not among the finished rows."""
        done = {row["id"] for row in finished}
        waiting = [case for case in self.cases if case.id not in done]
        if self.jobs == 1 and self.timeout is None:
            yield from map(run_case, waiting)
            return
        from plugrad.cli import workers

        yield from workers.run(self, self._shares(waiting))

    @staticmethod
    def _shares(cases) -> list:
        """Divide cases by subject: a process finishes all of one."""
        shares: dict = {}
        for case in cases:
            shares.setdefault((case.kind, case.subject), []).append(case)
        return list(shares.values())


# ---------------------------------------------------------------------------------------------------- state


class State:
    """What is finished, in a file: used again only while the sources, versions and the device are the same.

    `rows` are the finished rows among the job's cases, `known` is how many were there at the start, `note` says what
    became of an older file.
    """

    def __init__(self, job):
        self.file = pathlib.Path(FOLDER) / f"{_slug(job.target)}-{job.device}.jsonl"
        self.key, self.rows, self.note = _key(job), [], None
        kept = self._read()
        wanted = {case.id for case in job.cases}
        self.rows = [row for row in kept if row["id"] in wanted]
        self.known = len(self.rows)
        self._write(kept)

    def _read(self) -> list:
        if not self.file.is_file():
            return []
        lines = self.file.read_text().splitlines()
        rows = []
        for line in lines:
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:  # the line that was being written when the run was broken off
                continue
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


def _slug(target) -> str:
    return re.sub(r"[^\w.-]+", "_", str(target or "guests"))


def _key(job) -> str:
    """Return a hash of all that a result depends on: versions, and the sources of plugrad and of the plugins."""
    import numpy

    import plugrad

    digest = hashlib.sha256(repr((sys.version, numpy.__version__, plugrad.__version__, job.device)).encode())
    files = {file for folder in _folders() for file in pathlib.Path(folder).rglob("*.py")}
    for plugin in {case.provider for case in job.cases if case.provider is not None}:
        digest.update(f"{plugin.id} {plugin.version}".encode())
        files.update(_sources(plugin))
    for file in sorted(files):
        digest.update(str(file).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _folders() -> list:
    """Return the folders of plugrad's own packages, which may lie in different places."""
    import plugrad
    import plugrad.cli
    import plugrad.plugins

    return [*plugrad.__path__, *plugrad.cli.__path__, *plugrad.plugins.__path__]


def _sources(plugin) -> list:
    """Return the Python files of the package that a plugin is in, or of its module and those loaded beside it."""
    name = plugin.value.partition(":")[0].partition(".")[0]
    module = sys.modules.get(name)
    if module is None:
        return []
    if hasattr(module, "__path__"):
        return [file for folder in module.__path__ for file in pathlib.Path(folder).rglob("*.py")]
    if not getattr(module, "__file__", None):
        return []
    folder = pathlib.Path(module.__file__).parent  # what it imports may lie beside it
    loaded = [pathlib.Path(other.__file__) for other in list(sys.modules.values()) if getattr(other, "__file__", None)]
    return [file for file in loaded if file.parent == folder and file.suffix == ".py"]


# ---------------------------------------------------------------------------------------------------- expressions


def matcher(expression):
    """Return the function that says whether a name matches an expression such as "gradient and not (sin or cos)".

    A word matches when the name holds it, in any case. Raises ValueError for what is no expression.

    >>> matcher("grad and not sin")("cos-gradient"), matcher("grad and not sin")("sin-gradient")
    (True, False)
    """
    tokens = re.findall(r"[()]|[^\s()]+", expression)
    if not tokens:
        return lambda name: True
    found, rest = _either(tokens, expression)
    if rest:
        raise ValueError(f"-k {expression!r}: {rest[0]!r} is not expected there; write words with and, or, not, ()")
    return lambda name: found(name.lower())


def _either(tokens, expression):
    one, tokens = _both(tokens, expression)
    while tokens and tokens[0] == "or":
        other, tokens = _both(tokens[1:], expression)
        one = functools.partial(lambda first, second, name: first(name) or second(name), one, other)
    return one, tokens


def _both(tokens, expression):
    one, tokens = _word(tokens, expression)
    while tokens and tokens[0] == "and":
        other, tokens = _word(tokens[1:], expression)
        one = functools.partial(lambda first, second, name: first(name) and second(name), one, other)
    return one, tokens


def _word(tokens, expression):
    if not tokens or tokens[0] in ("and", "or", ")"):
        raise ValueError(f"-k {expression!r}: a word is missing")
    word, rest = tokens[0], tokens[1:]
    if word == "not":
        found, rest = _word(rest, expression)
        return lambda name: not found(name), rest
    if word == "(":
        found, rest = _either(rest, expression)
        if not rest or rest[0] != ")":
            raise ValueError(f"-k {expression!r}: a ) is missing")
        return found, rest[1:]
    return lambda name: word.lower() in name, rest


# ---------------------------------------------------------------------------------------------------- JUnit


def write_junit(path, rows) -> None:
    """Write rows as a JUnit report: one test case for each check."""
    from xml.etree import ElementTree

    suite = ElementTree.Element(
        "testsuite", name="plugrad check", tests=str(len(rows)), errors="0",
        failures=str(sum(row["status"] == "failed" for row in rows)),
        skipped=str(sum(row["status"] == "skipped" for row in rows)),
        time=f"{sum(row['seconds'] for row in rows):.3f}",
    )  # fmt: skip
    for row in rows:
        place = f"{row['distribution'] or 'records'}.{row['kind']}"
        case = ElementTree.SubElement(
            suite, "testcase", classname=place, name=row["id"], time=f"{row['seconds']:.3f}"
        )
        if row["status"] == "failed":
            ElementTree.SubElement(case, "failure", message=_printable(row["message"].splitlines()[0])).text = (
                _printable(row["message"])
            )
        elif row["status"] == "skipped":
            ElementTree.SubElement(case, "skipped", message=_printable(row["message"]))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    ElementTree.ElementTree(root).write(path, encoding="unicode", xml_declaration=True)


def _printable(text) -> str:
    """Return text without the control characters that XML does not have."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x1b]", "?", text)
