"""The metadata of what is installed, read from the folders on `sys.path`.

`importlib.metadata` finds the same, but importing it takes as long as loading fifty of our plugins. It is asked only
where folders are not all there is: for archives on the path, and finders that know of more distributions.
"""

from __future__ import annotations

import os
import pathlib
import sys
from importlib.machinery import PathFinder
from io import FileIO


class MetadataFolder:
    """A distribution's folder of metadata, as far as `importlib.metadata.Distribution` is needed here."""

    __slots__ = ("path",)

    def __init__(self, path: str):
        self.path = path

    def read_bytes(self, file: str) -> bytes | None:
        """Return a file of the metadata; None if there is none."""
        try:
            with FileIO(os.path.join(self.path, file)) as opened:  # `open` takes twice as long
                return opened.readall()
        except OSError:
            return None

    def read_text(self, file: str) -> str | None:
        """Return a file of the metadata as text, with marks in place of bytes that are not UTF-8; None if none."""
        data = self.read_bytes(file)
        return None if data is None else data.decode("utf-8", "replace").replace("\r\n", "\n")

    def locate_file(self, path) -> pathlib.Path:
        """Return where an installed file is."""
        return pathlib.Path(self.path).parent / path


def on_path():
    """Yield the distributions on `sys.path`, in its order: `MetadataFolder` objects, or `importlib.metadata`'s own."""
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    if any(finder is not PathFinder for finder in finders) or any(os.path.isfile(entry) for entry in sys.path):
        import importlib.metadata

        yield from importlib.metadata.distributions()
        return
    for entry in dict.fromkeys(sys.path):
        try:
            names = os.listdir(entry or ".")
        except OSError:
            continue
        for name in names:
            if name.lower().endswith((".dist-info", ".egg-info")) and name[0] != "~":  # pip's, of what it removes
                yield MetadataFolder(os.path.join(entry, name))
        if entry.lower().endswith(".egg") and "EGG-INFO" in names:
            yield MetadataFolder(os.path.join(entry, "EGG-INFO"))
