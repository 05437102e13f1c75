"""Quotients rounded downwards, and their remainders, of floats: exact, as NumPy's and PyTorch's.

CuPy rounds the quotient first, so that its 3 // 0.3 is 10, and x % inf is NaN.
"""

from __future__ import annotations

import numpy

_PARTS = "T rest = fmod(x, z); const bool apart = rest != 0 && (rest < 0) != (z < 0);"
_REMAINDER = f"{_PARTS} y = apart ? rest + z : rest;"
_QUOTIENT = f"""{_PARTS}
if (z == 0) y = x / z;
else {{
    const T whole = (x - rest) / z - (apart ? 1 : 0), below = floor(whole);
    y = whole == 0 ? copysign(T(0), x / z) : whole - below > T(0.5) ? below + 1 : below;
}}"""


def exact(cupy) -> dict:
    """Return what takes the place of CuPy's `remainder` and `floor_divide`."""
    codes = {"remainder": _REMAINDER, "floor_divide": _QUOTIENT}
    return {name: _of_floats(cupy, name, code) for name, code in codes.items()}


def _of_floats(cupy, name, code):
    kernel = cupy.ElementwiseKernel("T x, T z", "T y", code, f"plugrad_{name}")
    otherwise = getattr(cupy, name)

    def call(x, z):
        given = [one.dtype for one in (x, z) if hasattr(one, "dtype")]  # a number is of the other's type
        dtype = given[0] if len(given) == 1 or given[0] == given[1] else cupy.result_type(*given)
        if dtype.kind != "f":
            return otherwise(x, z)
        with numpy.errstate(over="ignore"):
            x, z = (one.astype(dtype, copy=False) if hasattr(one, "dtype") else dtype.type(one) for one in (x, z))
        if dtype.itemsize > 2:
            return kernel(x, z)
        return kernel(x.astype("float32"), z.astype("float32")).astype(dtype)

    call.__name__ = name
    return call
