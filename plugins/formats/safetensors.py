"""safetensors: a JSON header and the elements of tensors behind it; also the index of several such files."""

from __future__ import annotations

import json
import math
import os
import struct
import sys

import numpy

from plugrad.extend import collect, hookimpl
from plugrad.formats import CheckpointError, Format, Options, Placer, Source, damaged, dtype_of, shown
from plugrad.formats.writing import as_bytes, named_arrays, parts_of, write_shards
from plugrad.serialization.description import DTYPES

_LIMIT = 100_000_000  # bytes of a header, as the safetensors package has it
_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip
_CODES = {name: code for code, name in _DTYPES.items()}
_KEYS = {"dtype", "shape", "data_offsets"}
_INDEX = ".index.json"


class SafeTensors(Format):
    """safetensors: tensors by name; an index leads to several files."""

    name, suffixes = "safetensors", (".safetensors", _INDEX)

    def recognises(self, source):
        """Whether a header of a size that fits is followed by {, or it is an index."""
        if _is_index(source):
            return True
        return source.size > 8 and source.head[8:9] == b"{" and _length(source.head) <= min(source.size - 8, _LIMIT)

    def load(self, source, options):
        """Return the dict of tensors."""
        if _is_index(source):
            return _load_index(source, options)
        if options.verify:
            raise CheckpointError("there are no checksums in safetensors files: verify has nothing to compare")
        placer, loaded = Placer(options.map_location), {}
        start, entries, _ = _header(source)
        for name, (element, shape, low, high) in entries.items():
            where = ascii(name)
            data = source.array(start + low, high - low, where, options.mapped)
            if options.mapped and (start + low) % element.itemsize:  # kernels rely on elements at multiples of that
                data = data.copy()
            loaded[name] = placer.tensor(name, data, element, shape, _steps(shape, element.itemsize), 0, "cpu", where)
        return loaded

    def save(self, obj, file):
        """Write a dict of tensors; those that share memory are written apart."""
        if sys.byteorder != "little":
            raise NotImplementedError("safetensors files are little-endian, and this machine is not")
        arrays = named_arrays(obj, "a safetensors file")
        _refuse(arrays)
        # Large elements first: each then begins at a multiple of its size, and can be mapped.
        names, places, end = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name)), {}, 0
        for name in names:
            array, start = arrays[name], end
            end += array.nbytes
            places[name] = {
                "dtype": _CODES[array.dtype.name], "shape": list(array.shape), "data_offsets": [start, end],
            }  # fmt: skip
        # The header is in the order of the dict. By "pt" other libraries know that these are tensors of PyTorch's.
        header = {"__metadata__": {"format": "pt"}, **{name: places[name] for name in arrays}}
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        if len(text) > _LIMIT:
            raise ValueError(f"the header of the file would have {len(text)} bytes, and safetensors reads {_LIMIT}")
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            array = numpy.ascontiguousarray(arrays[name], arrays[name].dtype.newbyteorder("="))
            file.write(array.reshape(-1).view(numpy.uint8))

    def save_shards(self, obj, path, max_shard_size):
        """Write several files and their index as Hugging Face's libraries do.

        One file where that is enough.
        """
        arrays = named_arrays(obj, "a safetensors file")
        sizes = {name: array.nbytes for name, array in arrays.items()}
        groups = parts_of(sizes, as_bytes(max_shard_size))
        _refuse(arrays)
        parts = [{name: obj[name] for name in group} for group in groups]
        write_shards(path, ".safetensors", parts, sum(sizes.values()), self.save)

    def describe(self, source):
        """Return names, dtypes and shapes, and the metadata."""
        if _is_index(source):
            files, rows = _index(source), []
            for path in files:
                with open(path, "rb") as file:
                    rows += self.describe(Source(file, path))["tensors"]
            return {"tensors": rows, "metadata": {}}
        _, entries, metadata = _header(source)
        rows = [
            {"name": name, "shape": list(shape), "dtype": element.name, "device": "cpu"}
            for name, (element, shape, _, _) in entries.items()
        ]
        return {"tensors": rows, "metadata": metadata}


def _refuse(arrays) -> None:
    for name, array in arrays.items():
        if array.dtype.name not in _CODES:
            raise TypeError(f"a safetensors file holds no {array.dtype}, of which {name!r} is")
        if name == "__metadata__":
            raise TypeError("a safetensors file holds no tensor with the name '__metadata__'")


