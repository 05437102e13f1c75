"""Writing PyTorch's zip file: a pickle of protocol 2 with a member for each storage, without Python's pickler.

Only what `torch.load` takes with `weights_only=True` is written; everything else is refused with the place where it is.
"""

from __future__ import annotations

import struct
import sys
import zipfile
from collections import Counter, OrderedDict

import numpy

import plugrad
from plugrad import Size, Tensor, device, dtypes, strided
from plugrad.formats.writing import Memory, aligned_member, memory_of
from plugrad.nn import Parameter
from plugrad.serialization.description import are_attributes
from plugrad.serialization.writing import attributes_of

from ._torch_world import STORAGE_OF

_PROTOCOL = b"\x80\x02"


def write(obj, file) -> None:
    """Write a file that PyTorch loads."""
    writer = _Writer()
    writer.value(obj, "")
    content = writer.pickle()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "data.pkl", content)
        _add(archive, ".format_version", b"1")
        _add(archive, ".storage_alignment", b"64")
        _add(archive, "byteorder", sys.byteorder.encode())
        for storage in writer.memory.storages.values():
            _add(archive, f"data/{storage.number}", storage.content().view(numpy.uint8))
        _add(archive, "version", b"3\n")


def _add(archive, name, content) -> None:
    info = aligned_member(f"archive/{name}", archive.start_dir)
    with archive.open(info, "w", force_zip64=True) as member:
        member.write(content)


