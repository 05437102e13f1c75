"""Programs with one mistake each, of all areas: the error is of PyTorch's type, and says something."""

from __future__ import annotations

import math
import pathlib
import warnings

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

PROGRAMS = [
    line
    for line in (pathlib.Path(__file__).parents[1] / "known" / "wrong_programs.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def error_of(program, library):
    """Return the error of a program, statements with `;;` between them; None if it has none."""
    names = {"T": library, "np": numpy, "nn": library.nn, "F": library.nn.functional, "inf": math.inf, "nan": math.nan}
    try:
        for statement in program.split(";;"):
            exec(statement.strip(), names)
    except Exception as error:
        return error
    return None


def test_many_programs_are_tried():
    assert len(PROGRAMS) > 500 and len(set(PROGRAMS)) == len(PROGRAMS)


@pytest.mark.usefixtures("modes_are_put_back")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_mistake_is_refused_as_in_pytorch(program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = error_of(program, torch), error_of(program, plugrad)
    assert theirs is not None, "it is no mistake"
    assert ours is not None, f"it is taken; PyTorch says {theirs!r}"
    assert type(ours).__name__ == type(theirs).__name__, f"{ours!r}, not {theirs!r}"
    assert str(ours) or not str(theirs)
