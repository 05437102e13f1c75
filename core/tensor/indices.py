"""What can stand in the brackets of `x[...]`."""

from __future__ import annotations

import operator

import numpy

_VALID = "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices"
_ENDS = {int, type(None)}  # of most slices; a tensor there is a number, which later writes do not change


def tidy_index(index):
    """Return an index as a tuple, integers of all kinds as ints; else IndexError."""
    if isinstance(index, list) and len(index) < 32 and any(map(_is_no_number, index)):
        index = tuple(index)  # x[[slice(0, 1), 2]] and x[[[0, 1], [1, 0]]] mean x[...] of a tuple
    return tuple([_tidy_item(i) for i in (index if isinstance(index, tuple) else (index,))])


def _is_no_number(item):
    many = hasattr(type(item), "__getitem__") and not isinstance(item, (int, numpy.generic))  # the class of an Enum has
    return many or isinstance(item, (slice, type(None), type(...)))


def _tidy_item(item):
    if item.__class__ is slice:
        start, stop, step = item.start, item.stop, item.step
        if step is not None and operator.index(step) <= 0:
            raise ValueError("step must be greater than zero; use flip for reversed order")
        if start.__class__ in _ENDS and stop.__class__ in _ENDS and step.__class__ in _ENDS:
            return item
        return slice(*[operator.index(n) if hasattr(n, "__index__") else n for n in (start, stop, step)])
    if item is None or item is Ellipsis or isinstance(item, (bool, list, tuple, range)):
        return item
    if hasattr(type(item), "dtype") and not isinstance(item, numpy.bool_):
        name = str(item.dtype).rpartition(".")[2]
        if item.ndim == 0 and "int" in name and (name != "uint8" or isinstance(item, numpy.generic)):
            return int(item)  # a tensor of uint8 is a mask
        if name in ("int64", "int32", "bool", "uint8"):
            return item
        is_data = getattr(item.dtype, "kind", "i") in "biufc"  # else an array of strings, dates or objects
        raise (IndexError if is_data else TypeError)("tensors used as indices must be long, int, byte or bool tensors")
    if hasattr(type(item), "__index__"):
        return operator.index(item)
    # PyTorch takes a string for data of a tensor of indices, hence another class.
    raise (TypeError if isinstance(item, str) else IndexError)(f"{_VALID} (got {type(item).__name__})")


def is_basic_index(index):
    """Whether a tidy index selects a view: ints, slices, None and Ellipsis only."""
    for item in index:
        if not (item is None or item is Ellipsis or item.__class__ is int or item.__class__ is slice):
            return False
    return True
