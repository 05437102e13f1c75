"""Floats of eight bits: they are stored, moved and converted as PyTorch does, and nothing is computed with them."""

import copy
import pickle

import numpy
import pytest

import plugrad
from plugrad import dtypes

torch = pytest.importorskip("torch")

NAMES = [each.name for each in dtypes.EIGHT_BITS]
EDGES = [0.0, -0.0, 1.0, -1.5, 3.3, 17.0, 240.0, 449.0, 500.0, 6e4, 1e9, -1e9, 1e-3, 1e-9, 1e-40, 2.0**-127]


def both(name, function):
    """Return what a function of (torch, dtype) gives with plugrad and with PyTorch: the bits, or the error's type."""
    answers = []
    for library in (plugrad, torch):
        try:
            answer = function(library, getattr(library, name))
        except (RuntimeError, TypeError) as error:
            answer = type(error).__name__
        if hasattr(answer, "element_size"):
            shown = answer.view(library.uint8) if str(answer.dtype)[6:] in NAMES else answer.double()
            answer = (str(answer.dtype), shown.tolist())
        answers.append(answer)
    return answers


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16", "int32", "bool"])
def test_conversions_to_them(name, source):
    values = EDGES + [float("inf"), -float("inf"), float("nan")] if "float" in source else [0, 1, -3, 100, 500, 70000]
    values = [1.0, 0.0] if source == "bool" else values
    ours, theirs = both(name, lambda lib, dtype: lib.tensor(values).to(getattr(lib, source)).to(dtype))
    # Which of several NaN it is does not matter: they are the last ones with either sign.
    nan = {"float8_e5m2": {125, 126, 127, 253, 254, 255}, "float8_e4m3fn": {127, 255}}.get(name, set())
    ours, theirs = [(one[0], [None if bits in nan else bits for bits in one[1]]) for one in (ours, theirs)]
    assert ours == theirs


@pytest.mark.parametrize("name", NAMES)
def test_all_their_values(name):
    def decoded(lib, dtype):
        return lib.arange(256).to(lib.uint8).view(dtype).float()

    ours, theirs = both(name, decoded)
    numpy.testing.assert_array_equal(ours[1], theirs[1])


MOVES = {
    "cat": lambda lib, y: lib.cat([y, y]),
    "stack": lambda lib, y: lib.stack([y, y]),
    "index": lambda lib, y: y[lib.tensor([2, 0])],
    "mask": lambda lib, y: y[y.float() > 1],
    "index_select": lambda lib, y: y.index_select(0, lib.tensor([1])),
    "index_put": lambda lib, y: y.index_put((lib.tensor([0]),), y[:1]),
    "masked_select": lambda lib, y: lib.masked_select(y, y.float() > 1),
    "where": lambda lib, y: lib.where(y.float() > 1, y, y.clone().fill_(1.0)),
    "clone": lambda lib, y: y.reshape(2, 2).t().clone(),
    "contiguous": lambda lib, y: y.reshape(2, 2).t().contiguous(),
    "expand": lambda lib, y: y.reshape(4, 1).expand(4, 2).contiguous(),
    "repeat": lambda lib, y: y.repeat(2),
    "roll": lambda lib, y: y.roll(1),
    "pad": lambda lib, y: lib.nn.functional.pad(y, (1, 1), value=1.0),
    "fill": lambda lib, y: y.clone().fill_(2.0),
    "copy": lambda lib, y: y.clone().copy_(lib.tensor([1e9, 0.0, -3.0, 0.3])),
    "zero": lambda lib, y: y.clone().zero_(),
    "full": lambda lib, y: lib.full((2,), 0.3, dtype=y.dtype),
    "tensor": lambda lib, y: lib.tensor([1.0, 500.0], dtype=y.dtype),
    "ones": lambda lib, y: lib.ones_like(y),
    "eq": lambda lib, y: y == y,
    "eq a number": lambda lib, y: y == 1.0,
    "ne": lambda lib, y: y != y.roll(1),
    "isnan": lambda lib, y: y.isnan(),
    "any": lambda lib, y: y.any(),
    "double": lambda lib, y: y.double(),
    "int": lambda lib, y: y.int(),
    "too large": lambda lib, y: lib.full((2,), 1e39, dtype=y.dtype),
    "promotion": lambda lib, y: y == lib.ones(4),
    "promotion with bool": lambda lib, y: lib.cat([y, lib.ones(1, dtype=lib.bool)]),
    "add": lambda lib, y: y + y,
    "mul": lambda lib, y: y * 2,
    "mul_": lambda lib, y: y.clone().mul_(2),
    "lt": lambda lib, y: y < y,
    "neg": lambda lib, y: -y,
    "sum": lambda lib, y: y.sum(),
    "max": lambda lib, y: y.max(),
    "sort": lambda lib, y: y.sort(),
    "exp": lambda lib, y: y.exp(),
    "relu_": lambda lib, y: y.clone().relu_(),
    "clamp": lambda lib, y: y.clamp(0, 1),
    "round": lambda lib, y: y.round(),
}


@pytest.mark.parametrize(
    "name, move",
    # PyTorch has no kernel of index_put for the last one.
    [(name, move) for name in NAMES for move in MOVES if (name, move) != ("float8_e8m0fnu", "index_put")],
)
def test_what_moves_them_and_what_is_refused(name, move):
    ours, theirs = both(name, lambda lib, dtype: MOVES[move](lib, lib.tensor([1.0, 2.0, 0.5, 4.0]).to(dtype)))
    assert ours == theirs


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_of_them(name):
    def said(lib, dtype):
        y = lib.ones(2).to(dtype)
        return str(lib.finfo(dtype)), repr(y), y.type(), dtype.itemsize, dtype.is_signed, dtype.is_floating_point

    ours, theirs = both(name, said)
    assert ours == theirs
    ours, theirs = both(name, lambda lib, dtype: lib.set_default_dtype(dtype))
    assert ours == theirs == "TypeError"
    ours, theirs = both(name, lambda lib, dtype: lib.promote_types(dtype, lib.bool))
    assert ours == theirs == "RuntimeError"


@pytest.mark.parametrize("name", NAMES)
def test_they_are_kept_and_copied(name, tmp_path):
    dtype = getattr(plugrad, name)
    y = plugrad.tensor([1.0, 2.0, 4.0]).to(dtype)
    plugrad.save({"w": y}, tmp_path / "w.pt")
    for again in (plugrad.load(tmp_path / "w.pt")["w"], copy.deepcopy(y), pickle.loads(pickle.dumps(y))):
        assert again.dtype is dtype and plugrad.equal(again.view(plugrad.uint8), y.view(plugrad.uint8))
    assert plugrad.from_numpy(y.view(plugrad.uint8).numpy().view(dtype.numpy)).dtype is dtype


def test_the_gradient_of_a_conversion_comes_back_in_the_dtype_of_the_weight():
    x = plugrad.tensor([1.0, 2.5], requires_grad=True)
    (x.to(plugrad.float8_e4m3fn).float() * plugrad.tensor([2.0, 3.0])).sum().backward()
    assert x.grad.dtype is plugrad.float32 and x.grad.tolist() == [2.0, 3.0]
