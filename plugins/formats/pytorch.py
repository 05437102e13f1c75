"""PyTorch's files: the zip file, the stream that it wrote before 1.6, and what it writes today."""

from __future__ import annotations

import importlib
import io
import pickle
import sys
from functools import partial

import plugrad
from plugrad import Tensor
from plugrad.errors import stack_is_deep
from plugrad.extend import collect, hookimpl
from plugrad.formats import CheckpointError, Format, Options, Placer, damaged, unpickled

from ._pickles import Interpreter, Name
from ._torch_world import CALLS, Memory, Outline, World
from ._torch_writing import write

_MAGIC = 0x1950A86A20F9469CFC6C
_STREAM = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # the pickle of that number, behind the opcode of the protocol
_TAR = b"sys_info"


class PyTorch(Format):
    """PyTorch's files, read without running their pickles.

    They are written as `torch.load` reads them with weights_only=True.
    """

    name, suffixes = "torch", (".pt", ".pth", ".ckpt", ".bin")

    def recognises(self, source):
        """Whether it is a zip file with a data.pkl, or begins as the older stream."""
        if source.head[:1] == b"\x80" and _STREAM in source.head[2:32]:  # a frame may stand before it
            return True
        if source.head.startswith(_TAR):
            raise CheckpointError(
                f"{source.name} is a tar file of PyTorch 0.1: load and save it with PyTorch 1.x first"
            )
        return source.is_zip and any(name == "data.pkl" or name.endswith("/data.pkl") for name in source.members)

    def load(self, source, options):
        """Return the object."""
        placer = Placer(options.map_location)
        if not source.is_zip or source.head[:1] == b"\x80":
            return _Stream(source).load(placer, options)
        return _Archive(source).load(placer, options)

    def save(self, obj, file):
        """Write tensors, numbers, text and containers as `torch.load` reads them.

        With `weights_only=True`.
        """
        write(obj, file)

    def describe(self, source):
        """Return the tensors with the names that lead to them."""
        obj = self.load(source, Options("cpu", mapped=source.path is not None))
        return {"tensors": [_row(name, tensor) for name, tensor in named_tensors(obj)]}


def _row(name, tensor):
    return {
        "name": name, "kind": type(tensor).__name__, "shape": list(tensor.shape), "dtype": tensor.dtype.name,
        "device": str(tensor.device), "requires_grad": tensor.requires_grad,
    }  # fmt: skip


