"""Blocks that change what outlasts them, and put it back however they end."""

from __future__ import annotations

from contextlib import ContextDecorator
from copy import copy
from functools import partial
from io import BytesIO

from plugrad.interrupts import held_back


class _Ending(BytesIO):
    """Its `__exit__`, a C function, takes what a `with` block hands it, and calls `close`."""

    closed = True  # it is not closed by being dropped, as it is where somebody only asked for an `__exit__`


class _Exit:
    """The `__exit__` of a block.

    Ctrl-C may come before the first bytecode of any function in Python, but in a generator that goes on it is raised
    where that stands: inside of its `try`.
    """

    def __get__(self, block, owner=None):
        if block is None:  # an ExitStack asks the class, and hands the block over
            return lambda block, *error: block.leave()
        ending, going_on = _Ending(), _leaving(block)
        next(going_on)
        ending.close = partial(next, going_on, None)
        return ending.__exit__


def _leaving(block):
    try:
        yield
        block.leave()
    except GeneratorExit:  # it was dropped, and never called
        return
    except BaseException:
        block.leave()
        raise


class Restoring(ContextDecorator):
    """Base of context managers that change what outlasts a block.

    `begin` does it, and `end` puts it back.

    Neither is interrupted by Ctrl-C. `end` is also called where `begin` raised midway, and once for each block. A
    function may be decorated; each call, of one that calls itself, too, is in a block of its own.
    """

    _begun = False

    def _recreate_cm(self):
        return copy(self)

    def begin(self):
        """Change it; what is returned is what `as` names."""
        raise NotImplementedError(f"{type(self).__name__} must define begin()")

    def end(self) -> None:
        """Put it back."""
        raise NotImplementedError(f"{type(self).__name__} must define end()")

    def __enter__(self):
        try:
            with held_back():
                self._begun = True
                return self.begin()
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """End the block, if it has begun."""
        with held_back():
            if self._begun:
                self._begun = False
                self.end()

    __exit__ = _Exit()


class changed_items(Restoring):
    """Have some items of a dict be others in a block, or in a function that it decorates."""

    def __init__(self, items: dict, changes: dict):
        self._items, self._changes = items, changes

    def begin(self):
        self._before = {name: self._items[name] for name in self._changes}
        self._items.update(self._changes)

    def end(self):
        self._items.update(self._before)
