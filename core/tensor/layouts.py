"""`layout` and `memory_format`: the order of elements in memory, and tensors for which it is open still."""

from __future__ import annotations


class _Named:
    """A constant of this module that `plugrad` has under its name."""

    __slots__ = ("_name",)

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"torch.{self._name}"

    def __reduce__(self):
        return self._name


class layout(_Named):
    """How the elements are stored; only `strided` exists here."""

    __slots__, __module__ = (), "plugrad"  # where pickles find them


class memory_format(_Named):
    """The order of dimensions in memory: row-major, or with the channels innermost."""

    __slots__, __module__ = (), "plugrad"


strided = layout("strided")
factories: dict = {}  # name of an op such as zeros -> what makes its tensors of another layout
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")


def is_channels_last(shape, strides) -> bool:
    """Whether strides are those of packed images or volumes, channels innermost."""
    if len(shape) not in (4, 5) or 0 in shape:
        return False
    step = least = 0
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        step = strides[d]
        if step < least or d == 0 and least == strides[1]:  # the latter are vectors: row-major as well
            return False
        least = step * shape[d]
    return strides[1] > 0


def is_packed(array, format: memory_format) -> bool:
    """Whether the elements lie in memory one after another, in the order of `channels_last` or `channels_last_3d`."""
    if array.ndim != (4 if format is channels_last else 5):
        return False
    expected = array.itemsize
    for d in (1, *range(array.ndim - 1, 1, -1), 0):
        if array.shape[d] != 1:
            if array.strides[d] != expected:
                return False
            expected *= array.shape[d]
    return True


def open_type(ttype, array, how=True):
    """Return the type of a tensor that counts as row-major with whatever array; channels last only if so it says."""
    if array.flags.c_contiguous or how != "rows" and is_channels_last(array.shape, array.strides):
        return ttype
    return ttype.opened()


def lay_out(tensor):
    """Put the elements of a tensor that counts as row-major into that order if they are not; return the tensor."""
    ttype = getattr(tensor, "_type", None)
    if ttype is not None and ttype.is_open:
        tensor._raw, tensor._type = ttype.xp.asarray(tensor._raw, order="C"), ttype.plain
    return tensor
