"""Memory that was just allocated: what stands in it where results have to be deterministic."""

from __future__ import annotations

import numpy

from plugrad.devices.dtypes import is_differentiable

_chosen = {"deterministic": False, "fill": True}
_filling: list = []  # not empty while both are chosen: the quickest thing to ask


def choose_memory(**choices) -> None:
    """Note whether new memory is to be filled.

    It is while ops have to be deterministic (`deterministic=True`) and it is wanted then (`fill=True`, the default).
    """
    _chosen.update(choices)
    _filling[:] = [True] if all(_chosen.values()) else []


def chosen_memory(name: str) -> bool:
    """Return what `choose_memory` was last told."""
    return _chosen[name]


def new_memory(array):
    """Return an array just allocated, filled where that is chosen.

    What it is filled with is NaN, or the largest integer.

    >>> import numpy
    >>> array = numpy.zeros(2)
    >>> new_memory(array) is array
    True
    """
    if _filling:
        kind = array.dtype.kind
        array[...] = numpy.nan if is_differentiable(array.dtype) else kind == "b" or numpy.iinfo(array.dtype).max
    return array


def locked_if_shared(array):
    """Return an array, locked where strides of zero make some elements one.

    In-place ops write what NumPy lets them write: such an array takes fills, and refuses all else.

    >>> import numpy
    >>> column = numpy.lib.stride_tricks.as_strided(numpy.zeros(2), (2, 3), (8, 0))
    >>> column.flags.writeable, locked_if_shared(column).flags.writeable
    (True, False)
    """
    shared = array.size and any([step == 0 and n > 1 for n, step in zip(array.shape, array.strides)])
    if shared and getattr(array.flags, "writeable", False):
        array = array[...]  # of what may be written, which NumPy asks for before it unlocks for a fill
        array.flags.writeable = False
    return array
