"""The standard's elementwise functions: a table of the ops that compute them."""

from __future__ import annotations

import plugrad as torch
from plugrad import Tensor
from plugrad.array_api.dtypes import together

_UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert=bitwise_not ceil conj cos cosh exp expm1 floor isfinite isinf "
    "isnan log log10 log1p log2 logical_not negative positive real reciprocal round signbit sin sinh sqrt square "
    "tan tanh trunc"
)
_BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal=eq "
    "greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum "
    "minimum multiply nextafter not_equal pow subtract"
)
_OF_INTEGERS_TOO = {"ceil", "floor", "trunc", "round"}  # which leave integers as they are
__all__ = ["clip", "floor_divide", "imag", "remainder", "sign"]


def _unary(name, operation):
    if name in _OF_INTEGERS_TOO:

        def function(x, /):
            return x.clone() if not x.dtype.is_floating_point and not x.dtype.is_complex else operation(x)
    else:

        def function(x, /):
            return operation(x)

    return function


def _binary(name, operation):
    def function(x1, x2, /):
        alike = isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype is x2.dtype
        return operation(x1, x2) if alike else operation(*together(x1, x2))

    return function


def _fill(names, kind, what):
    for entry in names.split():
        name, _, other = entry.partition("=")
        function = kind(name, getattr(torch, other or name))
        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"The standard's `{name}`: `plugrad.{other or name}`.\n\nOf {what}."
        globals()[name] = function
        __all__.append(name)


_fill(_UNARY, _unary, "each element")
_fill(_BINARY, _binary, "two arrays, or an array and a number")


def imag(x, /):
    """Imaginary part of each element."""
    return torch.imag(x)


def sign(x, /):
    """Sign of each real element, direction of each complex one; NaN of NaN."""
    if x.dtype.is_complex:
        return torch.where(x == 0, 0, torch.sgn(x))
    return torch.where(torch.isnan(x), x, torch.sign(x)) if x.dtype.is_floating_point else torch.sign(x)


def floor_divide(x1, x2, /):
    """Quotients rounded down; those with an infinity are the limit's."""
    x1, x2 = together(x1, x2)
    result = torch.floor_divide(x1, x2)
    if not result.dtype.is_floating_point:
        return result
    return torch.where(torch.isinf(x1) | torch.isinf(x2), torch.floor(x1 / x2), result)


def remainder(x1, x2, /):
    """Remainders of quotients rounded down: of the divisor's sign, zeros too."""
    x1, x2 = together(x1, x2)
    result = torch.remainder(x1, x2)
    return torch.where(result == 0, torch.copysign(result, x2), result) if result.dtype.is_floating_point else result


def clip(x, /, min=None, max=None):
    """Each element, or the bound that it is beyond; NaN where a bound is NaN."""
    if min is None and max is None:
        return x.clone()
    bounds = [one.to(x.dtype) if isinstance(one, Tensor) else one for one in (min, max)]
    if any(isinstance(one, Tensor) for one in bounds):
        bounds = [one if one is None else torch.as_tensor(one, dtype=x.dtype, device=x.device) for one in bounds]
    return torch.clamp(x, *bounds).to(x.dtype)
