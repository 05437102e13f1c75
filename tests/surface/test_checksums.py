"""The checksum of zip files is zlib's, whoever computes it."""

import zlib

import numpy
import pytest

from plugrad import kernels
from plugrad.formats import checksums

DATA = numpy.random.default_rng(0).integers(0, 256, 3 * checksums.PIECE + 77, dtype=numpy.uint8)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 63, 64, 127, 128, 129, 191, 192, 255, 256, 4097])
def test_short_ones_at_any_place(size):
    for start in (0, 1, 7, 15):
        data = DATA[start : start + size]
        assert checksums.crc32(data) == zlib.crc32(data)


def test_long_ones_in_c_and_in_threads(monkeypatch):
    monkeypatch.setattr(checksums, "_processors", lambda: 3)
    for data in (DATA, DATA[3:], DATA[: 2 * checksums.PIECE], numpy.zeros(2 * checksums.PIECE + 1, numpy.uint8)):
        assert checksums.crc32(data) == checksums.zlib_crc32(data) == zlib.crc32(data)


def test_in_c_it_goes_on_from_a_checksum():
    in_c = getattr(kernels.module(), "crc32", None) if kernels.why_none() is None else None
    if in_c is None:
        pytest.skip("no extension, or a processor that does not multiply without carries")
    for middle in (0, 1, 100, 128, 5000):
        assert in_c(DATA[middle:10_000], in_c(DATA[:middle])) == zlib.crc32(DATA[:10_000])
    for start in (1, 0x80000000, 0xFFFFFFFF):
        assert in_c(DATA[:300].tobytes(), start) == zlib.crc32(DATA[:300], start)
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        in_c(DATA[::2])
    with pytest.raises(TypeError):
        in_c("text")
