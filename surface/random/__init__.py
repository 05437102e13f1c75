"""`plugrad.random`: the program's random numbers, under the names of `torch.random`."""

from __future__ import annotations

from plugrad import Generator, device, manual_seed
from plugrad.extend import generator_of
from plugrad.random.forks import fork_rng

__all__ = [
    "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state",
    "thread_safe_generator",
]  # fmt: skip


class DefaultGenerator(Generator):
    """The generator that the CPU uses when none is given.

    In a block of `fork_rng` it stands for the block's.

    >>> import plugrad as torch
    >>> _ = torch.default_generator.manual_seed(3)
    >>> a = torch.rand(2)
    >>> _ = torch.manual_seed(3)
    >>> torch.equal(a, torch.rand(2, generator=torch.default_generator))
    True
    """

    __slots__ = ()

    def __init__(self):
        self.device = device("cpu")

    @property
    def source(self):
        """What the numbers are drawn from."""
        return generator_of("cpu").source

    @source.setter
    def source(self, source):
        generator_of("cpu").source = source

    @property
    def _seed(self):
        return generator_of("cpu")._seed

    @_seed.setter
    def _seed(self, seed):
        generator_of("cpu")._seed = seed


default_generator = DefaultGenerator()


def seed() -> int:
    """Seed all generators from fresh entropy of the system; return the seed."""
    value = default_generator.seed()
    manual_seed(value)
    return value


def initial_seed() -> int:
    """Return the seed of the CPU's generator."""
    return default_generator.initial_seed()


def get_rng_state():
    """Return the state of the CPU's generator as a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(state) -> None:
    """Set the state of the CPU's generator."""
    default_generator.set_state(state)


def thread_safe_generator():
    """Return None: a loader's worker draws from its own default generator."""
    return None
