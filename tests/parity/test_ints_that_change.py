"""Ints of a call are those that it was made with, whatever becomes of the list, or of the tensors, that held them."""

from __future__ import annotations

import warnings

import numpy
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad
from plugrad import registry
from plugrad.testing import samples_of
from support import twins


def places(op, sample) -> list:
    """Return where in a call several ints are given, of parameters that take them."""
    found = []
    for position, name in enumerate(op.parameters):
        kind = op.known_kinds.get(name)
        place = position if position < len(sample.args) else name
        value = sample.args[position] if position < len(sample.args) else sample.kwargs.get(name)
        if kind is not None and "ints" in kind.words and isinstance(value, (tuple, list)):
            if value and all(type(one) is int for one in value):
                found.append((place, value))
    return found


def cases():
    for name in twins.public_ops():
        op = registry.ops[name]
        for number, sample in enumerate(samples_of(op)):
            if sample.through is None:
                for place, value in places(op, sample):
                    yield pytest.param(name, number, place, value, id=f"{name}-{number}-{place}")


def gradients(name, number, place, given, change=None):
    """Return results and gradients of a sample with `given` in one place, which is changed before the backward."""
    sample = samples_of(registry.ops[name])[number]
    args, kwargs = list(sample.args), dict(sample.kwargs)
    (kwargs if isinstance(place, str) else args)[place] = given
    function = twins.lookup(plugrad, twins.public_ops()[name])
    plugrad.manual_seed(0)
    results = [one for one in twins.tensors_in(plugrad, function(*args, **kwargs)) if one.requires_grad]
    if change is not None:
        change()
    leaves = [one for one in twins.tensors_in(plugrad, (args, kwargs)) if one.requires_grad]
    found = plugrad.autograd.grad(results, leaves, [one.cos() for one in results], allow_unused=True) if results else []
    return [one.tolist() for one in (*results, *found) if one is not None]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["tensors", "list", "numbers of NumPy"])
@pytest.mark.parametrize(("name", "number", "place", "value"), [*cases()])
def test_a_call_keeps_the_ints_that_it_was_given(name, number, place, value, kind):
    expected = gradients(name, number, place, value)
    if kind == "tensors":
        parts = [plugrad.tensor(one) for one in value]
        found = gradients(name, number, place, tuple(parts), lambda: [one.fill_(7) for one in parts])
    elif kind == "list":
        several = list(value)
        found = gradients(name, number, place, several, lambda: several.__setitem__(slice(None), [7] * len(several)))
    else:
        found = gradients(name, number, place, tuple(map(numpy.int64, value)))
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        numpy.testing.assert_array_equal(one, other)


SIZES = {
    "view": lambda x, sizes: x.view(sizes), "reshape": lambda x, sizes: x.reshape(sizes),
    "expand": lambda x, sizes: x[:, :1].expand(sizes), "permute": lambda x, sizes: x.permute([n % 2 for n in sizes]),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("tensors", [False, True])
def test_a_view_of_what_is_written_has_the_shape_that_it_had(name, tensors):
    found = []
    for T in (torch, plugrad):
        sizes = [T.tensor(3), T.tensor(2)] if tensors else [3, 2]
        x, w = T.arange(6.0).reshape(3, 2) * 1, T.ones((), requires_grad=True)
        y = SIZES[name](x, sizes)
        if tensors:
            [one.fill_(1) for one in sizes]
        else:
            sizes[:] = [1, 1]
        x.mul_(w)
        (y * y).sum().backward()
        found.append((tuple(y.shape), y.tolist(), w.grad.item()))
    assert found[0] == found[1]
