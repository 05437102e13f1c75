"""Docstrings: the examples of every module and of every public op, layer, loss and optimizer; what `help` shows."""

from __future__ import annotations

import builtins
import doctest
import importlib
import inspect
import pathlib
import tomllib

import pytest

import plugrad
from plugrad import registry

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
FOLDERS = {folder: package for package, folder in SETTINGS["package-dir"].items()}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def module_names():
    """Return the import names of all modules, in a stable order."""
    names = []
    for folder, package in FOLDERS.items():
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            if parts[-1] == "__main__" or "import_path" in parts:  # importing them runs them, or replaces `torch`
                continue
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            names.append(".".join((package, *parts)))
    return names


def run(docstring, name, namespace=None):
    """Run the examples of a docstring; return how many there are. AssertionError with doctest's report."""
    examples = doctest.DocTestParser().get_doctest(docstring, dict(namespace or {}), name, None, 0)
    report = []
    doctest.DocTestRunner(optionflags=FLAGS).run(examples, out=report.append)
    vars(builtins).pop("_", None)  # which examples leave there: PyTorch gives names that no builtin has
    assert not report, "".join(report)
    return len(examples.examples)


@pytest.mark.parametrize("name", module_names())
def test_module(name):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    # The package's own names (`float`, `bool`, `int` are dtypes there) must not stand where examples mean Python's.
    namespace = {} if module is plugrad else vars(module)
    for example in finder.find(module, name, module=module):
        if example.examples:
            run(example.docstring, example.name, namespace)


OPS = sorted(name for name, op in registry.ops.items() if op.provider.builtin)


@pytest.mark.parametrize("name", OPS)
def test_op(name):
    run(registry.op(name).doc, name)


@pytest.mark.parametrize("kind", ["layers", "losses", "optimizers", "schedulers", "inits", "distributions"])
def test_kind(kind):
    for name, entry in sorted(registry.tables[kind].items()):
        assert inspect.getdoc(entry.value), f"{name} has no docstring"
        run(inspect.getdoc(entry.value), name)


def test_every_public_op_has_an_example():
    """An example shows how an op is called; hidden ops, in-place forms and dtype casts are shown by others."""
    silent = [
        name
        for name in OPS
        if any(not part.startswith("_") for part in registry.op(name).names)
        and not name.endswith(("_", "_in_place", "_method", "_function"))
        and ">>>" not in registry.op(name).doc
    ]
    assert not silent


def test_public_names_of_the_core_have_docstrings():
    silent = [
        name
        for name, value in vars(plugrad).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__.startswith("plugrad")
        and not inspect.getdoc(value)
    ]
    assert not silent


# ---------------------------------------------------------------------------------------------------- help

PLACES = (
    "", "amp", "array_api", "autograd", "autograd.forward_ad", "autograd.function", "autograd.functional",
    "autograd.graph", "backends", "backends.cuda", "compiler", "cpu", "cuda", "distributed", "distributions",
    "distributions.constraints", "distributions.transforms", "errors", "export", "extend", "fft", "formats", "func",
    "futures", "fx", "fx.passes.shape_prop", "fx.subgraph_rewriter", "hub", "jit", "kernels", "library", "linalg",
    "masked", "multiprocessing", "nested", "nn", "nn.attention", "nn.functional", "nn.init", "nn.lazy", "nn.parallel",
    "nn.utils", "nn.utils.parametrizations", "nn.utils.parametrize", "nn.utils.prune", "nn.utils.rnn", "onnx",
    "op_hooks", "optim", "optim.lr_scheduler", "optim.swa_utils", "overrides", "profiler", "random", "registry",
    "serialization", "signal.windows", "sparse", "special", "storage", "testing", "utils", "utils.checkpoint",
    "utils.data", "utils.flop_counter", "utils.module_tracker", "utils.tensorboard", "_C",
)  # fmt: skip


def public(place):
    """Yield (name, object) of all that is public in a module, and of what its classes define or inherit from ours."""
    module = importlib.import_module(f"plugrad.{place}".rstrip("."))
    for name in dir(module):
        value = None if name.startswith("_") else getattr(module, name)
        home = getattr(value, "__module__", None) or ""
        if not callable(value) or inspect.ismodule(value) or not home.startswith(("plugrad", "torch")):
            continue
        yield name, value
        for attribute in ours(value) if inspect.isclass(value) else ():
            member = inspect.getattr_static(value, attribute)
            member = member if isinstance(member, property) else getattr(value, attribute)  # which loads a lazy method
            if not attribute.startswith("_") and (callable(member) or isinstance(member, (property, classmethod))):
                yield f"{name}.{attribute}", member


def ours(cls):
    """Return the names that a class and its bases define, as far as they are ours: hidden bases have public methods."""
    return sorted({name for base in cls.__mro__ if base.__module__.startswith("plugrad") for name in vars(base)})


@pytest.mark.parametrize("place", PLACES)
def test_first_lines_fit_80_columns(place):
    first = {name: (inspect.getdoc(value) or "").partition("\n")[0] for name, value in public(place)}
    assert first and not {name: line for name, line in first.items() if len(line) > 80}


@pytest.mark.parametrize("place", PLACES)
def test_functions_and_classes_have_a_docstring(place):
    assert not [name for name, value in public(place) if "." not in name and not value.__doc__]
