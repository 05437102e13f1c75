"""`layout` and `memory_format`: what PyTorch programs pass, and what has one meaning here."""

from __future__ import annotations


class _Named:
    """A constant of this module that `plugrad` has under its name."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"torch.{self._name}"

    def __reduce__(self):
        return self._name


class layout(_Named):
    """How the elements are stored; only `strided` exists here."""


class memory_format(_Named):
    """The order of the dimensions in memory; accepted, and always row-major here."""


strided = layout("strided")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")
