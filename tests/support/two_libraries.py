"""Programs that are run under PyTorch and under plugrad, and must come to the same."""

from __future__ import annotations

import importlib
import traceback
import warnings

import numpy
import torch

import plugrad


def _plain(value):
    """Return a result in a form that can be compared across the libraries."""
    if isinstance(value, (torch.Tensor, plugrad.Tensor)):
        array = value.detach().resolve_conj().numpy() if isinstance(value, torch.Tensor) else value.detach().numpy()
        return ("tensor", tuple(value.shape), str(value.dtype).rpartition(".")[2], array, bool(value.requires_grad))
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def same(one, other) -> bool:
    """Whether two plain results are the same, numbers up to rounding."""
    if isinstance(one, numpy.ndarray):
        tolerance = 1e-4 if one.dtype.itemsize < 8 else 1e-7
        return numpy.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float):
        return one == other or abs(one - other) < 1e-5
    return one == other


def outcome(program, library):
    """Run `program(library)`; return its result in a form that can be compared, or the name of the error's type."""
    for name in ("func", "autograd.forward_ad", "autograd.graph", "autograd.functional", "utils.checkpoint"):
        importlib.import_module(f"{library.__name__}.{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _plain(program(library))
        except Exception as error:
            _told[:] = [traceback.format_exc()]
            return f"{type(error).__name__}"


_told: list = []  # where the last error came from


def errors(library, *calls) -> list:
    """Return the name of the type of the error that each function raises, None for none."""
    names = []
    for call in calls:
        try:
            call()
            names.append(None)
        except Exception as error:
            names.append(type(error).__name__)
    return names


def agree(program) -> None:
    """Assert that a program comes to the same under both libraries."""
    _told.clear()
    ours, theirs = outcome(program, plugrad), outcome(program, torch)
    assert same(ours, theirs), f"{program.__name__}: plugrad has {ours}, PyTorch has {theirs}\n{''.join(_told)}"
