"""Images of bytes brought to another size: bit for bit what PyTorch computes in integers."""

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

SIZES = [(20, 30), (60, 70), (40, 25), (2, 5), (3, 90)]  # of one by one PyTorch fails inside


def both(shape, **options):
    image = numpy.random.RandomState(0).randint(0, 256, shape, dtype=numpy.uint8)
    return [T.nn.functional.interpolate(T.from_numpy(image), **options) for T in (torch, plugrad)]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("channels", [1, 3, 7])  # PyTorch computes more than four in another way
def test_bytes_are_those_of_pytorch(mode, antialias, corners, channels):
    for how in ({"size": size} for size in SIZES):
        expected, actual = both((2, channels, 40, 50), mode=mode, antialias=antialias, align_corners=corners, **how)
        assert actual.dtype is plugrad.uint8 and (actual.numpy() == expected.numpy()).all(), how
    for how in ({"scale_factor": 0.37}, {"scale_factor": (1.7, 0.6)}):
        expected, actual = both((2, channels, 40, 50), mode=mode, antialias=antialias, **how)
        assert (actual.numpy() == expected.numpy()).all(), how


def test_the_extremes_do_not_wrap_around():
    image = numpy.zeros((1, 1, 8, 8), numpy.uint8)
    image[..., ::2] = 255
    expected, actual = (
        T.nn.functional.interpolate(T.from_numpy(image), size=(11, 29), mode="bicubic") for T in (torch, plugrad)
    )
    assert (actual.numpy() == expected.numpy()).all() and actual.max() == 255


@pytest.mark.parametrize("mode, shape", [("linear", (1, 2, 9)), ("trilinear", (1, 1, 3, 4, 5))])
def test_signals_and_volumes_of_bytes_are_refused(mode, shape):
    for T in (torch, plugrad):
        with pytest.raises(NotImplementedError, match="not implemented for 'Byte'"):
            T.nn.functional.interpolate(T.zeros(shape, dtype=T.uint8), scale_factor=2, mode=mode)
