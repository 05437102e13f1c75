"""Files that formats read: their first bytes, their bytes copied or mapped, and what a zip file holds.

Nothing in a file can make a reader take more memory than the file has. Sizes and places are compared with what is
really there before anything is allocated, and every piece of a zip file with its checksum.
"""

from __future__ import annotations

import contextlib
import errno
import io
import mmap
import os
import struct
import zipfile
import zlib
from functools import cached_property

import numpy

from plugrad.formats.checksums import crc32
from plugrad.formats.errors import CheckpointError, damaged

_CHUNK = 1 << 20
_RATIO, _INFLATED = 100, 1 << 26  # a compressed file may become as many times larger, or as many bytes
# What the parser of zip files raises for wrong numbers in one, besides its own error.
_MALFORMED = (zipfile.BadZipFile, struct.error, zlib.error, ValueError, NotImplementedError, RuntimeError, EOFError,
              OverflowError)  # fmt: skip


@contextlib.contextmanager
def opened(f):
    """Give the Source of a path or an open file."""
    named = isinstance(f, (str, os.PathLike))
    if not named and hasattr(f, "read") and not hasattr(f, "seek"):
        raise AttributeError(
            "You can only torch.load from a file that is seekable. Please pre-load the data into a buffer like "
            f"io.BytesIO and try to load from it instead: {type(f).__name__} has no 'seek', so write "
            "torch.load(io.BytesIO(f.read()))"
        )
    if not named and not hasattr(f, "read"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with 'read' and 'seek' attributes, not "
            f"{type(f).__name__}"
        )
    if isinstance(f, io.TextIOBase):
        raise TypeError("the file is open in text mode: open it with mode 'rb'")
    with open(f, "rb") if named else contextlib.nullcontext(f if hasattr(f, "seekable") else _Bare(f)) as file:
        yield Source(file, os.fspath(f) if named else None)


class _Bare:
    """A file-like object that has `read` and `seek` and does not say that it can seek, as the reader of zip files asks.

    What `seek` returns it may leave out, too.
    """

    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def seekable(self) -> bool:
        return True

    def seek(self, offset, whence=os.SEEK_SET):
        place = self._file.seek(offset, whence)
        return self._file.tell() if place is None else place


class Source:
    """An open file that a format is asked to recognise, to describe or to load.

    Attributes:
        file: open for reading in binary mode.
        path: where it is, or None for a file that was handed over open.
        size: in bytes, counted from `start`.
        start: where the content begins: 0, or the position of a file that was handed over open; 0 for a zip file, the
            table of which counts from there, once `members` was asked for.
        head: the first 64 bytes.
    """

    def __init__(self, file, path):
        self.file, self.path = file, path
        self.start = 0 if path is not None or not hasattr(file, "tell") else file.tell()
        end = file.seek(0, os.SEEK_END)
        file.seek(self.start)
        self.head = file.read(64)
        if not self.head:  # files are handed over at their end, too: a zip file is found from there
            self.start = 0
            file.seek(0)
            self.head = file.read(64)
        self.size = end - self.start

    @property
    def name(self) -> str:
        """What errors call the file."""
        return "the file" if self.path is None else ascii(self.path)

    def read(self, start: int, size: int, where: str) -> bytes:
        """Return bytes of the file; CheckpointError if there are not as many."""
        if not 0 <= start <= start + size <= self.size:
            raise damaged(where, f"bytes {start} to {start + size} are not in the file, which has {self.size}")
        self.file.seek(self.start + start)
        data = self.file.read(size)
        if len(data) != size:
            raise damaged(where, "the file ends too early")
        return data

    def array(self, start: int, size: int, where: str, mapped=False) -> numpy.ndarray:
        """Return bytes of the file as an array of uint8, read or mapped.

        A map is private: what is written does not reach the file.
        """
        if not 0 <= start <= start + size <= self.size:
            raise damaged(where, f"bytes {start} to {start + size} are not in the file, which has {self.size}")
        if not size:
            return numpy.empty(0, numpy.uint8)
        if mapped:
            return numpy.frombuffer(self._map, numpy.uint8, size, start)  # a storage of its own, not a view of the file
        data = numpy.empty(size, numpy.uint8)
        self.file.seek(self.start + start)
        if hasattr(self.file, "readinto"):
            there = 0
            while there < size:
                count = self.file.readinto(data[there:])
                if not count:
                    raise damaged(where, "the file ends too early")
                there += count
        else:
            data[:] = numpy.frombuffer(self.read(start, size, where), numpy.uint8)
        return data

    @cached_property
    def _map(self):
        return mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_COPY)

    @cached_property
    def is_zip(self) -> bool:
        """Whether the file is a zip file, of which the table at the end can be read."""
        return self.head[:4] in (b"PK\x03\x04", b"PK\x05\x06") or zipfile.is_zipfile(self.file)

    @cached_property
    def members(self):
        """The members of the zip file that it is, see Members; CheckpointError if they are not in order."""
        return Members(self)


