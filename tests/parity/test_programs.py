"""Each program of torch_programs gives the same results with plugrad as with PyTorch."""

from __future__ import annotations

import importlib
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


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_program(name):
    program = PROGRAMS[name]
    opinfo_compare.compare(program(torch), program(plugrad), plugrad.Tensor, slack=5)
