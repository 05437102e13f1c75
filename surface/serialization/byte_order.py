"""The order of bytes of PyTorch's files that don't say theirs: `serialization.set_default_load_endianness`."""

from __future__ import annotations

import enum

_default = None


class LoadEndianness(enum.Enum):
    """An order of bytes: that of this machine, the least byte first, or the greatest."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the order of bytes of files that don't say theirs.

    None, as little, unless one was set.
    """
    return _default


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the order of bytes for files of PyTorch's that don't say theirs.

    They are from before 2.1. TypeError for what is no order.

    >>> import plugrad as torch
    >>> torch.serialization.set_default_load_endianness(torch.serialization.LoadEndianness.BIG)
    >>> torch.serialization.get_default_load_endianness()
    <LoadEndianness.BIG: 3>
    >>> torch.serialization.set_default_load_endianness(None)
    """
    global _default
    if not (endianness is None or isinstance(endianness, LoadEndianness)):
        raise TypeError(f"expected LoadEndianness, such as LoadEndianness.BIG, or None, not {endianness!r}")
    _default = endianness
