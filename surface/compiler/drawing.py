"""Generators of Python's and NumPy's: what a program draws from them, a captured one would not draw again."""

from __future__ import annotations

import pickle
import random

import numpy

from plugrad.compiler.sizes import CaptureError

_OF_NUMPY = (numpy.random.Generator, numpy.random.RandomState, numpy.random.BitGenerator)
DRAWING = (random.Random, *_OF_NUMPY)


class Draws:
    """The states that generators have: those of `random` and `numpy.random`, and `others` of DRAWING."""

    def __init__(self, others=()):
        every = (random._inst, numpy.random.mtrand._rand, *others)
        self.before = [(one, _state(one), _text(one)) for one in every if not isinstance(one, random.SystemRandom)]

    def differ(self) -> bool:
        """Whether any state is another now."""
        return any(_text(one) != text for one, _, text in self.before)

    def undo(self) -> None:
        """Put back the states that are others now, so that what was drawn is drawn once more."""
        for one, state, text in self.before:
            if _text(one) == text:
                continue
            if isinstance(one, random.Random):
                one.setstate(state)
            elif isinstance(one, numpy.random.RandomState):
                one.set_state(state)
            else:
                getattr(one, "bit_generator", one).state = state


class Drawn(CaptureError):
    """Numbers of a generator of Python's or NumPy's were drawn during a capture; `draws` knows the states before it."""

    def __init__(self, draws: Draws):
        super().__init__("the program draws numbers from Python's or NumPy's generator")
        self.draws = draws


def _state(one):
    if isinstance(one, random.Random):
        return one.getstate()
    return one.get_state() if isinstance(one, numpy.random.RandomState) else getattr(one, "bit_generator", one).state


def _text(one) -> bytes:
    """Return a state in a form that can be compared: it may hold arrays."""
    return pickle.dumps(_state(one))
