"""Shapes and dims: what is the same for all arrays."""

from __future__ import annotations


def axes(dim, ndim: int):
    """Return `dim` (int or sequence) without negatives; IndexError if out of range.

    >>> from plugrad.extend import axes
    >>> axes(-1, 3), axes((0, -1), 3)
    (2, (0, 2))
    """
    limit = ndim or 1
    if dim.__class__ is int and -limit <= dim < limit:
        return dim + limit if dim < 0 else dim
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


def broadcast_shapes(*shapes):
    """Return the shape that the shapes broadcast to; RuntimeError when they don't fit."""
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for i in range(1, len(shape) + 1):
            size, have = shape[-i], result[-i]
            if size != have:
                if have == 1:
                    result[-i] = size
                elif size != 1:
                    raise RuntimeError(
                        f"The size of tensor a ({have}) must match the size of tensor b ({size}) at non-singleton "
                        f"dimension {ndim - i}; shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast"
                    )
    return tuple(result)
