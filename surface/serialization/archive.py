"""The zip file of a checkpoint, read so that nothing in it can make the reader take more memory than the file has.

Members are stored as they are, never compressed, and their sizes together are at most the file's. Of the .npy
members only the one form of header that `save` writes is understood, so that NumPy is never handed a dtype from a file.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import struct
import zipfile
import zlib

import numpy

from plugrad.serialization.description import HEADER, STORED, CheckpointError, damaged, parse

_NPY = re.compile(rb"\{'descr': '([<>|=]\w{2,3})', 'fortran_order': False, 'shape': \((\d{1,19}),\), \} *\n")
_CHUNK = 1 << 20
# What the parser of zip files raises for wrong numbers in one, besides its own error.
_MALFORMED = (zipfile.BadZipFile, struct.error, zlib.error, ValueError, NotImplementedError, RuntimeError, EOFError,
              OverflowError)  # fmt: skip


@contextlib.contextmanager
def opened(f):
    """Give the Archive of a path or an open file."""
    named = isinstance(f, (str, os.PathLike))
    if not named and not (hasattr(f, "read") and hasattr(f, "seek")):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with 'read' and 'seek' attributes, not "
            f"{type(f).__name__}"
        )
    if isinstance(f, io.TextIOBase):
        raise TypeError("the file is open in text mode: open it with mode 'rb'")
    with open(f, "rb") if named else contextlib.nullcontext(f) as file:
        yield Archive(file, os.fspath(f) if named else None)


@contextlib.contextmanager
def _reading(where):
    """Turn what the parser of zip files raises into the one error of a damaged checkpoint."""
    try:
        yield
    except (CheckpointError, RecursionError):  # a program without frames left says nothing of the file
        raise
    except _MALFORMED as error:
        raise damaged(where, str(error) or type(error).__name__) from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # a seek to a place before the file, and no fault of the file's medium
            raise
        raise damaged(where, error) from error


class Archive:
    """The members of a checkpoint by name, once it is known to be one."""

    def __init__(self, file, path):
        self.file, self.path = file, path
        self.size = file.seek(0, os.SEEK_END)
        what = "the file" if path is None else ascii(path)
        try:
            with _reading(what):
                self.zip = zipfile.ZipFile(file)
        except CheckpointError as error:
            raise CheckpointError(
                f"{what} is not a checkpoint of plugrad: it is not a zip file, or it was cut off"
            ) from error.__cause__
        self.members = {}
        for info in self.zip.infolist():
            self._check(info)
            self.members[info.filename] = info
        if self.members and min(info.header_offset for info in self.members.values()):
            raise damaged(what, "something stands before its first member: it may be two files in one")
        if sum(info.file_size for info in self.members.values()) > self.size:
            raise damaged(what, "its members are said to be larger than the file")
        if HEADER not in self.members:
            raise CheckpointError(f"the file is not a checkpoint of plugrad{self._foreign()}")
        self.header = parse(self.read(HEADER))

    def _check(self, info) -> None:
        if info.filename in self.members:
            raise damaged(ascii(info.filename), "there are two of that name")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
            raise damaged(ascii(info.filename), "it is compressed or encrypted, which `save` never does")
        if not 0 <= info.header_offset <= self.size - info.file_size:
            raise damaged(ascii(info.filename), "it lies outside of the file")

    def _foreign(self) -> str:
        if any(name.endswith("/data.pkl") for name in self.members):
            return (
                "; it is one of PyTorch, which holds pickles: load it there and save the tensors as NumPy arrays, or "
                "as a state_dict of arrays"
            )
        return f": there is no {HEADER} in it"

    def info(self, name: str):
        """Return the zip file's record of a member."""
        if name not in self.members:
            raise damaged(name, "there is no such member in the file")
        return self.members[name]

    def read(self, name: str) -> bytes:
        """Return the content of a member, of which the checksum is right."""
        with _reading(name):
            return self.zip.read(self.info(name))

    def storage(self, number: int) -> numpy.ndarray:
        """Return the bytes of a storage, of which the checksum is right."""
        name = f"data/{number}.npy"
        info = self.info(name)
        with _reading(name), self.zip.open(info) as member:
            data = numpy.empty(self._skip_npy_header(member, name, info.file_size), numpy.uint8)
            for start in range(0, data.size, _CHUNK):
                part = data[start : start + _CHUNK]
                if member.readinto(part) != part.size:
                    raise damaged(name, "it ends too early")
            member.read()  # the checksum is compared at the end
        return data

    def mapped(self, number: int) -> numpy.ndarray:
        """Return the bytes of a storage as a private map of the file; its checksum is not looked at."""
        name = f"data/{number}.npy"
        info = self.info(name)
        with _reading(name):
            self.zip.open(info).close()  # compares the member's own header with the zip file's table
            self.file.seek(info.header_offset + 26)  # the lengths of name and extra field in that header
            lengths = struct.unpack("<HH", self.file.read(4))
            self.file.seek(info.header_offset + 30 + sum(lengths))
            size = self._skip_npy_header(self.file, name, info.file_size)
            start = self.file.tell()
            if start + size > self.size:
                raise damaged(name, "it lies outside of the file")
            if not size:
                return numpy.empty(0, numpy.uint8)
            return numpy.memmap(self.path, numpy.uint8, "c", start, (size,)).view(numpy.ndarray)

    @staticmethod
    def _skip_npy_header(member, name: str, available: int) -> int:
        """Read the header of a .npy file; return how many bytes of elements follow, which is all that there is."""
        start = member.read(10)
        if start[:8] != b"\x93NUMPY\x01\x00" or len(start) < 10:
            raise damaged(name, "it does not begin as a .npy file of version 1.0")
        length = int.from_bytes(start[8:], "little")
        text = member.read(length)
        header = _NPY.fullmatch(text)
        if header is None or header[1].decode() not in STORED:
            raise damaged(name, f"{ascii(text[:60])} describes no row of numbers")
        size = int(header[2]) * STORED[header[1].decode()]
        if 10 + length + size != available:
            raise damaged(name, f"it describes {size} bytes of elements, and there are {available - 10 - length}")
        return size
