"""Files of staged programs: `save`."""

from __future__ import annotations

from plugrad import serialization
from plugrad.jit.packing import packed

__all__ = ["save"]


def save(m, f, _extra_files=None) -> None:
    """Write a script module or function to a file, from which `load` makes it.

    There its source may be missing.

    Args:
        m: what `script` or `trace` returned.
        f: a path, or a file that is open for writing.
        _extra_files: {name: text or bytes} that is stored beside it.

    Raises RuntimeError for programs that call Python's own functions (`@torch.jit.ignore`), and for layers with
    attributes that are no data.
    """
    serialization.save(packed(m, _extra_files), f)
