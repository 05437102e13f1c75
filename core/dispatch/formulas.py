"""What gradient formulas compute with: the ops `F`, on Tensors or on raw arrays; plain values; conjugates.

A name in `F` is one of the distribution whose code it stands in, or else one of plugrad's own: never another package's,
whatever is installed, loaded first or preferred. `F(record)` is the op of a record, whoever brought that.
"""
from __future__ import annotations

from functools import partial

import numpy

from plugrad import registry
from plugrad.devices import dtypes
from plugrad.devices.device import backends_room, device_of
from plugrad.dispatch.source import MISSING
from plugrad.graph.nodes import Outputs
from plugrad.registry.lookup import kept
from plugrad.registry.namespaces import lazy_names

PLAIN = frozenset({int, float, bool, str, type(None), slice, complex, type(Ellipsis), type(MISSING)})


def output_number(name: str) -> int | None:
    """Return which output a formula means: -1 for `y`, all of them, k for `yk`; None for another name."""
    return None if name[:1] != "y" or not f"0{name[1:]}".isdecimal() else int(name[1:] or -1)


def conj(F, value):
    """Return the complex conjugate, for gradient formulas; real ones as they are.

    In the formulas of the fast path, which are real, the call is replaced by one that does nothing.
    """
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return value.conjugate()
    # Only raw arrays have a dtype with a `kind`; asking it is cheaper than a call that does nothing.
    return value if getattr(dtype, "kind", "c") != "c" else F.conjugated(value)


class _Scopes(dict):
    """Ops of one sort by scope: the namespace of a distribution, None for plugrad's own."""

    def __init__(self, own, make):
        super().__init__({None: own})
        self.make = make

    def __missing__(self, scope):
        return self.setdefault(scope, self.make(scope))


class _Ops:
    """Ops by name, and by record when it is called; each is looked up once."""

    __slots__ = ("_scope", "_records", "_within", "__dict__")

    def __init__(self, scope):
        self._scope, self._records = scope, {}

    def __getattr__(self, name):
        return kept(lambda: self(registry.op_in(self._scope, name)), partial(self.__dict__.__setitem__, name))

    def __call__(self, record):
        function = self._records.get(record)
        if function is None:
            function = self._records[record] = self._function(record)
        return function

    def _forget(self) -> None:
        self.__dict__.clear()
        self._records.clear()


class TensorOps(_Ops):
    """The differentiable ops, as composites see them."""

    _recorded, _name = True, None

    def _function(self, record):
        return record.function

    def _fit_dtype(self, g, dtype):
        if g.dtype.is_complex and not dtypes.is_complex(dtype):
            g = g.real
        return g.to(dtypes.from_numpy(dtype))


class ArrayOps(_Ops):
    """The same ops on raw arrays of one backend."""

    _recorded = False

    def __init__(self, backend, scope=None, within=None):
        super().__init__(scope)
        self._name, self._xp = backend.name, backend.xp
        self._within = within or _Scopes(self, lambda scope: ArrayOps(backend, scope, self._within))

    def _function(self, record):
        if self._name == "cpu":
            return record.raw(self)
        return backends_room().cpu_fallback.guard(record, self, lambda: record.raw(array_ops(numpy.float32())))

    def _fit_dtype(self, g, dtype):
        if dtypes.is_complex(g.dtype) and not dtypes.is_complex(dtype):
            g = g.real
        if g.dtype.kind in "OSU":
            raise TypeError("it holds no numbers")  # `check_gradients` says what
        return g.astype(dtype)


# Formulas of third parties while they are recorded, and what they do wrong: a program without any needs none of it.
__getattr__, __dir__ = lazy_names(globals(), None, {
    "autograd.foreign_formulas": "FormulaOps check_gradients first_order input_of of_other_shape wrong_count"
})  # fmt: skip

F = TensorOps(None)
F._within = _Scopes(F, lambda scope: __getattr__("FormulaOps")(scope))
of_composites = _Scopes(F, TensorOps)
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
        known = (one for one in tuple(_raw.values()) if one._name == backend.name)
        ops = _raw[array.__class__] = next(known, None) or ArrayOps(backend)
    return ops


def forget_ops() -> None:
    """Drop the functions that were looked up, after ops were added or replaced."""
    for ops in {*F._within.values(), *of_composites.values()}:
        ops._forget()
    _raw.clear()
