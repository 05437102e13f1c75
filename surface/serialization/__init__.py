"""`save` and `load`: a zip file of one JSON description and one .npy member per storage.

Tensors, NumPy arrays, numbers, strings and the usual containers of them are written as data and need no pickle, so
loading them can't run code, and any program that reads JSON and .npy can read the file. Other objects (a whole Module)
go into one pickle member, which `load` opens only with `weights_only=False`. Tensors that share memory share it after
loading. The description lists the version of plugrad and the plugin distributions that were in use.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import pickle
import zipfile
from collections import OrderedDict

import numpy

import plugrad
from plugrad import Size, Tensor, device, no_grad, registry
from plugrad.extend import from_raw
from plugrad.nn import Parameter

FORMAT = 1
NUMERIC = "biufc"  # the kinds of NumPy's dtypes that are written as arrays
HEADER, OBJECTS = "plugrad.json", "objects.pkl"
_CLASSES = {"Tensor": Tensor, "Parameter": Parameter}


def save(obj, f, pickle_module=pickle, pickle_protocol=4, **ignored) -> None:
    """Write an object to a file: `save(model.state_dict(), "model.pt")`.

    Args:
        obj: tensors, arrays, numbers, strings and containers of them, or anything that can be pickled.
        f: a path, written to a temporary file first so that a failure leaves the old one as it was, or an open file.
        pickle_module, pickle_protocol: for objects that are not plain data.

    Raises RuntimeError for tensors that were computed from others inside pickled objects, and what pickle raises.

    >>> import io, plugrad as torch
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    writer = _Writer(pickle_module, pickle_protocol)
    header = writer.header(obj)
    if hasattr(f, "write"):
        writer.write(f, header)
        return
    try:
        path = os.fspath(f)
    except TypeError:
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, not {type(f).__name__}"
        ) from None
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            writer.write(file, header)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)


def load(f, map_location=None, pickle_module=pickle, *, weights_only=True, mmap=None, **ignored):
    """Return what `save` wrote.

    Args:
        f: a path or an open file.
        map_location: where tensors go: a device, a dict from saved to wanted devices, or a function of (tensor on the
            CPU, name of the saved device) that returns a tensor, or None for the saved device.
        weights_only: never unpickle; False also restores arbitrary objects, which can run any code: only for files
            that you trust.
        mmap: map the file's data into memory instead of reading it; needs a path. Writes don't reach the file.

    Raises pickle.UnpicklingError for a file that holds pickled objects when `weights_only`, and RuntimeError for files
    that are no checkpoint, are damaged, or hold tensors of a device that is not there.
    """
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a string filename in order to use mmap argument")
    with _open(f) as (archive, path):
        return _Reader(archive, path if mmap else None, map_location, weights_only, pickle_module).root()


def describe(f) -> dict:
    """Return what a checkpoint says of itself.

    "plugrad" and "plugins" are versions, "objects" the pickled classes, "tensors" what and where each is.

    >>> import io, plugrad as torch
    >>> file = io.BytesIO()
    >>> torch.save([torch.ones(2)], file)
    >>> torch.serialization.describe(file)["objects"]
    []
    """
    with _open(f) as (archive, _):
        header = _header(archive)
        return {name: header.get(name) for name in ("plugrad", "plugins", "objects", "tensors")}


# ---------------------------------------------------------------------------------------------------- writing


class _Writer:
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
            "objects": sorted({_class_name(o) for o in self.objects}),
            "tensors": self.tensors,
            "root": root,
        }

    def write(self, file, header) -> None:
        """Write the zip file."""
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(HEADER, json.dumps(header, separators=(",", ":"), allow_nan=False))
            for storage in self.storages.values():
                with archive.open(f"data/{storage.number}.npy", "w", force_zip64=True) as member:
                    numpy.lib.format.write_array(member, storage.content(), allow_pickle=False)
            if self.objects:
                archive.writestr(OBJECTS, self.pickled)

    def tree(self, value):
        """Return the JSON form of a value."""
        cls = type(value)
        if value is None or cls in (bool, int, str):
            return value
        if cls is float:
            return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
        if cls in (Tensor, Parameter) or cls is numpy.ndarray and value.dtype.kind in NUMERIC:
            return {"$": "tensor", "number": self.number(value)}
        if cls in (list, tuple, dict, OrderedDict, set):
            return self._container(value, cls)
        if isinstance(value, numpy.generic) and value.dtype.kind in NUMERIC:
            return {"$": "scalar", "number": self.number(numpy.asarray(value))}
        plain = _ATOMS.get(cls)
        if plain is not None:
            return {"$": plain[0], "value": plain[1](value)}
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
        if isinstance(tensor, numpy.ndarray):
            entry = {"kind": "ndarray", "dtype": tensor.dtype.str}
            array, backend = tensor, device("cpu").backend
        else:
            entry = {"kind": type(tensor).__name__, "dtype": tensor.dtype.name, "device": str(tensor.device)}
            if tensor.requires_grad:
                entry["requires_grad"] = True
            array, backend = tensor._data, tensor._type.backend
        self.tensors.append(entry)
        if backend.symbolic:
            entry["shape"] = list(array.shape)
        else:
            self._place(entry, array, backend)
        return number

    def _place(self, entry, array, backend) -> None:
        """Enter where the elements are: in which storage, from which byte, in which steps."""
        root = backend.storage(array)
        if not (root.flags.c_contiguous or root.flags.f_contiguous):
            root = array = numpy.ascontiguousarray(backend.to_numpy(array)).reshape(array.shape)
            backend = device("cpu").backend
        storage = self.storages.get(id(root))
        if storage is None:
            storage = self.storages[id(root)] = _Storage(len(self.storages), root, backend)
        storage.add(entry, array)

    def _pickle_objects(self) -> bytes:
        buffer = io.BytesIO()
        pickler = self.pickle.Pickler(buffer, self.protocol)
        pickler.persistent_id = lambda o: self.number(o) if type(o) in (Tensor, Parameter) and o.is_leaf else None
        pickler.dump(self.objects)
        return buffer.getvalue()


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


