"""What `help` shows of everything public: signatures that can be read, and a first line that fits."""

import inspect
import types

import pytest

import plugrad
from plugrad import registry

PLACES = [
    plugrad, plugrad.Tensor, plugrad.autograd, plugrad.backends, plugrad.compiler, plugrad.extend, plugrad.fft,
    plugrad.func, plugrad.linalg, plugrad.nn, plugrad.nn.functional, plugrad.nn.init, plugrad.nn.Module,
    plugrad.nn.utils, plugrad.optim, plugrad.optim.lr_scheduler, plugrad.overrides, plugrad.special, plugrad.testing,
    plugrad.utils.data,
]  # fmt: skip


def signatures(place):
    """Yield (name, signature) of what is public in a module or class, and of the methods of its classes."""
    for name in dir(place):
        value = None if name.startswith("_") and name != "__init__" else getattr(place, name)
        if isinstance(value, types.ModuleType) or not callable(value):
            continue
        try:
            yield name, str(inspect.signature(value))
        except ValueError:  # a function written in C that says nothing
            continue


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_signatures_show_no_addresses(place):
    texts = dict(signatures(place))
    assert len(texts) > 3
    shown = {name: text for name, text in texts.items() if "<object" in text or " at 0x" in text}
    assert not shown


def test_signatures_of_ops_are_those_of_their_declarations():
    for name, op in registry.ops.items():
        shown = inspect.signature(op.function).parameters
        declared = [parameter for parameter in op.parameters if parameter in shown]
        assert declared == [parameter for parameter in shown if parameter in op.parameters], name
        assert set(op.parameters) - set(shown) <= {"out"}, name


def test_names_of_numpys_are_shown_as_not_given():
    shown = inspect.signature(plugrad.nansum)
    assert str(shown.parameters["axis"]) == "axis=<not given>" and "dim=None" in str(shown)
