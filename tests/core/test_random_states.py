"""States of random generators: they come back exactly, and what is not a state is refused with what PyTorch raises."""

from __future__ import annotations

import copy
import pickle

import numpy
import pytest

import plugrad


@pytest.mark.parametrize("seed", [0, 3, -5, 2**63, 2**64 - 1])
def test_a_state_comes_back(seed):
    generator = plugrad.Generator().manual_seed(seed)
    plugrad.rand(3, generator=generator)
    plugrad.randn(1, generator=generator)  # leaves the second number of a pair behind
    state = generator.get_state()
    expected = plugrad.randn(5, generator=generator)
    again = plugrad.Generator()
    assert again.set_state(state) is again and again.initial_seed() == seed % 2**64
    assert plugrad.equal(plugrad.randn(5, generator=again), expected)
    assert plugrad.equal(plugrad.randn(5, generator=plugrad.Generator().set_state(state)), expected)


GOOD = plugrad.Generator().manual_seed(3).get_state()
LEFT, SEEDED, NEXT = 8, 12, 16  # where PyTorch's layout has what must fit together


def changed(offset, value, size):
    state = GOOD.numpy().copy()
    state[offset : offset + size] = numpy.frombuffer(value.to_bytes(size, "little", signed=value < 0), numpy.uint8)
    return plugrad.from_numpy(state)


def bad_states():
    for offset, size, values in ((LEFT, 4, (0, -1, 625, 2**31 - 1)), (SEEDED, 4, (0,)), (NEXT, 8, (625, 1000))):
        for value in values:
            yield f"{offset}: {value}", changed(offset, value, size)
    for text in (b"", b"{", b"3", b"[" * 100_000, b"\xff\xfe", pickle.dumps((3, {})), bytes(5056), bytes(5048)):
        yield repr(text[:20]) + str(len(text)), plugrad.tensor(list(text), dtype=plugrad.uint8)
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
    for _ in range(500):
        state = copy.deepcopy(GOOD)
        state[int(rng.integers(64))] = int(rng.integers(256))
        try:
            generator.set_state(state)
        except RuntimeError:
            refused += 1
        assert 0 <= plugrad.rand((), generator=generator) < 1
    assert refused > 100


@pytest.mark.parametrize("drawn", [0, 1, 3, 623, 624, 625, 1300])
def test_a_state_is_pytorchs(drawn, torch):
    """It goes either way, wherever in its block the engine stands, with and without a normal number in waiting."""
    for spare in (False, True):
        ours, theirs = plugrad.Generator().manual_seed(7), torch.Generator().manual_seed(7)
        for library, generator in ((plugrad, ours), (torch, theirs)):
            library.rand(drawn, generator=generator)
            library.randn(int(spare), generator=generator)
        there = torch.Generator()
        there.set_state(torch.tensor(ours.get_state().tolist(), dtype=torch.uint8))
        here = plugrad.Generator().set_state(plugrad.tensor(theirs.get_state().tolist(), dtype=plugrad.uint8))
        assert here.initial_seed() == there.initial_seed() == 7
        expected = torch.randn(3, generator=theirs).tolist() + torch.rand(700, generator=theirs).tolist()
        for library, generator in ((plugrad, here), (plugrad, ours), (torch, there)):
            assert library.randn(3, generator=generator).tolist() == expected[:3]
            assert library.rand(700, generator=generator).tolist() == expected[3:]


def test_forks_end_in_any_order_and_inner_numbers_go_on():
    plugrad.manual_seed(0)
    expected = plugrad.rand(4)
    plugrad.manual_seed(0)
    first, second = plugrad.random.fork_rng(), plugrad.random.fork_rng()
    first.__enter__()
    assert plugrad.equal(plugrad.rand(1), expected[:1])  # what is drawn inside is what would have come
    second.__enter__()
    assert plugrad.equal(plugrad.rand(1), expected[1:2])
    first.__exit__(None, None, None)
    assert plugrad.equal(plugrad.rand(1), expected[2:3])  # the second goes on
    second.__exit__(None, None, None)
    assert plugrad.equal(plugrad.rand(4), expected)
    with plugrad.random.fork_rng(enabled=False):
        plugrad.manual_seed(5)
    assert plugrad.initial_seed() == 5


