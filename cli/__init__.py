"""The command line: `plugrad ops`, `plugrad gradcheck`, `plugrad plugins` and more.

One file per group of commands, imported when one of them is asked for; a command is short, calls a function that
returns plain rows, and prints them. Third-party plugins add commands by the hook `plugrad_cli`.
"""

from __future__ import annotations

import importlib

import typer
import typer.core
import typer.main

from plugrad import __version__, errors, registry

KINDS = {  # what plugins bring, and how the command that lists it is described
    "losses": "List the losses of plugrad.nn.",
    "layers": "List the layers of plugrad.nn.",
    "optimizers": "List the optimizers of plugrad.optim.",
    "schedulers": "List the learning-rate schedules of plugrad.optim.lr_scheduler.",
    "inits": "List the functions of plugrad.nn.init.",
    "compilers": "List the compilers, which `plugrad.compile` takes by name.",
    "hooks": "List the hooks on ops of plugrad.op_hooks.",
}
MODULES = {  # command: the module whose COMMANDS it is among
    "ops": "ops", "check": "check", "gradcheck": "gradcheck", "new": "new", "coverage": "coverage",
    "plugins": "plugins", "why": "plugins", "prefer": "plugins", **dict.fromkeys((*KINDS, "backends"), "listings"),
}  # fmt: skip


class _Commands(typer.core.TyperGroup):
    """The commands, those of plugins included; a module, and what a plugin promises, is imported when asked for."""

    _asked: set = set()

    def get_command(self, ctx, name):
        if name not in self.commands:
            self._load([name] if name in MODULES else MODULES)  # all of them, to suggest what may have been meant
        if name not in self.commands:
            self._ask_plugins(name)
        return super().get_command(ctx, name)

    def list_commands(self, ctx):
        self._load(MODULES)
        self._ask_plugins(None)
        return [*MODULES, *(name for name in super().list_commands(ctx) if name not in MODULES)]

    def _load(self, names):
        for module in dict.fromkeys(MODULES[name] for name in names):
            for name, command in _commands(importlib.import_module(f"plugrad.cli.{module}").COMMANDS).items():
                self.commands.setdefault(name, command)

    def _ask_plugins(self, name):
        """Add the commands of third-party plugins; one whose name is taken is left out, with a warning."""
        for plugin, hook in registry.cli_hooks(name):
            if plugin.id in self._asked:
                continue
            self._asked.add(plugin.id)
            try:
                commands = _commands(hook())
            except Exception as error:
                errors.warn(f"plugrad_cli of {plugin.id} {plugin.version} failed: {errors.describe(error)}")
                continue
            for command_name, command in commands.items():
                if command_name in MODULES or self.commands.setdefault(command_name, command) is not command:
                    errors.warn(f"the command {command_name!r} of {plugin.id} is left out: there is one of that name")


def _commands(items) -> dict:
    """Return the commands that functions and typer applications stand for, by name."""
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
