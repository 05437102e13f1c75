"""From a checkpoint back to objects."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict

import numpy
from numpy.lib.array_utils import byte_bounds

import plugrad
from plugrad import Tensor, device, no_grad
from plugrad.errors import stack_is_deep
from plugrad.extend import from_raw
from plugrad.nn import Parameter
from plugrad.serialization import description
from plugrad.serialization.description import HEADER, OBJECTS, CheckpointError, damaged, field, number_below

_CLASSES = {"Tensor": Tensor, "Parameter": Parameter}


class Reader:
    """Turns the JSON tree back into objects; storages are read when a tensor needs them.

    `unpickler` is the class that unpickles, with `options`, or None: then nothing is, whatever the file says.
    """

    def __init__(self, archive, mapped, map_location, unpickler, options):
        self.archive, self.unpickler, self.options, self.map_location = archive, unpickler, options, map_location
        self.header = archive.header
        if unpickler is None and (self.header["objects"] or OBJECTS in archive.members):
            raise self._untrusted()
        self.load = archive.mapped if mapped else archive.storage
        self.storages: dict = {}
        self.tensors: dict = {}
        self.moved: dict = {}
        self.objects = None

    def _untrusted(self) -> CheckpointError:
        named = self.header["objects"]
        which = f" of {', '.join(named[:5])}{'...' if len(named) > 5 else ''}" if named else ""
        return CheckpointError(
            f"Weights only load failed: the file holds pickled objects{which} ({OBJECTS}). Unpickling can run any "
            "code: if you trust the file, pass weights_only=False; better, save model.state_dict() instead of the "
            f"model{self._plugins()}"
        )

    def _plugins(self) -> str:
        used = self.header["plugins"]
        return f" (it was written with {', '.join(f'{n} {v}' for n, v in used.items())})" if used else ""

    def root(self):
        """Return the object."""
        try:
            return self.value(self.header["root"])
        except RecursionError:
            if stack_is_deep():
                raise  # it is the program that is nested too deeply
            raise damaged(HEADER, "its containers are nested too deeply") from None

    def value(self, tree):
        """Return the value of a JSON tree."""
        cls = type(tree)
        if cls is list:
            return [self.value(item) for item in tree]
        if cls is not dict:
            return tree
        if "$" not in tree:
            return {key: self.value(item) for key, item in tree.items()}
        tag = tree["$"]
        if tag in ("dict", "OrderedDict"):
            return self._mapping(OrderedDict() if tag == "OrderedDict" else {}, tree)
        if tag == "tuple":
            return tuple([self.value(item) for item in field(tree, "items", list, HEADER)])
        if tag == "set":
            return self._set(tree)
        if tag == "tensor":
            return self.tensor(tree.get("number"))
        if tag == "scalar":
            return self._scalar(tree.get("number"))
        if tag == "sparse":
            return self._sparse([self.value(item) for item in field(tree, "items", list, HEADER)])
        if tag == "object":
            objects = self.pickled()
            return objects[number_below(tree, "number", len(objects), HEADER)]
        return description.atom(tag, tree)

    def _mapping(self, mapping, tree):
        pairs = field(tree, "items", list, HEADER)
        for pair in pairs:
            if type(pair) is not list or len(pair) != 2:
                raise damaged(HEADER, "an item of a dict is not a pair")
            key, value = map(self.value, pair)
            try:
                mapping[key] = value
            except TypeError as error:
                raise damaged(HEADER, f"a key of a dict: {error}") from None
        if len(mapping) != len(pairs):
            raise damaged(HEADER, "a dict has a key twice")
        if "attributes" in tree:
            attributes = self.value(field(tree, "attributes", dict, HEADER))
            if type(attributes) is not dict or not description.are_attributes(attributes) or type(mapping) is dict:
                raise damaged(HEADER, "a dict has attributes that it can't have")
            mapping.__dict__.update(attributes)
        return mapping

    def _set(self, tree):
        items = [self.value(item) for item in field(tree, "items", list, HEADER)]
        try:
            return set(items)
        except TypeError as error:
            raise damaged(HEADER, f"an item of a set: {error}") from None

    def _sparse(self, parts):
        kinds = [type(part) for part in parts]
        if kinds[:1] != [str] or kinds[-2:] != [bool, bool] or set(kinds[1:-2]) - {Tensor, tuple}:
            raise damaged(HEADER, "a sparse tensor has other parts than sparse tensors have")
        try:
            return plugrad.sparse.rebuild(*parts)
        except (RuntimeError, TypeError, ValueError) as error:
            raise damaged(HEADER, f"a sparse tensor: {error}") from None

    def _scalar(self, number):
        array = self.tensor(number)
        if type(array) is not numpy.ndarray or array.shape:
            raise damaged(HEADER, f"tensor {number} is not a scalar of NumPy")
        return array[()]

    def pickled(self) -> list:
        """Return the pickled objects."""
        if self.unpickler is None:
            raise self._untrusted()
        if self.objects is None:
            tensor = self.tensor

            class Unpickler(self.unpickler):  # since Python 3.13 the method can't be set on an instance
                def persistent_load(self, number):
                    return tensor(number)

            content = io.BytesIO(self.archive.read(OBJECTS))
            try:
                self.objects = Unpickler(content, **self.options).load()
            except (AttributeError, ImportError) as error:
                raise CheckpointError(
                    f"a class of the file's objects is not here: {error}. The file holds objects of "
                    f"{', '.join(self.header['objects'])}{self._plugins()}"
                ) from error
            except (pickle.UnpicklingError, EOFError) as error:
                raise damaged(OBJECTS, error) from error
            if type(self.objects) is not list:
                raise damaged(OBJECTS, "it holds no list of objects")
        return self.objects

    def tensor(self, number):
        """Return the tensor or array with that number: always the same object."""
        known = self.tensors.get(number) if type(number) is int else None
        if known is None:
            entries = self.header["tensors"]
            number_below({"number": number}, "number", len(entries), HEADER)
            where = f"{HEADER}: tensor {number}"
            known = self.tensors[number] = self._make(entries[number], where)
            if "attributes" in entries[number]:
                self._set_attributes(known, self.value(entries[number]["attributes"]), where)
        return known

    def _set_attributes(self, tensor, attributes, where):
        if type(attributes) is not dict or not isinstance(tensor, Tensor):
            raise damaged(where, "it has attributes that it can't have")
        for name, value in attributes.items():
            if type(name) is not str or name.startswith("_"):
                raise damaged(where, f"{ascii(name)} is not an attribute that a program sets")
            tensor.__dict__[name] = value

    def _make(self, entry, where):
        kind = field(entry, "kind", str, where)
        if kind == "ndarray":
            return self._view(entry, description.element(entry, description.ARRAY_DTYPES, where), where)
        if kind not in _CLASSES:
            raise damaged(where, f"{ascii(kind)} is not a kind of tensor")
        element = description.element(entry, description.DTYPES, where)
        try:
            element.numpy  # noqa: B018 - says why when NumPy has no such type here
        except NotImplementedError as error:
            raise CheckpointError(f"{where}: {error}") from error
        if description.place(entry, where) == "meta":
            tensor = plugrad.empty(description.shape(entry, element.itemsize, where), dtype=element, device="meta")
        else:
            tensor = self._moved(entry, element, where)
        tensor = tensor if kind == "Tensor" else Tensor._make_subclass(_CLASSES[kind], tensor)
        requires_grad = "requires_grad" in entry and field(entry, "requires_grad", bool, where)
        if requires_grad and not (element.is_floating_point or element.is_complex):
            raise damaged(where, f"it requires grad, which tensors of {element} can't")
        return tensor.requires_grad_(requires_grad)

    def _view(self, entry, np_dtype, where):
        number, storage = self._storage(entry, where)
        shape, strides, offset = description.layout(entry, np_dtype.itemsize, storage.size, where)
        array = numpy.ndarray(shape, np_dtype, storage, offset, strides)
        return _truth_values(array, storage, where) if np_dtype.kind == "b" else array

    def _moved(self, entry, element, where):
        """Return the tensor on its device; a storage is moved as a whole, so that what shares it goes on sharing."""
        array = self._view(entry, element.numpy, where)
        tensor = from_raw(array)
        saved, wanted = entry["device"], self.map_location
        if callable(wanted) and not isinstance(wanted, device):
            moved = wanted(tensor, saved)
            if moved is not None:
                return moved.detach() if isinstance(moved, Tensor) else tensor.to(moved)
            wanted = None
        elif isinstance(wanted, dict):
            wanted = wanted.get(saved)
        target = _usable(saved if wanted is None else wanted)
        if target.type == "cpu":
            return tensor
        number, storage = self._storage(entry, where)
        if min(array.strides, default=0) < 0:
            return tensor.to(target)
        key = number, str(target), element
        root = self.moved.get(key)
        if root is None:
            whole = storage[: storage.size // element.itemsize * element.itemsize]
            root = self.moved[key] = from_raw(whole.view(element.numpy)).to(target)
        steps = tuple(step // element.itemsize for step in array.strides)
        with no_grad():
            return root.as_strided(array.shape, steps, entry["offset"] // element.itemsize).detach()

    def _storage(self, entry, where):
        """Return the number and the bytes of the storage that an entry names."""
        number = number_below(entry, "storage", len(self.archive.members), where)
        storage = self.storages.get(number)
        if storage is None:
            storage = self.storages[number] = self.load(number)
        return number, storage


def _truth_values(array, storage, where):
    """Return booleans whose bytes are 0 or 1, as NumPy relies on: the array itself, unless another dtype wrote it."""
    start = storage.ctypes.data
    low, high = (end - start for end in byte_bounds(array))
    if array.size == 0 or storage[low:high].max() <= 1:
        return array
    if array.size > storage.size:
        raise damaged(where, "booleans that overlap have bytes that are neither 0 nor 1")
    return array.view(numpy.uint8) != 0


def _usable(place):
    try:
        target = device(place)
        target.backend  # noqa: B018 - says why when it can't be used
    except RuntimeError as error:
        raise CheckpointError(
            f"Attempting to load a tensor of device {str(place)!r}, which can't be used here: {error}. To load on a "
            "machine without it, pass map_location='cpu'"
        ) from error
    return target