def behind(data: numpy.ndarray, start: int) -> numpy.ndarray:
    """Return the bytes from a place on, as if nothing stood before them.

    Tensors in them have no storage but these.
    """
    return numpy.frombuffer(memoryview(data)[start:], numpy.uint8)


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


class Members:
    """The members of a zip file by name, once the file is known to be in order.

    They are where and what its directory says.
    """

    def __init__(self, source):
        self.source, self.size, handed_over_at = source, source.file.seek(0, os.SEEK_END), source.start
        source.start, source.size = 0, self.size  # places in a zip file are counted from the file's beginning
        try:
            with _reading(source.name):
                self.zip = zipfile.ZipFile(source.file)
        except CheckpointError as error:
            raise CheckpointError(
                f"{source.name} is not a checkpoint: it is not a zip file, or it was cut off"
            ) from error.__cause__
        self.infos = {}
        for info in self.zip.infolist():
            self._check(info)
            self.infos[info.filename] = info
        infos = self.infos.values()
        if infos and min(info.header_offset for info in infos) not in (0, handed_over_at):
            raise damaged(source.name, "something stands before its first member: it may be two files in one")
        if sum(info.compress_size for info in infos) > self.size:
            raise damaged(source.name, "its members are said to be larger than the file")
        inflated = sum(info.file_size for info in infos)
        if inflated > max(_RATIO * self.size, _INFLATED):
            raise damaged(source.name, f"its {self.size} bytes would become {inflated}, more than load takes")

    def _check(self, info) -> None:
        where = ascii(info.filename)
        if info.filename in self.infos:
            raise damaged(where, "there are two of that name")
        stored = info.compress_type == zipfile.ZIP_STORED
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise damaged(where, "it is encrypted, or compressed in a way that is not known")
        if stored and info.file_size != info.compress_size:
            raise damaged(where, "it has two sizes")
        if not 0 <= info.header_offset <= self.size - info.compress_size:
            raise damaged(where, "it lies outside of the file")

    def __contains__(self, name) -> bool:
        return name in self.infos

    def __iter__(self):
        return iter(self.infos)

    def need_stored(self) -> None:
        """Refuse members that are compressed, in a format that compresses none."""
        for info in self.infos.values():
            if info.compress_type != zipfile.ZIP_STORED:
                raise damaged(ascii(info.filename), "it is compressed or encrypted, which `save` never does")

    @cached_property
    def has_checksums(self) -> bool:
        """Whether there are checksums; PyTorch can leave them out, which makes all of them 0."""
        return any(info.CRC for info in self.infos.values())

    def info(self, name: str):
        """Return the zip file's record of a member."""
        if name not in self.infos:
            raise damaged(name, "there is no such member in the file")
        return self.infos[name]

    def read(self, name: str) -> bytes:
        """Return the content of a member, of which the checksum is right."""
        return self.content(name).tobytes()

    def content(self, name: str, mapped=False, verify=True) -> numpy.ndarray:
        """Return the bytes of a member as an array: mapped, or copied if compressed.

        `verify` compares its checksum, which reads all of it.
        """
        info = self.info(name)
        with _reading(name):
            with self.zip.open(info) as member:  # compares the member's own header with the zip file's table
                if info.compress_type != zipfile.ZIP_STORED:
                    return _inflated(member, name, info.file_size)
            self.source.file.seek(info.header_offset + 26)  # the lengths of name and extra field in that header
            start = info.header_offset + 30 + sum(struct.unpack("<HH", self.source.file.read(4)))
            data = self.source.array(start, info.file_size, name, mapped)
            if verify and self.has_checksums and crc32(data) != info.CRC:
                raise damaged(name, "its checksum is wrong")
        return data


def _inflated(member, name, size):
    data = bytearray()
    while len(data) < size:  # a piece at a time: the size is only what the file says
        part = member.read(min(_CHUNK, size - len(data)))
        if not part:
            raise damaged(name, "it ends too early")
        data += part
    if member.read(1):
        raise damaged(name, "it is longer than the file says")
    return numpy.frombuffer(data, numpy.uint8)
