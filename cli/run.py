"""`plugrad run`: a program that imports torch, with plugrad in its place."""

from __future__ import annotations

import typer

from plugrad import as_torch
from plugrad.cli.output import say

app = typer.Typer(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})


@app.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(
    arguments: list[str] = typer.Argument(
        None, metavar="PROGRAM", help="What `python` would be given: a script, -m MODULE or -c CODE, and its arguments."
    ),
):
    """Run a program that says `import torch`, unchanged, on plugrad: in `python`'s place, with the same arguments.

    The libraries that it imports and the processes that it starts get plugrad, too.
    """
    try:
        raise typer.Exit(as_torch.run(arguments or []))
    except RuntimeError as error:
        say(f"Error: {error}", err=True)
        raise typer.Exit(2) from None


COMMANDS = [app]
