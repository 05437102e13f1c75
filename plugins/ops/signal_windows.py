"""Window functions of signal processing: `hann_window` and the like, periodic, and `signal.windows`, symmetric.

F. J. Harris, "On the use of windows for harmonic analysis with the discrete Fourier transform", Proc. IEEE 66, 1978;
A. Nuttall, "Some windows with very good sidelobe behavior", IEEE Trans. ASSP 29, 1981.
"""

from __future__ import annotations

import math

from plugrad.extend import Op, collect, factory, hookimpl, is_floating

from ._checks import fitted


def _sampled(xp, name, length, periodic, dtype, shape):
    """Samples of `shape(phase, last)` at `length` points; periodic windows leave out the last of one more."""
    dtype = xp.dtype(dtype)
    if not is_floating(dtype):
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
    return _sampled(xp, "hann_window", window_length, periodic, dtype, lambda t: 0.5 - 0.5 * xp.cos(2 * xp.pi * t))


@factory(promote="float", kinds={"alpha": "float", "beta": "float"})
def hamming_window(xp, window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype):
    """Hamming window: alpha - beta cos(2 pi t).

    >>> import plugrad as torch
    >>> torch.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _sampled(
        xp, "hamming_window", window_length, periodic, dtype, lambda t: alpha - beta * xp.cos(2 * xp.pi * t)
    )


@factory(promote="float")
def bartlett_window(xp, window_length, periodic=True, *, dtype):
    """Bartlett window: a triangle, 1 - abs(2 t - 1).

    >>> import plugrad as torch
    >>> torch.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _sampled(xp, "bartlett_window", window_length, periodic, dtype, lambda t: 1 - abs(2 * t - 1))


@factory(promote="float")
def blackman_window(xp, window_length, periodic=True, *, dtype):
    """Blackman window: 0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t).

    >>> import plugrad as torch
    >>> torch.blackman_window(4).shape
    torch.Size([4])
    """
    return _sampled(
        xp,
        "blackman_window",
        window_length,
        periodic,
        dtype,
        lambda t: 0.42 - 0.5 * xp.cos(2 * xp.pi * t) + 0.08 * xp.cos(4 * xp.pi * t),
    )


@hann_window.samples
@hamming_window.samples
@bartlett_window.samples
@blackman_window.samples
def periodic_samples(make):
    yield make.args(5)
    yield make.args(6, False)


@factory(promote="float", kinds={"beta": "float"})
def kaiser_window(xp, window_length, periodic=True, beta=12.0, *, dtype):
    """Kaiser window: I0(beta sqrt(1 - (2 t - 1)^2)) / I0(beta).

    I0 is the modified Bessel function of order zero.

    >>> import plugrad as torch
    >>> torch.kaiser_window(4).shape
    torch.Size([4])
    """

    def shape(t):
        return xp.i0(beta * xp.sqrt(xp.maximum(1 - (2 * t - 1) ** 2, 0))) / xp.i0(xp.asarray(float(beta)))

    return _sampled(xp, "kaiser_window", window_length, periodic, dtype, shape)


kaiser_window.samples(periodic_samples)


# ---------------------------------------------------------------- signal.windows


def _window(name, **options):
    """Declare the window `name` of `signal.windows`."""
    kinds = {"M": "int", **options.pop("kinds", {})}
    return factory(name=f"signal_{name}", at=(f"signal.windows.{name}",), promote="float", kinds=kinds, **options)


def _points(xp, name, M, sym, dtype):
    """The M places at which a window is sampled, and the length of its period less one sample if it is symmetric."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if xp.dtype(dtype).name not in ("float32", "float64"):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: torch.{xp.dtype(dtype).name}")
    return xp.arange(M, dtype="float64"), M - 1 if sym and M > 1 else M


def _cosines(xp, name, M, a, sym, dtype):
    k, period = _points(xp, name, M, sym, dtype)
    if M == 1:
        return xp.ones(1, dtype)
    total = xp.zeros(M)
    for i, weight in enumerate(a):
        total += (-1) ** i * float(weight) * xp.cos(i * 2 * math.pi / max(period, 1) * k)
    return total.astype(dtype)


@_window("general_cosine", kinds={"a": "floats"})
def general_cosine(xp, M, *, a, sym=True, dtype):
    """Sum over i of (-1)^i a[i] cos(2 pi i t), at t from 0 to 1.

    `M` points; `a` lists the weights; not `sym`: the last of M + 1 points is left out, for Fourier transforms.

    >>> import plugrad as torch
    >>> torch.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    if not hasattr(a, "__iter__"):
        raise TypeError("Coefficients must be a list/tuple")
    a = list(a)
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return _cosines(xp, "general_cosine", M, a, sym, dtype)


@general_cosine.samples
def general_cosine_samples(make):
    yield make.args(5, a=[0.5, 0.5])


@_window("general_hamming")
def general_hamming(xp, M, *, alpha=0.54, sym=True, dtype):
    """Window alpha - (1 - alpha) cos(2 pi t).

    `M` points; not `sym`: the last of M + 1 points is left out, for Fourier transforms.

    >>> import plugrad as torch
    >>> torch.signal.windows.general_hamming(3, alpha=0.5)
    tensor([0., 1., 0.])
    """
    return _cosines(xp, "general_hamming", M, (alpha, 1 - alpha), sym, dtype)


