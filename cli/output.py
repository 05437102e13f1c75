"""How rows of a listing are printed: as a table, or as JSON."""

from __future__ import annotations

import json
import sys

import typer
import typer.core


class Listing(typer.core.TyperGroup):
    """A group of commands whose command `list` is meant when none is named."""

    def parse_args(self, ctx, args):
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def show(rows: list[dict], columns: dict, as_json: bool, empty: str = "nothing found") -> None:
    """Print rows as a table of some columns ({heading: key}), or all they hold as JSON."""
    if as_json:
        typer.echo(json.dumps(rows, indent=2, default=str))
        return
    if not rows:
        typer.echo(empty)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, heading in enumerate(columns):
        table.add_column(heading, overflow="fold", no_wrap=not position)
    for row in rows:
        table.add_row(*(_cell(row[key]) for key in columns.values()))
    # Piped output has no width of its own; a wide one keeps rows on one line for grep.
    Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 240).print(table)


def _cell(value) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def refuse_unknown(name: str, known, what: str, list_all=False):
    """End the command with status 2: there is no such name; the nearest ones are suggested, or all."""
    import difflib

    near = difflib.get_close_matches(name, sorted(set(known)), 3)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    if list_all and not near:
        hint = f"; there {'is' if len(known) == 1 else 'are'} {', '.join(known)}"
    raise typer.BadParameter(f"there is no {what} named {name!r}{hint}")
