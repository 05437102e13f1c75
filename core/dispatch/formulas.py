"""What generated code has to know of formulas: which arguments are plain values, and what a conjugate is."""

from __future__ import annotations

PLAIN = frozenset({int, float, bool, str, type(None), slice, complex, type(Ellipsis)})


def output_number(name: str) -> int | None:
    """Return which output a formula means: -1 for `y`, all of them, k for `yk`; None for another name."""
    return None if name[:1] != "y" or not f"0{name[1:]}".isdecimal() else int(name[1:] or -1)


def conj(F, value):
    """Return the complex conjugate of a tensor or number, for gradient formulas; real ones come back as they are.

    In the formulas of the fast path, which are real, the call is replaced by one that does nothing.
    """
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return value.conjugate()
    # Only raw arrays have a dtype with a `kind`; asking it is cheaper than a call that does nothing.
    return value if getattr(dtype, "kind", "c") != "c" else F.conj(value)
