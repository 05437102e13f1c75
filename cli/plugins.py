"""`plugrad plugins`, `plugrad why` and `plugrad prefer`: what is installed, what runs, and what the user decided."""

from __future__ import annotations

import pathlib

import typer

from plugrad import registry
from plugrad.catalog import lockfile
from plugrad.catalog import rows as catalog
from plugrad.catalog import why as explaining
from plugrad.cli import settings
from plugrad.cli.output import Listing, counted, refuse_unknown, say, say_json, show
from plugrad.registry import preferences
from plugrad.registry.settings import project_file, user_file

app = typer.Typer(
    name="plugins", cls=Listing, help="List the plugins, or lock and verify what is installed. Without a command: list."
)

COLUMNS = {
    "plugin": "id", "version": "version", "status": "status", "failed at": "stage", "ms": "import_ms",
    "brings": "brings", "error": "error",
}  # fmt: skip
DIFFERENCES = {"distribution": "distribution", "what": "kind", "difference": "text"}


@app.command("list")
def list_plugins(
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Also print names, shadowed names and tracebacks."),
    third_party: bool = typer.Option(False, "--third-party", help="Leave out plugrad's own."),
    load: bool = typer.Option(False, "--load", help="Import every plugin first: this runs their code."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
):
    """List the plugins of all entry points: loaded or not, blocked or broken and why. Imports none unless told to."""
    if load:
        catalog.load_everything()
    chosen = [plugin for plugin in registry.plugins.values() if not (third_party and plugin.builtin)]
    rows = [catalog.plugin_row(plugin) for plugin in chosen]
    show(rows, COLUMNS, as_json, "there are no third-party plugins" if third_party else "there are no plugins")
    if as_json:
        return
    for row in rows if verbose else ():
        _tell_more(row)
    for line in catalog.remarks():
        say(line)


def _tell_more(row) -> None:
    say(f"\n{row['id']} {row['version']}: {row['status']}")
    if row["names"]:
        say(f"  names: {', '.join(row['names'])}")
    if row["shadowed"]:
        say(f"  something else is in force for: {', '.join(row['shadowed'])}")
    for name, reason in row["blocked"].items():
        say(f"  {name}: {reason}")
    if row["traceback"]:
        say(row["traceback"].rstrip(), wrap=False)


LOCK_FILE = typer.Argument("plugrad.lock", help="The lock file.")


@app.command("lock")
def lock(file: str = LOCK_FILE, as_json: bool = typer.Option(False, "--json", help="Print JSON.")):
    """Record which distributions bring plugins: their versions and the hashes of their files."""
    try:
        locked = lockfile.write(file)
    except OSError as error:
        raise typer.BadParameter(f"{file} can't be written: {error}") from None
    if as_json:
        say_json([{"distribution": one.name, "version": one.version, "note": one.note} for one in locked])
        return
    say(f"{file}: {counted(len(locked), 'distribution')}")
    for one in locked:
        say(f"  {one.name} {one.version}" + (f": {one.note}" if one.note else ""))


@app.command("verify")
def verify(file: str = LOCK_FILE, as_json: bool = typer.Option(False, "--json", help="Print JSON.")):
    """Compare what is installed with a lock file; the exit status is 1 if anything differs."""
    try:
        locked = lockfile.read(file)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{file} can't be read as a lock file: {error}") from None
    rows = [dict(zip(("distribution", "kind", "text"), row)) for row in lockfile.compare(locked)]
    same = f"{counted(len(locked), 'distribution')} as locked"
    show(rows, DIFFERENCES, as_json, same)
    for one in lockfile.present() if not as_json else ():
        if one.note:
            say(f"{one.name}: {one.note}")
    if rows:
        raise typer.Exit(1)


def why(
    name: str = typer.Argument(help="A name: relu, nn.functional.relu, optim.Adam, kernels.cuda.conv2d, ..."),
    device: str = typer.Option(None, "--device", help="Which kernel runs there? Imports what a call would."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
):
    """Say which plugin a name comes from and why, who else brings it, and what keeps it from working."""
    try:
        told = (explaining.rows if as_json else explaining.explain)(name, device)
    except LookupError as error:
        raise typer.BadParameter(str(error)) from None
    if not told:
        refuse_unknown(name, explaining.known_names(), "function, class or device")
    say_json(told) if as_json else say("\n".join(told))


PREFERENCES = {"name": "name", "distribution": "distribution", "said by": "source", "": "remark"}


def prefer(
    name: str = typer.Argument(None, help="A name, or a kernel: swish, optim.Lion, kernels.cuda.conv2d."),
    distribution: str = typer.Argument(None, help="The distribution to take it from, or DISTRIBUTION:PLUGIN."),
    remove: bool = typer.Option(False, "--remove", help="Remove the preference."),
    user: bool = typer.Option(False, "--user", help="For all projects of the user, not in the nearest pyproject.toml."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, when listing."),
):
    """Choose among plugins that bring one name; without arguments list what is chosen and where."""
    if name is None:
        show(explaining.preference_rows(), PREFERENCES, as_json, "nothing is preferred")
        return
    project = None if user else project_file()
    file = project or user_file()
    if remove == (distribution is not None):
        raise typer.BadParameter("write `plugrad prefer NAME DISTRIBUTION`, or `plugrad prefer NAME --remove`")
    if not remove:
        brought_by = explaining.bringers(name)
        if not brought_by:
            refuse_unknown(name, explaining.known_names(), "function, class or device")
        distribution = preferences.normalise(distribution)
        if distribution not in brought_by:
            refuse_unknown(distribution, brought_by, f"plugin or distribution that brings {name}", list_all=True)
    try:
        changed = settings.change(file, settings.PROJECT if project else settings.USER, name, distribution)
    except (settings.UneditableError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    if remove:
        say(f"{file}: {name} is no longer preferred" if changed else f"{file} has no preference for {name}")
        return
    say(f"{file}: {name} is taken from {distribution}" + ("" if changed else " (it was already)"))
    preferences.forget()
    for line in explaining.objections(name, distribution, pathlib.Path(file)):
        say(line)


COMMANDS = [app, why, prefer]
