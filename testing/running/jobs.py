"""Listing and running the checks of one command, in this process or in several."""

from __future__ import annotations

import contextlib
import functools
import queue
import re
import sys
import time

from plugrad import registry
from plugrad.registry import entry_points
from plugrad.testing.conformance import Case, checks_of, entitled
from plugrad.testing.running import processes, state
from plugrad.testing.targets import Subject


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


def run_case(case, follows=False) -> dict:
    """Run one case and return its row; `follows` is as for `Case.run`."""
    started = time.perf_counter()
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a plugin prints is no part of the report
            reason = case.run(follows)
    except AssertionError as error:
        return row_of(case, "failed", str(error), time.perf_counter() - started)
    return row_of(case, "passed" if reason is None else "skipped", reason or "", time.perf_counter() - started)


class Job:
    """The checks of one command, and how they are run; a context, at whose end no other process is left.

    What is not plugrad's is loaded, listed and run in another process: it may end the one that it is in.

    Attributes: `rows` describe the checks, as `row_of` does; of those that are taken out none is run.

    Raises LookupError, naming the nearest known names, when there is no such target.
    """

    def __init__(self, target, device="cpu", jobs=1, timeout=None):
        self.target, self.device, self.jobs, self.timeout = target, device, jobs, timeout
        self.worker, self.cases, self.rows = None, {}, []
        if _is_of_others(target):
            self.worker = processes.Worker(queue.Queue())
            self.rows = self._ask(_rows_there) or self.rows
        else:
            self.cases = {case.id: case for case in checks_of(target, device)}
            self.rows = [row_of(case) for case in self.cases.values()]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.worker is not None:
            self.worker.end()

    def _ask(self, function):
        """Return what a function of target and device returns in the other process; None if it dies: a row says so."""
        self.worker.call(function, self.target, self.device)
        answer = self.worker.receive()
        if answer is None:
            fate, self.worker = self.worker.fate(), None
            self.rows = [_row_of_target(self.target, f"the process that loads it died ({fate})")]
            return None
        status, value = answer
        if status == "raised":
            raise RuntimeError(f"in another process: {value}")
        if isinstance(value, LookupError):
            raise value
        return value

    def key(self) -> str:
        """Return `state.key` of what is checked, "" of what could not be loaded."""
        return _key_of(self.cases, self.device) if self.worker is None else self._ask(_key_there) or ""

    def run(self, finished=()):
        """Yield the row of each check that is not among the finished rows."""
        done = {row["id"] for row in finished}
        waiting = {row["id"]: row for row in self.rows if row["id"] not in done}
        if any(row["status"] for row in waiting.values()):  # it could not even be loaded
            yield from waiting.values()
            return
        if self.worker is None and self.jobs == 1 and self.timeout is None:
            yield from (run_case(self.cases[name]) for name in waiting)
            return
        shares: dict = {}  # by subject: a process finishes all of one
        for row in waiting.values():
            shares.setdefault((row["kind"], row["subject"]), []).append((self.target, self.device, row["id"]))
        setup = _prepare, (self.target, self.device)
        results = processes.run(
            _run_named, list(shares.values()), self.jobs, self.timeout, setup, here=False, first=self.worker
        )
        for (_, _, name), row in results:
            if isinstance(row, processes.Lost):
                row = _lost(waiting[name], row.reason, row.seconds)
            yield row


def _is_of_others(target) -> bool:
    """Whether loading a target may run what is not plugrad's, and another process can load it.

    Of a single name it is known which package brings it when all are loaded.
    """
    targets = target if isinstance(target, tuple) else (target,)
    if any(isinstance(one, str) and one.endswith(".py") for one in targets):
        return True
    others = any(one.name != "plugrad" for one in entry_points.installed())
    return others and not all(one is not None and _is_ours(one) for one in targets)


def _is_ours(target) -> bool:
    plugin = registry.plugins.get(target)
    return registry.normalise(target) == "plugrad" or plugin is not None and plugin.builtin


def _row_of_target(target, message) -> dict:
    """Return the row of a target that can't be loaded, so that nobody knows what is in it."""
    name = ", ".join(target) if isinstance(target, tuple) else str(target or "third-party plugins")
    return _lost(row_of(Case(Subject("plugins", name, None), "loading", None, None)), message)


def _lost(row, reason, seconds=0.0) -> dict:
    title = entitled(row["kind"], row["subject"], row["origin"], row["check"])
    return {**row, "status": "failed", "message": f"{title}: {reason}", "seconds": round(seconds, 4)}


def _key_of(named, device) -> str:
    return state.key({case.provider for case in named.values() if case.provider is not None}, device)


# ------------------------------------------------------------------------------------------------ in another process


@functools.cache
def _cases(target, device) -> dict:
    return {case.id: case for case in checks_of(target, device)}


def _rows_there(target, device):
    """Return the rows of all checks, or the LookupError that there is no such target."""
    try:
        return [row_of(case) for case in _cases(target, device).values()]
    except LookupError as error:
        return LookupError(str(error))


def _key_there(target, device) -> str:
    return _key_of(_cases(target, device), device)


def _prepare(target, device) -> None:
    _cases(target, device)


def _run_named(target, device, name) -> dict:
    """Run a check that is only named."""
    return run_case(_cases(target, device)[name], follows=True)
