"""Refusing values that a kernel was given, where the device need not be waited for."""

from __future__ import annotations


def refuse_outside(xp, index, low: int, size: int, error) -> None:
    """Raise `error(worst)` where an entry of an integer array is not in [low, size).

    `error` makes the exception. An array module whose results come later, such as CUDA's, may have a function
    `refuse_outside(index, low, size, error)` that does not wait for the entries: the error comes when somebody waits.

    >>> import numpy
    >>> from plugrad.extend import refuse_outside
    >>> refuse_outside(numpy, numpy.array([0, 3]), 0, 3, lambda worst: IndexError(f"{worst} is out of range"))
    Traceback (most recent call last):
        ...
    IndexError: 3 is out of range
    """
    if xp.__name__ != "numpy" and hasattr(xp, "refuse_outside"):
        xp.refuse_outside(index, low, size, error)
    elif index.size:
        flat = index.ravel()  # `argmin` has a fifth of the overhead of `min`
        smallest, largest = int(flat[flat.argmin()]), int(flat[flat.argmax()])
        if smallest < low or largest >= size:
            raise error(smallest if smallest < low else largest)


def refuse_where(xp, wrong, error) -> None:
    """Raise `error()` where an element of a bool array holds.

    As in `refuse_outside`, an array module may have a function of that name, which takes the same arguments.

    >>> import numpy
    >>> from plugrad.extend import refuse_where
    >>> refuse_where(numpy, numpy.array([False, True]), lambda: ValueError("negative"))
    Traceback (most recent call last):
        ...
    ValueError: negative
    """
    if xp.__name__ != "numpy" and hasattr(xp, "refuse_where"):
        xp.refuse_where(wrong, error)
    elif wrong.any():
        raise error()
