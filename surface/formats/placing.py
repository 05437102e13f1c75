"""Tensors over the memory of a file: inside of it, of their dtype, on their device, sharing what they shared."""

from __future__ import annotations

import functools

import numpy
from numpy.lib.array_utils import byte_bounds

from plugrad import Tensor, device, no_grad
from plugrad.extend import from_raw
from plugrad.formats.errors import CheckpointError, damaged


class Placer:
    """Makes the tensors of one file, and moves them where `map_location` says.

    A storage is moved as a whole, so that tensors that share memory go on sharing it on another device.
    """

    def __init__(self, map_location):
        if not (map_location is None or isinstance(map_location, (str, device, dict)) or callable(map_location)):
            what = type(map_location).__name__
            raise TypeError(f"map_location must be a device, its name, a dict of names or a function, not {what}")
        self.map_location = map_location
        self.moved: dict = {}
        self.usable = functools.cache(usable)

    def tensor(self, key, storage, element, shape, strides, offset, saved, where):
        """Return a tensor over a part of a storage.

        Args:
            key: which storage it is, for other tensors of it.
            storage: its bytes, an array of uint8, in which the part was checked to lie.
            element: the plugrad dtype.
            shape, strides, offset: strides and offset are in bytes.
            saved: name of the device it was on.
            where: what errors call the tensor.
        """
        tensor = from_raw(view(storage, dtype_of(element, where), shape, strides, offset, where))
        wanted = self.map_location
        if callable(wanted) and not isinstance(wanted, device):
            moved = wanted(tensor, saved)
            if moved is not None:
                return moved.detach() if isinstance(moved, Tensor) else tensor.to(moved)
            wanted = None
        elif isinstance(wanted, dict):
            wanted = wanted.get(saved)
        target = self.usable(saved if wanted is None else wanted)
        if target.type == "cpu":
            return tensor
        if min(strides, default=0) < 0:
            return tensor.to(target)
        key = key, str(target), element
        root = self.moved.get(key)
        if root is None:
            whole = storage[: storage.size // element.itemsize * element.itemsize]
            root = self.moved[key] = from_raw(whole.view(element.numpy)).to(target)
        steps = tuple(step // element.itemsize for step in strides)
        with no_grad():
            return root.as_strided(shape, steps, offset // element.itemsize).detach()


def view(storage, dtype, shape, strides, offset, where) -> numpy.ndarray:
    """Return the array over a part of a storage, inside of it.

    Strides and offset are in bytes.
    """
    array = numpy.ndarray(shape, dtype, storage, offset, strides)
    return _truth_values(array, storage, where) if dtype.kind == "b" else array


def dtype_of(element, where) -> numpy.dtype:
    """Return the NumPy dtype of one of plugrad's.

    CheckpointError where NumPy has no such type here.
    """
    try:
        return element.numpy
    except NotImplementedError as error:
        raise CheckpointError(f"{where}: {error}") from error


def inside(shape, strides, offset, itemsize, available, where) -> None:
    """Refuse a layout that is not within `available` bytes.

    Strides and offset are in bytes.
    """
    low = high = offset
    if 0 not in shape:
        low += sum([min(0, (size - 1) * step) for size, step in zip(shape, strides)])
        high += sum([max(0, (size - 1) * step) for size, step in zip(shape, strides)]) + itemsize
    if low < 0 or high > available:
        raise damaged(where, f"it lies outside of its storage: bytes {low} to {high} of {available}")


def _truth_values(array, storage, where):
    """Return booleans whose bytes are 0 or 1, as NumPy relies on: the array itself, unless another dtype wrote it."""
    start = storage.ctypes.data
    low, high = (end - start for end in byte_bounds(array))
    if array.size == 0 or storage[low:high].max() <= 1:
        return array
    if array.size > storage.size:
        raise damaged(where, "booleans that overlap have bytes that are neither 0 nor 1")
    return array.view(numpy.uint8) != 0


def usable(place):
    """Return the device of that name; CheckpointError if it can't be used here."""
    try:
        target = device(place)
        target.backend  # noqa: B018 - says why when it can't be used
    except RuntimeError as error:
        kind = str(place).partition(":")[0]
        raise CheckpointError(
            f"Attempting to deserialize object on a {kind.upper()} device: {str(place)!r}, which can't be used here: "
            f"{error}. To load on a machine without it, pass map_location='cpu'"
        ) from error
    return target
