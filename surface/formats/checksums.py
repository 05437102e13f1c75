"""The checksum of zip files, CRC-32, of much memory at once: in C where the processor multiplies without carries.

Where it does not, or there is no extension, zlib computes pieces in threads, which are put together.
"""

from __future__ import annotations

import functools
import os
import threading
import zlib

from plugrad import kernels

PIECE = 1 << 22  # bytes for which a thread is worth its start
_MOST = 4
_POLYNOMIAL = 0xEDB88320  # its coefficients, that of the highest power last
_ONE = 1 << 31


def crc32(data) -> int:
    """Return the CRC-32 of an array of uint8, without the interpreter's lock.

    >>> import numpy
    >>> data = numpy.arange(5 * PIECE // 2).astype(numpy.uint8)
    >>> crc32(data) == zlib.crc32(data)
    True
    """
    fast = _fast()
    return zlib_crc32(data) if fast is None else fast(data)


@functools.cache
def _fast():
    """Return the function in C, or None."""
    return getattr(kernels.module(), "crc32", None) if kernels.why_none() is None else None


def zlib_crc32(data) -> int:
    """Return the CRC-32 of an array of uint8, by zlib in as many threads as there are processors, up to four."""
    count = min(_MOST, _processors(), len(data) // PIECE)
    if count < 2:
        return zlib.crc32(data)
    step = -(-len(data) // count)
    pieces = [data[start : start + step] for start in range(0, len(data), step)]
    sums = [0] * count

    def add(number):
        sums[number] = zlib.crc32(pieces[number])

    threads = [threading.Thread(target=add, args=(number,)) for number in range(1, count)]
    for thread in threads:
        thread.start()
    try:
        add(0)
    finally:
        for thread in threads:
            thread.join()
    total = sums[0]
    for piece, own in zip(pieces[1:], sums[1:]):
        total = _times(_shift(len(piece)), total) ^ own
    return total


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _times(a, b) -> int:
    """Return the product of two polynomials over the integers modulo 2, modulo that of the checksum."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


@functools.lru_cache(16)
def _shift(size) -> int:
    """Return the power of x by which a checksum is multiplied when so many bytes of zeros follow."""
    power, square = _ONE, _ONE >> 8
    while size:
        if size & 1:
            power = _times(square, power)
        square, size = _times(square, square), size >> 1
    return power
