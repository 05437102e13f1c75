"""`plugrad coverage`: what each op can do on each device and dtype, measured, as table, JSON or page."""

from __future__ import annotations

import json
import pathlib
import sys

import typer

from plugrad.catalog.rows import backends_of, ops_of, providers
from plugrad.cli.coverage_page import page
from plugrad.cli.output import counted, named_op, progress, refuse_unknown, refuse_unwritable
from plugrad.testing import coverage_report
from plugrad.testing.coverage import TRIALS
from plugrad.testing.coverage_report import by_op

LETTERS = {
    "bool": "b", "int64": "i", "float16": "h", "bfloat16": "B", "float32": "f", "float64": "d", "complex64": "F",
    "complex128": "D",
}  # fmt: skip
MARKS = {
    "works": "", "fallback": "^", "partly": "~", "refused": "-", "error": "!", "not applicable": "·", "no samples": " ",
}  # fmt: skip
STYLES = {"works": "green", "fallback": "magenta", "partly": "yellow", "refused": "red", "error": "bold red"}
HOLES = ("fallback", "partly", "refused", "error")


def coverage(
    names: list[str] = typer.Argument(None, help="Ops, plugins or distributions; all registered ops by default."),
    device: list[str] = typer.Option(None, "--device", help="Only this device; may be repeated."),
    dtype: list[str] = typer.Option(None, "--dtype", help="Only this dtype, such as float16; may be repeated."),
    holes: bool = typer.Option(False, "--holes", help="In the table, show only ops that lack something."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
    html: pathlib.Path = typer.Option(None, "--html", help="Write a self-contained page to this file."),
    jobs: int = typer.Option(1, "--jobs", "-j", min=1, help="How many processes to use."),
):
    """Measure what ops can do: call, gradients, second gradients, jvp, vmap and shapes without data.

    Every cell is an attempt with the op's samples, on each available backend and each dtype.

    Whether results are right is told by `plugrad check`.
    """
    chosen, homes = _chosen(names)
    device = device or homes
    dtypes = _of(dtype, coverage_report.dtypes(), "dtype")
    backends = coverage_report.backends(device)
    devices = [row["name"] for row in backends if row["covered"]]
    if device:
        _refuse_unavailable(device, backends)
    if html is not None:
        refuse_unwritable(html)
    measured = coverage_report.measure_all(chosen, dtypes, devices, jobs)
    by_name = dict(progress(measured, len(chosen), quiet=as_json, text="measuring"))
    rows = [row for name in chosen for row in by_name[name]]
    report = {"backends": backends, "dtypes": dtypes, "summary": coverage_report.summary(rows), "rows": rows}
    if html is not None:
        html.write_text(page(report), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    elif html is not None:
        typer.echo(f"{html}: {counted(len(chosen), 'op')}, {counted(len(rows), 'row')}")
    else:
        _print(report, dtypes, devices, holes)


def _of(asked, known, what) -> list[str]:
    for name in asked or ():
        if name not in known:
            refuse_unknown(name, known, what)
    return [name for name in known if not asked or name in asked]


def _chosen(names) -> tuple:
    """Return the records' names of the chosen ops, by their own names or by who brings them, and devices.

    Of a plugin that brings no ops but backends, all ops are meant, on these devices.
    """
    if not names:
        return ops_of(None), []
    chosen: list = []
    devices: list = []
    for name in names:
        ops = ops_of(name)
        if not ops and (homes := backends_of(name)):
            devices += homes
            ops = ops_of(None)
        chosen += ops or [named_op(name, "op, plugin or distribution", providers()).qualname]
    return list(dict.fromkeys(chosen)), devices


def _refuse_unavailable(asked, backends) -> None:
    known = {row["name"]: row for row in backends}
    for name in asked:
        if name not in known:
            refuse_unknown(name, known, "device")
        if known[name]["reason"]:
            raise typer.BadParameter(f"device {name!r} can't be covered: {known[name]['reason']}")


# ---------------------------------------------------------------------------------------------------- the table


def _print(report, dtypes, devices, holes) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("op", *(["device"] if len(devices) > 1 else []), *TRIALS, "provider"):
        table.add_column(heading, no_wrap=heading != "provider", overflow="fold")
    for (op, device), rows in by_op(report["rows"]).items():
        if holes and not any(row["cells"][trial] in HOLES for row in rows for trial in TRIALS):
            continue
        cells = [_cell([(row["dtype"], row["cells"][trial]) for row in rows]) for trial in TRIALS]
        table.add_row(op, *([device] if len(devices) > 1 else []), *cells, rows[0]["provider"])
    # Piped output has no width of its own; a wide one keeps rows on one line for grep.
    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 240)
    if table.row_count:
        console.print(table)
    console.print("\n" + _legend(dtypes))
    _print_summary(console, report)


def _cell(statuses):
    from rich.text import Text

    text = Text()
    for dtype, status in statuses:
        text.append(MARKS[status] or LETTERS[dtype], STYLES.get(status, "dim"))
    return text


def _legend(dtypes) -> str:
    letters = ", ".join(f"{LETTERS[dtype]} {dtype}" for dtype in dtypes)
    marks = ", ".join(f"{mark} {status}" for status, mark in MARKS.items() if mark.strip())
    return f"works: {letters}\nelse: {marks}, blank: no samples"


def _print_summary(console, report) -> None:
    from rich.table import Table

    for group, counts in report["summary"].items():
        table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
        for heading in (f"by {group}", *MARKS):
            table.add_column(heading, justify="left" if heading.startswith("by ") else "right")
        for name, numbers in counts.items():
            table.add_row(name, *(str(numbers.get(status, 0)) for status in MARKS))
        console.print("")
        console.print(table)
    for row in report["backends"]:
        if not row["covered"]:
            console.print(f"not covered: {row['name']}, {row['reason']}")


COMMANDS = [coverage]
