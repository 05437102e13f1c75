"""Data types, and their promotion rules.

Every `dtype` is a singleton: compare with `is`, use as a dictionary key, pickle and copy freely. The rules of
promotion are those of https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc.
"""

from __future__ import annotations

import numpy

_BOOL, _INTEGER, _FLOAT, _COMPLEX = range(4)  # the categories of promotion, in rising order


class dtype:
    """The type of a tensor's elements, such as `torch.float32`.

    There is one object per type, made here and never by users. `numpy` is the matching NumPy dtype; reading
    it raises NotImplementedError for `complex32`, which NumPy lacks. Those of `bfloat16` and of floats of eight bits
    are ml_dtypes', which is imported at that moment.

    >>> import plugrad as torch
    >>> torch.float32, torch.float32.itemsize, torch.half is torch.float16
    (torch.float32, 4, True)
    """

    __slots__ = ("_category", "_label", "is_complex", "is_floating_point", "is_signed", "itemsize", "name", "numpy")

    def __new__(cls, *args, **kwargs):
        raise TypeError("cannot create 'torch.dtype' instances; write torch.float32, torch.int64, ...")

    def __setattr__(self, name, value):
        raise AttributeError(f"'torch.dtype' object attribute '{name}' is read-only")

    def __getattr__(self, name):
        # A slot that is filled never comes here, so reading `.numpy` costs nothing extra on every other type.
        if name != "numpy":
            raise AttributeError(f"'torch.dtype' object has no attribute '{name}'")
        if self is complex32:
            raise NotImplementedError(
                "torch.complex32 is not supported, because NumPy has no such type; use torch.complex64, "
                "for a torch.float16 tensor by converting it to torch.float32 first"
            )
        import ml_dtypes

        np_dtype = numpy.dtype(getattr(ml_dtypes, self.name))
        object.__setattr__(self, "numpy", np_dtype)
        _from_numpy[np_dtype] = self
        return np_dtype

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return self.name  # pickle then stores a reference to this module's global, so identity survives

    def to_real(self) -> dtype:
        """Return the type of the real part: `complex64` gives `float32`.

        >>> import plugrad as torch
        >>> torch.complex128.to_real(), torch.int8.to_real()
        (torch.float64, torch.int8)
        """
        return _REAL.get(self, self)

    def to_complex(self) -> dtype:
        """Return the complex type whose parts hold this type: `float32` gives `complex64`.

        Raises RuntimeError for integers and bool.

        >>> import plugrad as torch
        >>> torch.float64.to_complex(), torch.bfloat16.to_complex()
        (torch.complex128, torch.complex64)
        """
        if self.is_complex:
            return self
        if self not in _COMPLEX_OF:
            raise RuntimeError(f"Unknown Complex ScalarType for {self._label}; convert to torch.float32 first")
        return _COMPLEX_OF[self]


def _make(name: str, label: str, category: int, itemsize: int) -> dtype:
    """Build one dtype; `label` is what PyTorch's C++ messages call it."""
    self = object.__new__(dtype)
    values = {
        "name": name,
        "itemsize": itemsize,
        "is_floating_point": category == _FLOAT,
        "is_complex": category == _COMPLEX,
        "is_signed": category > _BOOL and not name.startswith(("u", "float8_e8")),
        "_category": category,
        "_label": label,
    }
    if name not in ("bfloat16", "complex32") and not name.startswith("float8"):
        values["numpy"] = numpy.dtype(name)
    for key, value in values.items():
        object.__setattr__(self, key, value)
    return self


float16 = half = _make("float16", "Half", _FLOAT, 2)
bfloat16 = _make("bfloat16", "BFloat16", _FLOAT, 2)
float32 = _make("float32", "Float", _FLOAT, 4)
float64 = double = _make("float64", "Double", _FLOAT, 8)
complex32 = chalf = _make("complex32", "ComplexHalf", _COMPLEX, 4)
complex64 = cfloat = _make("complex64", "ComplexFloat", _COMPLEX, 8)
complex128 = cdouble = _make("complex128", "ComplexDouble", _COMPLEX, 16)
int8 = _make("int8", "Char", _INTEGER, 1)
int16 = short = _make("int16", "Short", _INTEGER, 2)
int32 = _make("int32", "Int", _INTEGER, 4)
int64 = long = _make("int64", "Long", _INTEGER, 8)
uint8 = _make("uint8", "Byte", _INTEGER, 1)
uint16 = _make("uint16", "UInt16", _INTEGER, 2)
uint32 = _make("uint32", "UInt32", _INTEGER, 4)
uint64 = _make("uint64", "UInt64", _INTEGER, 8)
bool_ = _make("bool", "Bool", _BOOL, 1)
# Floats of eight bits keep weights and states small; nothing is computed with them.
_LAYOUTS = ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")
EIGHT_BITS = [_make(f"float8_{layout}", f"Float8_{layout}", _FLOAT, 1) for layout in _LAYOUTS]
globals().update({each.name: each for each in EIGHT_BITS})

