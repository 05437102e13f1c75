"""The tensors of samples in other guises: other memory, and values that authors forget."""

from __future__ import annotations

import plugrad
from plugrad.testing.tensors import is_float


def _fresh(tensor, change):
    """Return a changed copy of a float tensor, a leaf of its own; others as they are."""
    if not is_float(tensor):
        return tensor
    with plugrad.no_grad():
        copy = change(tensor.detach().clone())
    return copy.requires_grad_(tensor.requires_grad)


def _strided(tensor):
    wide = plugrad.stack([tensor, tensor], -1)
    return wide[..., 0]


def _special(*values):
    def put(tensor):
        flat = tensor.reshape(-1)
        for i, value in enumerate(values):
            if i < flat.numel():
                flat[(i * 7) % flat.numel()] = value
        return flat.reshape(tensor.shape)

    return put


GUISES = {
    name: lambda tensor, change=change: _fresh(tensor, change)
    for name, change in {
        "contiguous": lambda t: t,
        "strided": _strided,
        "with infinity": _special(float("inf")),
        "with minus infinity and 0": _special(-float("inf"), 0.0, -0.0),
        "with NaN": _special(float("nan")),
        "tiny": lambda t: t * 1e-30,
        "large": lambda t: t * 1e3,
        "empty": lambda t: t[..., :0] if t.ndim else t,
        "with ties": lambda t: t if t.is_complex() else t.round(),
    }.items()
}
