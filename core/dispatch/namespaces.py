"""The two namespaces `F` that gradient formulas run in: ops on Tensors, and the same ops on raw arrays."""

from __future__ import annotations

import numpy

from plugrad import registry
from plugrad.devices import dtypes
from plugrad.devices.device import device_of
from plugrad.graph.nodes import Outputs


class Namespace:
    """The differentiable ops by name, as formulas see them when backward itself is recorded."""

    def __getattr__(self, name):
        function = registry.op(name).function
        self.__dict__[name] = function
        return function

    def _fit_dtype(self, g, dtype):
        if g.dtype.is_complex and dtype.kind != "c":
            g = g.real
        return g.to(dtypes.from_numpy(dtype))


class RawNamespace:
    """The same ops on raw arrays of one backend."""

    def __init__(self, backend):
        self._name, self._xp = backend.name, backend.xp

    def __getattr__(self, name):
        record = registry.op(name)
        function = record.raw(self)
        if self._name != "cpu":
            from plugrad.backends.cpu_fallback import guard

            function = guard(record, function, self, lambda: record.raw(raw_namespace(numpy.float32())))
        self.__dict__[name] = function
        return function

    def _fit_dtype(self, g, dtype):
        if g.dtype.kind == "c" and dtype.kind != "c":
            g = g.real
        return g.astype(dtype)


F = Namespace()
_raw: dict = {}


def raw_namespace(array):
    """Return the namespace of raw ops for an array (or a NumPy scalar, or gradients of several outputs)."""
    namespace = _raw.get(array.__class__)
    if namespace is None:
        if isinstance(array, Outputs):
            return raw_namespace(next(iter(array.grads.values())))
        if isinstance(array, numpy.generic):
            backend = registry.backend("cpu")
        else:
            backend = device_of(array).backend
        known = (one for one in _raw.values() if one._name == backend.name)
        namespace = next(known, None) or RawNamespace(backend)
        _raw[array.__class__] = namespace
    return namespace


def forget_namespaces() -> None:
    """Drop the cached functions of the namespaces, after ops were added or replaced."""
    F.__dict__.clear()
    _raw.clear()
