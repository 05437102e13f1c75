"""What is wrong with data that no tensor can be made of, in PyTorch's types and words."""

from __future__ import annotations

import numpy


def refused(data, dtype) -> Exception:
    """Return the error for data of other things than numbers, or of rows of different lengths.

    >>> refused([[1, 2], [3]], None)
    ValueError('expected sequence of length 2 at dim 1 (got 1): all rows must have the same length')
    """
    first = data
    while _is_row(first) and len(first):
        first = first[0]
    if isinstance(first, str) and first and first is not data:  # taken for a sequence of letters
        return ValueError("too many dimensions 'str': a tensor holds numbers; write float(text) or int(text)")
    for item in _leaves(data):
        if not isinstance(item, (int, float, complex, numpy.generic, numpy.ndarray)):
            return _no_number(type(item).__name__, dtype)
    return _ragged(data)


def _is_row(item) -> bool:
    return isinstance(item, (list, tuple)) or isinstance(item, numpy.ndarray) and item.ndim > 0


def _leaves(data):
    for item in data if _is_row(data) else ():
        yield from _leaves(item)
    if not _is_row(data):
        yield data


def _no_number(kind, dtype) -> Exception:
    if kind in ("str", "bytes"):
        return TypeError(f"new(): invalid data type '{kind}': a tensor holds numbers")
    if dtype is not None:
        return TypeError(f"must be real number, not {kind}")
    return RuntimeError(f"Could not infer dtype of {kind}: a tensor is made of numbers, and of sequences of them")


def _ragged(data) -> Exception:
    level, depth = [data], 0
    while level:
        lengths = {len(item) if _is_row(item) else None for item in level}
        if len(lengths) > 1 and None in lengths:
            return TypeError(f"numbers and sequences are mixed at dim {depth}: write rows of the same kind")
        if len(lengths) > 1:
            low, high = min(lengths), max(lengths)
            return ValueError(
                f"expected sequence of length {high} at dim {depth} (got {low}): all rows must have the same length"
            )
        level, depth = [item for row in level if _is_row(row) for item in row], depth + 1
    return ValueError(f"too many dimensions: the data has {depth - 1}")
