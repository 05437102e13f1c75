"""Random number generators: one per device, seeded together."""

from __future__ import annotations

import pickle

import numpy

from plugrad.devices.device import backend_of
from plugrad.devices.device import device as _device
from plugrad.registry import events
from plugrad.tensor.creation import from_numpy

_seed: int | None = None
_default: dict = {}


class Generator:
    """A source of random numbers on one device.

    >>> import plugrad as torch
    >>> g = torch.Generator().manual_seed(0)
    >>> a = torch.rand(2, generator=g)
    >>> torch.equal(a, torch.rand(2, generator=g.manual_seed(0)))
    True
    """

    __slots__ = ("device", "_seed", "source")

    def __init__(self, device="cpu"):
        self.device = _device(device)
        self.seed()

    def manual_seed(self, seed: int) -> Generator:
        """Start the sequence that belongs to `seed`; return the generator."""
        self._seed = int(seed)
        self.source = self.device.backend.generator(self._seed % 2**64)
        return self

    def seed(self) -> int:
        """Start a sequence from fresh entropy of the system; return its seed."""
        seed = int(numpy.random.SeedSequence().generate_state(1, numpy.uint64)[0])
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """Return the seed of the current sequence."""
        return self._seed

    def get_state(self):
        """Return the state as a uint8 tensor."""
        data = pickle.dumps((self._seed, self.source.bit_generator.state))
        return from_numpy(numpy.frombuffer(data, numpy.uint8).copy())

    def set_state(self, state) -> Generator:
        """Return to a state that `get_state` returned."""
        seed, inner = pickle.loads(state.numpy().tobytes())
        self.manual_seed(seed)
        self.source.bit_generator.state = inner
        return self

    def clone_state(self) -> Generator:
        """Return a new generator in the same state."""
        return Generator(self.device).set_state(self.get_state())


def default_generator(place="cpu") -> Generator:
    """Return the generator that a device uses when none is given."""
    key = str(place)
    generator = _default.get(key)
    if generator is None:
        generator = _default[key] = Generator(place)
        if _seed is not None:
            generator.manual_seed(_seed)
    return generator


def rng(xp, generator: Generator | None = None):
    """Return the NumPy-like generator for kernels on the array module `xp`."""
    if generator is not None:
        return generator.source
    default = _default.get("cpu") if xp is numpy else None
    if default is None:
        default = default_generator(backend_of(xp).name)
    return default.source


def manual_seed(seed: int) -> Generator:
    """Seed the generators of all devices; return the CPU's.

    >>> import plugrad as torch
    >>> _ = torch.manual_seed(0)
    >>> a = torch.randn(3)
    >>> _ = torch.manual_seed(0)
    >>> torch.equal(a, torch.randn(3))
    True
    """
    global _seed
    _seed = int(seed)
    for generator in _default.values():
        generator.manual_seed(_seed)
    return default_generator("cpu")


def _follow_backends(dotted) -> None:
    """Drop the default generators of a device whose backend is another from now on, or gone."""
    kind, _, name = dotted.partition(".")
    for key in [key for key in _default if kind == "backends" and key.partition(":")[0] == name]:
        del _default[key]


events.on_forget.append(_follow_backends)
