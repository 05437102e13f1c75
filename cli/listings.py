"""`plugrad losses`, `layers`, `optimizers`, ..., `hooks`, `backends`: what plugins brought, by kind."""

from __future__ import annotations

import typer

from plugrad.cli.output import show

KINDS = {
    "losses": "List the losses of plugrad.nn.",
    "layers": "List the layers of plugrad.nn.",
    "optimizers": "List the optimizers of plugrad.optim.",
    "schedulers": "List the learning-rate schedules of plugrad.optim.lr_scheduler.",
    "inits": "List the functions of plugrad.nn.init.",
    "compilers": "List the compilers, which `plugrad.compile` takes by name.",
    "hooks": "List the hooks on ops of plugrad.op_hooks.",
}
COLUMNS = {"name": "public", "signature": "signature", "provider": "provider", "description": "doc"}
BACKEND_COLUMNS = {"device": "name", "state": "state", "reason": "reason", "provider": "provider"}


def add_to(app) -> None:
    """Add one command for each kind."""
    for kind, text in KINDS.items():
        app.command(kind, help=text)(_listing(kind))
    app.command("backends")(backends)


def _listing(kind):
    def listing(
        search: str = typer.Argument(None, help="Only names with this text."),
        as_json: bool = typer.Option(False, "--json", help="Print JSON."),
    ):
        from plugrad.cli import catalog

        rows = [row for row in catalog.entries(kind) if not search or search.lower() in row["name"].lower()]
        show(rows, COLUMNS, as_json, f"no {kind} match" if search else f"there are no {kind}")

    return listing


def backends(
    load: bool = typer.Option(False, "--load", help="Ask those of guests, too: this imports them."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
):
    """List the backends: whether each can run here, or why not. Those of guests are only asked with --load."""
    from plugrad.cli import catalog

    show(catalog.backend_rows(load), BACKEND_COLUMNS, as_json)
