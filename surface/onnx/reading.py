"""ONNX files as they are read: models, nodes and tensors, with sizes compared before memory is asked for."""

from __future__ import annotations

import dataclasses
import math
import os
import struct

import numpy

import plugrad
from plugrad.formats import CheckpointError, Source, damaged, shown
from plugrad.onnx.files import CODES
from plugrad.onnx.wire import BYTES, FIXED32, VARINT, fields, read_varint, signed

TYPES = {code: dtype for dtype, code in CODES.items()}
_PLACES = {  # where elements stand that are not raw: field and kind of numbers
    1: (4, "<f4"), 14: (4, "<f4"), 11: (10, "<f8"), 15: (10, "<f8"), 7: (7, None), 13: (11, None), 12: (11, None),
}  # fmt: skip


@dataclasses.dataclass
class Node:
    """A node: operator, names of inputs and outputs, and attributes by name."""

    kind: str
    inputs: list
    outputs: list
    attributes: dict
    domain: str = ""
    name: str = ""


@dataclasses.dataclass
class Model:
    """What a file holds: nodes, constant tensors by name, inputs and outputs with dtype and sizes."""

    producer: str = ""
    opset: int = 0
    domains: dict = dataclasses.field(default_factory=dict)
    nodes: list = dataclasses.field(default_factory=list)
    constants: dict = dataclasses.field(default_factory=dict)  # {name: tensor}
    inputs: dict = dataclasses.field(default_factory=dict)  # {name: (dtype, sizes)}
    outputs: dict = dataclasses.field(default_factory=dict)


def is_model(source: Source) -> bool:
    """Whether a file is a model of ONNX, by the fields that it begins with and ends with."""
    head = source.head
    if source.size < 8 or head[:1] != b"\x08" or not 1 <= head[1] <= 20:
        return False
    place, graph = 0, False
    try:
        for _ in range(10_000):
            if place == source.size:
                return graph
            part = source.read(place, min(20, source.size - place), "")
            tag, used = read_varint(part, 0)
            number, kind = tag >> 3, tag & 7
            if number not in (1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26) or kind not in (VARINT, BYTES):
                return False
            value, used = read_varint(part, used)
            graph = graph or number == 7
            place += used + (value if kind == BYTES else 0)
    except (ValueError, CheckpointError):
        return False
    return False


def read(source: Source) -> Model:
    """Return what a file holds; CheckpointError, with the reason, for what is not in order or not known."""
    try:
        data = memoryview(source.read(0, source.size, source.name))
        return _model(data, source)
    except CheckpointError:
        raise
    except (ValueError, UnicodeDecodeError, struct.error, OverflowError, RecursionError) as error:
        raise damaged(source.name, error) from error


def _need(kind, wanted, what):
    if kind != wanted:
        raise ValueError(f"{what} is of another kind than ONNX has it")


def _text(value, what) -> str:
    if not isinstance(value, memoryview):
        raise ValueError(f"{what} is no text")
    return bytes(value).decode()


def _model(data, source) -> Model:
    model, graph = Model(), None
    for number, kind, value in fields(data):
        if number == 2:
            model.producer = _text(value, "the producer")
        elif number == 7:
            _need(kind, BYTES, "the graph")
            graph = value
        elif number == 8:
            domain, version = "", 0
            for inner, _, one in fields(value):
                if inner == 1:
                    domain = _text(one, "a domain")
                elif inner == 2:
                    version = signed(one)
            model.domains[domain] = version
        elif number == 25:
            raise CheckpointError(
                f"{source.name} defines functions of its own, which are not read: inline them, onnx.inliner"
            )
    if graph is None:
        raise ValueError("there is no graph in it")
    model.opset = model.domains.get("", model.domains.get("ai.onnx", 0))
    _graph(graph, model, source)
    return model


def _graph(data, model, source):
    for number, kind, value in fields(data):
        if number in (1, 5, 11, 12, 15):
            _need(kind, BYTES, "a part of the graph")
        if number == 1:
            model.nodes.append(_node(value, source))
        elif number == 5:
            name, tensor = _tensor(value, source)
            if name in model.constants:
                raise ValueError(f"two tensors have the name {name!r}")
            model.constants[name] = tensor
        elif number in (11, 12):
            name, described = _value_info(value)
            (model.inputs if number == 11 else model.outputs)[name] = described
        elif number == 15:
            raise CheckpointError(f"{source.name} has sparse constants, which are not read")
    for name in model.constants:
        model.inputs.pop(name, None)  # old files list them among the inputs


def _node(data, source) -> Node:
    node = Node("", [], [], {})
    for number, kind, value in fields(data):
        if number in (1, 2, 3, 4, 7):
            text = _text(value, "a name")
            if number in (1, 2):
                (node.inputs if number == 1 else node.outputs).append(text)
            else:
                setattr(node, {3: "name", 4: "kind", 7: "domain"}[number], text)
        elif number == 5:
            _need(kind, BYTES, "an attribute")
            name, one = _attribute(value, source)
            node.attributes[name] = one
    if node.domain == "ai.onnx":
        node.domain = ""
    return node


