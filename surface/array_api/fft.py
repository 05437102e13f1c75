"""The standard's extension for discrete Fourier transforms: `plugrad.fft` with `axis` for `dim`."""

from __future__ import annotations

import plugrad as torch

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip


def _along_one(name):
    operation = getattr(torch.fft, name)

    def function(x, /, *, n=None, axis=-1, norm="backward"):
        return operation(x, n, axis, norm)

    return function


def _along_several(name):
    operation = getattr(torch.fft, name)

    def function(x, /, *, s=None, axes=None, norm="backward"):
        return operation(x, s, axes, norm)

    return function


for _kind, _names in ((_along_one, "fft hfft ifft ihfft irfft rfft"), (_along_several, "fftn ifftn irfftn rfftn")):
    for _name in _names.split():
        globals()[_name] = _function = _kind(_name)
        _function.__name__ = _function.__qualname__ = _name
        _function.__doc__ = f"`plugrad.fft.{_name}` by the standard's names of arguments."
del _kind, _names, _name, _function


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of a transform of n samples that are d apart."""
    return torch.fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies, none of them negative, of a transform of n real samples that are d apart."""
    return torch.fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x, /, *, axes=None):
    """A spectrum with its zero frequency in the middle."""
    return torch.fft.fftshift(x, axes)


def ifftshift(x, /, *, axes=None):
    """A spectrum with its zero frequency first again."""
    return torch.fft.ifftshift(x, axes)
