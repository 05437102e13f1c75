"""`plugrad losses`, `layers`, `optimizers`, ..., `hooks`, `backends`: what plugins brought, by kind."""

from __future__ import annotations

import typer

from plugrad.catalog import rows as catalog
from plugrad.cli import KINDS
from plugrad.cli.output import show

COLUMNS = {"name": "public", "signature": "signature", "provider": "provider", "description": "doc"}
BACKEND_COLUMNS = {"device": "name", "state": "state", "reason": "reason", "provider": "provider"}


def _listing(kind, home):
    def listing(
        search: str = typer.Argument(None, help="Only names with this text."),
        as_json: bool = typer.Option(False, "--json", help="Print JSON."),
    ):
        rows = [row for row in catalog.entries(kind) if not search or search.lower() in row["name"].lower()]
        show(rows, COLUMNS, as_json, f"no {kind} match" if search else f"there are no {kind}")

    listing.__name__, listing.__doc__ = kind, f"List the {kind} of {home}."
    return listing


def backends(
    load: bool = typer.Option(False, "--load", help="Also ask third-party backends: this imports them."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
):
    """List the backends: whether each can run here, or why not. Third-party ones are only asked with --load."""
    show(catalog.backend_rows(load), BACKEND_COLUMNS, as_json)


COMMANDS = [*(_listing(kind, home) for kind, home in KINDS.items()), backends]
