"""Event files, as TensorBoard reads them: records with checksums, of protocol buffers."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import threading
import time
import weakref
import zlib

import numpy

_COUNTER = itertools.count()


def message(*fields) -> bytes:
    """Return a protocol buffer of pairs (number of a field, value).

    None leaves a field out.

    int and bool are written as varints, float as double, `numpy.float32` as float, str and bytes with their length, and
    lists of float as packed doubles.

    >>> message((1, "a"), (2, 300), (3, None)).hex()
    '0a016110ac02'
    """
    return b"".join(_field(number, value) for number, value in fields if value is not None)


def _field(number, value) -> bytes:
    if isinstance(value, numpy.float32):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(int(value) & (1 << 64) - 1)
    if isinstance(value, float):
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, list):
        integers = bool(value) and all(isinstance(one, int) for one in value)
        value = b"".join(map(_varint, value)) if integers else struct.pack(f"<{len(value)}d", *value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _table():
    """Return what a byte adds to the checksum, for the polynomial of Castagnoli."""
    rows = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        rows.append(value)
    return rows


_CRC = _table()


def masked_checksum(data: bytes) -> int:
    """Return the CRC-32C of bytes, masked as records have it: checksums of checksums are weak.

    >>> hex(masked_checksum(b"123456789"))
    '0xc78ab0e5'
    """
    crc, table = 0xFFFFFFFF, _CRC
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """Return a record of an event file: length, its checksum, content, its checksum."""
    length = struct.pack("<Q", len(data))
    return b"".join((
        length, struct.pack("<I", masked_checksum(length)), data, struct.pack("<I", masked_checksum(data)),
    ))  # fmt: skip


def png(*images, rate=4) -> bytes:
    """Return the PNG of an array of uint8.

    Its shape is (height, width) or (height, width, 1 to 4 channels).

    Several of one shape are the frames of an animation, `rate` a second, which goes on and on.

    >>> png(numpy.zeros((2, 3, 3), numpy.uint8))[:4]
    b'\\x89PNG'
    """
    image = images[0]
    if image.dtype != numpy.uint8 or image.ndim not in (2, 3) or image.ndim == 3 and not 1 <= image.shape[2] <= 4:
        raise ValueError(f"a PNG has uint8 of (height, width, 1 to 4 channels), not {image.dtype} of {image.shape}")
    height, width, channels = image.shape if image.ndim == 3 else (*image.shape, 1)
    if not height or not width:
        raise ValueError(f"an image without pixels, of shape {image.shape}, can't be written")
    kind = (0, 4, 2, 6)[channels - 1]
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))]
    numbers = itertools.count()  # of the chunks of an animation
    if len(images) > 1:
        parts.append((b"acTL", struct.pack(">II", len(images), 0)))
    for frame in images:
        rows = numpy.zeros((height, 1 + width * channels), numpy.uint8)  # each row begins with its filter: none
        rows[:, 1:] = frame.reshape(height, -1)
        data = zlib.compress(rows.tobytes(), 6)
        if len(images) > 1:
            delay = struct.pack(">HHBB", 1000, round(1000 * rate), 0, 0)
            parts.append((b"fcTL", struct.pack(">IIIII", next(numbers), width, height, 0, 0) + delay))
        parts.append((b"IDAT", data) if frame is image else (b"fdAT", struct.pack(">I", next(numbers)) + data))
    parts.append((b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


class EventFile:
    """An event file, `events.out.tfevents.TIME.HOST.PROCESS.NUMBER` in a folder.

    Args:
        folder: made where it is not there.
        most: so many events may wait until they are written.
        seconds: and so long, until the next event after that.
        suffix: of the file's name.
    """

    def __init__(self, folder, most=10, seconds=120, suffix=""):
        os.makedirs(folder, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_COUNTER)}"
        self.path = os.path.join(folder, name + suffix)
        self.most, self.seconds, self._lock = most, seconds, threading.Lock()
        self._file, self._waiting, self._flushed = open(self.path, "xb", buffering=0), [], time.monotonic()
        # Also at the program's end.
        self._finish = weakref.finalize(self, _close, self._file, self._waiting, os.getpid())
        self.add(message((3, "brain.Event:2")))
        self.flush()

    def add(self, event: bytes, wall_time=None) -> None:
        """Write an event: a message without its `wall_time`.

        That is in seconds since the epoch, now when None.
        """
        content = message((1, float(time.time() if wall_time is None else wall_time))) + event
        with self._lock:
            if self._file.closed:
                raise ValueError(f"the event file {self.path} is closed: make a new writer")
            self._waiting.append(record(content))
        if len(self._waiting) > self.most or time.monotonic() - self._flushed > self.seconds:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        with self._lock:
            _write(self._file, self._waiting)
            self._flushed = time.monotonic()

    def close(self) -> None:
        """Write what waits, and close the file."""
        with self._lock:
            self._finish()


def _write(file, waiting) -> None:
    content = b"".join(waiting)
    while content:
        content = content[file.write(content) :]
    waiting.clear()


def _close(file, waiting, owner) -> None:
    if os.getpid() == owner:  # a forked process has a copy of what waits, and leaves it alone
        _write(file, waiting)
    file.close()
