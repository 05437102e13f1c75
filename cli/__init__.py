"""The command line: `plugrad ops`, `plugrad gradcheck`, `plugrad plugins` and more.

One file per group of commands, imported when one of them is asked for; a command is short, calls a function that
returns plain rows, and prints them. Third-party plugins add commands by the hook `plugrad_cli`.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys

import typer
import typer.core
import typer.main

from plugrad import __version__, errors, registry
from plugrad.cli.output import escaped
from plugrad.registry import third_parties
from plugrad.registry.third_parties.commands import commands_of, named

KINDS = {  # what plugins bring that has no commands of its own, and where it is public
    name: f"plugrad.{kind.home}" for name, kind in registry.KINDS.items() if name not in ("ops", "kernels", "backends")
}
MODULES = {  # command: the module whose COMMANDS it is among
    "ops": "ops", "check": "check", "gradcheck": "gradcheck", "new": "new", "coverage": "coverage",
    "plugins": "plugins", "why": "plugins", "prefer": "plugins", "doctor": "doctor", "run": "run", "graph": "graph",
    "migrate": "migrate", "stubs": "stubs", "cache": "cache", "inspect": "files", "convert": "files",
    **dict.fromkeys((*(kind.replace("_", "-") for kind in KINDS), "backends"), "listings"),
}  # fmt: skip
_COLUMNS = shutil.get_terminal_size().columns
_STYLE = {} if _COLUMNS >= 60 else {"rich_markup_mode": None}  # in frames narrow options lose their last letters


class _Commands(typer.core.TyperGroup):
    """The commands, those of plugins included; a module, and what a plugin promises, is imported when it is run."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self._running = False
        self._asked: set = set()  # ids of the plugins whose hook was called
        self._offers: dict = {}  # name of a command -> pairs (plugin, command)

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except typer.BadParameter.__bases__ as error:  # whatever is said of wrong usage may quote what was written
            error.message = escaped(error.message)
            raise

    def resolve_command(self, ctx, args):
        self._running = True
        return super().resolve_command(ctx, args)

    def get_command(self, ctx, name):
        if name in MODULES:
            self._load([name])
            return super().get_command(ctx, name)
        promised = registry.candidates_for(f"cli.{name}")
        if promised and not self._running:
            return _not_loaded(name, promised)
        if not promised:
            self._load(MODULES)  # all of them, to suggest what may have been meant
        try:
            self._ask_plugins(name)
            offers = self._offers.get(name, [])
            if len(offers) > 1 and not self._running:
                return _not_loaded(name, [plugin for plugin, _ in offers])
            return self._chosen(name)
        except registry.AmbiguousNameError as error:
            ctx.fail(str(error))

    def list_commands(self, ctx):
        self._load(MODULES)
        self._ask_plugins(None)
        promised = {dotted.removeprefix("cli.") for dotted in registry.claims if dotted.startswith("cli.")}
        return [*MODULES, *sorted({*self._offers, *promised} - {*MODULES})]

    def _load(self, names):
        for module in dict.fromkeys(MODULES[name] for name in names):
            for name, command in named(importlib.import_module(f"plugrad.cli.{module}").COMMANDS, **_STYLE).items():
                self.commands.setdefault(name, command)

    def _ask_plugins(self, name):
        """Ask the loaded plugins for their commands, and the one that promises a command; none replaces one of ours."""
        for plugin, hook in third_parties.cli_hooks(name):
            if plugin.id in self._asked:
                continue
            self._asked.add(plugin.id)
            try:
                commands = commands_of(hook, **_STYLE)
            except (Exception, SystemExit) as error:
                errors.warn(f"plugrad_cli of {plugin.id} {plugin.version} failed: {errors.describe(error)}")
                continue
            for command_name, command in commands.items():
                if command_name in MODULES:
                    errors.warn(f"the command {command_name!r} of {plugin.id} is left out: there is one of that name")
                else:
                    self._offers.setdefault(command_name, []).append((plugin, command))

    def _chosen(self, name):
        """Return the command of the only plugin that brings one of that name, or of the preferred one; None if none."""
        offers = self._offers.get(name, [])
        wanted, _ = registry.preference(f"cli.{name}") if len(offers) > 1 else (None, None)
        chosen = [one for one in offers if registry.is_meant(one[0], wanted)] or offers
        if len(chosen) > 1:
            ids = [plugin.id for plugin, _ in chosen]
            raise registry.AmbiguousNameError(
                f"the command {name!r} is brought by {' and '.join(ids)}: say which one you mean with `plugrad prefer "
                f"cli.{name} {chosen[0][0].distribution}`"
            )
        return chosen[0][1] if chosen else None


def _not_loaded(name, plugins):
    """Return what stands in the list of commands for one whose module is not imported for that."""
    whose = " and ".join(f"{plugin.distribution} {plugin.version}" for plugin in plugins)
    group = typer.Typer(**_STYLE)
    group.command(name, help=f"Of {whose}; `plugrad {name} --help` tells more.")(lambda: None)
    return typer.main.get_command(group)


app = typer.Typer(
    name="plugrad",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], **({"terminal_width": _COLUMNS} if _STYLE else {})},
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
    """Run the command line; what the encoding of the terminal or pipe lacks is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) == "strict":
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except SystemExit as end:
        _leave_threads(end.code)
        raise


def _leave_threads(status) -> None:
    """End the process where a plugin has left threads running: Python would wait for them, which may be for ever."""
    contained = sys.modules.get("plugrad.process_state")  # where no plugin was loaded it is not there
    if contained is None or sys.argv[1:2] == ["run"]:  # a program waits for its own threads
        return
    names = ", ".join(ascii(one.name) for one in contained.left_running())
    if names:
        errors.warn(f"a plugin has left threads running, for which programs wait when they end: {names}")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else status is not None)
