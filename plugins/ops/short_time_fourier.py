"""The short-time Fourier transform and its inverse."""

from __future__ import annotations

import warnings

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl

_NO_WINDOW = (
    "A window was not provided. A rectangular window will be applied. {} To suppress this warning and use a "
    "rectangular window, explicitly set `window=torch.ones(n_fft, device=<device>)`."
)
_LEAKS = (
    "It is known to cause spectral leakage. Other windows such as torch.hann_window or torch.hamming_window are "
    "recommended to reduce it."
)
_LOSES = "Please provide the same window used by stft to make the inversion lossless."
_PARTS = (
    "stft with return_complex=False is deprecated: in a future PyTorch release it will raise an error. Write "
    "torch.view_as_real(torch.stft(..., return_complex=True))."
)


def _check(name, input, n_fft, hop, length, window):
    """Raise RuntimeError for arguments that both transforms refuse."""
    if n_fft <= 0:
        raise RuntimeError(f"{name}: expected n_fft > 0, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"{name}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and tuple(window.shape) != (length,):
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={length}, but got window with size "
            f"{list(window.shape)}"
        )


def _full_window(F, window, length, n_fft, like):
    """The window between zeros that bring it to `n_fft`; None for one of ones."""
    if length == n_fft:
        return window
    if window is None:
        window = plugrad.ones(length, dtype=like.dtype.to_real(), device=like.device)
    left = (n_fft - length) // 2
    return F.constant_pad_nd(window, (left, n_fft - length - left))


@composite(fresh=True, autocast={"cpu": "float32"})
def stft(
    F, input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
    onesided=None, return_complex=None, align_to_window=None,
):  # fmt: skip
    """Fourier transforms of windows that slide over a signal.

    Args:
        input: signal (L) or signals (B, L).
        n_fft: number of points of each transform.
        hop_length: how far apart the windows are, n_fft // 4 by default.
        win_length: size of the window, n_fft by default; a smaller one is padded with zeros.
        window: factors of this size, all 1 by default.
        center: pad the signal at both ends, in the manner of `pad_mode`, so that windows are centred.
        normalized: divide by the root of n_fft.
        onesided: keep the first half of the coefficients, by default if signal and window are real.
        return_complex: must be said for real signals; False gives the parts along a last dimension.
        align_to_window: without `center`, True lets the first `win_length` points fit, rather than `n_fft`.

    Gives (B, coefficients, windows). Raises `RuntimeError` for sizes that do not fit.

    >>> import plugrad as torch
    >>> torch.stft(torch.ones(16), 8, window=torch.ones(8), center=False, return_complex=True).shape
    torch.Size([5, 5])
    """
    hop, length = hop_length or (n_fft // 4 if hop_length is None else 0), win_length or n_fft
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, got {input.dtype}")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, but got {input.ndim}D tensor")
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not is_complex:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True in a future PyTorch release."
        )
    if align_to_window is not None and center:
        raise RuntimeError("stft: align_to_window should only be set when center = false")
    _check("stft", input, n_fft, hop, length, window)
    if window is None:
        warnings.warn(_NO_WINDOW.format(_LEAKS), stacklevel=3)
    if return_complex is False:
        warnings.warn(_PARTS, stacklevel=3)
    onesided = not is_complex if onesided is None else onesided
    if onesided and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    signal = input if input.ndim == 2 else input[None]
    side = n_fft // 2 if center else (n_fft - length) // 2 if align_to_window else 0
    if side:
        signal = F.pad(signal[None], (side, side), pad_mode if center else "constant")[0]
    if n_fft > signal.shape[1]:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {signal.shape[1]}, but got n_fft={n_fft}")
    frames = F.sliding_windows(signal, 1, n_fft, hop)
    window = _full_window(F, window, length, n_fft, input)
    if window is not None:
        frames = frames * window
    result = (F.rfft if onesided else F.fft)(frames, None, -1, "ortho" if normalized else None)
    result = F.transpose(result, 1, 2)
    if input.ndim == 1:
        result = result[0]
    return result if return_complex is not False else F.view_as_real(result)


