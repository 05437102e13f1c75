"""Where the files of plugrad lie: in the folders of a source tree, or all in one folder where it is installed."""

import importlib.util
import pathlib

_PACKAGE = pathlib.Path(importlib.util.find_spec("plugrad").origin).parent  # without importing it
ROOT = str(_PACKAGE.parent)
_FOLDERS = ("plugrad",) if _PACKAGE.name == "plugrad" else ("core", "surface", "plugins", "testing", "cli")
OWN = tuple(f"{ROOT}/{folder}/" for folder in _FOLDERS)
