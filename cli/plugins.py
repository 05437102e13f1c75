"""`plugrad plugins` and `plugrad why`: what was found, how far it got, and who brings a name."""

from __future__ import annotations

import typer

from plugrad.cli.output import refuse_unknown, show

COLUMNS = {
    "plugin": "id", "version": "version", "status": "status", "failed at": "stage", "ms": "import_ms",
    "brings": "brings", "error": "error",
}  # fmt: skip


def plugins(
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Also print names, shadowed names and tracebacks."),
    guests: bool = typer.Option(False, "--guests", help="Leave out plugrad's own."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
):
    """List the plugins: found in entry points, loaded or not, and what went wrong."""
    from plugrad import loader
    from plugrad.cli import catalog

    rows = [catalog.plugin_row(plugin) for plugin in loader.plugins.values() if not (guests and plugin.builtin)]
    show(rows, COLUMNS, as_json, "there are no plugins of guests" if guests else "there are no plugins")
    if verbose and not as_json:
        for row in rows:
            _tell_more(row)


def _tell_more(row) -> None:
    typer.echo(f"\n{row['id']} {row['version']}: {row['status']}")
    if row["names"]:
        typer.echo(f"  names: {', '.join(row['names'])}")
    if row["shadowed"]:
        typer.echo(f"  plugrad's own come first: {', '.join(row['shadowed'])}")
    if row["traceback"]:
        typer.echo(row["traceback"].rstrip())


def why(name: str = typer.Argument(help="A name: relu, nn.functional.relu, optim.Adam, ...")):
    """Say where a name comes from, and who else claims it."""
    from plugrad.cli import catalog

    lines = catalog.explain(name)
    if not lines:
        known = {dotted.rpartition(".")[2] for dotted in (*catalog.registry.public, *catalog.registry.claims)}
        refuse_unknown(name, known, "name of a plugin's")
    typer.echo("\n".join(lines))
