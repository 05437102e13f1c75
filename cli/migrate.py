"""`plugrad migrate`: programs in PyTorch's older style, rewritten to today's."""

from __future__ import annotations

import difflib
import pathlib

import typer

from plugrad.cli.output import counted, say
from plugrad.migrate import migrated


def migrate(
    files: list[pathlib.Path] = typer.Argument(help="Python programs."),
    write: bool = typer.Option(False, "--write", help="Change the files, and not only show what would change."),
):
    """Rewrite Variable, volatile, .data[0] and Functions with __init__ to today's form.

    The changes are printed as a diff. What no rule can decide is listed behind it, with its line.
    """
    changed = 0
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
            result = migrated(text)
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"{file} can't be read: {error}") from None
        except SyntaxError as error:
            raise typer.BadParameter(f"{file} is no program of Python 3: line {error.lineno}: {error.msg}") from None
        before, after = text.splitlines(keepends=True), result.text.splitlines(keepends=True)
        difference = "".join(difflib.unified_diff(before, after, str(file), str(file)))
        if difference:
            say(difference.rstrip("\n"), wrap=False)
        for line, note in result.notes:
            say(f"{file}:{line}: {note}")
        changed += text != result.text
        if write and text != result.text:
            file.write_text(result.text, encoding="utf-8")
    done = "rewritten" if write else "to rewrite: --write does it"
    say(f"{counted(changed, 'file')} {done}" if changed else "nothing to rewrite")


COMMANDS = [migrate]
