"""The command line: `plugrad ops`, `plugrad gradcheck`, `plugrad plugins` and more.

One file per group of commands; a command is short, calls a function that returns plain rows, and prints them. Heavy
imports are inside of the commands. Guests add commands by the hook `plugrad_cli(app)`.
"""

from __future__ import annotations

import typer
import typer.core
import typer.main

from plugrad import __version__, loader


class _Commands(typer.core.TyperGroup):
    """The commands, those of guests included; what a guest promises is imported when it is asked for."""

    _called: set = set()

    def get_command(self, ctx, name):
        return super().get_command(ctx, name) or self._of_guests(name)

    def list_commands(self, ctx):
        self._of_guests(None)
        return super().list_commands(ctx)

    def _of_guests(self, name):
        for hook in loader.cli_hooks(name):
            if hook not in self._called:
                self._called.add(hook)
                try:
                    hook(app=app)
                except Exception as error:
                    loader.warn(f"plugrad_cli of {hook.__module__} failed: {loader.describe(error)}")
        for added, command in typer.main.get_group(app).commands.items():
            self.commands.setdefault(added, command)
        return self.commands.get(name)


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


from plugrad.cli import gradcheck, listings, ops, plugins  # noqa: E402

app.add_typer(ops.app, name="ops")
app.command("gradcheck")(gradcheck.gradcheck)
app.command("plugins")(plugins.plugins)
app.command("why")(plugins.why)
listings.add_to(app)
