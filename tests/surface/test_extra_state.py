"""Extra state that is no data is named when `state_dict()` is called, with the keys that lead to it."""

import fractions
import io
import warnings

import numpy
import pytest

import plugrad
from plugrad import nn


class Holder(nn.Module):
    """A module whose extra state is what it was made with."""

    def __init__(self, extra):
        super().__init__()
        self.extra = extra

    def get_extra_state(self):
        return self.extra

    def set_extra_state(self, state):
        self.extra = state


class Unknown:
    """No data."""


def model(extra):
    return nn.Sequential(nn.Linear(1, 1), nn.Sequential(Holder(extra)))


@pytest.mark.parametrize("extra", [
    None, 3, 1 << 2000, float("nan"), "text", b"bytes", 1j, [1, (2, {3})], {"a": {1: None}}, plugrad.ones(2).t(),
    numpy.arange(3)[::-1], numpy.float32(2), plugrad.float16, plugrad.Size([1]), plugrad.device("cpu"), slice(1, 2),
], ids=repr)  # fmt: skip
def test_data_is_taken_without_a_word_and_comes_back(extra):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = model(extra).state_dict()
        assert state["1.0._extra_state"] is extra
        plugrad.save(state, file)
        file.seek(0)
        twin = model("other")
        twin.load_state_dict(plugrad.load(file))
    assert repr(twin[1][0].extra) == repr(extra) and type(twin[1][0].extra) is type(extra)


@pytest.mark.parametrize("extra, place, name", [
    (Unknown(), "1.0._extra_state", "Unknown"),
    ({"a": [0, Unknown()]}, "1.0._extra_state.a.1", "Unknown"),
    ({"hook": lambda: 0}, "1.0._extra_state.hook", "builtins.function"),
    ((fractions.Fraction(1, 3),), "1.0._extra_state.0", "fractions.Fraction"),
    ([numpy.array([object()])], "1.0._extra_state.0", "numpy.ndarray"),
])  # fmt: skip
def test_what_is_no_data_is_named_with_its_keys_and_type(extra, place, name):
    with pytest.warns(UserWarning, match="which is no data") as seen:
        state = model(extra).state_dict()
    assert state["1.0._extra_state"] is extra and len(seen) == 1
    assert f"the extra state at {place!r} is of type" in str(seen[0].message) and name in str(seen[0].message)


def test_containers_that_contain_themselves_are_named():
    extra = [1]
    extra.append(extra)
    with pytest.warns(UserWarning, match="at '1.0._extra_state' can't be saved: .*contains itself"):
        model(extra).state_dict()


def test_trusted_classes_are_taken():
    with warnings.catch_warnings(), plugrad.serialization.safe_globals([fractions.Fraction]):
        warnings.simplefilter("error")
        model({"x": fractions.Fraction(1, 3)}).state_dict()
