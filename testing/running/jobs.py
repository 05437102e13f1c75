"""Running the cases of one command, in this process or in several."""

from __future__ import annotations

import contextlib
import functools
import pathlib
import re
import sys
import time

from plugrad.registry import entry_points
from plugrad.testing.conformance import checks_of
from plugrad.testing.running import processes


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
    """The cases of one command, and how they are run."""

    def __init__(self, target, device, cases, jobs=1, timeout=None):
        self.target, self.device, self.cases, self.jobs, self.timeout = target, device, cases, jobs, timeout

    def _in_child(self) -> bool:
        """Whether another process can load what is checked, and should, since it may end the process that it is in."""
        strangers = {case.provider for case in self.cases if case.provider is not None and not case.provider.builtin}
        targets = self.target if isinstance(self.target, tuple) else [self.target]
        files = {pathlib.Path(one).name for one in targets if isinstance(one, str) and one.endswith(".py")}
        present = {one.name for one in entry_points.installed()} | files
        return bool(strangers) and all(plugin.distribution in present for plugin in strangers)

    def run(self, finished=()):
        """Yield the row of each case that is not among the finished rows."""
        done = {row["id"] for row in finished}
        waiting = {case.id: case for case in self.cases if case.id not in done}
        if self.jobs == 1 and self.timeout is None and not self._in_child():
            yield from map(run_case, waiting.values())
            return
        shares: dict = {}  # by subject: a process finishes all of one
        for case in waiting.values():
            shares.setdefault((case.kind, case.subject), []).append((self.target, self.device, case.id))
        setup = _prepare, (self.target, self.device)
        results = processes.run(_run_named, list(shares.values()), self.jobs, self.timeout, setup, False)
        for (_, _, name), row in results:
            if isinstance(row, processes.Lost):
                row = row_of(waiting[name], "failed", f"{waiting[name].title}: {row.reason}", row.seconds)
            yield row


@functools.cache
def _cases(target, device) -> dict:
    return {case.id: case for case in checks_of(target, device)}


def _prepare(target, device) -> None:
    _cases(target, device)


def _run_named(target, device, name) -> dict:
    """Run a case in a process that has only been told its name."""
    return run_case(_cases(target, device)[name], follows=True)
