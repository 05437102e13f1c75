"""Numeric limits of dtypes: `finfo` and `iinfo`."""

from __future__ import annotations

import math

from plugrad import dtypes

# The bits of precision and the largest exponent of each format.
_FORMATS = {
    dtypes.float16: (11, 15), dtypes.bfloat16: (8, 127), dtypes.float32: (24, 127), dtypes.float64: (53, 1023),
}  # fmt: skip
# Formats of eight bits (OCP 8-bit Floating Point Specification, 2023): (distance from 1 to the next number, largest,
# smallest normal).
_EIGHT_BITS = {
    dtypes.float8_e4m3fn: (2.0**-3, 448.0, 2.0**-6),
    dtypes.float8_e4m3fnuz: (2.0**-3, 240.0, 2.0**-7),
    dtypes.float8_e5m2: (2.0**-2, 57344.0, 2.0**-14),
    dtypes.float8_e5m2fnuz: (2.0**-3, 57344.0, 2.0**-15),
    dtypes.float8_e8m0fnu: (1.0, 2.0**127, 2.0**-127),
}  # fmt: skip -- the last eps is PyTorch's; the format has two bits of fraction


class _Limits:
    """What `finfo` and `iinfo` share: equality by type, and a repr of their fields."""

    __slots__ = ("bits", "dtype", "max", "min")
    _shown: tuple[str, ...] = ()

    def __eq__(self, other):
        return self.dtype == other.dtype if type(other) is type(self) else NotImplemented

    def __repr__(self):
        fields = "".join(f"{name}={getattr(self, name):g}, " for name in self._shown)
        return f"{type(self).__name__}({fields}dtype={self.dtype})"

    def _check(self, given):
        """Return a dtype, also where one of Python's types stands for it; raise TypeError for anything else."""
        given = dtypes.SCALAR.get(given, given) if isinstance(given, type) else given
        if not isinstance(given, dtypes.dtype):
            what = f"must be torch.dtype, not {type(given).__name__}"
            raise TypeError(f"{type(self).__name__}(): argument 'type' (position 1) {what}")
        return given


class finfo(_Limits):
    """Numeric limits of a floating point type.

    `type` is a floating point or complex dtype (whose parts are then described); if left out, the default
    dtype. Attributes: `bits`, `dtype` (a name), `min`, `max`, `eps` (the distance from 1 to the next number),
    `smallest_normal` and `tiny` (the same) and `resolution` (of decimal digits). They follow from the
    precision and the largest exponent of the format, IEEE 754-2019 section 3.3. Raises TypeError for other
    types.

    >>> import plugrad as torch
    >>> torch.finfo(torch.float16).max, torch.finfo(torch.float32).eps
    (65504.0, 1.1920928955078125e-07)
    """

    __slots__ = ("eps", "resolution", "smallest_normal", "tiny")
    _shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    def __init__(self, type: dtypes.dtype | None = None):
        if type is None:
            type = dtypes.get_default_dtype()
        type = self._check(type)
        if type in _EIGHT_BITS:
            self.bits, self.dtype, self.resolution = 8, type.name, 1.0
            self.eps, self.max, self.smallest_normal = _EIGHT_BITS[type]
            self.min, self.tiny = -self.max if type.is_signed else self.smallest_normal, self.smallest_normal
            return
        real = type.to_real()
        if real not in _FORMATS:
            raise TypeError(f"torch.finfo() requires a floating point input type, not {type!r}; use torch.iinfo")
        precision, exponent = _FORMATS[real]
        self.bits = 8 * real.itemsize
        self.dtype = real.name
        self.eps = 2.0 ** (1 - precision)
        self.max = (2.0 - self.eps) * 2.0**exponent
        self.min = -self.max
        self.smallest_normal = self.tiny = 2.0 ** (1 - exponent)
        self.resolution = 10.0 ** -math.floor((precision - 1) * math.log10(2))


class iinfo(_Limits):
    """Numeric limits of an integer type.

    `type` is an integer dtype. Attributes: `bits`, `dtype` (a name), `min` and `max`. Raises TypeError for
    other types.

    >>> import plugrad as torch
    >>> torch.iinfo(torch.int8), torch.iinfo(torch.int64).max
    (iinfo(min=-128, max=127, dtype=int8), 9223372036854775807)
    """

    __slots__ = ()
    _shown = ("min", "max")

    def __init__(self, type: dtypes.dtype):
        type = self._check(type)
        if type is dtypes.bool:
            raise TypeError("torch.bool is not supported by torch.iinfo; its values are False and True")
        if type.is_floating_point or type.is_complex:
            raise TypeError(f"torch.iinfo() requires an integer input type, not {type!r}; use torch.finfo")
        self.bits = 8 * type.itemsize
        self.dtype = type.name
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0
        self.max = 2 ** (self.bits - type.is_signed) - 1
