"""Blocks in which it is watched, or refused, that ops draw random numbers."""

from __future__ import annotations

from plugrad.regions import region


def watching_random(watch) -> region:
    """Return a context in which `watch(generator)` is called before each draw.

    That is of this thread's ops; `generator` is the one that the numbers come from.

    >>> import plugrad as torch
    >>> from plugrad.extend import watching_random
    >>> asked = []
    >>> with watching_random(asked.append):
    ...     _ = torch.rand(2)
    >>> len(asked)
    1
    """
    return region(random_watch=watch)


def refusing_random(why: str) -> region:
    """Return a context in which this thread's ops that draw raise RuntimeError(why).

    >>> import plugrad as torch
    >>> from plugrad.extend import refusing_random
    >>> with refusing_random("no dice"):
    ...     torch.rand(2)
    Traceback (most recent call last):
    RuntimeError: no dice
    """

    def refuse(generator):
        raise RuntimeError(why)

    return watching_random(refuse)
