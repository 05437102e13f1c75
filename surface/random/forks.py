"""`fork_rng`: blocks that draw from copies of the default generators."""

from __future__ import annotations

import contextlib

from plugrad.graph.modes import ModeContext, mode
from plugrad.interrupts import held_back, process_lock
from plugrad.tensor import random

_changing = process_lock()  # the default generators are those of all threads


class fork_rng(ModeContext):
    """Draw as before in a block, and have all default generators be what they were.

    A context manager or a decorator. Generators of a device that does not show their state go on drawing.

    Args:
        devices: numbers of the devices whose generators are forked beside the CPU's; None: all.
        enabled: whether anything is forked.
        device_type: of what kind these devices are; None: any.

    >>> import plugrad as torch
    >>> _ = torch.manual_seed(0)
    >>> with torch.random.fork_rng():
    ...     a = torch.rand(2)
    >>> torch.equal(a, torch.rand(2))
    True
    """

    __slots__ = ("_devices", "_enabled", "_type")

    def __new__(cls, devices=None, enabled=True, device_type=None):
        return object.__new__(cls)

    def __init__(self, devices=None, enabled=True, device_type=None):
        self._devices, self._enabled, self._type = devices, enabled, device_type  # looked at when the block begins

    def clone(self):
        """Return a fresh context of the same kind."""
        return fork_rng(self._devices, self._enabled, self._type)

    def changes(self):
        return {}

    def __enter__(self):
        forks = self._enabled and self._type != "meta"
        if forks and self._devices is not None:
            self._devices = [getattr(device, "index", device) or 0 for device in self._devices]
        super().__enter__()
        if forks:
            _Fork(mode.thread.stack[-1].ended, self._is_forked)

    def _is_forked(self, device) -> bool:
        if device.type == "cpu":
            return True
        return self._type in (None, device.type) and (self._devices is None or (device.index or 0) in self._devices)


def states_of_all(devices) -> dict:
    """Return the states of all default generators that are in use, by device.

    Those of `devices` are, and of one that has a number all of its type. Generators that do not show their state are
    left out.
    """
    for place in devices:
        for number in range(place.backend.device_count()) if place.index is not None else ():
            random.generator_of(f"{place.type}:{number}")
    random.generator_of("cpu")
    states = {}
    for key, generator in list(random._default.items()):
        with contextlib.suppress(NotImplementedError):
            states[key] = generator.get_state()
    return states


def set_states_of_all(states) -> None:
    """Have default generators be in the states that `states_of_all` returned."""
    for key, state in states.items():
        random.generator_of(key).set_state(state)


class _Fork:
    """What an open block took aside; whoever asks for numbers after its end has it put back first.

    So no code of Python's has to run at the end, which Ctrl-C could keep from running.
    """

    __slots__ = ("ended", "aside", "seed")

    def __init__(self, ended, is_forked):
        with held_back(), _changing:
            self._take_aside(ended, is_forked)

    def _take_aside(self, ended, is_forked) -> None:
        random.generator_of("cpu")  # which puts back what earlier blocks took aside, too
        self.ended, self.seed, self.aside = ended, random._seed, {}
        copies = []
        for key, generator in random._default.items():
            try:
                copy = generator.clone_state() if is_forked(generator.device) else generator
            except NotImplementedError:
                copy = generator
            self.aside[key] = (generator, generator.source, generator._seed)
            copies.append((generator, copy.source))
        random.forks.append(self)
        random._rare.add(self)
        for generator, source in copies:
            generator.source = source

    def put_back(self) -> None:
        """Have the generators be what they were when the block began, or hand that to the next inner block."""
        with held_back(), _changing:
            if self not in random.forks:  # another thread was first
                return
            place = random.forks.index(self) + 1
            if place < len(random.forks):
                inner = random.forks[place]
                inner.aside, inner.seed = {**inner.aside, **self.aside}, self.seed
            else:
                random._seed = self.seed
                for key in [key for key in random._default if key not in self.aside]:
                    del random._default[key]
                for generator, source, seed in self.aside.values():
                    generator.source, generator._seed = source, seed
            random.forks.remove(self)
            random._rare.discard(self)
