"""From a checkpoint back to objects."""

from __future__ import annotations

import io

import numpy

import plugrad
from plugrad import Tensor
from plugrad.errors import stack_is_deep
from plugrad.formats import CheckpointError, Placer, damaged, dtype_of, unpickled, view
from plugrad.nn import Parameter
from plugrad.serialization import description
from plugrad.serialization.description import HEADER, MAPPINGS, OBJECTS, field, number_below

_CLASSES = {"Tensor": Tensor, "Parameter": Parameter}


class Reader:
    """Turns the JSON tree back into objects; storages are read when a tensor needs them.

    `unpickler` is the class that unpickles, with `options`, or None: then nothing is, whatever the file says.
    """

    def __init__(self, archive, mapped, verify, map_location, unpickler, options):
        self.archive, self.unpickler, self.options = archive, unpickler, options
        self.mapped, self.verify, self.placer = mapped, verify, Placer(map_location)
        self.header = archive.header
        if unpickler is None and (self.header["objects"] or OBJECTS in archive.members):
            raise self._untrusted()
        self.storages: dict = {}
        self.tensors: dict = {}
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
        if type(tag) is str and tag in MAPPINGS:
            return self._mapping(MAPPINGS[tag](), tree)
        if tag == "tuple":
            return tuple([self.value(item) for item in field(tree, "items", list, HEADER)])
        if tag == "set":
            return self._set(tree)
        if tag == "tensor":
            return self.tensor(tree.get("number"))
        if tag == "scalar":
            return self._scalar(tree.get("number"))
        if tag == "storage":
            return self._storage_of(tree)
        if tag == "sparse":
            return self._sparse([self.value(item) for item in field(tree, "items", list, HEADER)])
        if tag == "nested":
            return self._nested([self.value(item) for item in field(tree, "items", list, HEADER)])
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

    def _nested(self, parts):
        try:
            return plugrad.nested.rebuild(*parts)
        except (RuntimeError, TypeError, ValueError, AttributeError) as error:
            raise damaged(HEADER, f"a nested tensor: {error}") from None

    def _storage_of(self, tree):
        memory = self.tensor(tree.get("number"))
        if not isinstance(memory, Tensor) or memory.dtype is not plugrad.uint8 or memory.ndim != 1:
            raise damaged(HEADER, f"tensor {tree.get('number')} is not the bytes of a storage")
        untyped = memory.untyped_storage()
        if tree.get("dtype") is None:
            return untyped
        dtype = description.element(tree, description.DTYPES, HEADER)
        return plugrad.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)

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
            more = f". The file holds objects of {', '.join(self.header['objects'])}{self._plugins()}"
            self.objects = unpickled(Unpickler(content, **self.options), OBJECTS, more)
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
        dtype_of(element, where)
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
        return view(storage, np_dtype, shape, strides, offset, where)

    def _moved(self, entry, element, where):
        number, storage = self._storage(entry, where)
        place = description.layout(entry, element.itemsize, storage.size, where)
        return self.placer.tensor(number, storage, element, *place, entry["device"], where)

    def _storage(self, entry, where):
        """Return the number and the bytes of the storage that an entry names."""
        number = number_below(entry, "storage", len(self.archive.members.infos), where)
        storage = self.storages.get(number)
        if storage is None:
            storage = self.storages[number] = self.archive.storage(number, self.mapped, self.verify)
        return number, storage
