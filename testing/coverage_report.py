"""Coverage of many ops: on which devices and dtypes it is measured, in processes, and its sums."""

from __future__ import annotations

from plugrad import registry
from plugrad.catalog.rows import backend_rows
from plugrad.testing.coverage import TRIALS, coverage
from plugrad.testing.running import processes

SYMBOLIC = "its shape rules are the column `meta`"
SHARE = 16  # ops that a process takes over at once


def backends(asked=None) -> list[dict]:
    """Describe the backends, third-party ones included: `covered`, or the `reason` why not."""
    rows = []
    for row in backend_rows(load=True):
        reason = row["reason"]
        if reason is None and registry.backend(row["name"]).symbolic:
            reason = SYMBOLIC
        if reason is None and asked and row["name"] not in asked:
            reason = "not asked for"
        rows.append({"name": row["name"], "provider": row["provider"], "covered": reason is None, "reason": reason})
    return rows


def measure(name: str, dtypes, devices) -> list[dict]:
    """Return the rows of one op; see `plugrad.testing.coverage`."""
    return coverage(registry.op(name), dtypes, devices)


def measure_all(names, dtypes, devices, jobs=1):
    """Yield (name, rows) of each op as it is finished."""
    calls = [(name, dtypes, devices) for name in names]
    shares = [calls[start : start + SHARE] for start in range(0, len(calls), SHARE)]
    for (name, *_), rows in processes.run(measure, shares, jobs):
        if isinstance(rows, processes.Lost):
            raise RuntimeError(f"op {name!r}: {rows.reason}")
        yield name, rows


def summary(rows) -> dict:
    """Count statuses: {"trial" | "dtype" | "device": {name: {status: count}}}."""
    counted: dict = {"trial": {trial: {} for trial in TRIALS}, "dtype": {}, "device": {}}
    for row in rows:
        for trial, status in row["cells"].items():
            for group, name in (("trial", trial), ("dtype", row["dtype"]), ("device", row["device"])):
                counts = counted[group].setdefault(name, {})
                counts[status] = counts.get(status, 0) + 1
    return counted


def by_op(rows) -> dict:
    """Group rows: {(name of the op, device): its rows, one for each dtype}."""
    grouped: dict = {}
    for row in rows:
        grouped.setdefault((row["op"], row["device"]), []).append(row)
    return grouped