class _Writer:
    """Writes a pickle, whose tensors are filled in at the end, when all of a storage's users are known."""

    def __init__(self):
        self.pieces: list = [_PROTOCOL]
        self.memory = Memory()
        self.memo: dict = {}  # id of an object -> its number in the pickle
        self.names: dict = {}
        self.count = 0
        self.open: set = set()  # ids of the containers that are being written: finds cycles
        self.alive: list = []  # what ids belong to must not be freed meanwhile

    def pickle(self) -> bytes:
        """Return the pickle."""
        self.memory.settle()
        users: dict = {}
        for storage in self.memory.storages.values():
            users[storage.number] = {array.dtype for _, array, *_ in storage.users}, storage
        pieces = [self._tensor_piece(piece, users) if isinstance(piece, dict) else piece for piece in self.pieces]
        return b"".join(pieces) + b"."

    def _put(self) -> bytes:
        self.count += 1
        return b"r" + struct.pack("<I", self.count - 1)

    def _keep(self, value) -> None:
        self.memo[id(value)] = self.count
        self.alive.append(value)
        self.pieces.append(self._put())

    def name(self, module, name) -> bytes:
        """Return the opcodes of a name."""
        return f"c{module}\n{name}\n".encode()

    # --------------------------------------------------------------------------------------------------- values

    def value(self, value, path) -> None:
        """Write a value, which errors call by its path."""
        if id(value) in self.memo:
            self.pieces.append(b"j" + struct.pack("<I", self.memo[id(value)]))
            return
        cls = type(value)
        if cls in _PLAIN:
            self.pieces.append(_PLAIN[cls](value))
        elif cls in (list, tuple, dict, set, Size, OrderedDict, Counter):
            if id(value) in self.open:
                raise ValueError(f"can't save a {cls.__name__} that contains itself")
            self.open.add(id(value))
            getattr(self, f"_write_{cls.__name__}")(value, path)
            self.open.discard(id(value))
        elif isinstance(value, Tensor):
            self._tensor(value, path)
        else:
            raise TypeError(_refusal(value, path))

    def _items(self, items, path) -> None:
        for key, item in items:
            self.value(key, f"{path} (a key)")
            self.value(item, f"{path}.{key}" if path else str(key))

    def _write_list(self, value, path):
        self.pieces.append(b"]")
        self._keep(value)
        self.pieces.append(b"(")
        for index, item in enumerate(value):
            self.value(item, f"{path}.{index}" if path else str(index))
        self.pieces.append(b"e")

    def _write_tuple(self, value, path):
        self.pieces.append(b"(")
        for index, item in enumerate(value):
            self.value(item, f"{path}.{index}" if path else str(index))
        self.pieces.append(b"t")
        self._keep(value)

    def _write_dict(self, value, path):
        self.pieces.append(b"}")
        self._keep(value)
        self.pieces.append(b"(")
        self._items(value.items(), path)
        self.pieces.append(b"u")

    def _write_OrderedDict(self, value, path):
        if not are_attributes(vars(value)):
            raise TypeError(f"can't save an OrderedDict{_at(path)} with attributes {sorted(vars(value))}")
        self.pieces.append(self.name("collections", "OrderedDict") + b")R")
        self._keep(value)
        self.pieces.append(b"(")
        self._items(value.items(), path)
        self.pieces.append(b"u")
        if vars(value):  # a state_dict has its _metadata here
            self._write_dict(dict(vars(value)), path)
            self.pieces.append(b"b")

    def _write_Counter(self, value, path):
        self.pieces.append(self.name("collections", "Counter"))
        self._write_dict(dict(value), path)
        self.pieces.append(b"\x85R")

    def _write_set(self, value, path):
        self.pieces.append(self.name("__builtin__", "set"))
        self._write_list(list(value), path)
        self.pieces.append(b"\x85R")

    def _write_Size(self, value, path):
        self.pieces.append(self.name("torch", "Size"))
        self._write_tuple(tuple(value), path)
        self.pieces.append(b"\x85R")

    # -------------------------------------------------------------------------------------------------- tensors

    def _tensor(self, tensor, path) -> None:
        if type(tensor) not in (Tensor, Parameter) and tensor.layout is strided:
            raise TypeError(_refusal(tensor, path))
        attributes = attributes_of(tensor) if type(tensor) in (Tensor, Parameter) else {}
        if type(tensor) is Parameter:
            function = "_rebuild_parameter_with_state" if attributes else "_rebuild_parameter"
            self.pieces.append(self.name("torch._utils", function) + b"(")
            self._plain_tensor(tensor.detach(), path)
            self.pieces.append((b"\x88" if tensor.requires_grad else b"\x89") + _EMPTY)
            if attributes:
                self._write_dict(attributes, path)
            self.pieces.append(b"tR")
        elif attributes:
            self.pieces.append(self.name("torch._tensor", "_rebuild_from_type_v2") + b"(")
            self._plain_tensor(tensor, path, called=False)
            self._write_dict(attributes, path)
            self.pieces.append(b"tR")
        else:
            self._plain_tensor(tensor, path)
        self._keep(tensor)

    def _plain_tensor(self, tensor, path, called=True) -> None:
        """Write a tensor without its class: the call, or its parts in the order function, class, arguments."""
        if tensor.layout is not strided:
            self._sparse(tensor, path)
            return
        entry = {
            "dtype": tensor.dtype, "device": str(tensor.device), "called": called,
            "requires_grad": bool(tensor.requires_grad),
        }  # fmt: skip
        array, backend = memory_of(tensor)
        if backend.symbolic:
            entry.update(shape=list(tensor.shape), strides=list(tensor.stride()))
        else:
            if min(array.strides, default=0) < 0:  # PyTorch has no such tensors
                array, backend = numpy.ascontiguousarray(backend.to_numpy(array)), device("cpu").backend
            if not array.size:
                entry["steps"] = tensor.stride()  # NumPy has others of its own
            self.alive.append(array)
            self.memory.place(entry, array, backend)
        self.pieces.append(entry)

    def _tensor_piece(self, entry, users) -> bytes:
        """Return the opcodes of a tensor whose place is known."""
        flags = b"\x88" if entry["requires_grad"] else b"\x89"
        name = entry["dtype"].name
        if "storage" not in entry:
            function = "_rebuild_meta_tensor_no_storage"
            arguments = (
                b"(" + self.name("torch", name) + _tuple(entry["shape"]) + _tuple(entry["strides"]) + flags + b"t"
            )
        else:
            dtypes_of, storage = users[entry["storage"]]
            typed = len(dtypes_of) == 1 and name in STORAGE_OF and not storage.array.nbytes % entry["dtype"].itemsize
            size, nbytes = entry["dtype"].itemsize, storage.array.nbytes
            kind = self.name("torch", STORAGE_OF[name]) if typed else self.name("torch.storage", "UntypedStorage")
            function = "_rebuild_tensor_v2" if typed else "_rebuild_tensor_v3"
            strides = entry.get("steps") or [step // size for step in entry["strides"]]
            arguments = b"".join([
                b"((", _text("storage"), kind, _text(str(entry["storage"])), _text(entry["device"]),
                _integer(nbytes // size if typed else nbytes), b"tQ", _integer(entry["offset"] // size),
                _tuple(entry["shape"]), _tuple(strides), flags, _EMPTY,
                b"" if typed else self.name("torch", name), b"t",
            ])  # fmt: skip
        head = self.name("torch._utils", function)
        return head + arguments + b"R" if entry["called"] else head + self.name("torch", "Tensor") + arguments

    def _sparse(self, tensor, path) -> None:
        layout, *parts, coalesced, _ = tensor.detach().parts()
        if tensor.requires_grad and not tensor.is_leaf:
            raise TypeError(f"can't save a sparse tensor{_at(path)} that was computed in a graph: save x.detach()")
        self.pieces.append(self.name("torch._utils", "_rebuild_sparse_tensor") + b"(")
        self.pieces.append(self.name("torch.serialization", "_get_layout") + _text(f"torch.{layout}") + b"\x85R(")
        *tensors, shape = parts
        for part in tensors:
            self._plain_tensor(part, path)
        self._write_Size(Size(shape), path)
        if layout == "sparse_coo":
            self.pieces.append(b"\x88" if coalesced else b"\x89")
        self.pieces.append(b"ttR")


def _text(value) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


def _integer(value) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data if len(data) < 256 else b"\x8b" + struct.pack("<I", len(data)) + data


def _float(value) -> bytes:
    return b"G" + struct.pack(">d", value)


def _tuple(values) -> bytes:
    return b"(" + b"".join(map(_integer, values)) + b"t"


def _bytes(value) -> bytes:
    return b"c_codecs\nencode\n" + _text(value.decode("latin1")) + _text("latin1") + b"\x86R"


def _device(value) -> bytes:
    index = b"" if value.index is None else _integer(value.index)
    return b"ctorch\ndevice\n(" + _text(value.type) + index + b"tR"


_EMPTY = b"ccollections\nOrderedDict\n)R"  # no hooks
_PLAIN = {
    type(None): lambda value: b"N",
    bool: lambda value: b"\x88" if value else b"\x89",
    int: _integer,
    float: _float,
    complex: lambda value: b"c__builtin__\ncomplex\n" + _float(value.real) + _float(value.imag) + b"\x86R",
    str: _text,
    bytes: _bytes,
    bytearray: lambda value: b"c__builtin__\nbytearray\n" + _bytes(bytes(value)) + b"\x85R",
    dtypes.dtype: lambda value: f"ctorch\n{value.name}\n".encode(),
    device: _device,
    plugrad.layout: lambda value: (
        b"ctorch.serialization\n_get_layout\n" + _text(f"torch.{str(value).rpartition('.')[2]}") + b"\x85R"
    ),
}


def _at(path) -> str:
    return f" at {path!r}" if path else ""


def _refusal(value, path) -> str:
    kind = type(value)
    named = f"{kind.__module__}.{kind.__qualname__}"
    hint = "save state_dict()s, or in plugrad's own format, without format="
    if isinstance(value, numpy.ndarray):
        hint = "save torch.from_numpy(x)"
    elif isinstance(value, numpy.generic):
        hint = "save x.item()"
    return f"PyTorch would not load {named}{_at(path)} with weights_only=True: {hint}"
