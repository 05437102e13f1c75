"""Discrete Fourier transforms: their nodes have PyTorch's names, and infinities spread as far as in PyTorch."""

import itertools

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

CALLS = (
    "fft.fft(x)", "fft.fft(x, n=3)", "fft.fft(x, norm='ortho')", "fft.fft(x + 0j)", "fft.ifft(x + 0j)", "fft.fft2(x)",
    "fft.fftn(x)", "fft.rfft(x)", "fft.rfftn(x)", "fft.irfft(x)", "fft.irfftn(x + 0j)", "fft.hfft(x)",
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_the_node_of_a_transform_is_called_as_in_pytorch(call):
    names = []
    for library in (torch, plugrad):
        x = library.arange(12.0).reshape(3, 4).requires_grad_()
        names.append(type(eval(call, {"fft": library.fft, "x": x}).grad_fn).__name__)
    assert names[0] == names[1]


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "fft2", "rfft2", "irfftn"])
def test_infinities_spread_as_in_pytorch(name):
    """Over their own row alone, with finite values in single precision everywhere else.

    Of transforms back to real numbers MKL sums some in another order, so that other elements of the row are finite.
    """
    random, values = numpy.random.default_rng(0), (0.0, numpy.inf, -numpy.inf, numpy.nan)
    values = values[:1] if name.startswith("irfft") else values
    for n, value in itertools.product((2, 5, 8, 16, 30, 97), values):
        x = random.normal(size=(2, 9, n)).astype("float32")
        x[1, 3, n // 2] = value
        given = x if name.startswith("r") else x + 1j * random.normal(size=x.shape).astype("float32")
        with numpy.errstate(all="ignore"):
            ours = getattr(plugrad.fft, name)(plugrad.from_numpy(given)).numpy()
        theirs = getattr(torch.fft, name)(torch.from_numpy(given)).resolve_conj().numpy()
        assert ours.dtype == theirs.dtype and numpy.array_equal(numpy.isfinite(ours), numpy.isfinite(theirs))
        finite = numpy.isfinite(theirs)
        numpy.testing.assert_allclose(ours[finite], theirs[finite], rtol=0, atol=2e-6 * n)