def _attribute(data, source):
    name, kind_of, single, ints, floats, texts = "", 0, None, [], [], []
    for number, kind, value in fields(data):
        if number == 1:
            name = _text(value, "a name")
        elif number == 20:
            kind_of = signed(value)
        elif number == 2:
            _need(kind, FIXED32, "a number")
            single = struct.unpack("<f", value)[0]
        elif number == 3:
            single = signed(value)
        elif number == 4:
            _need(kind, BYTES, "text")
            single = bytes(value)
        elif number == 5:
            single = _tensor(value, source)[1]
        elif number == 7:
            _need(kind, BYTES if kind != FIXED32 else FIXED32, "a list of numbers")
            floats += numpy.frombuffer(value, "<f4").tolist()
        elif number == 8:
            ints += _ints(value, kind)
        elif number == 9:
            texts.append(_text(value, "one of a list of texts"))
        elif number in (6, 10, 11, 15):
            raise CheckpointError(f"{source.name} has graphs in nodes (If, Loop, Scan), which are not read")
    defaults = {1: 0.0, 2: 0, 3: b"", 6: floats, 7: ints, 8: texts}
    value = defaults.get(kind_of, single) if kind_of in (6, 7, 8) else single
    value = defaults.get(kind_of) if value is None else value
    return name, value.decode() if kind_of == 3 and isinstance(value, bytes) else value


def _ints(value, kind) -> list:
    """Return a repeated integer: one, or several in a packed field."""
    if kind == VARINT:
        return [signed(value)]
    numbers, place = [], 0
    while place < len(value):
        one, place = read_varint(value, place)
        numbers.append(signed(one))
    return numbers


def _value_info(data):
    name, dtype, sizes = "", None, None
    for number, _, value in fields(data):
        if number == 1:
            name = _text(value, "a name")
        elif number == 2:
            for inner, _, one in fields(value):
                if inner != 1:
                    raise CheckpointError(f"{name!r} is no tensor: sequences and maps are not read")
                for part, _, last in fields(one):
                    if part == 1:
                        dtype = TYPES.get(signed(last))
                    elif part == 2:
                        sizes = [_dimension(dim) for field, _, dim in fields(last) if field == 1]
    return name, (dtype, sizes)


def _dimension(data):
    for number, _, value in fields(data):
        if number == 1:
            return signed(value)
        if number == 2:
            return _text(value, "a size")
    return None


def _tensor(data, source):
    """Return name and tensor, whose elements are copied out of the file."""
    dims, code, name, raw, where, numbers, location = [], 0, "", None, {}, {}, 0
    for number, kind, value in fields(data):
        if number == 1:
            dims += _ints(value, kind)
        elif number == 2:
            code = signed(value)
        elif number == 8:
            name = _text(value, "a name")
        elif number == 9:
            _need(kind, BYTES, "raw data")
            raw = value
        elif number == 13:
            entry = {inner: _text(one, "where data are") for inner, _, one in fields(value)}
            where[entry.get(1, "")] = entry.get(2, "")
        elif number == 14:
            location = value
        elif number in (4, 5, 7, 10, 11):
            numbers.setdefault(number, []).append((kind, value))
    if code not in TYPES:
        raise CheckpointError(
            f"{source.name}: {shown(name)} has elements of ONNX's type {code}, which plugrad has no dtype for"
        )
    dtype = TYPES[code]
    if len(dims) > 64 or any(size < 0 for size in dims) or math.prod([size or 1 for size in dims]) >= 2**60:
        raise ValueError(f"{shown(dims)} is no shape")
    count = math.prod(dims)
    if location == 1:
        raw = _external(where, count * dtype.itemsize, source, name)
    if raw is None:
        flat = _listed(numbers, code, dtype, count)
    elif len(raw) != count * dtype.itemsize:
        raise ValueError(f"{shown(name)} has {len(raw)} bytes, and {dtype}{dims} takes {count * dtype.itemsize}")
    else:
        flat = numpy.frombuffer(raw, numpy.uint8).copy()
    if dtype is plugrad.bool and count and flat.max() > 1:
        raise ValueError(f"{shown(name)} has truth values other than 0 and 1")
    return name, plugrad.from_numpy(flat).view(dtype).reshape(dims) if count else plugrad.empty(dims, dtype=dtype)


def _listed(numbers, code, dtype, count):
    """Return the bytes of elements that stand in a list of numbers."""
    field, layout = _PLACES.get(code, (5, None))
    parts = []
    for kind, value in numbers.get(field, ()):
        if layout is not None:
            if isinstance(value, int):
                raise ValueError("an integer stands in a list of fractions")
            parts.append(numpy.frombuffer(value, layout))
        else:
            whole = numpy.asarray(_ints(value, kind), numpy.int64)
            bits = dtype.itemsize < 8 and (dtype.is_floating_point or dtype is plugrad.bfloat16)
            parts.append(whole.astype(f"u{dtype.itemsize}") if bits else whole.astype(dtype.numpy))
    flat = numpy.concatenate(parts) if parts else numpy.empty(0, numpy.uint8)
    flat = numpy.ascontiguousarray(flat).view(numpy.uint8)
    if flat.size != count * dtype.itemsize:
        raise ValueError(f"a tensor of {count} elements has {flat.size} bytes of them")
    return flat


def _external(where, size, source, name):
    """Return data that stand in a file beside the model: its name alone, never a path."""
    file = where.get("location", "")
    if source.path is None:
        raise CheckpointError(
            f"{shown(name)} is in the file {shown(file)} beside the model: load by a path, not a stream"
        )
    if not file or file != os.path.basename(file) or file in (".", "..") or "\\" in file or "\0" in file:
        raise damaged(source.name, f"{shown(file)}, where {shown(name)} is said to be, is no file beside the model")
    path = os.path.join(os.path.dirname(os.path.abspath(source.path)), file)
    if os.path.islink(path) or not os.path.isfile(path):
        raise damaged(source.name, f"{shown(file)}, where {shown(name)} is said to be, is not there")
    start = int(where.get("offset") or 0)
    length = int(where.get("length") or size)
    if length != size:
        raise damaged(source.name, f"{shown(name)} is said to have {length} bytes, and takes {size}")
    with open(path, "rb") as beside:
        return memoryview(Source(beside, path).read(start, size, f"{source.name}: {shown(name)}"))