@stft.samples
def stft_samples(make):
    yield make.args(make(2, 20), 8, 3, window=make(8), return_complex=True)
    yield make.args(make(20), 8, win_length=5, window=make(5), center=False, onesided=False, return_complex=True)


@composite()
def istft(
    F, input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None,
    length=None, return_complex=False,
):  # fmt: skip
    """The signal whose `stft` comes closest to `input`.

    `input` is (B, coefficients, windows), or without B. Arguments are those of `stft`; `length` cuts the signal or
    pads it with zeros. Raises `RuntimeError` where windows leave a point of the signal undetermined. D. W. Griffin,
    J. S. Lim, "Signal estimation from modified short-time Fourier transform", IEEE Trans. ASSP 32, 1984.

    >>> import plugrad as torch
    >>> window = torch.hann_window(8)
    >>> signal = torch.arange(16.0)
    >>> torch.istft(torch.stft(signal, 8, window=window, return_complex=True), 8, window=window).round().long()
    tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15])
    """
    hop, size = hop_length or (n_fft // 4 if hop_length is None else 0), win_length or n_fft
    onesided = _check_inverse(input, n_fft, window, onesided, return_complex)
    _check("istft", input, n_fft, hop, size, window)
    if window is None:
        warnings.warn(_NO_WINDOW.format(_LOSES), stacklevel=3)
    frames = F.transpose(input if input.ndim == 3 else input[None], 1, 2)
    norm = "ortho" if normalized else None
    if return_complex:
        frames = F.ifft(frames, n_fft, -1, norm)
    else:  # what stands beyond the first half is not looked at: the signal is real
        frames = F.irfft(frames[..., : n_fft // 2 + 1], n_fft, -1, norm)
    window = _full_window(F, window, size, n_fft, input)
    if window is None:
        window = plugrad.ones(n_fft, dtype=input.dtype.to_real(), device=input.device)
    batch, count = frames.shape[:2]
    full = n_fft + hop * (count - 1)
    signal = F.sliding_windows_sum(frames * window, (batch, full), 1, n_fft, hop)
    envelope = F.sliding_windows_sum(F.expand(window * window, (1, count, n_fft)), (1, full), 1, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = full - start if length is None else min(start + length, full)
    signal, envelope = signal[:, start:end], envelope[:, start:end]
    if envelope.numel() and not input.is_meta and float(F.amin(F.abs(envelope.detach()))) < 1e-11:
        raise RuntimeError(
            "window overlap add min: the windows leave a point of the signal undetermined; use another window, a "
            "smaller hop_length, or center=True"
        )
    result = signal / envelope
    if length is not None and result.shape[1] < length:
        warnings.warn(f"The length of signal is shorter than the length parameter. Result is being padded with "
                      f"zeros in the tail. Please check your center and hop_length settings: {length}", stacklevel=3)
        result = F.constant_pad_nd(result, (0, length - result.shape[1]))
    return result if input.ndim == 3 else result[0]


@istft.samples
def istft_samples(make):
    yield make.args(make(2, 5, 4, dtype="complex128"), 8, 2, window=make(8, low=0.5, high=1))


def _check_inverse(input, n_fft, window, onesided, return_complex):
    """Raise RuntimeError for what is no `stft`; return whether it is one-sided."""
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if input.ndim not in (2, 3) or not input.numel():
        raise RuntimeError(
            f"istft: expected a tensor with 2 or 3 dimensions that is not empty, but got {list(input.shape)}"
        )
    rows = input.shape[-2]
    onesided = rows != n_fft if onesided is None else onesided
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if rows != wanted:
        raise RuntimeError(
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft"
            f"{' / 2 + 1' if onesided else ''} when onesided={onesided}, but got {rows}, not {wanted}"
        )
    if return_complex and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if not return_complex and window is not None and window.is_complex():
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    return onesided


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
