"""What kernels and gradient formulas are written with, beside the ops themselves: dimensions, shapes, conjugates."""

from __future__ import annotations

import numpy

from plugrad.tensor.shapes import axes

PLAIN = frozenset({int, float, bool, str, type(None), slice, complex, type(Ellipsis)})


def keep_dims(F, g, shape, dim, keepdim):
    """Return the gradient `g` of a reduction with the reduced dimensions of `shape` restored as size 1.

    >>> import numpy, plugrad
    >>> from plugrad.extend import keep_dims
    >>> keep_dims(plugrad.extend.F, plugrad.ones(2), (2, 3), 1, False).shape
    torch.Size([2, 1])
    """
    if keepdim or not len(shape):
        return g
    if dim is None or (isinstance(dim, (tuple, list)) and not len(dim)):
        return F.reshape(g, (1,) * len(shape))
    reduced = axes(dim, len(shape))
    reduced = reduced if isinstance(reduced, tuple) else (reduced,)
    return F.reshape(g, tuple(1 if i in reduced else n for i, n in enumerate(shape)))


def conj(F, value):
    """Return the complex conjugate of a tensor or number, for gradient formulas; real ones come back as they are.

    In the formulas of the fast path, which are real, the call is replaced by one that does nothing.
    """
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return value.conjugate()
    # Only raw arrays have a dtype with a `kind`; asking it is cheaper than a call that does nothing.
    return value if getattr(dtype, "kind", "c") != "c" else F.conj(value)


_ONES: dict = {}  # NumPy dtype -> 1 as a 0-d array


def complement(F, value):
    """Return 1 - value, for gradient formulas: on real NumPy arrays in half the time of the operator.

    >>> import numpy
    >>> from plugrad.extend import F, complement
    >>> complement(F, numpy.array([0.25, 1.0]))
    array([0.75, 0.  ])
    """
    if type(value) is not numpy.ndarray:
        return 1 - value
    one = _ONES.get(value.dtype)
    if one is None:
        one = _ONES[value.dtype] = numpy.ones((), value.dtype)
    return one - value
