"""Random number generators: one per device, seeded together."""

from __future__ import annotations

import numpy

from plugrad.devices.device import backend_of
from plugrad.devices.device import device as _device
from plugrad.regions import declare, mode
from plugrad.registry import events
from plugrad.registry.namespaces import lazy_methods

_seed: int | None = None
_default: dict = {}
_rare: set = set()  # not empty while any thread watches who draws, or a block of `fork_rng` is open
forks: list = []  # these blocks, outermost first
declare("random_watch", None, _rare)  # what is called with the generator before each draw, and may refuse it


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
        self.device = _device("cpu" if device is None else device)
        self.manual_seed(67280421310721)  # what PyTorch's begin with, too; default ones are seeded anew

    def manual_seed(self, seed: int) -> Generator:
        """Start the sequence that belongs to `seed`; return the generator."""
        if not isinstance(seed, (int, numpy.integer)) or isinstance(seed, (bool, numpy.timedelta64)):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        _settle()
        seed = _checked(seed)  # Ctrl-C comes behind a call: both are set, or none
        place = self.device if self.device.index is None else _device(self.device.type)  # nothing of it is used
        self._seed, self.source = seed, place.backend.generator(seed)
        return self

    def seed(self) -> int:
        """Start a sequence from fresh entropy of the system; return its seed."""
        return self.manual_seed(int(numpy.random.SeedSequence().generate_state(1, numpy.uint64)[0]))._seed

    def initial_seed(self) -> int:
        """Return the seed of the current sequence."""
        _settle()
        return self._seed


lazy_methods(Generator, {"random.states": "__reduce__ clone_state get_state set_state"})


def _checked(seed) -> int:
    if not -(2**63) <= seed < 2**64:
        raise ValueError("Overflow when unpacking long long: a seed has 64 bits")
    return int(seed) % 2**64


def _settle() -> None:
    """Have blocks of `fork_rng` that have ended put back what they took aside."""
    for fork in forks[::-1]:
        if fork.ended():
            fork.put_back()


def generator_of(place="cpu") -> Generator:
    """Return the generator that a device uses when none is given, its own."""
    _settle()
    generator = _default.get(key := str(place))
    if generator is None:
        if (place := _device(place)).index is None and place.backend.numbered:
            return generator_of(f"{place.type}:{place.backend.current_device()}")
        generator = _default[key] = Generator(place)
        generator.seed() if _seed is None else generator.manual_seed(_seed)
    return generator


def rng(xp, generator: Generator | None = None):
    """Return the NumPy-like generator for kernels on the array module `xp`."""
    if _rare:
        _settle()
    if generator is None:
        generator = _default.get("cpu") if xp is numpy else None
        if generator is None:
            generator = generator_of(backend_of(xp).name)
    if _rare and mode.random_watch is not None:
        mode.random_watch(generator)
    return generator.source


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
    _settle()
    _seed = _checked(int(seed))
    for generator in tuple(_default.values()):
        generator.manual_seed(_seed)
    return generator_of("cpu")


def _follow_backends(dotted) -> None:
    """Drop the default generators of a device whose backend is another from now on, or gone."""
    kind, _, name = dotted.partition(".")
    for key in [key for key in tuple(_default) if kind == "backends" and key.partition(":")[0] == name]:
        del _default[key]


events.on_forget.append(_follow_backends)
