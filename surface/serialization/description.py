"""The JSON description in a checkpoint: what it may say, and what is refused.

Nothing in it is taken at its word: names are looked up in closed tables, numbers are checked to be whole, in range and
inside of what is really there, before NumPy or anything else is asked to use them.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter, OrderedDict

import numpy

import plugrad
from plugrad import Size, device, dtypes
from plugrad.errors import stack_is_deep
from plugrad.formats import CheckpointError, damaged, inside, shown

FORMAT = 1
HEADER, OBJECTS = "plugrad.json", "objects.pkl"

DTYPES = {value.name: value for value in dtypes.ALL.values()}
LAYOUTS = {"strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"}
FORMATS = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"}
ARRAY_DTYPES = {  # those of NumPy's arrays, as NumPy spells them, in either order of bytes
    known.str: known
    for plain in {numpy.dtype(code) for code in "?bBhHiIlLqQefdgFDG"}
    for known in (plain, plain.newbyteorder())
}
STORED = {name: known.itemsize for name, known in ARRAY_DTYPES.items()}  # elements of a member -> their size

_LIMIT = 2**63  # sizes in bytes, offsets and strides stay below
_DIMENSIONS = 64  # NumPy has no more
_CLASS = re.compile(r"[\w.<>]+")
_PLACE = re.compile(r"[a-z_][a-z_0-9]*(:\d{1,4})?", re.ASCII)


def field(entry: dict, name: str, kind: type, where: str):
    """Return a field of an entry, which has to be there and exactly of that type."""
    if name not in entry:
        raise damaged(where, f"it has no {name!r}")
    value = entry[name]
    if type(value) is not kind:
        raise damaged(where, f"{name!r} is {shown(value)}, which is no {kind.__name__}")
    return value


def number_below(entry: dict, name: str, limit: int, where: str) -> int:
    """Return a field that counts something of which there are `limit`."""
    value = field(entry, name, int, where)
    if not 0 <= value < limit:
        raise damaged(where, f"{name!r} is {shown(value)}, and the file has {limit} of these")
    return value


def parse(text: bytes) -> dict:
    """Return the checked description of a checkpoint; the tree below "root" is checked when it is read."""
    try:
        header = json.loads(text, object_pairs_hook=_distinct, parse_constant=_constant)
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        if isinstance(error, RecursionError) and stack_is_deep():
            raise  # it is the program that is nested too deeply
        raise damaged(HEADER, error) from None
    if type(header) is not dict:
        raise damaged(HEADER, f"it holds {shown(header)} and not a description")
    if field(header, "format", int, HEADER) < FORMAT:
        raise damaged(HEADER, f"there was never a format {shown(header['format'])}")
    if header["format"] > FORMAT:
        raise CheckpointError(
            f"the checkpoint has format {shown(header['format'])}, written by plugrad "
            f"{shown(header.get('plugrad'))}; this version reads up to {FORMAT}: upgrade plugrad"
        )
    for name, kind in (("plugrad", str), ("plugins", dict), ("objects", list), ("tensors", list)):
        field(header, name, kind, HEADER)
    if "root" not in header:
        raise damaged(HEADER, "it has no 'root'")
    order = header.get("byteorder", "little")
    if order != sys.byteorder:
        raise CheckpointError(f"the checkpoint's bytes are in {shown(order)} order, this machine's in {sys.byteorder}")
    for name in header["objects"]:
        if type(name) is not str or not _CLASS.fullmatch(name):
            raise damaged(HEADER, f"'objects' lists {shown(name)}, which is not a class")
    for name, version in header["plugins"].items():
        if type(version) is not str or not (name + version).isprintable():
            raise damaged(HEADER, f"'plugins' lists {shown(name)}: {shown(version)}")
    for number, entry in enumerate(header["tensors"]):
        if type(entry) is not dict:
            raise damaged(f"{HEADER}: tensor {number}", f"it is {shown(entry)}")
    return header


def _distinct(pairs: list) -> dict:
    entry = dict(pairs)
    if len(entry) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise damaged(HEADER, f"{shown(twice)} stands twice in one place")
    return entry


def _constant(name: str):
    raise damaged(HEADER, f"{name} is not a number of JSON")


# ------------------------------------------------------------------------------------------------ tensors


def element(entry: dict, table: dict, where: str):
    """Return the dtype that an entry names."""
    name = field(entry, "dtype", str, where)
    if name not in table:
        raise damaged(where, f"'dtype' is {shown(name)}, which is not a type of numbers here")
    return table[name]


def place(entry: dict, where: str) -> str:
    """Return the device that an entry names, as it was written."""
    name = field(entry, "device", str, where)
    if not _PLACE.fullmatch(name):
        raise damaged(where, f"'device' is {shown(name)}, which names none")
    return name


def shape(entry: dict, itemsize: int, where: str) -> tuple:
    """Return the shape in an entry."""
    sizes = _integers(entry, "shape", where)
    if min(sizes, default=0) < 0 or math.prod([size or 1 for size in sizes]) * itemsize >= _LIMIT:
        raise damaged(where, f"'shape' is {shown(list(sizes))}, and there is no such tensor")
    return sizes


def layout(entry: dict, itemsize: int, available: int, where: str) -> tuple:
    """Return shape, strides and offset in bytes of an entry whose elements lie within `available` bytes."""
    sizes, strides = shape(entry, itemsize, where), _integers(entry, "strides", where)
    offset = field(entry, "offset", int, where)
    if len(strides) != len(sizes):
        raise damaged(where, f"it has {len(sizes)} sizes and {len(strides)} strides")
    if any(abs(step) >= _LIMIT or step % itemsize for step in strides) or offset % itemsize:
        raise damaged(where, f"'strides' or 'offset' are not multiples of {itemsize} bytes, the size of an element")
    inside(sizes, strides, offset, itemsize, available, where)
    return sizes, strides, offset


def _integers(entry: dict, name: str, where: str) -> tuple:
    values = field(entry, name, list, where)
    if len(values) > _DIMENSIONS:
        raise damaged(where, f"{name!r} has {len(values)} numbers, and tensors have at most {_DIMENSIONS} dimensions")
    for value in values:
        if type(value) is not int:
            raise damaged(where, f"{name!r} holds {shown(value)}, which is not an integer")
    return tuple(values)


# ---------------------------------------------------------------------------------------------- plain values

WRITE_ATOM = {  # class -> its tag, and what JSON can hold of a value
    complex: ("complex", lambda v: [repr(v.real), repr(v.imag)]),
    bytes: ("bytes", bytes.hex),
    Size: ("Size", list),
    dtypes.dtype: ("dtype", lambda v: v.name),
    plugrad.layout: ("layout", lambda v: str(v).rpartition(".")[2]),
    plugrad.memory_format: ("memory_format", lambda v: str(v).rpartition(".")[2]),
    device: ("device", str),
    slice: ("slice", lambda v: [v.start, v.stop, v.step]),
}


MAPPINGS = {cls.__name__: cls for cls in (dict, OrderedDict, Counter)}


def are_attributes(names) -> bool:
    """Whether a mapping can have attributes of these names: none that it has, or that Python looks up."""
    taken = {*dir(OrderedDict), *dir(Counter)}
    return all(type(name) is str and name.isidentifier() and name not in taken for name in names)


def is_slice(value: slice) -> bool:
    """Whether a slice is of whole numbers, and so can be written as data."""
    return all(type(part) in (int, type(None)) for part in (value.start, value.stop, value.step))


def _texts(count):
    return lambda v: type(v) is list and len(v) == count and all(type(part) is str for part in v)


def _whole(v) -> bool:
    return type(v) is list and all(type(part) is int for part in v)


def _text(v) -> bool:
    return type(v) is str


READ_ATOM = {  # tag -> whether a value is of the right kind, and what makes it
    "float": (_text, float),
    "int": (_text, lambda v: int(v, 16)),
    "complex": (_texts(2), lambda v: complex(*map(float, v))),
    "bytes": (_text, bytes.fromhex),
    "Size": (_whole, Size),
    "dtype": (lambda v: type(v) is str and v in DTYPES, DTYPES.__getitem__),
    "layout": (lambda v: type(v) is str and v in LAYOUTS, lambda v: getattr(plugrad, v)),
    "memory_format": (lambda v: type(v) is str and v in FORMATS, lambda v: getattr(plugrad, v)),
    "device": (lambda v: type(v) is str and _PLACE.fullmatch(v), device),
    "slice": (lambda v: type(v) is list and len(v) == 3 and is_slice(slice(*v)), lambda v: slice(*v)),
}


def atom(tag: str, tree: dict):
    """Return the plain value with a tag."""
    if type(tag) is not str or tag not in READ_ATOM:
        raise CheckpointError(f"the checkpoint holds {shown(tag)}, which this version of plugrad does not know")
    fits, make = READ_ATOM[tag]
    if "value" not in tree or not fits(tree["value"]):
        raise damaged(HEADER, f"{shown(tree.get('value'))} is no {tag}")
    try:
        return make(tree["value"])
    except (ValueError, OverflowError, RuntimeError) as error:  # RuntimeError: a device that is not here
        raise damaged(HEADER, error) from None
