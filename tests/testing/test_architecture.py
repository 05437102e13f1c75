"""What `docs/architecture.md` names is there: files, folders, and what stands in the modules of the core."""

import re

import pytest

from support.distribution_builder import ROOT

CODE = sorted(set(re.findall(r"`([^`\n]+)`", (ROOT / "docs" / "architecture.md").read_text())))
PATHS = [code for code in CODE if re.fullmatch(r"[\w.-]+(/[\w.-]+)*(/|\.(py|md|txt|toml))|[a-z_]+(/[a-z_]+)+", code)]
TREE = ("core", "surface", "plugins", "testing", "cli", "tests", "docs")
MODULES = {path.stem: path for path in (ROOT / "core").rglob("*.py") if path.stem != "__init__"}


def is_there(path) -> bool:
    """Whether a path is one of the tree, as it stands, within the core, or for a bare file anywhere."""
    if (ROOT / path).exists() or (ROOT / "core" / path).exists():
        return True
    return "/" not in path and any([*(ROOT / folder).rglob(path)] for folder in TREE)


@pytest.mark.parametrize("path", PATHS)
def test_files_and_folders(path):
    assert is_there(path)


def attributes():
    """Return (module, name) for what is written like a part of a module of the core: `engine.Walk.run`."""
    dotted = [code.partition("(")[0].split(".") for code in CODE if re.fullmatch(r"[a-z_]+(\.\w+)+(\(.*\))?", code)]
    return [(module, name) for module, *rest in dotted if module in MODULES and rest != ["py"] for name in rest]


@pytest.mark.parametrize(("module", "name"), attributes())
def test_names_in_modules_of_the_core(module, name):
    source = MODULES[module].read_text()
    imported = rf"^(from|import) .*\b{name}\b"  # `modes` shows what `regions` has
    declared = rf'\b(def|class) {name}\b|^ *{name}\b.* = |"{name}"'
    assert re.search(f"{imported}|{declared}", source, re.MULTILINE)


def test_the_text_names_enough_for_that():
    assert len(PATHS) > 40 and len(attributes()) > 15
    assert not is_there("no_such_file.py") and not is_there("surface/no_such_room")
