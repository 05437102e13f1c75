"""The messages of ONNX files: models, graphs, nodes, tensors. What is written here is read in `reading.py`."""

from __future__ import annotations

import sys

import numpy

import plugrad
from plugrad.onnx.wire import message

IR_VERSION = 10
# ONNX's numbers of the types of elements.
CODES = {
    plugrad.float32: 1, plugrad.uint8: 2, plugrad.int8: 3, plugrad.uint16: 4, plugrad.int16: 5, plugrad.int32: 6,
    plugrad.int64: 7, plugrad.bool: 9, plugrad.float16: 10, plugrad.float64: 11, plugrad.uint32: 12,
    plugrad.uint64: 13, plugrad.complex64: 14, plugrad.complex128: 15, plugrad.bfloat16: 16,
    plugrad.float8_e4m3fn: 17, plugrad.float8_e4m3fnuz: 18, plugrad.float8_e5m2: 19, plugrad.float8_e5m2fnuz: 20,
}  # fmt: skip
LIMIT = 2**31 - 1  # bytes that a message can have


def tensor(name: str, array: numpy.ndarray, dtype) -> bytes:
    """Return a tensor with its elements, row by row."""
    dims = [int(size) for size in array.shape]
    flat = numpy.ascontiguousarray(array).reshape(-1)
    flat = flat if array.dtype.isnative and sys.byteorder == "little" else flat.astype(flat.dtype.newbyteorder("<"))
    return message((1, dims), (2, CODES[dtype]), (8, name), (9, flat.view(numpy.uint8).tobytes()))


def attribute(name: str, value) -> bytes:
    """Return an attribute of a node: a number, text, a list of these, or the bytes of a tensor."""
    if isinstance(value, plugrad.dtype):
        value = CODES[value]
    if isinstance(value, (bool, int)):
        return message((1, name), (3, int(value)), (20, 2))
    if isinstance(value, float):
        return message((1, name), (2, value), (20, 1))
    if isinstance(value, str):
        return message((1, name), (4, value), (20, 3))
    if isinstance(value, bytes):
        return message((1, name), (5, value), (20, 4))
    if isinstance(value, (list, tuple)) and all(isinstance(one, int) for one in value):
        return message((1, name), (8, [int(one) for one in value]), (20, 7))
    if isinstance(value, (list, tuple)) and all(isinstance(one, float) for one in value):
        return message((1, name), (7, list(value)), (20, 6))
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        return message((1, name), (9, list(value)), (20, 8))
    raise TypeError(f"the attribute {name!r} of a node can't be {value!r}: use ints, floats, text or lists of these")


def node(kind: str, inputs, outputs, attributes: dict, name: str, domain: str, doc: str) -> bytes:
    """Return a node."""
    given = [attribute(key, value) for key, value in attributes.items() if value is not None]
    return message((1, inputs), (2, outputs), (3, name), (4, kind), (5, given), (6, doc or None), (7, domain or None))


def value_info(name: str, dtype, shape) -> bytes:
    """Return what is said of an input or output: type, and sizes as numbers or names."""
    sizes = [message((2, one)) if isinstance(one, str) else message((1, one)) for one in shape]
    return message((1, name), (2, message((1, message((1, CODES[dtype]), (2, message((1, sizes))))))))


def model(nodes, initializers, inputs, outputs, opsets: dict, name: str) -> bytes:
    """Return a whole model; ValueError if it is too large for one file."""
    size = sum(map(len, nodes)) + sum(map(len, initializers))
    if size > LIMIT - 100_000:
        raise ValueError(
            f"an ONNX file holds less than 2 GiB, and this model has {size / 2**30:.1f} GiB: export it in half "
            "precision, model.half(), or in parts"
        )
    graph = message((1, nodes), (2, name), (5, initializers), (11, inputs), (12, outputs))
    imports = [message((1, domain), (2, version)) for domain, version in opsets.items()]
    return message((1, IR_VERSION), (2, "plugrad"), (3, plugrad.__version__), (7, graph), (8, imports))
