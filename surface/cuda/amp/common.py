"""Whether there can be autocast on CUDA."""

from __future__ import annotations

import plugrad

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Return whether there is no CUDA device here."""
    return not plugrad.cuda.is_available()
