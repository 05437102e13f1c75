"""What of CuPy itself can't run here, and what does instead: compiling, and Thrust's sorting."""

from __future__ import annotations

import ctypes
import pathlib

import cupy
import numpy
from cupy.cuda import compiler, function, thrust

from cupy_on_cpu import kernels

INCLUDE = str(pathlib.Path(cupy.__file__).parent / "_core" / "include")


def apply() -> None:
    """Replace these in CuPy's modules."""
    compiler._compile_with_cache_hip = _module
    thrust.sort, thrust.argsort, thrust.lexsort = _sort, _argsort, _lexsort


def _module(source, options, arch, extra_source=None, backend="hiprtc", name_expressions=None, *rest, **others):
    module, expressions = function.Module(), tuple(name_expressions or ())
    module.load(str(kernels.compiled(source, options, INCLUDE, expressions)).encode() + b"\0")
    module._set_mapping({expression: kernels.exported(expression) for expression in expressions})
    return module


def _host(pointer, dtype, shape):
    """Return the memory at an address as an array."""
    bytes_ = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
    if not bytes_:
        return numpy.empty(shape, dtype)
    return numpy.frombuffer((ctypes.c_char * bytes_).from_address(pointer), dtype).reshape(shape)


_work: list = []  # that graphs refer to


def _in_stream(function):
    """Return a function whose work a stream that captures notes."""

    def given(*arguments):
        work = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: function(*arguments) or 0)
        if ctypes.CDLL(None).standin_noted(ctypes.c_void_p(cupy.cuda.get_current_stream().ptr), work):
            _work.append(work)
        else:
            function(*arguments)

    return given


@_in_stream
def _sort(dtype, data, keys, shape):
    _host(data, dtype, tuple(shape)).sort(-1, kind="stable")


@_in_stream
def _argsort(dtype, places, data, keys, shape):
    values = _host(data, dtype, tuple(shape))
    _host(places, "u8", tuple(shape))[...] = numpy.argsort(values, -1, kind="stable")
    values.sort(-1, kind="stable")


@_in_stream
def _lexsort(dtype, places, keys, count, size):
    _host(places, "u8", (size,))[...] = numpy.lexsort(_host(keys, dtype, (count, size)))
