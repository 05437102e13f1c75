"""`plugrad gradcheck`: the gradients of ops against slopes measured from their values."""

from __future__ import annotations

import json
import sys

import typer

from plugrad.cli.output import refuse_unknown, show

COLUMNS = {
    "op": "op", "order": "order", "sample": "sample", "status": "status", "input": "input", "element": "element",
    "numeric": "numeric", "analytic": "analytic", "what": "message",
}  # fmt: skip


def gradcheck(
    names: list[str] = typer.Argument(None, help="Ops to check; all registered differentiable ones by default."),
    first_order: bool = typer.Option(False, "--first-order", help="Leave out the gradients of gradients."),
    fast: bool = typer.Option(False, "--fast", help="Look along random directions instead of at each element."),
    jobs: int = typer.Option(1, "--jobs", "-j", min=1, help="Processes to check in."),
    as_json: bool = typer.Option(False, "--json", help="Print all checks as JSON."),
):
    """Check gradients against measured slopes, to first and second order.

    Exit status: 0 if none is wrong, 1 if one is, 2 for a name that is not an op's.
    """
    from plugrad.cli import judging

    chosen = _chosen(names) if names else _all()
    found = dict(progress(judging.judge_all(chosen, not first_order, fast, jobs), len(chosen), quiet=as_json))
    rows = [row for number in sorted(found) for row in found[number]]
    faulty = [row for row in rows if row["status"] in judging.FAULTY]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        if faulty:
            show(faulty, COLUMNS, False)
        typer.echo(_summary(chosen, rows))
    raise typer.Exit(1 if faulty else 0)


def _all() -> list[str]:
    from plugrad import registry

    return [name for name, op in registry.ops.items() if op.differentiable]


def _chosen(names) -> list[str]:
    from plugrad.cli import catalog

    chosen = []
    for name in names:
        try:
            op = catalog.find_op(name)
        except (AttributeError, ImportError) as error:  # ambiguous, or its plugin does not load
            raise typer.BadParameter(str(error)) from None
        if op is None:
            refuse_unknown(name, catalog.names_of_ops(), "op")
        if not op.differentiable:
            raise typer.BadParameter(f"op {op.qualname!r} has no gradient to check")
        chosen.append(op.qualname)
    return chosen


def progress(results, total, quiet, text="checking"):
    """Pass results on, with a bar on stderr where somebody is looking."""
    if quiet or not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(results, text, total, console=Console(stderr=True), transient=True)


def _summary(chosen, rows) -> str:
    counts: dict = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    words = {
        "PASS": "passed", "FAIL": "failed", "ERROR": "raised", "NONDIFFERENTIABLE": "right at a kink",
        "REFUSED": "not implemented", "INCONCLUSIVE": "inconclusive", "NO SAMPLES": "ops without samples",
    }  # fmt: skip
    found = ", ".join(f"{counts[status]} {text}" for status, text in words.items() if status in counts)
    return f"{len(chosen)} op{'s' * (len(chosen) != 1)}: {found or 'nothing to check'}"
