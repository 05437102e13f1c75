"""Random programs do the same on PyTorch and on plugrad; so do programs of this kind that once did not.

`support.random_programs` says how to run many more.
"""

from __future__ import annotations

import textwrap
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad
from support import programs_of_autograd, programs_of_tensors, programs_of_views
from support.program_kinds import KINDS
from support.program_runs import difference, shrink
from support.random_programs import find, write

FOUND = programs_of_autograd.PROGRAMS | programs_of_tensors.PROGRAMS | programs_of_views.PROGRAMS


def lines(source: str) -> list[str]:
    """Return the statements of a source text; an indented line belongs to the one before."""
    statements: list[str] = []
    for line in textwrap.dedent(source).strip().splitlines():
        if line.startswith(" "):
            statements[-1] += f"\n{line}"
        else:
            statements.append(line)
    return statements


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("name", FOUND)
def test_programs_that_once_differed(name, watch):
    found = difference(lines(FOUND[name]), torch, plugrad, watch)
    assert found is None, str(found)


def test_random_programs():
    differing: list[str] = []
    classes, _ = find(range(300), lambda seed, small, found: differing.append("\n".join([str(found), *small])))
    assert not differing, "\n\n".join(differing)
    assert sum(map(len, classes.values())) < 60  # what is listed is the exception


def test_a_difference_is_found_and_shrunk():
    class Wrong:
        """plugrad with a `sin` that is a cosine, in its own namespace."""

        def __getattr__(self, name):
            return plugrad.cos if name == "sin" else getattr(plugrad, name)

    program = ["a = T.ones(2)", "b = a * 2", "c = T.sin(b)", "d = c + 1", "e = a + b"]
    small, found = shrink(program, difference(program, torch, Wrong()), torch, Wrong())
    assert small == ["a = T.ones(2)", "c = T.sin(a)"] or small == program[:3]
    assert (found.kind, found.name) == ("values", "c")


def test_the_same_seed_writes_the_same_program():
    assert write(5, torch) == write(5, torch) != write(6, torch)


def test_every_kind_of_difference_that_is_meant_has_its_reason():
    assert all(function.__doc__ and function.__doc__.partition("\n")[0].endswith(".") for function in KINDS)
