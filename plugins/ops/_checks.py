"""PyTorch's refusals of dtypes, and conjugation: what the files of elementwise ops share."""

from __future__ import annotations

import cmath
import math
from operator import index

from plugrad.extend import refuse_where

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
    "bfloat16": "BFloat16",
    "float16": "Half",
    "float32": "Float",
    "float64": "Double",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}


def underived(name):
    """Return the formula of an op that has no derivative: to ask for one is an error, in PyTorch, too."""

    def formula(F, g):
        raise NotImplementedError(f"derivative for aten::{name} is not implemented: detach() what it is given")

    formula.refuses = True  # so that no sample has to require grad
    return formula


def dtype_word(dtype) -> str:
    """Return the name that PyTorch's messages give to a NumPy dtype: `Long` for int64."""
    name = str(dtype)
    return name.capitalize() if name.startswith("float8") else _WORDS.get(name, name)


def is_number(value) -> bool:
    """Return whether `value` is a Python number, not an array or an array's element."""
    return isinstance(value, (int, float, complex)) and not hasattr(value, "dtype")


def refuse_arrays(name, input) -> None:
    """Raise TypeError where a function made of others would hand NumPy's array through."""
    if not hasattr(input, "requires_grad"):
        kind = type(input).__name__
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {kind}; write torch.as_tensor(...)")


_ONLY_INT = frozenset([int])


def ints(values) -> tuple:
    """Return a sequence as a tuple of ints; TypeError for floats, and for a bool that PyTorch takes for no size."""
    if values and type(values[0]) is bool:
        raise TypeError(f"expected a sequence of ints, but found element of type bool at pos 0; write {int(values[0])}")
    return tuple(values) if _ONLY_INT.issuperset(map(type, values)) else tuple(map(as_int, values))


def as_int(value) -> int:
    """Return what stands for a whole number as an int; TypeError for anything else.

    An int stays the object that it is: one that stands for a size that varies has what it is for all sizes.
    """
    return value if isinstance(value, int) and type(value) is not bool else index(value)


def up_to(n) -> list:
    """Return the numbers from 0 below n; range() would take what stands behind a size that varies."""
    if type(n) is int:
        return [*range(n)]
    numbers: list = []
    while len(numbers) < n:
        numbers.append(len(numbers))
    return numbers


def ordered_floats(array):
    """Return an array whose NaNs NumPy's sorting counts as largest, as it does for its own types only.

    It leaves those of bfloat16 anywhere, and with them what is beside them: in float32 its values have the same order.
    """
    return array.astype("float32") if array.dtype.kind == "V" else array


def number(value):
    """Return a Python number as it is, and that of a tensor or array without dimensions."""
    return value.item() if hasattr(value, "dtype") else value


NUMBERS = {bool, int, float}  # that functions in C take


def is_for_c(value) -> bool:
    """Whether a value is a number that kernels in C take as it is: one that float32 holds, or infinity."""
    return value.__class__ in NUMBERS and (abs(value) < 3e38 or abs(value) == math.inf)


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


