"""`plugrad ops`: the table of ops, and all about one of them."""

from __future__ import annotations

import typer

from plugrad import registry
from plugrad.catalog import details
from plugrad.catalog.rows import op_rows
from plugrad.cli.output import Listing, named_op, refuse_unknown, say, show

app = typer.Typer(name="ops", cls=Listing, help="List the ops, or show one. Without a command: list.")

COLUMNS = {
    "name": "name", "signature": "signature", "aliases": "aliases", "backends": "backends", "orders": "orders",
    "provider": "provider",
}  # fmt: skip


@app.command("list")
def list_ops(
    search: str = typer.Argument(None, help="Show only ops with this text in a name or the description."),
    namespace: str = typer.Option(None, help="Only ops that are public there: nn.functional, special, Tensor, ..."),
    provider: str = typer.Option(None, help="Only ops of this plugin or distribution."),
    family: str = typer.Option(None, help="unary, binary, elementwise, reduction, view, op, composite or factory."),
    gradient: bool = typer.Option(None, "--gradient/--no-gradient", help="Only ops with, or without, a gradient."),
    hidden: bool = typer.Option(False, "--hidden", help="Also ops without a public name, which serve others."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
):
    """List the ops, including those that plugins only promise; `orders` counts derivatives, 2 meaning any number."""
    if family is not None:
        families = sorted({op.family for op in registry.ops.values()})
        if family not in families:
            refuse_unknown(family, families, "family")
    show(op_rows(search, namespace, provider, family, gradient, hidden), COLUMNS, as_json, "no op matches")


@app.command("show")
def show_op(
    name: str = typer.Argument(help="A name of the op: relu, special.expit, nn.functional.relu, ..."),
    source: bool = typer.Option(False, "--source", help="Also print kernels, formulas and generated code."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
):
    """Show one op: where it is public, kernels, formulas, documentation."""
    op = named_op(name)
    if as_json:
        show(details.describe(op), {}, True)
        return
    say("\n".join(details.text(op)))
    if source:
        for title, code in details.sources(op):
            say(f"\n# ---- {title}\n{code.rstrip()}", wrap=False)


COMMANDS = [app]
