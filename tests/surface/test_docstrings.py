"""What `help` shows of public functions, classes and their methods: a first line for 80 columns."""

import importlib
import inspect

import pytest

PLACES = (
    "", "autograd", "autograd.forward_ad", "autograd.function", "autograd.functional", "autograd.graph", "backends",
    "compiler", "cuda", "extend", "fft", "func", "linalg", "masked", "nn", "nn.functional", "nn.init", "nn.utils",
    "nn.utils.rnn", "op_hooks", "optim", "optim.lr_scheduler", "overrides", "random", "signal.windows", "special",
    "testing", "utils.checkpoint", "utils.data",
)  # fmt: skip


def public(place):
    """Yield (name, object) of all that is public in a module, and of what its classes define."""
    module = importlib.import_module(f"plugrad.{place}".rstrip("."))
    for name in dir(module):
        value = None if name.startswith("_") else getattr(module, name)
        home = getattr(value, "__module__", None) or ""
        if not callable(value) or inspect.ismodule(value) or not home.startswith(("plugrad", "torch")):
            continue
        yield name, value
        for attribute, member in vars(value).items() if inspect.isclass(value) else ():
            if not attribute.startswith("_") and (callable(member) or isinstance(member, (property, classmethod))):
                yield f"{name}.{attribute}", member


@pytest.mark.parametrize("place", PLACES)
def test_first_lines_fit_80_columns(place):
    first = {name: (inspect.getdoc(value) or "").partition("\n")[0] for name, value in public(place)}
    assert first and not {name: line for name, line in first.items() if len(line) > 80}


@pytest.mark.parametrize("place", PLACES)
def test_functions_and_classes_have_a_docstring(place):
    assert not [name for name, value in public(place) if "." not in name and not value.__doc__]
