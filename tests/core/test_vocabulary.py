"""Words that were given up for the field's terms don't come back as names in the code."""

import ast
import re

import pytest

from support.distribution_builder import ROOT

# Given up, and what is said instead.
GIVEN_UP = {
    "arrivals": "gradients", "guest": "third party", "guests": "third parties", "recipe": "formula, plan",
    "recipes": "formulas, plans", "relaid": "layout", "road": "path", "roads": "paths", "trouble": "reason, error",
}  # fmt: skip
# These say nothing of what they hold: as whole names of variables.
EMPTY = {"found", "made"}
PRODUCT = ("core", "surface", "plugins", "testing", "cli")
FILES = sorted(file for folder in (*PRODUCT, "tests", "benchmarks") for file in (ROOT / folder).rglob("*.py"))


def names_in(tree):
    """Yield the names that a module gives to variables, attributes, arguments, functions and classes."""
    for node in ast.walk(tree):
        for field in ("id", "attr", "name", "arg", "asname"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name


ANY = re.compile(rf"(?<![^\W_])(?:{'|'.join([*GIVEN_UP, *EMPTY])})(?![^\W_])", re.IGNORECASE)  # as words of names


def given_up(source, product=True):
    if not ANY.search(source):  # which is told faster than by the tree
        return set()
    names = set(names_in(ast.parse(source)))
    words = {word for name in names for word in name.lower().split("_")}
    return words & set(GIVEN_UP) | (names & EMPTY if product else set())


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_words_that_were_given_up_do_not_come_back(file):
    product = file.relative_to(ROOT).parts[0] in PRODUCT
    assert not {word: GIVEN_UP.get(word) for word in given_up(file.read_text(), product)}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def two_roads(x): pass", {"roads"}),
        ("self._trouble = Guest()", {"trouble", "guest"}),
        ("found = [made for made in ()]", {"found", "made"}),
        ("is_found = well_made = 'guest'", set()),
    ],
)
def test_they_would_be_noticed(source, words):
    assert given_up(source) == words