ALL: dict[str, dtype] = {name: value for name, value in list(globals().items()) if isinstance(value, dtype)}
ALL.update(bool=bool_, int=int32, float=float32)
del ALL["bool_"]

# What a Python number counts as when it meets tensors.
SCALAR: dict[type, dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}

_REAL = {complex32: float16, complex64: float32, complex128: float64}
_COMPLEX_OF = {float16: complex32, bfloat16: complex64, float32: complex64, float64: complex128}
_WIDE_UNSIGNED = frozenset((uint16, uint32, uint64))
_OF_ML_DTYPES = (bfloat16, *EIGHT_BITS)
_from_numpy = {each.numpy: each for each in ALL.values() if each not in (*_OF_ML_DTYPES, complex32)}


def from_numpy(np_dtype) -> dtype:
    """Return the dtype that matches a NumPy dtype (or anything `numpy.dtype` takes).

    Raises TypeError for types that tensors cannot hold, ValueError for a foreign byte order.

    >>> import numpy
    >>> from plugrad import dtypes
    >>> dtypes.from_numpy(numpy.dtype("float32"))
    torch.float32
    """
    known = _from_numpy.get(np_dtype)
    if known is not None:
        return known
    given = numpy.dtype(np_dtype)
    for each in _OF_ML_DTYPES:
        if given.name == each.name and given == each.numpy:
            return each
    if given in _from_numpy:
        return _from_numpy[given]
    if given.newbyteorder("=") in _from_numpy:
        raise ValueError(
            "given numpy array has byte order different from the native byte order; convert it first with "
            "array.astype(array.dtype.newbyteorder('='))"
        )
    raise TypeError(
        f"can't convert np.ndarray of type {given}. The only supported types are: "
        f"{', '.join(str(each) for each in _from_numpy)}. Convert it first, as in array.astype('float32')"
    )


# ---------------------------------------------------------------------------------------------- default dtype

_default = float32


def is_differentiable(np_dtype) -> bool:
    """Whether a NumPy dtype has gradients: floating point, bfloat16 and complex."""
    return np_dtype.kind in "fcV"


def is_complex(np_dtype) -> bool:
    """Whether the elements of a NumPy dtype are complex."""
    return np_dtype.kind == "c"


def is_integral(np_dtype) -> bool:
    """Whether the elements of a NumPy dtype are integers or bools."""
    return np_dtype.kind in "biu"


def is_integer(np_dtype) -> bool:
    """Whether the elements of a NumPy dtype are integers, of which bools are none."""
    return np_dtype.kind in "iu"


def is_floating(np_dtype) -> bool:
    """Whether a NumPy dtype is of real floating point numbers, bfloat16 too."""
    return np_dtype.kind in "fV"


def is_half(np_dtype) -> bool:
    """Whether a NumPy dtype is float16 or bfloat16."""
    return np_dtype.itemsize == 2 and np_dtype.kind in "fV"


def is_single_or_double(np_dtype) -> bool:
    """Whether a NumPy dtype is float32 or float64."""
    return np_dtype.char in "fd"


def is_native(np_dtype) -> bool:
    """Whether the elements of a NumPy dtype are NumPy's own numbers: none that a package adds, no strings."""
    return np_dtype.kind in "biufc" and np_dtype.isbuiltin != 2  # an unpickled one is 0


def get_default_dtype() -> dtype:
    """Return the type that floating point tensors get when none is asked for.

    >>> import plugrad as torch
    >>> torch.get_default_dtype()
    torch.float32
    """
    return _default


def set_default_dtype(d: dtype, /) -> None:
    """Set the type that floating point tensors get when none is asked for.

    `d` is a floating point dtype; anything else raises TypeError. Python floats take this type when they meet
    integer tensors, and complex numbers the complex type that belongs to it.

    >>> import plugrad as torch
    >>> torch.set_default_dtype(torch.float64)
    >>> torch.get_default_dtype()
    torch.float64
    >>> torch.set_default_dtype(torch.float32)
    """
    global _default
    advice = "only floating-point types are supported as the default type; use torch.float32 or torch.float64"
    if not isinstance(d, dtype):
        raise TypeError(f"invalid dtype object: {advice}, not {type(d).__name__}")
    if not d.is_floating_point or d in EIGHT_BITS:
        raise TypeError(f"{advice}, not {d!r}")
    _ = d.numpy  # a bfloat16 that cannot be had is refused here, not at the next op
    _default = d
    _results.clear()


