"""Window functions of signal processing, as 1-d tensors."""

from __future__ import annotations

from plugrad.extend import Op, collect, factory, hookimpl


def window(xp, name, length, periodic, dtype, shape):
    """Samples of `shape(phase, last)` at `length` points; periodic windows leave out the last of one more."""
    dtype = xp.dtype(dtype)
    if dtype.kind not in "fV":
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    if length == 1:
        return xp.ones(1, dtype)
    last = length if periodic else length - 1
    return shape(xp.arange(length) * (1 / max(last, 1))).astype(dtype)


@factory(promote="float")
def hann_window(xp, window_length, periodic=True, *, dtype):
    """Hann window: 1/2 - 1/2 cos(2 pi t).

    `periodic` leaves out the last of one more point, as a Fourier transform needs; else the window is symmetric.

    >>> import plugrad as torch
    >>> torch.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return window(xp, "hann_window", window_length, periodic, dtype, lambda t: 0.5 - 0.5 * xp.cos(2 * xp.pi * t))


@factory(promote="float")
def hamming_window(xp, window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype):
    """Hamming window: alpha - beta cos(2 pi t).

    >>> import plugrad as torch
    >>> torch.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return window(xp, "hamming_window", window_length, periodic, dtype, lambda t: alpha - beta * xp.cos(2 * xp.pi * t))


@factory(promote="float")
def bartlett_window(xp, window_length, periodic=True, *, dtype):
    """Bartlett window: a triangle, 1 - abs(2 t - 1).

    >>> import plugrad as torch
    >>> torch.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return window(xp, "bartlett_window", window_length, periodic, dtype, lambda t: 1 - abs(2 * t - 1))


@factory(promote="float")
def blackman_window(xp, window_length, periodic=True, *, dtype):
    """Blackman window: 0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t).

    >>> import plugrad as torch
    >>> torch.blackman_window(4).shape
    torch.Size([4])
    """
    return window(
        xp,
        "blackman_window",
        window_length,
        periodic,
        dtype,
        lambda t: 0.42 - 0.5 * xp.cos(2 * xp.pi * t) + 0.08 * xp.cos(4 * xp.pi * t),
    )


@factory(promote="float")
def kaiser_window(xp, window_length, periodic=True, beta=12.0, *, dtype):
    """Kaiser window: I0(beta sqrt(1 - (2 t - 1)^2)) / I0(beta).

    I0 is the modified Bessel function of order zero.

    >>> import plugrad as torch
    >>> torch.kaiser_window(4).shape
    torch.Size([4])
    """

    def shape(t):
        return xp.i0(beta * xp.sqrt(xp.maximum(1 - (2 * t - 1) ** 2, 0))) / xp.i0(xp.asarray(float(beta)))

    return window(xp, "kaiser_window", window_length, periodic, dtype, shape)


@hann_window.samples
@hamming_window.samples
@bartlett_window.samples
@blackman_window.samples
@kaiser_window.samples
def window_samples(make):
    yield make.args(5)
    yield make.args(6, False)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
