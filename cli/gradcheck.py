"""`plugrad gradcheck`: the gradients of ops against slopes measured from their values."""

from __future__ import annotations

import typer

from plugrad import registry
from plugrad.cli.output import apart, counted, named_op, progress, say, say_json, show
from plugrad.testing.gradients import of_ops

COLUMNS = {
    "op": "op", "order": "order", "sample": "sample", "status": "status", "input": "input", "element": "element",
    "numeric": "numeric", "analytic": "analytic", "what": "message",
}  # fmt: skip


def gradcheck(
    names: list[str] = typer.Argument(None, help="Ops to check; all registered differentiable ones by default."),
    first_order: bool = typer.Option(False, "--first-order", help="Skip the gradients of gradients."),
    fast: bool = typer.Option(False, "--fast", help="Check along random directions instead of each element."),
    jobs: int = typer.Option(1, "--jobs", "-j", min=1, help="How many processes to use."),
    as_json: bool = typer.Option(False, "--json", help="Print all checks as JSON."),
):
    """Check gradients against measured slopes, to first and second order.

    Exit status: 0 if none is wrong, 1 if one is, 2 for a name that is not an op's.
    """
    chosen = _chosen(names) if names else [name for name, op in registry.ops.items() if op.differentiable]
    with apart():
        by_op = dict(progress(of_ops.judge_all(chosen, not first_order, fast, jobs), len(chosen), quiet=as_json))
    rows = [row for name in chosen for row in by_op[name]]
    faulty = [row for row in rows if row["status"] in of_ops.FAULTY]
    if as_json:
        say_json(rows)
    else:
        if faulty:
            show(faulty, COLUMNS, False)
        say(_summary(chosen, rows))
    raise typer.Exit(1 if faulty else 0)


def _chosen(names) -> list[str]:
    ops = {op.qualname: op for op in map(named_op, names)}
    for name, op in ops.items():
        if not op.differentiable:
            raise typer.BadParameter(f"op {name!r} has no gradient to check")
    return list(ops)


def _summary(chosen, rows) -> str:
    counts: dict = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    words = {
        "PASS": "passed", "FAIL": "failed", "ERROR": "raised", "NONDIFFERENTIABLE": "right at a kink",
        "REFUSED": "not implemented", "INCONCLUSIVE": "inconclusive", "NO SAMPLES": "ops without samples",
    }  # fmt: skip
    summary = ", ".join(f"{counts[status]} {text}" for status, text in words.items() if status in counts)
    return f"{counted(len(chosen), 'op')}: {summary or 'nothing to check'}"


COMMANDS = [gradcheck]