class _Archive:
    """The zip file: a pickle, and a member for each storage."""

    def __init__(self, source):
        self.members = source.members
        pickles = [name for name in self.members if name == "data.pkl" or name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise damaged(source.name, "there is more than one data.pkl in it")
        self.pickle, self.base = pickles[0], pickles[0][: -len("data.pkl")]
        if f"{self.base}constants.pkl" in self.members:
            raise CheckpointError(f"{source.name} is a TorchScript program, which needs PyTorch: save its state_dict()")
        self.members.need_stored()
        self.swapped = self._order() != sys.byteorder

    def _order(self) -> str:
        """The order of bytes, "little" or "big"."""
        name = f"{self.base}byteorder"
        if name in self.members:
            order = self.members.read(name).decode("latin1")
            if order not in ("little", "big"):
                raise damaged(name, f"an order of bytes is little or big, not {ascii(order)[:40]}")
            return order
        default = plugrad.serialization.get_default_load_endianness()
        if default is None:
            return "little"
        return {"NATIVE": sys.byteorder, "LITTLE": "little", "BIG": "big"}[default.name]

    def load(self, placer, options):
        """Return the object."""
        if options.verify and not self.members.has_checksums:
            raise CheckpointError("there are no checksums in the file: PyTorch was told to leave them out")
        read = partial(self._storage, mapped=options.mapped, verify=options.checked)
        world = World(placer, read, self.pickle)
        return _run(self.members.read(self.pickle), world, options)

    def _storage(self, memory, mapped, verify):
        name = f"{self.base}data/{memory.key}"
        data = self.members.content(name, mapped, verify)
        if data.size < memory.numel * memory.element.itemsize:
            raise damaged(
                name, f"it has {data.size} bytes, and the pickle speaks of {memory.numel} {memory.element.name}"
            )
        return _swapped(data, memory.element) if self.swapped else data


def _swapped(data, element):
    """Return bytes of elements in the other order; a complex number is two."""
    size = element.itemsize // (2 if element.is_complex else 1)
    return data[: data.size // size * size].reshape(-1, size)[:, ::-1].reshape(-1)


class _Stream:
    """The older stream: pickles of a magic number, a version, facts, the object and the keys, then the storages."""

    def __init__(self, source):
        self.source, self.data = source, source.read(0, source.size, source.name)
        self.outline = Outline("the stream")
        magic, self.position = self._plain(0)
        version, self.position = self._plain(self.position)
        facts, self.begin = self._plain(self.position)
        if magic != _MAGIC or version != 1001:
            raise damaged(
                "the stream", f"its version is {ascii(version)[:40]}, and 1001 is the only one that there was"
            )
        if type(facts) is dict and facts.get("little_endian") is not (sys.byteorder == "little"):
            raise CheckpointError("the checkpoint was written on a machine with another order of bytes")
        _, position = self._plain(self.begin)
        keys, position = self._plain(position)
        self.places = self._storages(keys, position)

    def _plain(self, position):
        run = Interpreter(self.data, self.outline, "the stream", position)
        return _guarded(run), run.position

    def _storages(self, keys, position):
        places = {}
        if type(keys) is not list or any(type(key) is not str for key in keys) or {*keys} != {*self.outline.storages}:
            raise damaged("the stream", "its list of storages is not that of its tensors")
        for key in keys:
            memory, where = self.outline.storages[key], f"storage {ascii(key)}"
            count = int.from_bytes(self.source.read(position, 8, where), "little", signed=True)
            size = memory.numel * memory.element.itemsize
            if count != memory.numel or position + 8 + size > len(self.data):
                raise damaged(where, f"{count} elements follow, where {memory.numel} should, or the file is cut off")
            places[key] = position + 8, size
            position += 8 + size
        return places

    def load(self, placer, options):
        """Return the object."""

        def read(memory):
            return self.source.array(*self.places[memory.key], f"storage {ascii(memory.key)}", options.mapped)

        return _run(self.data[self.begin :], World(placer, read, "the stream"), options)


def _run(data, world, options):
    if options.trusted:
        return _unpickled(data, world, options)
    encoding = options.pickle_arguments.get("encoding", "utf-8")
    obj = _guarded(Interpreter(data, world, world.where, encoding=encoding))
    for value in _parts(obj):
        if isinstance(value, Name):
            raise world.refused(value.dotted)
        if isinstance(value, Memory):
            raise CheckpointError("the file holds a storage that is of no tensor: save the tensor")
    return obj


def _guarded(run):
    try:
        return run.run()
    except RecursionError:
        if stack_is_deep():
            raise  # it is the program that is nested too deeply
        raise run.wrong("its containers are nested too deeply") from None


def _parts(obj):
    """Yield everything in nested containers, each once."""
    pending, seen = [obj], {}
    while pending:
        value = pending.pop()
        yield value
        if isinstance(value, (dict, list, tuple, set, frozenset)) and id(value) not in seen:
            seen[id(value)] = value
            pending += [*value, *value.values()] if isinstance(value, dict) else value


def named_tensors(obj) -> list:
    """Return pairs (where it stands, tensor) of all tensors in nested containers."""
    rows, pending, seen = [], [("", obj)], {}
    while pending:
        path, value = pending.pop()
        if isinstance(value, Tensor):
            rows.append((path, value))
        elif isinstance(value, (dict, list, tuple)) and id(value) not in seen:
            seen[id(value)] = value
            items = value.items() if isinstance(value, dict) else enumerate(value)
            pending += reversed([(f"{path}.{key}" if path else str(key), item) for key, item in items])
    return rows


def _unpickled(data, world, options):
    """Return the object by Python's own machine, which runs what the file says: the user asked for that."""
    base = (options.pickle_module or pickle).Unpickler

    class Unpickler(base):
        def find_class(self, module, name):
            make = CALLS.get(f"{module}.{name}")
            if make is not None and module.split(".")[0] == "torch":
                return partial(make, world)
            known = world.name(f"{module}.{name}")
            if not isinstance(known, Name):
                return known
            if module == "torch" and name.endswith("Storage") or module == "torch.storage":
                return known  # only storages that the file holds mention them
            if module.split(".")[0] == "torch":
                value = importlib.import_module("plugrad" + module.removeprefix("torch"))
                for part in name.split("."):
                    value = getattr(value, part)
                return value
            return super().find_class(module, name)

        def persistent_load(self, identity):
            return world.persistent(identity)

    unpickler = Unpickler(io.BytesIO(data), **{"encoding": "utf-8", **options.pickle_arguments})
    return unpickled(unpickler, world.where, passed=(UnicodeDecodeError,))  # strings of Python 2, in another encoding


@hookimpl
def plugrad_formats():
    return collect(Format, globals())
