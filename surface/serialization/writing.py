"""From objects to a checkpoint."""

from __future__ import annotations

import io
import json
import math
import pickle
import sys
import zipfile
from collections import Counter, OrderedDict

import numpy

import plugrad
from plugrad import Tensor, device, registry
from plugrad.formats.writing import Memory, aligned_member, memory_of
from plugrad.nn import Parameter
from plugrad.serialization.description import (
    ARRAY_DTYPES,
    FORMAT,
    HEADER,
    OBJECTS,
    WRITE_ATOM,
    are_attributes,
    is_slice,
)

_REFUSALS = (pickle.PicklingError, TypeError, AttributeError)  # of what can't be pickled


class Writer:
    """Turns an object into a JSON tree; collects tensors and pickled objects."""

    def __init__(self, pickle_module, protocol):
        self.pickle, self.protocol = pickle_module, protocol
        self.tensors: list = []
        self.numbers: dict = {}  # id of a tensor or array -> its number
        self.memory = Memory()
        self.objects: list = []
        self.open: set = set()  # ids of the containers that are being written: finds cycles
        self.alive: list = []  # what ids belong to must not be freed meanwhile

    def header(self, obj) -> dict:
        """Return the description of the whole file."""
        root = self.tree(obj)
        if self.objects:
            try:
                self.pickled = self._pickle_objects()
            except _REFUSALS as error:
                raise self._refused(obj, error) from error
        self.memory.settle()
        used = {p.distribution: p.version for p in registry.plugins.values() if p.status == "loaded" and not p.builtin}
        return {
            "format": FORMAT,
            "plugrad": plugrad.__version__,
            "plugins": used,
            "byteorder": sys.byteorder,
            "objects": sorted({class_name(o) for o in self.objects}),
            "tensors": self.tensors,
            "root": root,
        }

    def write(self, file, header) -> None:
        """Write the zip file."""
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(HEADER, json.dumps(header, separators=(",", ":"), allow_nan=False))
            for storage in self.memory.storages.values():
                name = f"data/{storage.number}.npy"
                with archive.open(aligned_member(name, archive.start_dir), "w", force_zip64=True) as member:
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
        if cls in (list, tuple, dict, set) or cls in (OrderedDict, Counter) and are_attributes(value.__dict__):
            return self._container(value, cls)
        if isinstance(value, numpy.generic) and _plain(value.dtype):
            return {"$": "scalar", "number": self.number(numpy.asarray(value))}
        if isinstance(value, Tensor) and value.is_leaf and hasattr(value, "parts"):
            tag = "nested" if value.is_nested else "sparse"
            return {"$": tag, "items": [self.tree(part) for part in value.parts()]}
        if plugrad.is_storage(value):
            return self._storage(value)
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
        elif issubclass(cls, dict):
            tree = {"$": cls.__name__, "items": [[self.tree(k), self.tree(v)] for k, v in value.items()]}
            if cls is not dict and value.__dict__:  # a state_dict has its _metadata here
                tree["attributes"] = self.tree(dict(value.__dict__))
        else:
            tree = {"$": cls.__name__, "items": [self.tree(item) for item in value]}
        self.open.discard(id(value))
        return tree

    def _storage(self, value):
        """Return a storage as a tensor of its bytes, in the memory that it shares, and the dtype that it is read as."""
        known = self.numbers.get(id(value))
        if known is None:
            untyped = value if isinstance(value, plugrad.UntypedStorage) else value.untyped()
            self.alive.append(value)
            known = self.numbers[id(value)] = self.number(plugrad.storage.tensor_over(untyped, plugrad.uint8))
        dtype = None if isinstance(value, plugrad.UntypedStorage) else value.dtype.name
        return {"$": "storage", "number": known, "dtype": dtype}

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
            array, backend = memory_of(tensor)
            attributes = attributes_of(tensor)
            if attributes:
                entry["attributes"] = self.tree(attributes)
        self.tensors[number] = entry
        if backend.symbolic:
            entry["shape"] = list(array.shape)
        else:
            self.memory.place(entry, array, backend)
        return number

    def _pickle_objects(self, objects=None) -> bytes:
        number = self._number_in_pickle

        class Pickler(self.pickle.Pickler):  # since Python 3.13 the method can't be set on an instance
            def persistent_id(self, value):
                return number(value)

        buffer = io.BytesIO()
        Pickler(buffer, self.protocol).dump(self.objects if objects is None else objects)
        return buffer.getvalue()

    def _refused(self, obj, error):
        """Return the error of the pickle machine with the place of what it refuses."""
        for each in self.objects:
            try:
                self._pickle_objects([each])
            except _REFUSALS:
                path = path_of(each, obj)
                where = f"the object at {path!r}" if path else "the object"
                message = f"can't save {where}, of type {class_name(type(each))}, which is no data: {error}"
                return (type(error) if type(error) in _REFUSALS else RuntimeError)(message)
        return error

    def _number_in_pickle(self, value):
        """Return the number under which a tensor is data of the file, or None for what is pickled as a whole."""
        if type(value) not in (Tensor, Parameter) or not value.is_leaf:
            return None
        if id(value) not in self.numbers and attributes_of(value):  # of any class: the list of objects is closed now
            return None
        return self.number(value)


def path_of(wanted, obj) -> str:
    """Return the keys that lead to an object in nested containers, such as "model.0._extra_state"; "" for itself."""
    pending, seen = [(obj, "")], set()
    while pending:
        value, path = pending.pop()
        if value is wanted:
            return path
        items = value.items() if isinstance(value, dict) else enumerate(value) if _is_list(value) else ()
        if id(value) not in seen:
            seen.add(id(value))
            pending += [(item, f"{path}.{key}" if path else str(key)) for key, item in items]
    return ""


def _is_list(value) -> bool:
    return isinstance(value, (list, tuple, set))


def attributes_of(tensor) -> dict:
    """Return what a program set on a tensor; names with an underscore in front are plugrad's own."""
    return {name: value for name, value in vars(tensor).items() if not name.startswith("_")}


def _plain(dtype) -> bool:
    return dtype.str in ARRAY_DTYPES and dtype.fields is None


def class_name(value) -> str:
    cls = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
    return f"{cls.__module__}.{cls.__qualname__}"
