"""A coverage report as one HTML page."""

from __future__ import annotations

import json
import pathlib

from plugrad import __version__
from plugrad.testing.coverage import STATUSES, TRIALS
from plugrad.testing.coverage_report import by_op


def page(report) -> str:
    """Return a report as one HTML page that needs nothing else."""
    messages: dict = {}
    rows = []
    for (op, device), rows_of_op in by_op(report["rows"]).items():
        codes, told = "", {}
        for trial in TRIALS:
            for row in rows_of_op:
                if trial in row["messages"]:
                    told[len(codes)] = messages.setdefault(row["messages"][trial], len(messages))
                codes += str(STATUSES.index(row["cells"][trial]))
        first = rows_of_op[0]
        name = first["public"][0] if first["public"] else ""
        rows.append([op, name, first["family"], first["provider"], device, codes, told, first.get("autocast", "")])
    data = {
        "version": __version__, "dtypes": report["dtypes"], "trials": TRIALS, "statuses": STATUSES,
        "backends": report["backends"], "summary": report["summary"], "messages": list(messages), "rows": rows,
    }  # fmt: skip
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # nothing in it may end the script element
    template = pathlib.Path(__file__).with_name("coverage.html").read_text(encoding="utf-8")
    return template.replace("{{ data }}", text)
