"""PyTorch's refusals of dtypes, and conjugation: what the files of elementwise ops share."""

from __future__ import annotations

_WORDS = {
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "float16": "Half",
    "float32": "Float",
    "float64": "Double",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}


def dtype_word(dtype) -> str:
    """Return the name that PyTorch's messages give to a NumPy dtype: `Long` for int64."""
    return _WORDS.get(str(dtype), str(dtype))


def is_number(value) -> bool:
    """Return whether `value` is a Python number, not an array or an array's element."""
    return isinstance(value, (int, float, complex)) and not hasattr(value, "dtype")


_GREATEST = {"float16": 65504.0, "bfloat16": float.fromhex("0x1.fep127")}
_GREATEST["float32"] = _GREATEST["complex64"] = float.fromhex("0x1.fffffep127")


def fitted(value, dtype):
    """Return a Python number that is to be written, as one that a NumPy dtype holds; anything else as it is.

    As in PyTorch negative integers wrap around in an unsigned dtype. Raises RuntimeError for what does not fit.
    """
    if not is_number(value) or isinstance(value, complex) or 0 <= value <= 127 or dtype.kind == "b":
        return value
    if dtype.kind in INTEGER:
        bits = dtype.itemsize * 8 - (dtype.kind == "i")
        if isinstance(value, int) and dtype.kind == "u" and -(1 << bits) < value < 0:
            return value + (1 << bits)
        fits = (-(1 << bits) if dtype.kind == "i" else 0) <= value < 1 << bits
    else:
        fits = not _GREATEST.get(str(dtype), float("inf")) < abs(value) < float("inf")
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {dtype} without overflow: {value}")
    return value


# What `refuse` refuses, as NumPy's letters of dtypes; that of bfloat16, which is not NumPy's own, is V.
BOOL, INTEGER, COMPLEX = "b", "iu", "c"
INTEGRAL, DIFFERENTIABLE = "biu", "fcV"
BOOL_OR_COMPLEX, NOT_INTEGER, NOT_FLOATING = "bc", "bfcV", "biuc"
BOOL_OR_SIGNED = "bi"


def refuse(kinds: str, kernel: str, *values) -> None:
    """Raise NotImplementedError when an array is of one of the NumPy kinds that `kernel` does not take."""
    for value in values:
        if hasattr(value, "dtype") and value.dtype.kind in kinds:
            raise NotImplementedError(
                f"\"{kernel}\" not implemented for '{dtype_word(value.dtype)}'; convert it with .to(dtype)"
            )


def bounded(xp, input, low, high):
    """Return a real array limited to `[low, high]`, numbers; NaN stays."""
    if input.dtype.kind == "f":
        # NumPy's `clip` is vectorised; its `maximum` with a number is not, and five times slower.
        return input.clip(low, high)
    return xp.minimum(xp.maximum(input, low), high)


def is_complex(value) -> bool:
    """Whether the elements of a tensor or of a raw array are complex."""
    return "complex" in str(value.dtype)
