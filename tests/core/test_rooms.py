"""The tests' own house: each in a room, none importing another."""

import ast

import pytest

from support.distribution_builder import ROOT

TESTS = ROOT / "tests"
ROOMS = {"cli", "core", "cuda", "guests", "parity", "plugins", "surface", "testing"}
MODULES = sorted(TESTS.rglob("test_*.py"))


def imported(tree):
    """Yield the dotted names of all modules that a module may import, with what it takes from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module or ''}.{alias.name}" for alias in node.names)


def test_every_test_is_in_a_room():
    assert {file.relative_to(TESTS).parts[0] for file in MODULES} == ROOMS


def test_file_names_are_unique():
    """Pytest's reports and `-k` speak of the file's name alone."""
    names = [file.name for file in MODULES]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(TESTS)))
def test_no_test_imports_another(file):
    names = list(imported(ast.parse(file.read_text())))
    assert names and not [name for name in names if any(part.startswith("test_") for part in name.split("."))]


@pytest.mark.parametrize("file", sorted((TESTS / "support").glob("*.py")), ids=lambda file: file.name)
def test_what_is_shared_holds_no_tests(file):
    tree = ast.parse(file.read_text())
    assert not [node.name for node in tree.body if getattr(node, "name", "").startswith("test_")]
    assert not [name for name in imported(tree) if any(part.startswith("test_") for part in name.split("."))]
