"""The commands that plugins bring to the command line by the hook `plugrad_cli`."""

from __future__ import annotations

import typer
import typer.main

from plugrad.registry.loader import returned


def commands_of(hook, **style) -> dict:
    """Call a `plugrad_cli` hook; return the commands that its functions and typer applications stand for, by name."""
    return named(returned("plugrad_cli", hook()), **style)


def named(items, **style) -> dict:
    """Return the commands that functions and typer applications stand for, by name; `style` are options of Typer."""
    gathered = typer.Typer(**style)
    for item in items:
        if isinstance(item, typer.Typer):
            gathered.add_typer(item)
        elif callable(item):
            gathered.command()(item)
        else:
            raise TypeError(f"plugrad_cli must return functions or typer applications, not {item!r}")
    if not gathered.registered_commands and not gathered.registered_groups:
        return {}  # typer refuses to make a group of nothing
    return typer.main.get_group(gathered).commands
