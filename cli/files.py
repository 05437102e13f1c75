"""`plugrad inspect` and `plugrad convert`: what files of tensors hold, and the same in another format."""

from __future__ import annotations

import math
import pathlib

import typer

import plugrad
from plugrad import formats, nest, registry
from plugrad.cli.output import counted, counting, say, say_json, show
from plugrad.formats.durable import replacing

COLUMNS = {"name": "name", "kind": "kind", "dtype": "dtype", "shape": "shape", "bytes": "bytes", "device": "device"}


def inspect(
    file: pathlib.Path = typer.Argument(help="A file of any format that is installed."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
):
    """Show what a file holds, without loading it: its tensors, and the plugins that it needs.

    Nothing in the file is run, whatever it holds.
    """
    form, described = _described(file)
    for row in described["tensors"]:
        row["bytes"] = math.prod(row.get("shape", ())) * _itemsize(row["dtype"])
        row.setdefault("kind", "Tensor")
    needed = [
        {"name": name, "version": version, "installed": _installed(name)}
        for name, version in sorted(described.get("plugins", {}).items())
    ]
    if as_json:
        say_json({"format": form.name, **described, "plugins": needed})
        return
    rows = described["tensors"]
    total = sum(row["bytes"] for row in rows)
    by = f", written by plugrad {described['plugrad']}" if "plugrad" in described else ""
    say(f"{file}: {form.name}{by}, {counted(len(rows), 'tensor')}, {total:,} bytes of elements")
    for plugin in needed:
        here = f"{plugin['installed']} is installed" if plugin["installed"] else "which is not installed"
        say(f"written with {plugin['name']} {plugin['version']}, {here}")
    for name in described.get("objects", ()):
        say(f"holds a pickled {name}: only weights_only=False loads it, which runs code of the file")
    for name, value in described.get("metadata", {}).items():
        say(f"{name}: {value}")
    show([{**row, "shape": str(row.get("shape", []))} for row in rows], COLUMNS, False, "there are no tensors in it")


def convert(
    source: pathlib.Path = typer.Argument(help="A file of any format that is installed."),
    target: pathlib.Path = typer.Argument(help="The file to write."),
    to: str = typer.Option(None, "--to", help="The format to write; by the target's suffix if it is left out."),
    entry: str = typer.Option(None, "--entry", help="Only this entry of a checkpoint, such as model."),
):
    """Write what a file holds in another format: `plugrad convert model.pt model.safetensors`.

    Nothing in the file is run: a file with other things than data is refused, and so is one whose checksums are wrong.
    """
    form = _target_format(target, to)
    try:
        with formats.opened(source) as file:
            checked = file.is_zip and file.members.has_checksums
        obj = plugrad.load(source, map_location="cpu", mmap=True, verify=checked or None)
        if entry is not None:
            if not isinstance(obj, dict) or entry not in obj:
                there = ", ".join(map(str, obj)) if isinstance(obj, dict) else f"a {type(obj).__name__}"
                raise typer.BadParameter(f"{source} has no entry {entry!r}: it holds {there}")
            obj = obj[entry]
        total = sum(leaf.nbytes for leaf in nest.leaves(obj) if hasattr(leaf, "nbytes"))
        with replacing(target) as file, counting(file, total, f"writing {target.name}") as counted_file:
            plugrad.save(obj, counted_file, format=form)
    except (OSError, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        raise typer.BadParameter(f"{source} can't be converted: {error}") from None
    say(f"{target}: {form}, {target.stat().st_size:,} bytes")


def _target_format(target, to) -> str:
    if to is not None:
        if to not in formats.names():
            raise typer.BadParameter(f"there is no format {to!r}; installed are {', '.join(formats.names())}")
        return to
    form = formats.by_suffix(target)
    if form is None:
        known = ", ".join(formats.names())
        raise typer.BadParameter(f"no format has the suffix of {target}: pass --to, one of {known}")
    return form.name


def _described(file):
    try:
        with formats.opened(file) as source:
            form = formats.recognised(source)
            return form, form.describe(source)
    except (OSError, RuntimeError, NotImplementedError) as error:
        raise typer.BadParameter(f"{file} can't be inspected: {error}") from None


def _itemsize(name) -> int:
    known = getattr(plugrad, name, None)
    return known.itemsize if isinstance(known, plugrad.dtype) else int(name[2:]) if name[2:].isdigit() else 1


def _installed(distribution) -> str | None:
    versions = [one.version for one in registry.plugins.values() if one.distribution == distribution]
    return versions[0] if versions else None


COMMANDS = [inspect, convert]
