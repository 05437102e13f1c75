"""`plugrad doctor`: what is wrong with an installation."""

from __future__ import annotations

import typer

from plugrad.catalog import doctor as judging
from plugrad.cli.output import readable, say, say_json


def doctor(as_json: bool = typer.Option(False, "--json", help="Print JSON.")):
    """Look for what is wrong with the installation and say what to do; the exit status is 1 if anything is.

    What is kept out by settings is listed, too, and is not wrong.
    """
    rows, decided = judging.examine(), judging.decided()
    if as_json:
        say_json(rows + decided)
    for row in rows + decided if not as_json else ():
        say(readable(f"{row['subject']}: {row['problem']}. To do: {row['advice']}"))
    if not rows and not as_json:
        say("nothing is wrong")
    if rows:
        raise typer.Exit(1)


COMMANDS = [doctor]
