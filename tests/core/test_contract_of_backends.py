"""All that plugrad asks of a backend is in the documented base class, for arrays with data and without."""

import ast
import pathlib

import numpy
import pytest

import plugrad as torch
from plugrad import extend
from plugrad.devices import backend as contract
from support.distribution_builder import example, output

ROOT = pathlib.Path(__file__).parents[2]
SOURCE = [file for room in ("core", "surface", "testing", "cli") for file in sorted((ROOT / room).rglob("*.py"))]


def asked_of_backends():
    """Return {attribute: where} of all that is read from what is called a backend."""
    asked = {}
    for file in SOURCE:
        if file.name == "backend.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Attribute):
                continue
            owner = node.value.func if isinstance(node.value, ast.Call) else node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name in ("backend", "_backend") and ast.unparse(owner) not in ("plugrad.backend", "self.backend"):
                asked.setdefault(node.attr, f"{file.relative_to(ROOT)}:{node.lineno}")
    return asked


def documented() -> set:
    """Return the attributes of the base class that have a docstring, as a method or as a variable."""
    cls = ast.parse(pathlib.Path(contract.__file__).read_text())
    (body,) = [node.body for node in cls.body if isinstance(node, ast.ClassDef) and node.name == "Backend"]
    names = {node.name for node in body if isinstance(node, ast.FunctionDef) and ast.get_docstring(node)}
    for node, after in zip(body, body[1:]):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(after, ast.Expr):
            names.add((node.target if isinstance(node, ast.AnnAssign) else node.targets[0]).id)
    return names


def test_what_is_asked_is_documented():
    asked = asked_of_backends()
    assert {"xp", "empty", "view", "probe", "storage", "from_numpy", "available"} <= set(asked)
    assert {name: where for name, where in asked.items() if name not in documented()} == {}


@pytest.mark.parametrize("name", ["empty", "probe", "host_type", "view", "scipy", "from_numpy", "to_numpy"])
def test_what_has_no_default_says_so(name):
    class Bare(extend.Backend):
        name = "bare"

    with pytest.raises(NotImplementedError, match="backend 'bare'"):
        getattr(Bare(), name)(*[None] * (2 if name in ("empty", "view", "from_numpy") else 1))


def test_an_incomplete_symbolic_backend_is_refused():
    class Half(extend.Backend):
        name, symbolic, array_type = "half", True, numpy.ndarray

    with pytest.raises(TypeError, match="backend 'half' is symbolic and has no empty and no view"):
        extend.register(Half)


def test_the_name_of_a_device_without_numbers_is_all_of_it():
    assert torch.ones(2, device="meta").device == torch.device("meta")


def test_a_third_partys_symbolic_backend(tmp_path):
    program = """
import plugrad as torch
from plugrad_footprint import needed
x = torch.zeros(2, 3, device="footprint", requires_grad=True)
assert x.device == torch.device("footprint") and x[1:].shape == (1, 3) and x.t().stride() == (1, 3)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).to("footprint")
model(x).sum().backward()
assert x.grad.shape == (2, 3) and str(x.grad.device) == "footprint"
print(needed(lambda: torch.ones(10, 10, device="footprint") + 1))
print(x.detach())
try:
    x.detach().cpu()
except NotImplementedError as error:
    print(error)
"""
    told = output(program, *example(tmp_path, "plugrad-footprint"))
    assert told == "800\ntensor(..., device='footprint', size=(2, 3))\nCannot copy out of footprint tensor; no data!\n"


def test_a_device_that_changes_dtypes_is_noticed_where_its_memory_is_filled():
    class Narrow(extend.Backend):
        """Host memory in single precision."""

        name, xp = "narrow", numpy
        array_type = type("NarrowArray", (numpy.ndarray,), {})

        def from_numpy(self, array, index):
            return numpy.array(array, "float32" if array.dtype == "float64" else array.dtype).view(self.array_type)

        def to_numpy(self, array):
            return numpy.array(array)

    extend.register(Narrow)
    try:
        for wide in (torch.ones(2, dtype=torch.float64), torch.from_numpy(numpy.ones((2, 2))).t()):
            with pytest.raises(TypeError, match="'narrow' made float32 of float64: from_numpy must keep dtype"):
                wide.to("narrow")
        assert torch.ones(2).to("narrow").double().dtype is torch.float64
        for odd in (lambda array: None, lambda array: array, lambda array: array.ravel().view(Narrow.array_type)):
            Narrow.from_numpy = lambda self, array, index, odd=odd: odd(array)
            with pytest.raises(TypeError, match="'narrow' made .* of float32: from_numpy must keep dtype and"):
                torch.ones(2, 2).to("narrow")
    finally:
        extend.unregister(Narrow)
