"""Dims that are no plain integers, or no such tuple: lists, what converts to an integer, and what is refused."""

from __future__ import annotations

from plugrad.extend import axes


def axes_of(dim, ndim: int):
    """Return what `plugrad.extend.axes` does, for such dims."""
    limit = ndim or 1
    if isinstance(dim, (tuple, list)):
        if any([isinstance(one, (tuple, list)) for one in dim]) or dim and isinstance(dim[0], bool):
            raise TypeError("dim must be an int or a tuple of ints, neither nested nor of bools")
        dims = tuple([axes(one, ndim) for one in dim])
        if len(dims) > 1 and len(set(dims)) != len(dims):
            twice = next(one for i, one in enumerate(dims) if one in dims[:i])
            raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
        return dims
    if dim.__class__ is not int:
        try:
            dim = dim.__index__()
        except AttributeError:
            raise TypeError(f"dim must be an int, not {type(dim).__name__}") from None
    if not -limit <= dim < limit:
        if dim.bit_length() > 63 and dim != -(1 << 63):
            raise ValueError(f"Overflow when unpacking long long: dim has more than 64 bits ({dim})")
        raise IndexError(f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})")
    return dim + limit if dim < 0 else dim
