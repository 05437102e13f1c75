"""The standard's functions that make arrays."""

from __future__ import annotations

import plugrad as torch
from plugrad import interchange

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
    "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """Evenly spaced numbers from start up to stop, which is not among them."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        whole = all(isinstance(one, int) for one in (start, stop, step))
        dtype = torch.int64 if whole else torch.get_default_dtype()
    if (stop - start) * step <= 0:
        return torch.empty(0, dtype=dtype, device=device)
    return torch.arange(start, stop, step, dtype=dtype, device=device)


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An object (array, numbers, buffer, DLPack) as an array.

    `copy` says whether it must (True), may (None) or must not (False) be copied.
    """
    return interchange.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x, /, *, device=None, copy=None):
    """An array over another library's memory; `copy=True` takes memory of its own."""
    return interchange.from_dlpack(x, device=device, copy=copy)


def empty(shape, *, dtype=None, device=None):
    """An array that is not filled."""
    return torch.empty(shape, dtype=dtype, device=device)


def zeros(shape, *, dtype=None, device=None):
    """An array of zeros."""
    return torch.zeros(shape, dtype=dtype, device=device)


def ones(shape, *, dtype=None, device=None):
    """An array of ones."""
    return torch.ones(shape, dtype=dtype, device=device)


def full(shape, fill_value, *, dtype=None, device=None):
    """An array of one number."""
    return torch.full((shape,) if isinstance(shape, int) else shape, fill_value, dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    """An array as another, not filled."""
    return torch.empty_like(x, dtype=dtype, device=device)


def zeros_like(x, /, *, dtype=None, device=None):
    """An array of zeros as another."""
    return torch.zeros_like(x, dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    """An array of ones as another."""
    return torch.ones_like(x, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """An array of one number as another."""
    return torch.full_like(x, fill_value, dtype=dtype, device=device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """A matrix with ones on a diagonal: the main one, or the k-th above it."""
    rows = torch.arange(n_rows, device=device)[:, None]
    columns = torch.arange(n_rows if n_cols is None else n_cols, device=device)
    return (columns - rows == k).to(torch.get_default_dtype() if dtype is None else dtype)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """`num` evenly spaced numbers from start to stop; `endpoint=False` leaves it out."""
    points = torch.linspace(start, stop, num + (not endpoint), dtype=dtype, device=device)
    return points[:num]


def meshgrid(*arrays, indexing="xy"):
    """Coordinates of a grid from those along its axes, an array for each axis."""
    return list(torch.meshgrid(*arrays, indexing=indexing)) if arrays else []


def tril(x, /, *, k=0):
    """Matrices with zeros above the k-th diagonal."""
    return torch.tril(x, k)


def triu(x, /, *, k=0):
    """Matrices with zeros below the k-th diagonal."""
    return torch.triu(x, k)
