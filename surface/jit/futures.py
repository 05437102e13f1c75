"""`fork` and `wait`: a call is carried out at once, and its result is asked for later."""

from __future__ import annotations

__all__ = ["Future", "fork", "wait"]


class Future:
    """The result of a call that `fork` has carried out."""

    __module__ = "plugrad.jit"

    def __init__(self, value):
        self._value = value

    def __class_getitem__(cls, kind):
        return cls  # of what it is, `wait` tells

    def wait(self):
        """Return the result."""
        return self._value

    value = wait

    def done(self) -> bool:
        """Always True."""
        return True


def fork(func, *args, **kwargs) -> Future:
    """Call the function now, and return its result as a `Future`."""
    return Future(func(*args, **kwargs))


def wait(future):
    """Return the result of a `Future`."""
    if not hasattr(future, "wait"):
        raise TypeError(f"wait(): argument 'future' must be Future, not {type(future).__name__}: what fork() returned")
    return future.wait()