@_window("hamming")
def hamming(xp, M, *, sym=True, dtype):
    """Hamming window 0.54 - 0.46 cos(2 pi t).

    `M` points; not `sym`: the last of M + 1 points is left out, for Fourier transforms.

    >>> import plugrad as torch
    >>> torch.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return _cosines(xp, "hamming", M, (0.54, 0.46), sym, dtype)


@_window("hann")
def hann(xp, M, *, sym=True, dtype):
    """Hann window (1 - cos(2 pi t)) / 2.

    `M` points; not `sym`: the last of M + 1 points is left out, for Fourier transforms.

    >>> import plugrad as torch
    >>> torch.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return _cosines(xp, "hann", M, (0.5, 0.5), sym, dtype)


@_window("blackman")
def blackman(xp, M, *, sym=True, dtype):
    """Blackman window 0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t).

    `M` points; not `sym`: the last of M + 1 points is left out, for Fourier transforms.

    >>> import plugrad as torch
    >>> torch.signal.windows.blackman(3).shape
    torch.Size([3])
    """
    return _cosines(xp, "blackman", M, (0.42, 0.5, 0.08), sym, dtype)


@general_hamming.samples
@hamming.samples
@hann.samples
@blackman.samples
def window_samples(make):
    yield make.args(5)
    yield make.args(6, sym=False)


@_window("nuttall")
def nuttall(xp, M, *, sym=True, dtype):
    """Nuttall's window: four cosine terms of least sidelobes.

    `M` points; not `sym`: the last of M + 1 points is left out, for Fourier transforms.

    >>> import plugrad as torch
    >>> torch.signal.windows.nuttall(3).shape
    torch.Size([3])
    """
    return _cosines(xp, "nuttall", M, (0.3635819, 0.4891775, 0.1365995, 0.0106411), sym, dtype)


@_window("bartlett")
def bartlett(xp, M, *, sym=True, dtype):
    """Bartlett window, a triangle: 1 - |2 t - 1|.

    `M` points; not `sym`: the last of M + 1 points is left out, for Fourier transforms.

    >>> import plugrad as torch
    >>> torch.signal.windows.bartlett(3)
    tensor([0., 1., 0.])
    """
    k, period = _points(xp, "bartlett", M, sym, dtype)
    return xp.ones(1, dtype) if M == 1 else (1 - xp.abs(2 * k / max(period, 1) - 1)).astype(dtype)


@_window("cosine")
def cosine(xp, M, *, sym=True, dtype):
    """Half a period of a sine, sampled between its zeros.

    `M` points; not `sym`: the last of M + 1 points is left out, for Fourier transforms.

    >>> import plugrad as torch
    >>> torch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    k, _ = _points(xp, "cosine", M, sym, dtype)
    return xp.sin(math.pi * (k + 0.5) / (M if sym or M <= 1 else M + 1)).astype(dtype)


nuttall.samples(window_samples)
bartlett.samples(window_samples)
cosine.samples(window_samples)


@_window("exponential", kinds={"center": "number?"})
def exponential(xp, M, *, center=None, tau=1.0, sym=True, dtype):
    """Window exp(-|k - center| / tau), by default around the middle.

    `M` points; not `sym`: the last of M + 1 points is left out; then and only then may `center` be given. Raises
    `ValueError` for a `tau` that is not positive.

    >>> import plugrad as torch
    >>> torch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    k, period = _points(xp, "exponential", M, sym, dtype)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = center if center is not None else period / 2 if M != 1 else 0
    fitted(xp.dtype(dtype), middle / tau)  # refuses what the exponents would not hold
    return xp.exp(-xp.abs(k - middle) / tau).astype(dtype)


@_window("gaussian")
def gaussian(xp, M, *, std=1.0, sym=True, dtype):
    """Window exp(-(k - middle)^2 / (2 std^2)).

    `M` points; not `sym`: the last of M + 1 points is left out. Raises `ValueError` for a `std` that is not positive.

    >>> import plugrad as torch
    >>> torch.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    k, period = _points(xp, "gaussian", M, sym, dtype)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle = period / 2 if M != 1 else 0
    return xp.exp(-(((k - middle) / std) ** 2) / 2).astype(dtype)


@_window("kaiser")
def kaiser(xp, M, *, beta=12.0, sym=True, dtype):
    """Kaiser window I0(beta sqrt(1 - (2 t - 1)^2)) / I0(beta).

    I0 is the modified Bessel function of order zero. `M` points; not `sym`: the last of M + 1 points is left out.
    Raises `ValueError` for a negative `beta`.

    >>> import plugrad as torch
    >>> torch.signal.windows.kaiser(3).shape
    torch.Size([3])
    """
    k, period = _points(xp, "kaiser", M, sym, dtype)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M == 1:
        return xp.ones(1, dtype)
    inside = xp.maximum(1 - (2 * k / max(period, 1) - 1) ** 2, 0)
    return (xp.i0(beta * xp.sqrt(inside)) / xp.i0(xp.asarray(float(beta)))).astype(dtype)


exponential.samples(window_samples)
gaussian.samples(window_samples)
kaiser.samples(window_samples)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
