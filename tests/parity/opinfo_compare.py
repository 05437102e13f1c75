"""Compare what two libraries returned: structure, dtype, shape, values."""

from __future__ import annotations

import numpy as np
from opinfo_convert import dtype_name, to_numpy

# rtol and atol of results; a gradient is allowed `slack` times as much
TOLERANCES = {
    "float16": (2e-3, 2e-3),
    "bfloat16": (2e-2, 2e-2),
    "complex32": (2e-3, 2e-3),
    "float32": (1e-4, 2e-5),
    "complex64": (1e-4, 2e-5),
    "float64": (1e-7, 1e-8),
    "complex128": (1e-7, 1e-8),
}


class Mismatch(Exception):
    """The results differ; `category` says in what respect."""

    def __init__(self, category: str, message: str) -> None:
        super().__init__(message)
        self.category = category


def field_names(value) -> tuple[str, ...]:
    """Field names of a named tuple or of a C struct sequence, () for a plain tuple."""
    return tuple(getattr(type(value), "_fields", None) or getattr(type(value), "__match_args__", ()))


def compare(
    expected, actual, tensor_type, *, category="value", values=True, grad_flags=True, slack=1.0, path="result"
):
    """Raise Mismatch unless `actual`, of the library with `tensor_type`, is what PyTorch's `expected` is.

    With `values=False` only structure, dtype and shape count: random and uninitialised results.
    """
    options = dict(category=category, values=values, grad_flags=grad_flags, slack=slack)
    if hasattr(expected, "detach"):
        if not isinstance(actual, tensor_type):
            raise Mismatch(category, f"{path} is a {type(actual).__name__}, not a Tensor")
        compare_tensors(expected, actual, path=path, **options)
    elif isinstance(expected, list | tuple):
        compare_sequences(expected, actual, category, path)
        for index, pair in enumerate(zip(expected, actual, strict=True)):
            compare(*pair, tensor_type, path=f"{path}[{index}]", **options)
    elif isinstance(expected, dict):
        if not isinstance(actual, dict) or list(expected) != list(actual):
            raise Mismatch(category, f"{path} is {actual!r}, expected keys {list(expected)}")
        for key in expected:
            compare(expected[key], actual[key], tensor_type, path=f"{path}[{key!r}]", **options)
    elif values or not isinstance(expected, int | float | complex):
        compare_plain(expected, actual, category, path)


def compare_sequences(expected, actual, category, path):
    sequence = list if isinstance(expected, list) else tuple
    if not isinstance(actual, sequence) or len(actual) != len(expected):
        size = f" of {len(actual)}" if hasattr(actual, "__len__") else ""
        raise Mismatch(
            category, f"{path} is a {type(actual).__name__}{size}, not a {sequence.__name__} of {len(expected)}"
        )
    if field_names(expected) != field_names(actual):
        raise Mismatch(category, f"{path} has fields {field_names(actual)}, not {field_names(expected)}")


def compare_plain(expected, actual, category, path):
    """Python numbers, None, strings; dtypes, devices and other constants by their printed name."""
    if isinstance(expected, bool | int | float | complex | str | None):
        same_type = type(expected) is type(actual)
        close = same_type and (
            expected == actual
            or isinstance(expected, float | complex)
            and bool(np.isclose(actual, expected, rtol=1e-6, atol=1e-8, equal_nan=True))
        )
    else:
        close = str(expected).rpartition(".")[2] == str(actual).rpartition(".")[2]
    if not close:
        raise Mismatch(category, f"{path} is {actual!r} ({type(actual).__name__}), not {expected!r}")


def compare_tensors(expected, actual, *, category, values, grad_flags, slack, path):
    if dtype_name(expected) != dtype_name(actual):
        where = "dtype" if category == "value" else category
        raise Mismatch(where, f"{path} has dtype {dtype_name(actual)}, not {dtype_name(expected)}")
    if tuple(expected.shape) != tuple(actual.shape):
        raise Mismatch(category, f"{path} has shape {tuple(actual.shape)}, not {tuple(expected.shape)}")
    if grad_flags and expected.requires_grad != actual.requires_grad:
        where = "grad" if category == "value" else category
        raise Mismatch(where, f"{path}.requires_grad is {actual.requires_grad}, not {expected.requires_grad}")
    if values:
        compare_arrays(to_numpy(expected), to_numpy(actual), dtype_name(expected), category, slack, path)


def compare_arrays(expected, actual, dtype, category, slack, path):
    rtol, atol = (bound * slack for bound in TOLERANCES.get(dtype, (0.0, 0.0)))
    with np.errstate(all="ignore"):
        close = np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return
    index = np.unravel_index(np.argmin(close), close.shape)
    where = path + (f"[{', '.join(map(str, index))}]" if index else "")
    wrong = f"{close.size - np.count_nonzero(close)} of {close.size} differ"
    raise Mismatch(category, f"{where} is {actual[index]!s}, not {expected[index]!s} ({wrong}, {dtype})")
