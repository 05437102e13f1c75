"""Protocol buffers as ONNX files use them: messages are written from, and read as, lists of (field, value).

There is no schema here: those who write and read messages know the numbers of fields, see `fields.py`. Reading looks
only at bytes that are there, so that sizes in a damaged file cost no memory.
"""

from __future__ import annotations

import struct

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(number: int) -> bytes:
    """Return an integer as a varint; negative ones have ten bytes, as two's complement of 64 bits."""
    number &= (1 << 64) - 1
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def message(*fields) -> bytes:
    """Return the bytes of a message of (number, value) pairs: ints, floats, bytes, text, or lists of these.

    None and empty lists are left out.
    """
    parts = []
    for number, value in fields:
        for one in value if isinstance(value, (list, tuple)) else () if value is None else (value,):
            if isinstance(one, float):
                parts += [varint(number << 3 | FIXED32), struct.pack("<f", one)]
            elif isinstance(one, int):
                parts += [varint(number << 3 | VARINT), varint(one)]
            else:
                one = one.encode() if isinstance(one, str) else one
                parts += [varint(number << 3 | BYTES), varint(len(one)), one]
    return b"".join(parts)


def read_varint(data, place: int) -> tuple[int, int]:
    """Return the varint that begins at a place, and where it ends; ValueError if it does not."""
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("it ends within a number")
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & (1 << 64) - 1, place
    raise ValueError("a number has more than ten bytes")


def fields(data):
    """Yield (number, kind, value) of the fields of a message: an int, or a memoryview of bytes.

    Raises ValueError for bytes that are no message.
    """
    if isinstance(data, int):
        raise ValueError("a number stands where a message is due")
    place, end = 0, len(data)
    while place < end:
        tag, place = read_varint(data, place)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise ValueError(f"there is no field {number}")
        if kind == VARINT:
            value, place = read_varint(data, place)
        else:
            if kind == BYTES:
                size, place = read_varint(data, place)
            elif kind in (FIXED64, FIXED32):
                size = 8 if kind == FIXED64 else 4
            else:
                raise ValueError(f"a field is of kind {kind}")
            if size > end - place:
                raise ValueError(f"a field is said to have {size} bytes, and {end - place} follow it")
            value, place = data[place : place + size], place + size
        yield number, kind, value


def signed(number: int) -> int:
    """Return a varint as the signed integer of 64 bits that it stands for; ValueError for what is none."""
    if not isinstance(number, int):
        raise ValueError("bytes stand where a number is due")
    return number - (1 << 64) if number >> 63 else number
