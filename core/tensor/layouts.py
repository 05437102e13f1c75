"""`layout` and `memory_format`: what PyTorch programs pass, and what has one meaning here."""

from __future__ import annotations


class layout:
    """How the elements are stored; only `strided` exists here."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"torch.{self._name}"

    def __reduce__(self):
        return self._name


strided = layout("strided")


class memory_format:
    """The order of the dimensions in memory; accepted, and always row-major here."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"torch.{self._name}"

    def __reduce__(self):
        return self._name


contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")
