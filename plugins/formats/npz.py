"""NumPy's .npz: a zip file of arrays by name. Loaded without NumPy's reader, which takes dtypes from the file."""

from __future__ import annotations

import math
import re
import zipfile

import numpy

from plugrad.extend import collect, dtype_of, hookimpl
from plugrad.formats import CheckpointError, Format, Placer, behind, damaged
from plugrad.formats.writing import aligned_member, named_arrays

_HEADER = re.compile(
    rb"\{'descr': '([<>|=][a-zA-Z]\d{1,2})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,19}, ?){0,64}(?:\d{1,19})?)\), \} *\n?"
)
_STORAGE = re.compile(r"data/\d+\.npy")  # a checkpoint of plugrad that lost its description has only these
_TYPES = {
    known.str: known
    for plain in map(numpy.dtype, "?bBhHiIqQefdFD")
    for known in (plain, plain.newbyteorder())
}  # fmt: skip


class Npz(Format):
    """NumPy's .npz: arrays of numbers by name, as a dict of tensors."""

    name, suffixes = "npz", (".npz",)

    def recognises(self, source):
        """Whether it is a zip file of .npy members only."""
        if not source.is_zip or not source.members.infos or not all(one.endswith(".npy") for one in source.members):
            return False
        return not all(_STORAGE.fullmatch(one) for one in source.members)

    def load(self, source, options):
        """Return the dict of tensors."""
        placer = Placer(options.map_location)
        return {member[:-4]: _tensor(source.members, member, options, placer) for member in source.members}

    def save(self, obj, file):
        """Write a dict of tensors or arrays."""
        arrays = named_arrays(obj, "an .npz file")
        for name, array in arrays.items():
            if array.dtype.newbyteorder("=").str not in _TYPES or array.dtype.fields is not None:
                raise TypeError(
                    f"an .npz file holds no {array.dtype}, of which {name!r} is: use safetensors, or .float()"
                )
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                info = aligned_member(f"{name}.npy", archive.start_dir)
                with archive.open(info, "w", force_zip64=True) as member:
                    numpy.lib.format.write_array(member, array, allow_pickle=False)

    def describe(self, source):
        """Return shapes and dtypes."""
        rows = []
        for member in source.members:
            dtype, shape, _, _ = _header(
                source.members.content(member, mapped=source.path is not None, verify=False), member
            )
            rows.append({"name": member[:-4], "shape": list(shape), "dtype": dtype.name, "device": "cpu"})
        return {"tensors": rows}


def _header(data, member):
    """Return dtype, shape, whether columns come first, and where the elements begin."""
    start = data[:12].tobytes()
    if start[:6] != b"\x93NUMPY" or len(start) < 12 or start[6:8] not in (b"\x01\0", b"\x02\0", b"\x03\0"):
        raise damaged(member, "it does not begin as an .npy file")
    begin = 10 if start[6] == 1 else 12
    length = int.from_bytes(start[8:begin], "little")
    text = data[begin : begin + min(length, 4000)].tobytes()
    header = _HEADER.fullmatch(text)
    if header is None:
        raise damaged(member, f"{ascii(text[:60])} describes no array of numbers")
    if header[1].decode() not in _TYPES:
        raise CheckpointError(f"{member} holds elements of type {header[1].decode()!r}, which tensors can't have")
    dtype, shape = _TYPES[header[1].decode()], tuple(int(size) for size in header[3].split(b",") if size.strip())
    if len(shape) > 64 or math.prod([size or 1 for size in shape]) >= 2**60:
        raise damaged(member, f"({header[3].decode()[:60]}) is no shape of an array")
    if math.prod(shape) * dtype.itemsize != data.size - begin - length:
        raise damaged(member, f"{data.size - begin - length} bytes are no {dtype.name}{list(shape)}")
    return dtype, shape, header[2] == b"True", begin + length


def _tensor(members, member, options, placer):
    data = members.content(member, options.mapped, options.checked)
    dtype, shape, columns, start = _header(data, member)
    array = behind(data, start).view(dtype)
    if not dtype.isnative or not array.flags.aligned:
        array = array.astype(dtype.newbyteorder("="))
    array = array.reshape(shape[::-1]).T if columns else array.reshape(shape)
    memory = array.T if columns else array
    element = dtype_of(array.dtype)
    flat = memory.reshape(-1).view(numpy.uint8)
    return placer.tensor(member, flat, element, shape, array.strides, 0, "cpu", member)


@hookimpl
def plugrad_formats():
    return collect(Format, globals())
