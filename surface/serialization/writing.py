"""From objects to a checkpoint."""

from __future__ import annotations

import io
import json
import math
import struct
import sys
import time
import zipfile
from collections import OrderedDict

import numpy

import plugrad
from plugrad import Tensor, device, registry, strided
from plugrad.nn import Parameter
from plugrad.serialization.description import (
    ARRAY_DTYPES,
    FORMAT,
    HEADER,
    NUMERIC,
    OBJECTS,
    WRITE_ATOM,
    are_attributes,
    is_slice,
)


class Writer:
    """Turns an object into a JSON tree, and collects the tensors and the objects that are not data."""

    def __init__(self, pickle_module, protocol):
        self.pickle, self.protocol = pickle_module, protocol
        self.tensors: list = []
        self.numbers: dict = {}  # id of a tensor or array -> its number
        self.storages: dict = {}  # id of a storage -> _Storage
        self.objects: list = []
        self.open: set = set()  # ids of the containers that are being written: finds cycles
        self.alive: list = []  # what ids belong to must not be freed meanwhile

    def header(self, obj) -> dict:
        """Return the description of the whole file."""
        root = self.tree(obj)
        if self.objects:
            self.pickled = self._pickle_objects()
        for storage in self.storages.values():
            storage.settle()
        used = {p.distribution: p.version for p in registry.plugins.values() if p.status == "loaded" and not p.builtin}
        return {
            "format": FORMAT,
            "plugrad": plugrad.__version__,
            "plugins": used,
            "byteorder": sys.byteorder,
            "objects": sorted({_class_name(o) for o in self.objects}),
            "tensors": self.tensors,
            "root": root,
        }

    def write(self, file, header) -> None:
        """Write the zip file."""
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(HEADER, json.dumps(header, separators=(",", ":"), allow_nan=False))
            for storage in self.storages.values():
                name = f"data/{storage.number}.npy"
                with archive.open(_aligned(name, archive.start_dir), "w", force_zip64=True) as member:
                    numpy.lib.format.write_array(member, storage.content(), allow_pickle=False)
            if self.objects:
                archive.writestr(OBJECTS, self.pickled)

    def tree(self, value):
        """Return the JSON form of a value."""
        cls = type(value)
        if value is None or cls in (bool, str):
            return value
        if cls is int:
            return value if value.bit_length() < 1000 else {"$": "int", "value": hex(value)}
        if cls is float:
            return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
        if cls in (Tensor, Parameter) or cls is numpy.ndarray and _plain(value.dtype):
            return {"$": "tensor", "number": self.number(value)}
        if cls in (list, tuple, dict, set) or cls is OrderedDict and are_attributes(value.__dict__):
            return self._container(value, cls)
        if isinstance(value, numpy.generic) and _plain(value.dtype):
            return {"$": "scalar", "number": self.number(numpy.asarray(value))}
        if isinstance(value, Tensor) and value.layout is not strided and value.is_leaf:
            return {"$": "sparse", "items": [self.tree(part) for part in value.parts()]}
        if cls in WRITE_ATOM and (cls is not slice or is_slice(value)):
            tag, write = WRITE_ATOM[cls]
            return {"$": tag, "value": write(value)}
        self.objects.append(value)
        return {"$": "object", "number": len(self.objects) - 1}

    def _container(self, value, cls):
        if id(value) in self.open:
            raise ValueError(f"can't save a {cls.__name__} that contains itself")
        self.open.add(id(value))
        if cls is list:
            tree = [self.tree(item) for item in value]
        elif cls is dict and all(type(key) is str and key != "$" for key in value):
            tree = {key: self.tree(item) for key, item in value.items()}
        elif cls in (dict, OrderedDict):
            tree = {"$": cls.__name__, "items": [[self.tree(k), self.tree(v)] for k, v in value.items()]}
            if cls is OrderedDict and value.__dict__:  # a state_dict has its _metadata here
                tree["attributes"] = self.tree(dict(value.__dict__))
        else:
            tree = {"$": cls.__name__, "items": [self.tree(item) for item in value]}
        self.open.discard(id(value))
        return tree

    def number(self, tensor) -> int:
        """Return the number of a tensor or array in the file, entering it at first sight."""
        known = self.numbers.get(id(tensor))
        if known is not None:
            return known
        self.alive.append(tensor)
        number = self.numbers[id(tensor)] = len(self.tensors)
        self.tensors.append(None)
        if isinstance(tensor, numpy.ndarray):
            entry = {"kind": "ndarray", "dtype": tensor.dtype.str}
            array, backend = tensor, device("cpu").backend
        else:
            entry = {"kind": type(tensor).__name__, "dtype": tensor.dtype.name, "device": str(tensor.device)}
            if tensor.requires_grad:
                entry["requires_grad"] = True
            array, backend = tensor._data, tensor._type.backend
            attributes = _attributes(tensor)
            if attributes:
                entry["attributes"] = self.tree(attributes)
        self.tensors[number] = entry
        if backend.symbolic:
            entry["shape"] = list(array.shape)
        else:
            self._place(entry, array, backend)
        return number

    def _place(self, entry, array, backend) -> None:
        """Enter where the elements are: in which storage, from which byte, in which steps."""
        root = backend.storage(array)
        if not (root.flags.c_contiguous or root.flags.f_contiguous) or _offgrid(array, root):
            root = array = numpy.ascontiguousarray(backend.to_numpy(array)).reshape(array.shape)
            backend = device("cpu").backend
        storage = self.storages.get(id(root))
        if storage is None:
            storage = self.storages[id(root)] = _Storage(len(self.storages), root, backend)
        storage.add(entry, array)

    def _pickle_objects(self) -> bytes:
        number = self._number_in_pickle

        class Pickler(self.pickle.Pickler):  # since Python 3.13 the method can't be set on an instance
            def persistent_id(self, value):
                return number(value)

        buffer = io.BytesIO()
        Pickler(buffer, self.protocol).dump(self.objects)
        return buffer.getvalue()

    def _number_in_pickle(self, value):
        """Return the number under which a tensor is data of the file, or None for what is pickled as a whole."""
        if type(value) not in (Tensor, Parameter) or not value.is_leaf:
            return None
        if id(value) not in self.numbers and _attributes(value):  # of any class: the list of objects is closed now
            return None
        return self.number(value)