def _class_name(value) -> str:
    cls = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
    return f"{cls.__module__}.{cls.__qualname__}"


_ATOMS = {
    complex: ("complex", lambda v: [repr(v.real), repr(v.imag)]),
    bytes: ("bytes", lambda v: v.hex()),
    Size: ("Size", list),
    plugrad.dtype: ("dtype", lambda v: v.name),
    device: ("device", str),
    slice: ("slice", lambda v: [v.start, v.stop, v.step]),
}

_DTYPES = {value.name: value for value in vars(plugrad).values() if isinstance(value, plugrad.dtype)}

_MAKE = {
    "float": float,
    "complex": lambda v: complex(*map(float, v)),
    "bytes": bytes.fromhex,
    "Size": Size,
    "dtype": _DTYPES.__getitem__,
    "device": device,
    "slice": lambda v: slice(*v),
}


# ---------------------------------------------------------------------------------------------------- reading


@contextlib.contextmanager
def _open(f):
    """Give the zip archive of a path or an open file, and its path; RuntimeError for what is no zip file."""
    named = isinstance(f, (str, os.PathLike))
    if not named and not (hasattr(f, "read") and hasattr(f, "seek")):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with 'read' and 'seek' attributes, not "
            f"{type(f).__name__}"
        )
    path = os.fspath(f) if named else None
    try:
        archive = zipfile.ZipFile(f)
    except zipfile.BadZipFile:
        what = repr(path) if named else "the file"
        raise RuntimeError(f"{what} is no checkpoint of plugrad: it is not a zip file, or it was cut off") from None
    with archive:
        yield archive, path


def _header(archive) -> dict:
    names = archive.namelist()
    if HEADER not in names:
        foreign = any(name.endswith("/data.pkl") for name in names)
        hint = (
            "; it is one of PyTorch, which holds pickles: load it there and save the tensors as NumPy arrays, or as a "
            "state_dict of arrays"
            if foreign
            else f": there is no {HEADER} in it"
        )
        raise RuntimeError(f"the file is no checkpoint of plugrad{hint}")
    header = json.loads(archive.read(HEADER))
    if header.get("format", 0) > FORMAT:
        raise RuntimeError(
            f"the checkpoint has format {header['format']}, written by plugrad {header.get('plugrad')}; this "
            "version reads "
            f"up to {FORMAT}: upgrade plugrad"
        )
    return header


