"""The nodes of discrete Fourier transforms have PyTorch's names, by which programs that look at graphs know them."""

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
