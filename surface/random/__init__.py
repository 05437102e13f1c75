"""`plugrad.random`: the program's random numbers, under the names of `torch.random`."""

from __future__ import annotations

from plugrad.tensor.random import fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
