"""The functions behind `plugrad coverage`: which ops and devices, the measured rows, their sums, the page."""

from __future__ import annotations

import json
import pathlib

from plugrad import __version__, registry
from plugrad.registry import loader
from plugrad.testing.coverage import DTYPES, STATUSES, TRIALS, coverage

SYMBOLIC = "its shape rules are the column `meta`"


def dtypes() -> list[str]:
    """Return the names of the dtypes that there are here: bfloat16 needs the package `ml_dtypes`."""
    import importlib.util

    return [name for name in DTYPES if name != "bfloat16" or importlib.util.find_spec("ml_dtypes") is not None]


def backends(asked=None) -> list[dict]:
    """Describe the backends, those of guests included: `covered`, or the `reason` why not."""
    from plugrad.cli import catalog

    rows = []
    for row in catalog.backend_rows(load=True):
        reason = row["reason"]
        if reason is None and registry.backend(row["name"]).symbolic:
            reason = SYMBOLIC
        wanted = not asked or row["name"] in asked
        rows.append(
            {
                "name": row["name"], "provider": row["provider"], "covered": wanted and reason is None,
                "reason": reason or (None if wanted else "not asked for"),
            }
        )  # fmt: skip
    return rows


def providers() -> list[str]:
    """Return the names by which plugins that bring ops or backends may be asked for: distributions and plugins."""
    kinds = {"ops", "backends"}
    found = [plugin for plugin in loader.plugins.values() if plugin.builtin or kinds & set(dict(plugin.promised))]
    return list(dict.fromkeys(name for plugin in found for name in (plugin.distribution, plugin.id)))


def ops_of(provider) -> list[str]:
    """Return the records' names of the ops of a plugin or distribution, None for all; loads those of guests."""
    for plugin in loader.plugins.values():
        if plugin.status == "not loaded" and any(kind == "ops" for kind, _ in plugin.promised):
            if provider in (None, plugin.id, plugin.distribution):
                loader.load_or_warn(plugin)
    return [
        name for name, op in registry.ops.items() if provider in (None, op.provider.id, op.provider.distribution)
    ]


def backends_of(provider) -> list[str]:
    """Return the device types whose backends a plugin or distribution brings."""
    candidates = {name: registry.candidates_for(f"backends.{name}") for name in sorted(registry.backends)}
    return [name for name, plugins in candidates.items() if any(provider in (p.id, p.distribution) for p in plugins)]


def measure(name: str, dtypes, devices) -> list[dict]:
    """Return the rows of one op; see `plugrad.testing.coverage`."""
    return coverage(registry.op(name), dtypes, devices)


def measure_all(names, dtypes, devices, jobs=1):
    """Yield the rows of each op, in order; with `jobs` > 1 they are measured in as many processes."""
    if jobs <= 1 or len(names) < 2:
        for name in names:
            yield measure(name, dtypes, devices)
        return
    import functools
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Spawned, not forked: a fork of a process with threads (BLAS has some) may hang.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(functools.partial(measure, dtypes=dtypes, devices=devices), names, chunksize=16)


def summary(rows) -> dict:
    """Count statuses: {"trial" | "dtype" | "device": {name: {status: count}}}."""
    found: dict = {"trial": {trial: {} for trial in TRIALS}, "dtype": {}, "device": {}}
    for row in rows:
        for trial, status in row["cells"].items():
            for group, name in (("trial", trial), ("dtype", row["dtype"]), ("device", row["device"])):
                counts = found[group].setdefault(name, {})
                counts[status] = counts.get(status, 0) + 1
    return found


def by_op(rows) -> dict:
    """Group rows: {(name of the op, device): its rows, one for each dtype}."""
    grouped: dict = {}
    for row in rows:
        grouped.setdefault((row["op"], row["device"]), []).append(row)
    return grouped


def page(report) -> str:
    """Return a report as one HTML page that needs nothing else."""
    messages: dict = {}
    rows = []
    for (op, device), found in by_op(report["rows"]).items():
        codes, told = "", {}
        for trial in TRIALS:
            for row in found:
                if trial in row["messages"]:
                    told[len(codes)] = messages.setdefault(row["messages"][trial], len(messages))
                codes += str(STATUSES.index(row["cells"][trial]))
        public = found[0]["public"]
        rows.append([op, public[0] if public else "", found[0]["family"], found[0]["provider"], device, codes, told])
    data = {
        "version": __version__, "dtypes": report["dtypes"], "trials": TRIALS, "statuses": STATUSES,
        "backends": report["backends"], "summary": report["summary"], "messages": list(messages), "rows": rows,
    }  # fmt: skip
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # nothing in it may end the script element
    template = pathlib.Path(__file__).with_name("coverage.html").read_text(encoding="utf-8")
    return template.replace("{{ data }}", text)
