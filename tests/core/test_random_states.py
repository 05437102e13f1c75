"""States of random generators: they come back exactly, and what is not a state is refused with what PyTorch raises."""

from __future__ import annotations

import copy
import json
import pickle

import numpy
import pytest

import plugrad


def encoded(value) -> plugrad.Tensor:
    return plugrad.tensor(list(json.dumps(value).encode()), dtype=plugrad.uint8)


def decoded(state) -> dict:
    return json.loads(bytes(state.numpy()))


@pytest.mark.parametrize("seed", [0, 3, -5, 2**63, 2**64 - 1])
def test_a_state_comes_back(seed):
    generator = plugrad.Generator().manual_seed(seed)
    plugrad.rand(3, generator=generator)
    plugrad.randint(9, (1,), dtype=plugrad.int32, generator=generator)  # leaves half a word behind
    state = generator.get_state()
    expected = plugrad.randn(5, generator=generator)
    again = plugrad.Generator()
    assert again.set_state(state) is again and again.initial_seed() == seed
    assert plugrad.equal(plugrad.randn(5, generator=again), expected)
    assert plugrad.equal(plugrad.randn(5, generator=plugrad.Generator().set_state(state)), expected)


GOOD = plugrad.Generator().manual_seed(3).get_state()
CHANGES = {
    "seed": [None, 1.5, "3", True, [1], {}],
    "state": [None, {}, [], 3],
    "more": [1],
    "state bit_generator": ["MT19937", "PCG64DXSM", 3, None],
    "state has_uint32": [2**40, -(2**40), "1", None, 0.5],
    "state uinteger": [2**40, -1, 0.5],
    "state state": [3, {}, {"state": 1}, {"state": 1, "inc": 1, "key": [1]}],
    "state state state": [-1, 2**129, 0.5, "1", [1]],
    "state state inc": [-1, 2**129, None],
}


def bad_states():
    for path, values in CHANGES.items():
        for value in values:
            given = inner = decoded(GOOD)
            *parents, last = path.split()
            for name in parents:
                inner = inner[name]
            inner[last] = value
            yield f"{path}: {value}", encoded(given)
    for text in (b"", b"{", b"[]", b"3", b"[" * 100_000, b"1" * 5000, b"\xff\xfe", pickle.dumps((3, {})), bytes(5056)):
        yield repr(text[:20]), plugrad.tensor(list(text), dtype=plugrad.uint8)
    yield "cut", GOOD[:-1]
    yield "twice", plugrad.cat([GOOD, GOOD])


@pytest.mark.parametrize("state", [pytest.param(state, id=name) for name, state in bad_states()])
def test_wrong_states_change_nothing(state, torch):
    generator = plugrad.Generator().manual_seed(4)
    before = generator.get_state()
    with pytest.raises(RuntimeError, match="Invalid RNG state"):
        generator.set_state(state)
    assert plugrad.equal(generator.get_state(), before)
    with pytest.raises(RuntimeError):
        torch.Generator().set_state(torch.tensor(state.tolist(), dtype=torch.uint8))


@pytest.mark.parametrize("kind", ["None", "bytes", "list", "float", "int16", "bool", "meta"])
def test_wrong_kinds_of_states(kind, torch):
    def make(library):
        good = library.Generator().get_state()
        return {
            "None": None, "bytes": b"abc", "list": [1], "float": library.ones(3), "int16": good.to(library.int16),
            "bool": good.to(library.bool), "meta": good.to("meta"),
        }[kind]  # fmt: skip

    for library in (torch, plugrad):
        for function in library.Generator().set_state, library.set_rng_state:
            with pytest.raises(TypeError, match="ByteTensor"):
                function(make(library))


def test_random_damage_is_found_or_gives_another_state():
    """Every byte of a state means something, and none of it is more than a number."""
    rng, generator = numpy.random.default_rng(0), plugrad.Generator()
    refused = 0
    for _ in range(2000):
        state = copy.deepcopy(GOOD)
        state[int(rng.integers(len(GOOD)))] = int(rng.integers(256))
        try:
            generator.set_state(state)
        except RuntimeError:
            refused += 1
        assert 0 <= plugrad.rand((), generator=generator) < 1
    assert refused > 1000
