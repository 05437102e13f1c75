"""`plugrad cache`: the kernels and compiled programs that are kept for the next process."""

from __future__ import annotations

import datetime

import typer

from plugrad import kernels
from plugrad.cli.output import Listing, counted, say, show

app = typer.Typer(
    name="cache", cls=Listing, help="List what is kept of compiled C, or empty it. Without a command: list."
)


def _kept() -> list:
    """Return the libraries that are kept, the latest first."""
    folder = kernels.cache_place()
    files = [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
    return sorted(files, key=lambda path: -path.stat().st_mtime)


def _size(number: int) -> str:
    return f"{number / 1e6:.1f} MB" if number >= 1e5 else f"{number / 1e3:.1f} kB"


@app.command("list")
def list_kept(as_json: bool = typer.Option(False, "--json", help="Print JSON.")):
    """List the libraries that are kept, where, and how large they are. PLUGRAD_CACHE names another folder."""
    rows = []
    for path in _kept():
        told = path.stat()
        changed = datetime.datetime.fromtimestamp(told.st_mtime).isoformat(" ", "seconds")
        rows.append({"name": path.name, "size": told.st_size, "made": changed})
    shown = rows if as_json else [{**row, "size": _size(row["size"])} for row in rows]
    show(shown, {"library": "name", "size": "size", "made": "made"}, as_json, "nothing is kept")
    if not as_json:
        total = sum([row["size"] for row in rows])
        say(f"{counted(len(rows), 'file')}, {_size(total)} in {kernels.cache_place()}")


@app.command("empty")
def empty():
    """Delete all that is kept: it is compiled anew when it is needed. Processes that run keep theirs."""
    kept = _kept()
    total = sum([path.stat().st_size for path in kept])
    for path in kept:
        path.unlink(missing_ok=True)
    say(f"deleted {counted(len(kept), 'file')}, {_size(total)}")


COMMANDS = [app]