# -------------------------------------------------------------------------------------------------- promotion


def can_cast(from_: dtype, to: dtype) -> bool:
    """Return whether promotion rules allow storing one type's results in another.

    A cast may lose range or precision but not category: complex to real, floating point to integer and
    anything to bool are refused. Arguments that are not dtypes raise TypeError.

    >>> import plugrad as torch
    >>> torch.can_cast(torch.double, torch.float), torch.can_cast(torch.float, torch.int)
    (True, False)
    """
    from_, to = [SCALAR.get(given, given) if isinstance(given, type) else given for given in (from_, to)]
    _require_dtypes("can_cast", from_=from_, to=to)
    return from_._category <= to._category


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """Return the smallest type that both types can be converted to safely.

    Raises TypeError for arguments that are not dtypes, RuntimeError where `uint16`, `uint32` or `uint64`
    meets anything but itself or a floating point type.

    >>> import plugrad as torch
    >>> torch.promote_types(torch.int32, torch.float16), torch.promote_types(torch.uint8, torch.int8)
    (torch.float16, torch.int16)
    """
    promoted = _promotions.get((type1, type2))
    if promoted is None:
        type1, type2 = [SCALAR.get(given, given) if isinstance(given, type) else given for given in (type1, type2)]
        _require_dtypes("promote_types", type1=type1, type2=type2)
        promoted = _promotions[type1, type2] = _promote(type1, type2)
    return promoted


_promotions: dict[tuple[dtype, dtype], dtype] = {}


def _promote(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    if a in EIGHT_BITS or b in EIGHT_BITS:
        raise RuntimeError(
            f"Promotion for Float8 Types is not supported, attempted to promote {a._label} and {b._label}; convert one "
            "of them first, as in x.to(torch.float32)"
        )
    low, high = sorted((a, b), key=lambda each: (each._category, each.itemsize, each.is_signed))
    if not high.is_floating_point and (low in _WIDE_UNSIGNED or high in _WIDE_UNSIGNED):
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{a._label} and {b._label}; convert one of them first, as in x.to(torch.int64)"
        )
    if low._category == high._category:
        if low.itemsize == high.itemsize:  # neither holds the other: uint8 with int8, bfloat16 with float16
            return float32 if high.is_floating_point else int16
        return high
    if low.is_floating_point and high.is_complex:
        return promote_types(low.to_complex(), high)
    return high


def result_type(*operands: tuple[dtype, str]) -> dtype:
    """Return the type of the result of an op on some operands.

    Each operand is a pair: its dtype, and what carries it: "dim" (a tensor with dimensions), "zero" (a 0-d
    tensor) or "scalar" (a Python number, whose dtype is in `SCALAR`). Carriers earlier in that list take
    precedence: a later one changes the result only when its category (bool < integer < floating point <
    complex) is higher.

    Raises RuntimeError where `promote_types` does.

    >>> from plugrad import dtypes
    >>> dtypes.result_type((dtypes.int32, "dim"), (dtypes.int64, "zero"))
    torch.int32
    >>> dtypes.result_type((dtypes.int32, "dim"), (dtypes.float64, "scalar"))
    torch.float32
    """
    result = _results.get(operands)
    if result is None:
        result = _results[operands] = _result(operands)
    return result


_results: dict[tuple[tuple[dtype, str], ...], dtype] = {}


def _result(operands) -> dtype:
    if not operands:
        raise ValueError("result_type() needs at least one operand")
    best = {"dim": None, "zero": None, "scalar": None}
    for given, rank in operands:
        if rank == "scalar" and given.is_floating_point:
            given = _default
        elif rank == "scalar" and given.is_complex:
            given = _default.to_complex()
        best[rank] = given if best[rank] is None else promote_types(best[rank], given)
    return _outrank(best["dim"], _outrank(best["zero"], best["scalar"]))


def _outrank(first: dtype | None, second: dtype | None) -> dtype:
    """Combine two carriers, of which the first takes precedence."""
    if first is None or second is None:
        return first or second
    if second._category <= first._category:
        return first
    if first.is_floating_point:
        return first.to_complex()
    # An integer that meets a complex type has no say, not even uint16, which promotion proper would refuse.
    return second if second.is_complex else promote_types(first, second)


def _require_dtypes(function: str, **arguments) -> None:
    for position, (name, value) in enumerate(arguments.items(), 1):
        if not isinstance(value, dtype):
            raise TypeError(
                f"{function}(): argument '{name}' (position {position}) must be torch.dtype, not {type(value).__name__}"
            )


# Last, because these names hide Python's own from here on: `dtypes.bool`, `dtypes.int`, `dtypes.float`.
globals().update(ALL)
