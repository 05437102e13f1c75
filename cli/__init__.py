"""The command line: `plugrad ops`, `plugrad gradcheck`, `plugrad plugins` and more.

One file per group of commands; a command is short, calls a function that returns plain rows, and prints them. Heavy
imports are inside of the commands. Guests add commands by the hook `plugrad_cli`.
"""

from __future__ import annotations

import typer
import typer.core
import typer.main

from plugrad import __version__
from plugrad.registry import loader


class _Commands(typer.core.TyperGroup):
    """The commands, those of guests included; what a guest promises is imported when it is asked for."""

    _asked: set = set()

    def get_command(self, ctx, name):
        if name not in self.commands:
            self._ask_guests(name)
        return super().get_command(ctx, name)

    def list_commands(self, ctx):
        self._ask_guests(None)
        return super().list_commands(ctx)

    def _ask_guests(self, name):
        """Add the commands of guests; one whose name is taken is left out, with a warning."""
        for plugin, hook in loader.cli_hooks(name):
            if plugin.id in self._asked:
                continue
            self._asked.add(plugin.id)
            try:
                found = _commands(hook())
            except Exception as error:
                loader.warn(f"plugrad_cli of {plugin.id} {plugin.version} failed: {loader.describe(error)}")
                continue
            for command_name, command in found.items():
                if self.commands.setdefault(command_name, command) is not command:
                    loader.warn(f"the command {command_name!r} of {plugin.id} is left out: there is one of that name")


def _commands(items) -> dict:
    """Return the commands that a guest's functions and applications stand for, by name."""
    gathered = typer.Typer()
    for item in items or ():
        if isinstance(item, typer.Typer):
            gathered.add_typer(item)
        elif callable(item):
            gathered.command()(item)
        else:
            raise TypeError(f"plugrad_cli must return functions or typer applications, not {item!r}")
    return typer.main.get_group(gathered).commands


app = typer.Typer(
    name="plugrad",
    cls=_Commands,
    help="Look at plugrad's ops and plugins, and check gradients.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool):
    if asked:
        typer.echo(f"plugrad {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
):
    """Look at plugrad's ops and plugins, and check gradients."""


def main() -> None:
    """Run the command line."""
    app()


from plugrad.cli import check, coverage, gradcheck, listings, new, ops, plugins  # noqa: E402

app.add_typer(ops.app, name="ops")
app.command("check")(check.check)
app.command("gradcheck")(gradcheck.gradcheck)
app.command("new")(new.new)
app.command("coverage")(coverage.coverage)
app.add_typer(plugins.app, name="plugins")
app.command("why")(plugins.why)
app.command("prefer")(plugins.prefer)
listings.add_to(app)