def refuse_empty(name, input, dim, error=RuntimeError) -> None:
    """Raise what PyTorch raises when there is no element to pick from."""
    if input.size:
        return
    if dim is None or dim == ():
        if not input.size:
            raise error(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        return
    for d in dim if isinstance(dim, tuple) else (dim,):
        if not input.shape[d]:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def bounded(xp, input, low, high):
    """Return a real array limited to `[low, high]`, numbers that an element can be; NaN stays."""
    if input.dtype.kind == "f":
        # NumPy's `clip` is vectorised; its `maximum` with a number is not, and five times slower.
        return input.clip(fitted(input.dtype, low), fitted(input.dtype, high))
    return xp.minimum(xp.maximum(input, low), high)


_LARGEST = {"float16": 65504.0, "bfloat16": 2.0**128 - 2.0**120, "float32": 2.0**128 - 2.0**104}
_LARGEST["complex64"] = _LARGEST["float32"]
_LARGEST_OF_EIGHT_BITS = {
    "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "float8_e4m3fnuz": 240.0, "float8_e5m2fnuz": 57344.0,
    "float8_e8m0fnu": 2.0**127,
}  # fmt: skip
_LEAST_LARGEST = min(_LARGEST.values())  # the name of a dtype is made anew whenever it is asked for


def fitted(dtype, value, infinite=False):
    """Return a Python number as an element of a dtype, which PyTorch's ops that write numbers make of it.

    Raises RuntimeError where it does not fit: fractions are cut off, -1 is the largest uint8, but neither 300 nor NaN
    is an int8, 1j no float32, and 1e39 is none either unless it may become `infinite`.
    """
    if type(value) is float and -65504.0 <= value <= 65504.0 and dtype.kind == "f" and dtype.itemsize > 1:
        return value
    if type(value) is int and 0 <= value < 128:
        return value or (2.0**-127 if dtype.itemsize == 1 and dtype.name == "float8_e8m0fnu" else value)
    kind, refused, given = dtype.kind, False, value
    if kind == "b":
        return bool(value)
    if isinstance(value, complex) and kind != "c":
        value, refused = value.real, value.imag != 0
    if kind in INTEGER:
        bits = 8 * dtype.itemsize - (kind == "i")
        low, high = -(2**bits), 2**bits - 1
        if kind == "u":  # PyTorch's integers wrap around there, its floats do not
            low = 0 if isinstance(value, float) else 1 - 2**bits
        refused = refused or not low <= value <= high  # NaN is not
        value = 0 if refused else int(value) % 2**bits if kind == "u" else int(value)
    elif isinstance(value, complex):
        refused = max(abs(value.real), abs(value.imag)) > _LARGEST.get(str(dtype), math.inf) and cmath.isfinite(value)
    else:
        value = float(value)
        if dtype.itemsize == 1:
            name = str(dtype)
            refused = abs(value) > _LARGEST_OF_EIGHT_BITS[name] and not (infinite and name == "float8_e5m2")
            if name == "float8_e8m0fnu":
                refused, value = refused or value < 0, value or 2.0**-127
        elif _LEAST_LARGEST < abs(value) < math.inf and _LARGEST.get(str(dtype), math.inf) < abs(value):
            refused, value = refused or not infinite, math.copysign(math.inf, value)
    if refused:
        if isinstance(given, int) and not -(1 << 63) <= given < 1 << 64:
            raise OverflowError(f"int too big to convert: it has more than 64 bits, and the elements are {dtype}")
        raise RuntimeError(f"value cannot be converted to type {dtype} without overflow")
    return value


def element(dtype, value, infinite=False):
    """Return a number, or an array without dimensions, that may become an element of an array of a dtype."""
    if not hasattr(value, "dtype"):
        return fitted(dtype, value, infinite)
    if value.dtype.kind == "c" and dtype.kind != "c":
        raise RuntimeError(f"value cannot be converted to type {dtype} without overflow; take .real first")
    return value


def converted(xp, array, dtype):
    """Return what is to be cast to a dtype, so that floats of eight bits become what PyTorch makes of them.

    Those of e4m3fn end at +-448, which overflow and infinities become; those of e8m0fnu have no sign and no zero.
    """
    if dtype.name == "float8_e4m3fn" and array.dtype != dtype:
        return xp.clip(array.astype("float32"), -448, 448)
    if dtype.name == "float8_e8m0fnu" and array.dtype != dtype:
        return xp.maximum(xp.abs(array.astype("float32")), 2.0**-127)
    return array


def is_complex(value) -> bool:
    """Whether the elements of a tensor or of a raw array are complex."""
    return "complex" in str(value.dtype)


def check_probabilities(xp, p) -> None:
    """Raise RuntimeError for an array with other numbers than those from 0 to 1."""
    text = "Expected p_in >= 0 && p_in <= 1 to be true, but got false: every element is a probability, from 0 to 1"
    refuse_where(xp, ~((p >= 0) & (p <= 1)), lambda: RuntimeError(text))