def _aligned(name, position):
    """Return a member whose content begins at a multiple of 64 bytes of the file, so that it can be mapped."""
    info = zipfile.ZipInfo(name, time.localtime()[:6])
    filling = -(position + 30 + len(name) + 20 + 4) % 64  # its own header, the sizes in 64 bits, and the filling's tag
    info.extra = struct.pack("<HH", 0xD935, filling) + bytes(filling)
    return info


def _address(array) -> int:
    return array.ctypes.data if isinstance(array, numpy.ndarray) else array.data.ptr


def _attributes(tensor) -> dict:
    """Return what a program set on a tensor; names with an underscore in front are plugrad's own."""
    return {name: value for name, value in vars(tensor).items() if not name.startswith("_")}


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
        flat = self.root.T if self.root.flags.f_contiguous else self.root
        self.array = self.backend.to_numpy(flat).reshape(-1).view(numpy.uint8)[low:high]
        for entry, array, start, _, _ in self.users:
            offset = start - low if array.size else 0
            entry.update(storage=self.number, offset=offset, shape=list(array.shape), strides=list(array.strides))
        if len({array.dtype for _, array, *_ in self.users}) == 1 and not (high - low) % array.itemsize:
            self.array = self.array.view(array.dtype)

    def content(self) -> numpy.ndarray:
        """Return the array to write, of a dtype that the .npy format knows."""
        array = self.array.reshape(-1)
        return array if array.dtype.kind in NUMERIC and array.dtype.isbuiltin == 1 else array.view(numpy.uint8)


def _plain(dtype) -> bool:
    return dtype.str in ARRAY_DTYPES and dtype.fields is None


def _offgrid(array, root) -> bool:
    """Whether elements lie between those of a row of such elements, as the fields of a record do."""
    return any(place % array.itemsize for place in (_address(array) - _address(root), *array.strides))


def _class_name(value) -> str:
    cls = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
    return f"{cls.__module__}.{cls.__qualname__}"
