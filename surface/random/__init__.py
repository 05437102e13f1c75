"""`plugrad.random`: the program's random numbers, under the names of `torch.random`."""

from __future__ import annotations

from plugrad import default_generator, manual_seed
from plugrad.random.forks import fork_rng

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state",
    "thread_safe_generator",
]  # fmt: skip


def seed() -> int:
    """Seed all generators from fresh entropy of the system; return the seed."""
    value = default_generator("cpu").seed()
    manual_seed(value)
    return value


def initial_seed() -> int:
    """Return the seed of the CPU's generator."""
    return default_generator("cpu").initial_seed()


def get_rng_state():
    """Return the state of the CPU's generator as a uint8 tensor."""
    return default_generator("cpu").get_state()


def set_rng_state(state) -> None:
    """Set the state of the CPU's generator."""
    default_generator("cpu").set_state(state)


def thread_safe_generator():
    """Return None: a loader's worker draws from its own default generator."""
    return None