def test_generators_of_other_devices_are_forked_and_seeds_forgotten(fake, monkeypatch):
    def drawn():
        return plugrad.extend.generator_of(fake).source.random(3).tolist()

    monkeypatch.setattr(type(fake.backend), "generator", lambda self, seed: numpy.random.default_rng(seed))
    plugrad.manual_seed(0)
    expected = drawn()
    for devices in None, [0]:
        plugrad.manual_seed(0)
        with plugrad.random.fork_rng(devices):
            assert drawn() == expected
            plugrad.manual_seed(7)
            drawn()
        assert drawn() == expected
    plugrad.manual_seed(0)
    with plugrad.random.fork_rng([]):
        assert drawn() == expected
    assert drawn() != expected


def test_a_generator_that_does_not_show_its_state_goes_on_drawing(fake):
    plugrad.manual_seed(0)
    with pytest.raises(NotImplementedError, match="don't show their state"):
        plugrad.extend.generator_of(fake).get_state()
    with plugrad.random.fork_rng():
        first = plugrad.rand(3, device=fake).tolist()
    assert plugrad.rand(3, device=fake).tolist() != first


COPIES = {
    "copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda generator: pickle.loads(pickle.dumps(generator)),
    "clone_state": lambda generator: generator.clone_state(),
}  # fmt: skip


@pytest.mark.parametrize("way", COPIES)
def test_copies_of_generators_go_on_by_themselves(way, torch):
    for library in (plugrad, torch):
        generator = library.Generator().manual_seed(3)
        library.randn(3, generator=generator)  # so that the second number of a pair waits
        other = COPIES[way](generator)
        assert type(other) is type(generator) and other.initial_seed() == 3 and str(other.device) == "cpu"
        expected = library.randn(4, generator=generator).tolist()
        assert library.randn(4, generator=other).tolist() == expected
        library.randn(4, generator=generator)
        assert library.randn(1, generator=other).tolist() != library.randn(1, generator=generator).tolist()


def test_what_was_unpickled_is_filled_in_its_own_precision():
    """Its NumPy dtype is another object than the one of new arrays."""
    whole, other = plugrad.zeros(50, dtype=plugrad.float64), pickle.loads(pickle.dumps(plugrad.zeros(50).double()))
    for tensor in (whole, other):
        tensor.uniform_(-0.3, 0.3, generator=plugrad.Generator().manual_seed(2))
    assert whole.tolist() == other.tolist()


def test_the_default_generator_is_an_object(torch):
    ours = plugrad.default_generator
    assert isinstance(ours, plugrad.Generator) and str(ours.device) == "cpu"
    assert plugrad.random.default_generator is ours
    ours.manual_seed(7), torch.default_generator.manual_seed(7)
    assert plugrad.rand(3).tolist() == torch.rand(3).tolist()
    assert plugrad.rand(3, generator=ours).tolist() == torch.rand(3, generator=torch.default_generator).tolist()
    assert ours.initial_seed() == plugrad.initial_seed() == 7
    assert ours.get_state().tolist() == torch.default_generator.get_state().tolist()
    state = ours.get_state()
    expected = plugrad.rand(2).tolist()
    with plugrad.random.fork_rng():
        ours.set_state(state)
        assert plugrad.rand(2).tolist() == expected
        ours.manual_seed(0)
    assert ours.initial_seed() == 7 and plugrad.rand(2).tolist() != expected
    own = copy.deepcopy(ours)
    ours.set_state(state), own.set_state(state)
    assert own.clone_state().get_state().tolist() == state.tolist()
    assert plugrad.rand(2, generator=own).tolist() == expected
    assert plugrad.rand(2).tolist() == expected


@pytest.mark.parametrize("devices", [0.0, 10**30, len])
def test_devices_of_fork_rng_are_looked_at_when_the_block_begins(devices):
    block = plugrad.random.fork_rng(devices)
    before = plugrad.get_rng_state()
    with pytest.raises(TypeError):
        block.__enter__()
    assert plugrad.equal(plugrad.get_rng_state(), before) and not plugrad.is_inference_mode_enabled()
    with plugrad.random.fork_rng([]):
        plugrad.rand(2)
    assert plugrad.equal(plugrad.get_rng_state(), before)
