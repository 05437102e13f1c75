"""The version of PyTorch whose names plugrad has, which can be compared as versions are: `torch.torch_version`."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

import plugrad

__all__ = ["TorchVersion"]


class TorchVersion(str):
    """The text of a version; comparisons look at its numbers, with text or a tuple of numbers on the other side.

    >>> version = TorchVersion("2.13.0+plugrad.0.1.0")
    >>> version > "2.2", version >= (2, 13), version < "2.13.1", version == "2.13.0+plugrad.0.1.0"
    (True, True, True, True)
    """

    __slots__ = ()

    def _compared(self, other):
        """Return the two as keys that sort, or None where the other one is no version."""
        if not isinstance(other, str):
            try:
                other = ".".join(map(str, other))
            except TypeError:
                return None
        keys = [_key(str(self)), _key(str(other))]
        return None if None in keys else keys

    def __eq__(self, other):
        keys = self._compared(other)
        return str.__eq__(self, other) if keys is None else keys[0] == keys[1]

    def __lt__(self, other):
        keys = self._compared(other)
        return str.__lt__(self, other) if keys is None else keys[0] < keys[1]

    def __gt__(self, other):
        keys = self._compared(other)
        return str.__gt__(self, other) if keys is None else keys[0] > keys[1]

    def __le__(self, other):
        return self < other or self == other

    def __ge__(self, other):
        return self > other or self == other

    __hash__ = str.__hash__


def _key(text):
    """Return what the text of a version is sorted by, None where it is no version."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


__version__ = TorchVersion(f"2.13.0+plugrad.{plugrad.__version__}")
