"""What commands share: how rows are printed, names looked up, and progress shown."""

from __future__ import annotations

import difflib
import json
import sys

import typer
import typer.core

from plugrad.catalog.rows import find_op, names_of_ops


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
    near = difflib.get_close_matches(name, sorted(set(known)), 3)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    if list_all and not near:
        hint = f"; there {'is' if len(known) == 1 else 'are'} {', '.join(known)}"
    raise typer.BadParameter(f"there is no {what} named {name!r}{hint}")


def named_op(name: str, what: str = "op", others=()):
    """Return the record of the op that a name means; end the command with status 2 when there is none."""
    try:
        op = find_op(name)
    except (AttributeError, ImportError) as error:  # ambiguous, or its plugin does not load
        raise typer.BadParameter(str(error)) from None
    if op is None:
        refuse_unknown(name, [*names_of_ops(), *others], what)
    return op


def progress(results, total, quiet, text="checking"):
    """Pass results on, with a progress bar if stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(results, text, total, console=Console(stderr=True), transient=True)
