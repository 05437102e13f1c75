"""What a function of a library does with PyTorch and with plugrad, as plain values that can be compared."""

import warnings

import numpy
import pytest

import plugrad


def plain(value):
    """Return what tensors, shapes and the like say, in lists, tuples and dicts."""
    if hasattr(value, "detach"):
        return [str(value.dtype), list(value.shape), value.detach().resolve_conj().cpu().numpy().ravel().tolist()]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return value
    return str(value)


def outcome(function, library, *args):
    """Return what `function(library, *args)` returns, or the type of its error, and the types of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = plain(function(library, *args))
        except Exception as error:
            result = type(error).__name__
    return result, [warning.category.__name__ for warning in caught]


def assert_alike(some, other, rtol=1e-4, atol=1e-6):
    """Assert that two plain values are the same, their numbers but for rounding."""
    if isinstance(some, dict) and isinstance(other, dict):
        assert list(some) == list(other)
        some, other = list(some.values()), list(other.values())
    if isinstance(some, (list, tuple)) and isinstance(other, (list, tuple)):
        assert len(some) == len(other), (some, other)
        for one, two in zip(some, other):
            assert_alike(one, two, rtol, atol)
    elif isinstance(some, (float, complex)) and isinstance(other, (float, complex)):
        numpy.testing.assert_allclose(some, other, rtol, atol)
    else:
        assert type(some) is type(other) and some == other, (some, other)


def same_as_pytorch(function, *args, rtol=1e-4, atol=1e-6):
    """Assert that a function does the same with both libraries; return what plugrad gives."""
    theirs = outcome(function, pytest.importorskip("torch"), *args)
    ours = outcome(function, plugrad, *args)
    assert_alike(ours, theirs, rtol, atol)
    return ours[0]


def all_as_pytorch(calls):
    """Assert that each of the functions that `calls(library)` yields does the same in both libraries."""
    pairs = zip(calls(plugrad), calls(pytest.importorskip("torch")), strict=True)
    for place, (ours, theirs) in enumerate(pairs):
        some, other = [outcome(lambda _, call=call: call(), None) for call in (ours, theirs)]
        try:
            assert_alike(some, other)
        except AssertionError as error:
            raise AssertionError(f"call {place} gives {some}, in PyTorch {other}") from error


def fill(module, seed=0):
    """Give parameters and buffers of a module numbers that are the same in both libraries; return it."""
    draws = numpy.random.default_rng(seed)
    for tensor in (*module.parameters(), *module.buffers()):
        values = draws.standard_normal(tuple(tensor.shape))
        tensor.data.copy_(type(tensor.data)(values.tolist()) if values.ndim else tensor.data * 0 + values.item())
    return module
