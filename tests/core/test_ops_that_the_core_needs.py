"""The core calls no op beyond the lists in `plugrad.needs`, and says which one is missing."""

import ast
import functools
import pathlib

import numpy
import pytest

from plugrad import needs, registry
from support.distribution_builder import output

CORE = pathlib.Path(__file__).parents[2] / "core"
# Methods of these are called in the core as well; what is called on a tensor can't be told from it by its name.
OTHERS = {name for cls in (numpy.ndarray, str, list, dict, set, numpy.dtype) for name in dir(cls)}
MODULES = ("F", "numpy", "rare", "stride_tricks", "xp", "math", "re", "heapq")  # whose functions have names of ops, too


def is_method(name) -> bool:
    """Whether a name is that of a method which is an op, or of an op's in-place form."""
    inplace = registry.ops.get(name[:-1]) if name.endswith("_") else None
    return f"Tensor.{name}" in registry.public or (inplace is not None and bool(inplace.inplace))


@functools.cache
def calls() -> list:
    """Return (name, how it is called, where) of each call of what may be an op in the core's source."""
    return [*_calls()]


def _calls():
    for file in sorted(CORE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            where = f"{file.relative_to(CORE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "F" and node.attr[0] != "_":
                yield node.attr, "F", where
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            literal = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            if called == "_matrix_property":
                yield node.args[1].value, "_op_property", where
            if called in ("registry.op", "registry.resolve", "registry.method_op", "needs.op", "_op_property"):
                if literal is not None:
                    yield literal, called, where
            elif isinstance(node.func, ast.Attribute) and is_method(node.func.attr):
                if ast.unparse(node.func.value).split(".")[-1] not in MODULES:
                    yield node.func.attr, "method", where


def test_no_other_op_is_called():
    listed = {"F": needs.FUNCTIONS, "needs.op": needs.FUNCTIONS, "_op_property": needs.FUNCTIONS}
    wrong = []
    for name, how, where in calls():
        known = needs.METHODS if how == "method" else listed.get(how, ())
        if name not in known and not (how == "method" and name in OTHERS):
            wrong.append(f"{where}: {name} ({how})")
    assert not wrong


@pytest.mark.parametrize("name", sorted({**needs.FUNCTIONS, **needs.METHODS}))
def test_what_is_listed_is_needed_and_brought(name):
    uses = {"F", "needs.op", "_op_property"} if name in needs.FUNCTIONS else {"method"}
    source = "\n".join(file.read_text() for file in CORE.rglob("*.py"))
    assert any(one == name and how in uses for one, how, _ in calls()) or f".{name}" in source
    assert registry.op(name.rstrip("_")).name == name.rstrip("_")


@pytest.mark.parametrize("name", sorted({*needs.OPERATORS.values(), *needs.REFLECTED.values()}))
def test_operators_are_brought(name):
    assert registry.op(name).name == name


def test_an_op_that_is_missing_is_named():
    program = """
import plugrad as torch
from plugrad import registry
for name in ("transpose", "clone"):
    registry.op(name)
    for dotted in (name, f"Tensor.{name}"):
        registry.public.pop(dotted, None)
    del registry.ops[name]
for attempt in (lambda x: x.mT, lambda x: x.clone()):
    try:
        attempt(torch.ones(2, 2))
    except RuntimeError as error:
        print(str(error).partition(":")[0])
"""
    assert output(program) == (
        "plugrad itself needs the op 'transpose' for Tensor.mT, and no plugin brings it\n"
        "plugrad itself needs the op 'clone' for gradients that nobody else may see, and no plugin brings it\n"
    )
