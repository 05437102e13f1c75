"""Data types by the standard's rules, and what a namespace says of itself."""

from __future__ import annotations

import dataclasses

import plugrad as torch
from plugrad import Tensor

__all__ = ["__array_namespace_info__", "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

_UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
KINDS = {
    "bool": (torch.bool,),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": (*_SIGNED, *_UNSIGNED),
    "real floating": (torch.float32, torch.float64),
    "complex floating": (torch.complex64, torch.complex128),
}
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]
_ORDER = ("bool", "integral", "real floating", "complex floating")


def kind_of(dtype) -> int:
    """Return the place of a dtype among bool, integers, reals and complex numbers."""
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype is torch.bool else 1


def promote(one, other):
    """Return the dtype of two together by the standard's table; PyTorch's has no wide unsigned integers."""
    if one is other:
        return one
    if kind_of(one) == kind_of(other) == 1:
        if one in _UNSIGNED and other in _UNSIGNED:
            return max(one, other, key=_UNSIGNED.index)
        if (one in _UNSIGNED) != (other in _UNSIGNED):
            unsigned, signed = (one, other) if one in _UNSIGNED else (other, one)
            width = max(_SIGNED.index(signed), _UNSIGNED.index(unsigned) + 1)
            if width == len(_SIGNED):
                raise TypeError(f"no integer type holds {unsigned} and {signed}: write astype(x, dtype)")
            return _SIGNED[width]
    kinds = {kind_of(one), kind_of(other)}
    if len(kinds) > 1 and 1 in kinds:  # an integer beside a bool, a float or a complex number
        return max(one, other, key=kind_of)
    return torch.promote_types(one, other)


def common_dtype(values):
    """Return the dtype of arrays and dtypes together, whatever their shapes; numbers count by their kind alone."""
    dtypes = [getattr(one, "dtype", one) for one in values if not isinstance(one, (bool, int, float, complex))]
    if not dtypes:
        raise ValueError("at least one array or dtype is needed to tell the type of the result")
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = promote(result, dtype)
    for number in values:
        if isinstance(number, (bool, int, float, complex)):
            kind = 0 if isinstance(number, bool) else 1 if isinstance(number, int) else 2 + isinstance(number, complex)
            if kind > kind_of(result):
                result = torch.result_type(torch.empty(1, dtype=result, device="meta"), number)
    return result


def together(*values) -> list:
    """Return arrays as arrays of their common dtype; numbers stay, unless there is nothing else in their place."""
    dtype = common_dtype(values)
    return [one.to(dtype) if isinstance(one, Tensor) else torch.tensor(one, dtype=dtype) for one in values]


def result_type(*arrays_and_dtypes):
    """Return the dtype of an operation with these arrays, dtypes and numbers."""
    return common_dtype(arrays_and_dtypes)


def astype(x, dtype, /, *, copy=True, device=None):
    """Return an array cast to a dtype.

    Complex numbers don't become real ones: take `real(x)`.
    """
    if x.dtype.is_complex and not dtype.is_complex and dtype is not torch.bool:
        raise TypeError(f"astype() does not drop imaginary parts ({x.dtype} to {dtype}): write real(x) or abs(x) first")
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)


def can_cast(from_, to, /) -> bool:
    """Whether every value of a dtype, or of an array's, fits in the other."""
    source = getattr(from_, "dtype", from_)
    if (source in _SIGNED and to in _UNSIGNED) or (source is torch.uint64 and to in _SIGNED):
        return False
    return source is to or kind_of(source) <= kind_of(to) and promote(source, to) is to


def isdtype(dtype, kind) -> bool:
    """Whether a dtype is of a kind: a name of one, a dtype, or a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"unknown kind of data type {kind!r}; there are {', '.join(map(repr, KINDS))}")
        return dtype in KINDS[kind]
    return dtype is kind


@dataclasses.dataclass(frozen=True)
class FloatLimits:
    """What `finfo` tells of a type of floating-point numbers, as Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: object


@dataclasses.dataclass(frozen=True)
class IntegerLimits:
    """What `iinfo` tells of a type of integers."""

    bits: int
    max: int
    min: int
    dtype: object


def finfo(type, /):
    """Return the limits of a floating-point dtype, or of an array's.

    Those of a complex one are those of its parts.
    """
    dtype = getattr(type, "dtype", type)
    real = {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)
    limits = torch.finfo(real)
    return FloatLimits(limits.bits, limits.eps, limits.max, limits.min, limits.smallest_normal, real)


def iinfo(type, /):
    """Return the limits of an integer dtype, or of an array's."""
    dtype = getattr(type, "dtype", type)
    limits = torch.iinfo(dtype)
    return IntegerLimits(limits.bits, limits.max, limits.min, dtype)


class Info:
    """What the namespace says of itself: capabilities, devices, dtypes and which of them are defaults."""

    def capabilities(self) -> dict:
        """Return what arrays can do: boolean indexing, shapes that depend on data, how many dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        """Return the device of new arrays."""
        return torch.get_default_device()

    def default_dtypes(self, *, device=None) -> dict:
        """Return the dtypes of new arrays by kind."""
        real = torch.get_default_dtype()
        wide = torch.complex128 if real is torch.float64 else torch.complex64
        return {"real floating": real, "complex floating": wide, "integral": torch.int64, "indexing": torch.int64}

    def dtypes(self, *, device=None, kind=None) -> dict:
        """Return the standard's dtypes by name, all or those of a kind (a name, or a tuple of names)."""
        every = KINDS["bool"] + KINDS["numeric"]
        chosen = every if kind is None else [one for one in every if isdtype(one, kind)]
        return {str(one).rpartition(".")[2]: one for one in chosen}

    def devices(self) -> list:
        """Return the devices that hold data."""
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [torch.device("cpu"), *(torch.device("cuda", i) for i in range(count))]


def __array_namespace_info__():
    """Return what this namespace says of itself."""
    return Info()
