"""What commands share: how rows are printed, names looked up, and progress shown."""

from __future__ import annotations

import contextlib
import difflib
import json
import pathlib
import shutil
import sys
import textwrap

import typer
import typer.core

from plugrad.catalog.rows import find_op, names_of_ops


class Listing(typer.core.TyperGroup):
    """A group of commands whose command `list` is meant when none is named."""

    def __init__(self, **options):
        super().__init__(**options)
        self.epilog = f"`plugrad {self.name} list --help` tells what can be searched for and left out."

    def parse_args(self, ctx, args):
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            texts = sum(parameter.param_type_name == "argument" for parameter in self.commands["list"].params)
            words = args[: texts + 1]
            if len(words) > texts and not any(word.startswith("-") for word in words):  # more than `list` takes
                refuse_unknown(args[0], self.commands, f"command of `plugrad {self.name}`", list_all=True)
            args = ["list", *args]
        return super().parse_args(ctx, args)


def show(rows: list[dict], columns: dict, as_json: bool, empty: str = "nothing found") -> None:
    """Print rows as a table of some columns ({heading: key}), or all they hold as JSON.

    The first column names the row. Those that a terminal is too narrow for stand below each row.
    """
    if as_json:
        say_json(rows)
        return
    if not rows:
        say(empty)
        return
    table = [[readable(_cell(row[key])) for key in columns.values()] for row in rows]
    used = [place for place in range(len(columns)) if any(cells[place] for cells in table)]
    headings = [list(columns)[place] for place in used]
    for line in _lines(headings, [[cells[place] for place in used] for cells in table], _width()):
        say(line)


def _width(stream=None) -> int | None:
    """Return how wide the terminal is; None for a pipe, where a row stays on one line for grep."""
    if not (stream or sys.stdout).isatty():
        return None
    return max(shutil.get_terminal_size().columns, 20)


def _lines(headings, table, width):
    """Yield the lines of a table that is at most so wide."""
    widths = [max(map(len, column)) for column in zip(headings, *table)]
    beside, used = [0], widths[0]
    for place in range(1, len(headings)):
        if width is None or used + 2 + widths[place] <= width:
            beside.append(place)
            used += 2 + widths[place]
    below = [place for place in range(len(headings)) if place not in beside]
    yield _row([headings[place] for place in beside], [widths[place] for place in beside])
    for cells in table:
        line = _row([cells[place] for place in beside], [widths[place] for place in beside])
        yield from [line] if width is None or len(line) <= width else textwrap.wrap(line, width)
        text = "  ".join([f"{headings[place]}: {cells[place]}" for place in below if cells[place]])
        yield from textwrap.wrap(text, width or 80, initial_indent="    ", subsequent_indent="      ")


def _row(cells, widths) -> str:
    return "  ".join([cell.ljust(width) for cell, width in zip(cells, widths)]).rstrip()


def escaped(text: str) -> str:
    """Return lines of text without characters that steer the terminal."""
    return "".join([c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text])


def readable(text: str) -> str:
    """Return text of others for the terminal: on one line, without characters that steer it."""
    return escaped(" ".join(text.split()))


def say(text: str, indent: str = "", err: bool = False, wrap: bool = True) -> None:
    """Print lines, of which the second and further ones are indented, to standard output or standard error.

    A character that the terminal's encoding lacks, or that steers it, is escaped. On a terminal long lines are wrapped,
    unless they are code.
    """
    stream = sys.stderr if err else sys.stdout
    encoding, width = getattr(stream, "encoding", None) or "utf-8", _width(stream) if wrap else None
    text = escaped(text).encode(encoding, "backslashreplace").decode(encoding)
    for number, line in enumerate(text.split("\n")):
        first = indent if number else ""
        if width is not None and len(first + line) > width:
            further = indent + line[: len(line) - len(line.lstrip())]
            line = textwrap.fill(line, width, initial_indent=first, subsequent_indent=further, break_on_hyphens=False)
        elif line:
            line = first + line
        typer.echo(line, err=err)


def say_json(value) -> None:
    """Print what a program reads."""
    typer.echo(json.dumps(value, indent=2, default=str))


def counted(number: int, what: str) -> str:
    """Return a number of things in words.

    >>> counted(1, "op"), counted(0, "row")
    ('1 op', '0 rows')
    """
    return f"{number} {what}{'s' * (number != 1)}"


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


def refuse_unwritable(file) -> None:
    """End the command with status 2, before its work is done, if a file that it is to write can't be written."""
    folder = pathlib.Path(file).parent
    try:
        if not folder.exists():
            folder.mkdir(parents=True)
        open(file, "a").close()
    except OSError as error:
        raise typer.BadParameter(f"{file} can't be written: {error.strerror or error}") from None


def named_op(name: str, what: str = "op", others=()):
    """Return the record of the op that a name means; end the command with status 2 when there is none."""
    try:
        op = find_op(name)
    except (AttributeError, ImportError) as error:  # ambiguous, or its plugin does not load
        raise typer.BadParameter(str(error)) from None
    if op is None:
        refuse_unknown(name, [*names_of_ops(), *others], what)
    return op


def apart():
    """Return a context in which what others print goes to standard error: it is no part of a report."""
    return contextlib.redirect_stdout(sys.stderr)


def progress(results, total, quiet, text="checking"):
    """Pass results on, with a progress bar if stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(results, text, total, console=Console(stderr=True), transient=True)


@contextlib.contextmanager
def counting(file, total, text="writing"):
    """Give a file with a bar of how much of `total` bytes was written to it, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield file
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield _Counting(file, lambda size: bar.advance(task, size))


class _Counting:
    """A file that tells how many bytes are written; all else is the file's own."""

    def __init__(self, file, tell):
        self._file, self._tell_size = file, tell

    def write(self, data):
        size = self._file.write(data)
        self._tell_size(size)
        return size

    def __getattr__(self, name):
        return getattr(self._file, name)
