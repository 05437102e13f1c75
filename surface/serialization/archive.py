"""A checkpoint of our own format: a zip file whose members are stored, with one JSON description.

Of the .npy members only the one form of header that `save` writes is understood, so that NumPy is never handed a dtype
from a file.
"""

from __future__ import annotations

import re

import numpy

from plugrad.formats import behind, damaged
from plugrad.serialization.description import HEADER, STORED, parse

_NPY = re.compile(rb"\{'descr': '([<>|=]\w{2,3})', 'fortran_order': False, 'shape': \((\d{1,19}),\), \} *\n")


class Archive:
    """The description and the storages of a checkpoint."""

    def __init__(self, source):
        self.members = source.members
        self.members.need_stored()
        self.header = parse(self.read(HEADER))

    def read(self, name: str) -> bytes:
        """Return the content of a member, of which the checksum is right."""
        return self.members.read(name)

    def storage(self, number: int, mapped=False, verify=True) -> numpy.ndarray:
        """Return the bytes of a storage, read or as a private map of the file."""
        name = f"data/{number}.npy"
        data = self.members.content(name, mapped, verify)
        return behind(data, _length_of_npy_header(data, name))


def _length_of_npy_header(data, name: str) -> int:
    """Return where the elements in a .npy file begin, which are all that follows."""
    start = data[:10].tobytes()
    if start[:8] != b"\x93NUMPY\x01\x00" or len(start) < 10:
        raise damaged(name, "it does not begin as a .npy file of version 1.0")
    length = int.from_bytes(start[8:], "little")
    text = data[10 : 10 + length].tobytes()
    header = _NPY.fullmatch(text)
    if header is None or header[1].decode() not in STORED:
        raise damaged(name, f"{ascii(text[:60])} describes no row of numbers")
    size = int(header[2]) * STORED[header[1].decode()]
    if 10 + length + size != data.size:
        raise damaged(name, f"it describes {size} bytes of elements, and there are {data.size - 10 - length}")
    return 10 + length
