"""CuPy as kernels get it: with a base under every view, checks of values that do not wait, products by cuBLAS."""

from __future__ import annotations

import functools
import importlib
import types

from ._cublas import Products
from ._functions import choosing, fill_where, ufuncs
from ._quotients import exact


class ArrayModule(types.ModuleType):
    """Another array module, of which some names mean something else."""

    def __init__(self, module, **others):
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(others, _module=module)

    def __getattr__(self, name):
        value = self.__dict__[name] = getattr(self._module, name)
        return value


def as_strided(x, shape=None, strides=None):
    """`cupy.lib.stride_tricks.as_strided` whose result has a base.

    CuPy's own looks as if it owned its memory, so that nobody could tell that a write to it changes `x`.
    """
    view = x.view()
    view._set_shape_and_strides(
        x.shape if shape is None else tuple(shape), x.strides if strides is None else tuple(strides), True, True
    )
    return view


def of_truths(function):
    """Return a logical function that takes complex numbers, too."""

    def logical(*arrays, **options):
        truths = [x != 0 if getattr(getattr(x, "dtype", None), "kind", "") == "c" else x for x in arrays]
        return function(*truths, **options)

    logical.__name__ = function.__name__
    return logical


def of_bfloat16(function):
    """Return a function that gives bfloat16 for bfloat16, of which CuPy's makes float32."""

    def kept(*arrays, **options):
        result, wanted = function(*arrays, **options), None
        for x in arrays:
            dtype = getattr(x, "dtype", None)
            if dtype is None or dtype.char == "?":
                continue
            if dtype.char != "E" or dtype.name != "bfloat16":
                return result
            wanted = dtype
        return result if wanted is None else result.astype(wanted, copy=False)

    kept.__name__ = function.__name__
    return kept


def raising(errstate, function):
    """Return a function of linear algebra that raises LinAlgError where NumPy's does; CuPy's gives anything."""

    @functools.wraps(function)
    def checked(*arrays, **options):
        with errstate(linalg="raise"):
            return function(*arrays, **options)

    return checked


WIDENING = ("tril", "triu")
REFUSING = ("cholesky", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "pinv", "solve", "svd")
LOGICAL = ("logical_and", "logical_not", "logical_or", "logical_xor")


def kernels_module(cupy, faults, captures):
    """Return CuPy with these functions, beside or in the place of its own."""
    tricks = ArrayModule(cupy.lib.stride_tricks, as_strided=as_strided)
    lib, products = ArrayModule(cupy.lib, stride_tricks=tricks), Products(cupy, captures)
    errstate = importlib.import_module("cupyx").errstate
    linalg = ArrayModule(cupy.linalg, **{name: raising(errstate, getattr(cupy.linalg, name)) for name in REFUSING})
    xp = ArrayModule(
        cupy, lib=lib, linalg=linalg, refuse_outside=faults.outside, refuse_where=faults.where,
        watched_fault=faults.watched, told_fault=faults.told, matmul=products.matmul, gemm=products.gemm,
        products_in_place=products.in_place,
        **{name: of_truths(getattr(cupy, name)) for name in LOGICAL},
        **{name: of_bfloat16(getattr(cupy, name)) for name in WIDENING},
        where=choosing(of_bfloat16(cupy.where)), fill_where=fill_where, **ufuncs(cupy),
        **exact(cupy),
    )  # fmt: skip
    captures.usual(xp)
    return xp
