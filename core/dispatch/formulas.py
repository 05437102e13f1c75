"""What gradient formulas compute with: the ops `F`, on Tensors or on raw arrays; plain values; conjugates."""

from __future__ import annotations

import numpy

from plugrad import registry
from plugrad.devices import dtypes
from plugrad.devices.device import device_of
from plugrad.graph.nodes import Outputs

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


class TensorOps:
    """The differentiable ops by name, as formulas see them when backward itself is recorded."""

    def __getattr__(self, name):
        function = registry.op(name).function
        self.__dict__[name] = function
        return function

    def _fit_dtype(self, g, dtype):
        if g.dtype.is_complex and not dtypes.is_complex(dtype):
            g = g.real
        return g.to(dtypes.from_numpy(dtype))


class ArrayOps:
    """The same ops on raw arrays of one backend."""

    def __init__(self, backend):
        self._name, self._xp = backend.name, backend.xp

    def __getattr__(self, name):
        record = registry.op(name)
        function = record.raw(self)
        if self._name != "cpu":
            from plugrad.backends.cpu_fallback import guard

            function = guard(record, function, self, lambda: record.raw(array_ops(numpy.float32())))
        self.__dict__[name] = function
        return function

    def _fit_dtype(self, g, dtype):
        if dtypes.is_complex(g.dtype) and not dtypes.is_complex(dtype):
            g = g.real
        return g.astype(dtype)


F = TensorOps()
_raw: dict = {}


def array_ops(array):
    """Return the ops on raw arrays for an array (or a NumPy scalar, or gradients of several outputs)."""
    ops = _raw.get(array.__class__)
    if ops is None:
        if isinstance(array, Outputs):
            return array_ops(next(iter(array.grads.values())))
        if isinstance(array, numpy.generic):
            backend = registry.backend("cpu")
        else:
            backend = device_of(array).backend
        known = (one for one in _raw.values() if one._name == backend.name)
        ops = next(known, None) or ArrayOps(backend)
        _raw[array.__class__] = ops
    return ops


def forget_ops() -> None:
    """Drop the functions that were looked up, after ops were added or replaced."""
    F.__dict__.clear()
    _raw.clear()
