"""Each program of torch_programs gives the same results with plugrad as with PyTorch."""

from __future__ import annotations

import importlib
import pathlib
import pkgutil
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import opinfo_compare
import torch_programs

import plugrad

FILES = [module.name for module in pkgutil.iter_modules(torch_programs.__path__) if module.name != "common"]
PROGRAMS = {
    f"{file}.{name.removeprefix('program_')}": function
    for file in sorted(FILES)
    for name, function in vars(importlib.import_module(f"torch_programs.{file}")).items()
    if name.startswith("program_")
}
KNOWN = pathlib.Path(__file__).parents[1] / "known" / "programs.txt"


def known_failures() -> set[str]:
    """Programs listed in tests/known/programs.txt, one `name  # reason` a line."""
    lines = KNOWN.read_text().splitlines() if KNOWN.exists() else ()
    return {line.partition("#")[0].strip() for line in lines} - {""}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_program(name, request):
    if name in known_failures():
        request.applymarker(pytest.mark.xfail(strict=True))
    program = PROGRAMS[name]
    opinfo_compare.compare(program(torch), program(plugrad), plugrad.Tensor, slack=5)