def _steps(shape, step) -> tuple:
    """Return the strides of rows of elements without gaps, of which each has `step` bytes."""
    steps = []
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))


def _length(head) -> int:
    return struct.unpack("<Q", head[:8])[0]


def _header(source):
    """Return where elements begin, {name: (dtype, shape, begin, end)}, and metadata."""
    where = f"{source.name}: its header"
    length = _length(source.read(0, 8, where))
    if length > min(source.size - 8, _LIMIT):
        raise damaged(where, f"it is said to have {length} bytes, and the file has {source.size}")
    header = _parsed(source.read(8, length, where), where)
    metadata = header.pop("__metadata__", {})
    if type(metadata) is not dict or any(type(value) is not str for value in metadata.values()):
        raise damaged(where, f"its metadata {shown(metadata)} are not texts by name")
    entries = {name: _entry(entry, f"{where}: {ascii(name)[:80]}") for name, entry in header.items()}
    end = 0
    for name, (_, _, low, high) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if low != end:
            raise damaged(where, f"{ascii(name)[:80]} begins at byte {low}, and what is before it ends at {end}")
        end = high
    if end != source.size - 8 - length:
        raise damaged(where, f"its tensors have {end} bytes, and {source.size - 8 - length} follow it")
    return 8 + length, entries, metadata


def _entry(entry, where):
    if type(entry) is not dict or {*entry} != _KEYS:
        raise damaged(where, f"{shown(entry)} does not describe a tensor")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if type(shape) is not list or len(shape) > 64 or any(type(n) is not int or not 0 <= n < 2**62 for n in shape):
        raise damaged(where, f"{shown(shape)} is no shape")
    if type(offsets) is not list or len(offsets) != 2 or any(type(n) is not int or not 0 <= n < 2**62 for n in offsets):
        raise damaged(where, f"{shown(offsets)} are not where a tensor begins and ends")
    if type(code) is not str or code not in _DTYPES:
        raise CheckpointError(f"{where} has elements of type {shown(code)}, which plugrad has no dtype for")
    element, (low, high) = DTYPES[_DTYPES[code]], offsets
    dtype_of(element, where)
    if math.prod(shape) * element.itemsize != high - low:
        raise damaged(where, f"bytes {low} to {high} are no {element.name}{shown(shape)}")
    return element, tuple(shape), low, high


def _parsed(text, where) -> dict:
    def distinct(pairs):
        entry = dict(pairs)
        if len(entry) < len(pairs):
            raise damaged(where, "a name stands in it twice")
        return entry

    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=distinct)
    except (ValueError, RecursionError) as error:
        raise damaged(where, error) from None
    if type(header) is not dict or text[:1] not in (b"{", b" ", b"\n"):
        raise damaged(where, "it is no description of tensors")
    return header


# ------------------------------------------------------------------------------------------------ several files


def _is_index(source) -> bool:
    return source.path is not None and str(source.path).endswith(_INDEX) and source.head.lstrip()[:1] == b"{"


def _index(source) -> dict:
    """Return {path of a file: names of the tensors in it} as an index says, whose files lie beside it."""
    if source.size > _LIMIT:
        raise damaged(source.name, "an index is never so large")
    index = _parsed(source.read(0, source.size, source.name).lstrip(), source.name)
    places = index.get("weight_map")
    if type(places) is not dict or any(type(file) is not str for file in places.values()):
        raise damaged(source.name, "it has no weight_map, which says where tensors are")
    folder, files = os.path.dirname(os.path.abspath(source.path)), {}
    for name, file in places.items():
        if file != os.path.basename(file) or not file.endswith(".safetensors"):
            raise damaged(source.name, f"{shown(file)} is not a safetensors file beside the index")
        files.setdefault(os.path.join(folder, file), []).append(name)
    return files


def _load_index(source, options: Options) -> dict:
    loaded, form = {}, SafeTensors()
    for path, names in _index(source).items():
        if not os.path.isfile(path):
            raise CheckpointError(f"{source.name} leads to {ascii(os.path.basename(path))}, which is not beside it")
        with open(path, "rb") as file:
            part = form.load(Source(file, path), options)
        missing = [name for name in names if name not in part]
        if missing:
            raise damaged(source.name, f"{ascii(os.path.basename(path))} holds no {ascii(missing[0])[:80]}")
        loaded.update({name: part[name] for name in names})
    return loaded


@hookimpl
def plugrad_formats():
    return collect(Format, globals())
