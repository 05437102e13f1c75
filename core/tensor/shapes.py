"""Shapes and dims: what is the same for all arrays."""

from __future__ import annotations

from plugrad.graph import rare


def axes(dim, ndim: int):
    """Return `dim` (int or sequence) without negatives; IndexError if out of range.

    >>> from plugrad.extend import axes
    >>> axes(-1, 3), axes((0, -1), 3)
    (2, (0, 2))
    """
    limit = ndim or 1
    if dim.__class__ is int and -limit <= dim < limit:
        return dim + limit if dim < 0 else dim
    if dim.__class__ is tuple and False not in [one.__class__ is int for one in dim]:
        dims = tuple([axes(one, ndim) for one in dim])
        if len(dims) < 2 or len(set(dims)) == len(dims):
            return dims
    return rare.axes_of(dim, ndim)


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