class _Reader:
    """Turns the JSON tree back into objects; storages are read when a tensor needs them."""

    def __init__(self, archive, mapped, map_location, weights_only, pickle_module):
        self.archive, self.mapped, self.pickle = archive, mapped, pickle_module
        self.map_location = map_location
        self.description = _header(archive)
        if self.description["objects"] and weights_only:
            raise pickle.UnpicklingError(
                "Weights only load failed: the file holds pickled objects of "
                f"{', '.join(self.description['objects'])}. "
                "Unpickling can run any code: if you trust the file, pass weights_only=False; better, save "
                "model.state_dict() instead of the model" + self._plugins()
            )
        self.storages: dict = {}
        self.tensors: dict = {}
        self.moved: dict = {}
        self.objects = None

    def _plugins(self) -> str:
        used = self.description.get("plugins")
        return f" (it was written with {', '.join(f'{n} {v}' for n, v in used.items())})" if used else ""

    def root(self):
        """Return the object."""
        try:
            return self.value(self.description["root"])
        except zipfile.BadZipFile as error:
            raise RuntimeError(f"the checkpoint is damaged: {error}") from error
        except (KeyError, IndexError) as error:
            raise RuntimeError(f"the checkpoint is damaged: it has no {error}") from error

    def value(self, tree):
        """Return the value of a JSON tree."""
        cls = type(tree)
        if cls is list:
            return [self.value(item) for item in tree]
        if cls is not dict:
            return tree
        tag = tree.get("$")
        if tag is None:
            return {key: self.value(item) for key, item in tree.items()}
        if tag in ("dict", "OrderedDict"):
            mapping = {"dict": dict, "OrderedDict": OrderedDict}[tag]()
            for key, item in tree["items"]:
                mapping[self.value(key)] = self.value(item)
            if "attributes" in tree:
                mapping.__dict__.update(self.value(tree["attributes"]))
            return mapping
        if tag in ("tuple", "set"):
            return {"tuple": tuple, "set": set}[tag](self.value(item) for item in tree["items"])
        if tag == "tensor":
            return self.tensor(tree["number"])
        if tag == "scalar":
            return self.tensor(tree["number"])[()]
        if tag == "object":
            return self.pickled()[tree["number"]]
        if tag not in _MAKE:
            raise RuntimeError(f"the checkpoint holds {tag!r}, which this version of plugrad does not know")
        return _MAKE[tag](tree["value"])

    def pickled(self) -> list:
        """Return the pickled objects."""
        if self.objects is None:
            unpickler = self.pickle.Unpickler(io.BytesIO(self.archive.read(OBJECTS)))
            unpickler.persistent_load = self.tensor
            try:
                self.objects = unpickler.load()
            except (AttributeError, ImportError) as error:
                raise pickle.UnpicklingError(
                    f"a class of the file's objects is not here: {error}. The file holds objects of "
                    f"{', '.join(self.description['objects'])}{self._plugins()}"
                ) from error
        return self.objects

    def tensor(self, number):
        """Return the tensor or array with that number: always the same object."""
        known = self.tensors.get(number)
        if known is None:
            known = self.tensors[number] = self._make(self.description["tensors"][number])
        return known

    def _make(self, entry):
        name = entry["kind"]
        if name == "ndarray":
            return self._view(entry, numpy.dtype(entry["dtype"]), self._storage(entry["storage"]))
        element = _DTYPES[entry["dtype"]]
        if entry["device"] == "meta":
            tensor = plugrad.empty(tuple(entry["shape"]), dtype=element, device="meta")
        else:
            tensor = self._moved(entry, element)
        tensor = tensor if name == "Tensor" else Tensor._make_subclass(_CLASSES[name], tensor)
        return tensor.requires_grad_(entry.get("requires_grad", False))

    def _view(self, entry, np_dtype, storage):
        try:
            return numpy.ndarray(tuple(entry["shape"]), np_dtype, storage, entry["offset"], tuple(entry["strides"]))
        except (ValueError, TypeError) as error:
            raise RuntimeError(f"the checkpoint is damaged: a tensor lies outside of its storage ({error})") from None

    def _moved(self, entry, element):
        """Return the tensor on its device; a storage is moved as a whole, so that what shares it goes on sharing."""
        array = self._view(entry, element.numpy, self._storage(entry["storage"]))
        tensor = from_raw(array)
        where, wanted = entry["device"], self.map_location
        if callable(wanted) and not isinstance(wanted, device):
            moved = wanted(tensor, where)
            if moved is not None:
                return moved.detach() if isinstance(moved, Tensor) else tensor.to(moved)
            wanted = None
        elif isinstance(wanted, dict):
            wanted = wanted.get(where)
        target = self._usable(where if wanted is None else wanted)
        if target.type == "cpu":
            return tensor
        key = entry["storage"], str(target), element
        root = self.moved.get(key)
        storage = self._storage(entry["storage"])
        if len(storage) % element.itemsize or entry["offset"] % element.itemsize:
            return tensor.to(target)
        if root is None:
            root = self.moved[key] = from_raw(storage.view(element.numpy)).to(target)
        steps = tuple(step // element.itemsize for step in entry["strides"])
        with no_grad():
            return root.as_strided(tuple(entry["shape"]), steps, entry["offset"] // element.itemsize).detach()

    def _usable(self, place):
        try:
            target = device(place)
            target.backend  # noqa: B018 - says why when it can't be used
        except RuntimeError as error:
            raise RuntimeError(
                f"Attempting to load a tensor of device {str(place)!r}, which can't be used here: {error}. To "
                "load on a "
                "machine without it, pass map_location='cpu'"
            ) from error
        return target

    def _storage(self, number):
        """Return the bytes of a storage."""
        storage = self.storages.get(number)
        if storage is None:
            storage = self.storages[number] = self._read(f"data/{int(number)}.npy")
        return storage

    def _read(self, name):
        info = self.archive.getinfo(name)
        if self.mapped is not None:
            return _mapped(self.mapped, info)
        with self.archive.open(info) as member:
            array = numpy.lib.format.read_array(member, allow_pickle=False)
        return array.view(numpy.uint8)


def _mapped(path, info):
    """Return the bytes of a member of a zip file as a private map of the file."""
    with open(path, "rb") as file:
        file.seek(info.header_offset + 26)  # the lengths of name and extra field in the member's own header
        name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
        file.seek(info.header_offset + 30 + name + extra)
        version = numpy.lib.format.read_magic(file)
        read = numpy.lib.format.read_array_header_1_0 if version == (1, 0) else numpy.lib.format.read_array_header_2_0
        shape, _, element = read(file)
        size = math.prod(shape) * element.itemsize
        if not size:
            return numpy.empty(0, numpy.uint8)
        return numpy.memmap(path, numpy.uint8, "c", file.tell(), (size,)).view(numpy.ndarray)
