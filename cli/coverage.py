"""`plugrad coverage`: what each op can do on each device and dtype, measured, as table, JSON or page."""

from __future__ import annotations

import pathlib

import typer

from plugrad import registry
from plugrad.catalog.rows import backends_of, ops_of, providers
from plugrad.cli.coverage_page import page
from plugrad.cli.output import (
    apart,
    counted,
    named_op,
    progress,
    refuse_unknown,
    refuse_unwritable,
    say,
    say_json,
    show,
)
from plugrad.testing import compiled_coverage, coverage_report
from plugrad.testing.coverage import DTYPES, TRIALS
from plugrad.testing.coverage_report import by_op

LETTERS = {
    "bool": "b", "int64": "i", "float16": "h", "bfloat16": "B", "float32": "f", "float64": "d", "complex64": "F",
    "complex128": "D",
}  # fmt: skip
MARKS = {
    "works": "", "fallback": "^", "partly": "~", "refused": "-", "error": "!", "not applicable": "·", "no samples": "?",
}  # fmt: skip
HOLES = ("fallback", "partly", "refused", "error")


def coverage(
    names: list[str] = typer.Argument(None, help="Ops, plugins or distributions; all registered ops by default."),
    device: list[str] = typer.Option(None, "--device", help="Only this device; may be repeated."),
    dtype: list[str] = typer.Option(None, "--dtype", help="Only this dtype, such as float16; may be repeated."),
    holes: bool = typer.Option(False, "--holes", help="In the table, show only ops that lack something."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
    compiled: str = typer.Option(None, "--compiled", metavar="COMPILER", help="Of layers, losses, optimizers."),
    html: pathlib.Path = typer.Option(None, "--html", help="Write a self-contained page to this file."),
    jobs: int = typer.Option(1, "--jobs", "-j", min=1, help="How many processes to use."),
):
    """Measure what ops can do: call, gradients, second gradients, jvp, vmap and shapes without data.

    Every cell is an attempt with the op's samples, on each available backend and each dtype.

    Whether results are right is told by `plugrad check`.

    With --compiled the table is of layers, losses and optimizers: whether a compiler captures them, or why not.
    """
    if compiled is not None:
        _print_compiled(compiled, names, holes, as_json)
        return
    chosen, homes = _chosen(names)
    device = device or homes
    dtypes = _of(dtype, DTYPES, "dtype")
    backends = coverage_report.backends(device)
    devices = [row["name"] for row in backends if row["covered"]]
    if device:
        _refuse_unavailable(device, backends)
    if html is not None:
        refuse_unwritable(html)
    measured = coverage_report.measure_all(chosen, dtypes, devices, jobs)
    with apart():
        by_name = dict(progress(measured, len(chosen), quiet=as_json, text="measuring"))
    rows = [row for name in chosen for row in by_name[name]]
    report = {"backends": backends, "dtypes": dtypes, "summary": coverage_report.summary(rows), "rows": rows}
    if html is not None:
        html.write_text(page(report), encoding="utf-8")
    if as_json:
        say_json(report)
    elif html is not None:
        say(f"{html}: {counted(len(chosen), 'op')}, {counted(len(rows), 'row')}")
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
    shown = []
    for (op, device), rows in by_op(report["rows"]).items():
        if holes and not any(row["cells"][trial] in HOLES for row in rows for trial in TRIALS):
            continue
        cells = {trial: "".join(_letter(row["dtype"], row["cells"][trial]) for row in rows) for trial in TRIALS}
        shown.append({"op": op, "device": device, **cells, "autocast": rows[0]["autocast"],
                      "provider": rows[0]["provider"]})  # fmt: skip
    headings = ["op", *(["device"] if len(devices) > 1 else []), *TRIALS, "autocast", "provider"]
    if shown:
        show(shown, dict(zip(headings, headings)), False)
    letters = ", ".join(f"{LETTERS[dtype]} {dtype}" for dtype in dtypes)
    marks = ", ".join(f"{mark} {status}" for status, mark in MARKS.items() if mark)
    say(f"\nworks: {letters}\nelse: {marks}")
    for group, counts in report["summary"].items():
        rows = [{"by": name, **{status: str(numbers.get(status, 0)) for status in MARKS}}
                for name, numbers in counts.items()]  # fmt: skip
        say("")
        show(rows, {f"by {group}": "by", **{status: status for status in MARKS}}, False)
    for row in report["backends"]:
        if not row["covered"]:
            say(f"not covered: {row['name']}, {row['reason']}")


def _print_compiled(compiler, names, holes, as_json) -> None:
    known = registry.names_in("compilers")
    if compiler not in known:
        refuse_unknown(compiler, known, "compiler")
    with apart():
        rows = [row for row in compiled_coverage.rows(compiler, names) if not holes or row["compiled"] != "works"]
    show(rows, {key: key for key in ("name", "kind", "compiled", "why")}, as_json)


def _letter(dtype, status) -> str:
    return MARKS[status] or LETTERS[dtype]


COMMANDS = [coverage]
