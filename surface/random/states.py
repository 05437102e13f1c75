"""The states of random generators as data: methods of Generator."""

from __future__ import annotations

import json

import numpy

from plugrad import Generator, Tensor, from_numpy


def get_state(self):
    """Return the state as a uint8 tensor, which can run no code when it is taken back.

    The CPU's has PyTorch's layout; those of other devices are JSON text. Raises NotImplementedError for a device
    whose generators don't show their state.
    """
    seed = self.initial_seed()
    if hasattr(self.source, "to_bytes"):
        return from_numpy(self.source.to_bytes(seed))
    state = getattr(self.source.bit_generator, "state", None)
    try:
        text = json.dumps({"seed": seed, "state": dict(state)})
    except TypeError:  # nothing that could be kept as text
        why = f"generators of {self.device} don't show their state: keep the seed instead"
        raise NotImplementedError(why) from None
    return from_numpy(numpy.frombuffer(text.encode(), numpy.uint8).copy())


def set_state(self, state):
    """Return to a state that `get_state` returned; return the generator.

    Raises TypeError for anything but a uint8 tensor on the CPU, and RuntimeError for one that is no such state.
    """
    seed = self.initial_seed()  # whoever asks has blocks of `fork_rng` that have ended put back what they took aside
    if not isinstance(state, Tensor):
        raise TypeError(f"expected a torch.ByteTensor, but got {type(state).__name__}")
    if state.dtype.numpy != numpy.uint8 or state.device.type != "cpu":
        raise TypeError("RNG state must be a torch.ByteTensor on the CPU, as get_state() returns it")
    try:
        if hasattr(self.source, "from_bytes"):
            self.source, self._seed = self.source.from_bytes(state.numpy())
            return self
        given = json.loads(bytes(state.numpy()))
        if not _alike(given, {"seed": seed, "state": self.source.bit_generator.state}):
            raise ValueError("other fields than this device's generators have")
        fresh = self.device.backend.generator(given["seed"] % 2**64)
        fresh.bit_generator.state = given["state"]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise RuntimeError(f"Invalid RNG state: {error}; give what get_state() returned") from None
    self._seed, self.source = given["seed"], fresh
    return self


def clone_state(self):
    """Return a new generator in the same state."""
    if not hasattr(self.source, "clone"):
        return Generator(self.device).set_state(self.get_state())
    cloned = object.__new__(Generator)  # which is not seeded first: a device may refuse that for a time
    cloned.device, cloned._seed, cloned.source = self.device, self.initial_seed(), self.source.clone()
    return cloned


def __reduce__(self):
    """Copy and pickle a generator as one of its own in the same state."""
    return restored, (str(self.device), self.get_state())


def restored(device, state):
    """Return a generator in a given state; what pickles of generators call."""
    return Generator(device).set_state(state)


def _alike(given, known) -> bool:
    """Whether a state has the fields of another, each of its kind; their ranges are what NumPy checks."""
    if type(given) is dict is type(known):
        return given.keys() == known.keys() and all([_alike(given[name], known[name]) for name in known])
    return type(given) is type(known) and (type(given) is not str or given == known)
