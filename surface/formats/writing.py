"""What writers of files share: members of zip files that can be mapped, and dicts of tensors."""

from __future__ import annotations

import struct
import time
import zipfile
from collections.abc import Mapping

import numpy

from plugrad import Tensor, device, strided
from plugrad.formats.shards import as_bytes, parts_of
from plugrad.formats.shards import write as write_shards
from plugrad.tensor.layouts import lay_out

__all__ = ["Memory", "aligned_member", "as_bytes", "named_arrays", "parts_of", "write_shards"]

_NUMERIC = "biufc"  # the kinds of NumPy's dtypes that .npy files hold


def aligned_member(name, position):
    """Return a member whose content begins at a multiple of 64 bytes of the file, so that it can be mapped."""
    info = zipfile.ZipInfo(name, time.localtime()[:6])
    filling = -(position + 30 + len(name) + 20 + 4) % 64  # its own header, the sizes in 64 bits, and the filling's tag
    info.extra = struct.pack("<HH", 0xD935, filling) + bytes(filling)
    return info


def memory_of(tensor) -> tuple:
    """Return a tensor's array, up to date and in the order that the tensor says that it has, and its backend."""
    tensor._refresh(False)
    return lay_out(tensor)._raw, tensor._type.backend


class Memory:
    """The storages behind the tensors that are written: what shares memory shares it in the file."""

    def __init__(self):
        self.storages: dict = {}  # id of an array of memory -> _Storage

    def place(self, entry, array, backend) -> None:
        """Enter where the elements are: in which storage, from which byte, in which steps."""
        root = backend.storage(array)
        if _in_order(root) is None or _offgrid(array, root):
            root = array = numpy.ascontiguousarray(backend.to_numpy(array)).reshape(array.shape)
            backend = device("cpu").backend
        storage = self.storages.get(id(root))
        if storage is None:
            storage = self.storages[id(root)] = _Storage(len(self.storages), root, backend)
        storage.add(entry, array)

    def settle(self) -> None:
        """Choose what to write of each, now that all its users are known, and enter the places."""
        for storage in self.storages.values():
            storage.settle()


def _in_order(array):
    """Return a view of an array in which its elements come as they lie in memory; None if there are gaps."""
    if array.flags.c_contiguous:
        return array
    array = array.transpose(sorted(range(array.ndim), key=lambda dim: -array.strides[dim]))
    return array if array.flags.c_contiguous else None


def _address(array) -> int:
    return array.ctypes.data if isinstance(array, numpy.ndarray) else array.data.ptr


class _Storage:
    """One piece of memory, the entries of the tensors in it, and which part of it they need."""

    def __init__(self, number, root, backend):
        self.number, self.root, self.backend = number, root, backend
        self.users: list = []

    def add(self, entry, array) -> None:
        start = _address(array) - _address(self.root)
        low, high = start, start + array.itemsize
        for n, step in zip(array.shape, array.strides):
            low, high = low + min(0, (n - 1) * step), high + max(0, (n - 1) * step)
        if array.size == 0:
            low = high = start = 0
        self.users.append((entry, array, start, low, high))

    def settle(self) -> None:
        """Choose what to write, now that all users are known, and enter the places."""
        entry, array, start, low, high = self.users[0]
        if len(self.users) == 1 and array.nbytes < high - low:  # a view with gaps: write its elements only
            self.array = numpy.ascontiguousarray(self.backend.to_numpy(array)).reshape(array.shape)
            entry.update(storage=self.number, offset=0, shape=list(array.shape), strides=list(self.array.strides))
            return
        low = min((user[3] for user in self.users if user[1].size), default=0)
        high = max((user[4] for user in self.users), default=0)
        self.array = self.backend.to_numpy(_in_order(self.root)).reshape(-1).view(numpy.uint8)[low:high]
        for entry, array, start, _, _ in self.users:
            offset = start - low if array.size else 0
            entry.update(storage=self.number, offset=offset, shape=list(array.shape), strides=list(array.strides))
        if len({array.dtype for _, array, *_ in self.users}) == 1 and not (high - low) % array.itemsize:
            self.array = self.array.view(array.dtype)

    def content(self) -> numpy.ndarray:
        """Return the array to write, of a dtype that the .npy format knows."""
        array = self.array.reshape(-1)
        return array if array.dtype.kind in _NUMERIC and array.dtype.isbuiltin == 1 else array.view(numpy.uint8)


def _offgrid(array, root) -> bool:
    """Whether elements lie between those of a row of such elements, as the fields of a record do."""
    return any(place % array.itemsize for place in (_address(array) - _address(root), *array.strides))


def named_arrays(obj, what: str) -> dict:
    """Return the arrays in a dict of tensors by name; TypeError, naming the format, for anything else.

    Nested dicts of tensors are refused with the path of the first one: the names would not say how to build them again.
    """
    if not isinstance(obj, Mapping):
        raise TypeError(f"{what} holds a dict of tensors by name, not {type(obj).__name__}: save model.state_dict()")
    return {_name(name, what): _array(name, value, what) for name, value in obj.items()}


def _name(name, what):
    if type(name) is not str:
        raise TypeError(f"{what} holds tensors by name, and {name!r} is no str")
    return name


def _array(name, value, what) -> numpy.ndarray:
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return numpy.asarray(value)
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{what} holds tensors by name, and {name!r} is {type(value).__name__}: save the tensors alone, or all of "
            'it with format="torch" or in plugrad\'s own format'
        )
    if value.layout is not strided:
        raise TypeError(f"{what} holds no sparse tensors, and {name!r} is one: save it as {name}.to_dense()")
    if value.device.type == "meta":
        raise TypeError(f"{name!r} is on the meta device and has no elements to save")
    array, backend = memory_of(value)
    return numpy.asarray(backend.to_numpy(array))  # numpy() would refuse bfloat16
