"""`plugrad stubs`: what is registered, as type checkers read it."""

from __future__ import annotations

import pathlib

import typer

from plugrad.cli.output import counted, refuse_unwritable, say
from plugrad.testing.stubs import write


def stubs(
    folder: pathlib.Path = typer.Argument(pathlib.Path("typings"), help="Where to write the folder `plugrad`."),
):
    """Write stubs (.pyi) of all that is registered, plugins' names included.

    Type checkers then see the names of third-party plugins, too: pyright by itself, mypy if mypy_path says so.
    """
    if folder.resolve() == pathlib.Path.cwd():  # Python may take that folder for the package, as it does for namespaces
        raise typer.BadParameter("the folder `plugrad` would stand before plugrad itself here: write `typings`, say")
    refuse_unwritable(folder / "plugrad" / "__init__.pyi")
    paths = write(folder / "plugrad")
    say(f"{folder / 'plugrad'}: {counted(len(paths), 'file')}")


COMMANDS = [stubs]
