"""Blocks in which nothing may draw random numbers."""

from __future__ import annotations

from plugrad.regions import region


def refusing_random(why: str) -> region:
    """Return a context in which this thread's ops that draw raise RuntimeError(why).

    >>> import plugrad as torch
    >>> from plugrad.extend import refusing_random
    >>> with refusing_random("no dice"):
    ...     torch.rand(2)
    Traceback (most recent call last):
    RuntimeError: no dice
    """
    return region(random_refusal=why)
