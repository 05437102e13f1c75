"""A strict and adverse array backend on NumPy's memory, for running every kernel as if it were on another device.

Its arrays are of a class of their own, and refuse what CuPy's refuse: to meet plain NumPy arrays, to be converted to
them unasked, names that CuPy does not have. Like CuPy's, its functions return 0-d arrays where NumPy's return scalars.
Where CuPy differs from NumPy without a word, they do too: indices out of range wrap, of several values that are written
to one element any may win, results are row-major whatever the operands' order is, and floats that no integer holds
become what CUDA makes of them. A device is no key of a dict, and nobody can refer weakly to memory.
"""

from __future__ import annotations

import importlib
import pathlib
import types

import numpy

import plugrad
from plugrad.extend import Backend
from plugrad.plugins.ops import _draws, _rejection

KNOWN = pathlib.Path(__file__).parents[1] / "known"
SUBMODULES = ("linalg", "fft", "lib", "lib.stride_tricks")


def cupy_names() -> set[str]:
    """Return the names of NumPy's interface that CuPy has: "exp", "linalg.solve", "add.at"."""
    return _names("cupy_names.txt")


def cupyx_names() -> set[str]:
    """Return the names of SciPy's interface that cupyx.scipy has: "special.erf", "linalg.lu"."""
    return _names("cupyx_names.txt")


def _names(file) -> set[str]:
    return {line.split("#")[0].strip() for line in (KNOWN / file).read_text().splitlines()} - {""}


class FakeArray(numpy.ndarray):
    """Memory of the fake device."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        name = f"{ufunc.__name__}.{method}" if method != "__call__" else ufunc.__name__
        if method != "__call__":
            refuse_method(name, inputs)
        kwargs = host(kwargs, name)
        if out is not None:
            kwargs["out"] = host(out, name)
        result = getattr(ufunc, method)(*host(inputs, name), **kwargs)
        if out is not None:
            return out[0] if len(out) == 1 else out
        return wrapped(row_major(result))

    @property
    def data(self):
        """Where the memory is, as CuPy says it."""
        return Memory(self.__array_interface__["data"][0])

    def __array_function__(self, function, given_types, args, kwargs):
        raise TypeError(f"numpy.{function.__name__} was called on an array of the fake device; use xp")

    @property
    def device(self):
        """A device that can't be a key, as CuPy's."""
        return DEVICE

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        plain, target = host(self, "astype"), numpy.dtype(dtype)
        if plain.dtype == target and not copy:
            return self
        if plain.dtype.kind in "fV" and target.kind in "iu":
            return wrapped(row_major(saturated(plain, target)))
        return wrapped(row_major(plain.astype(target)))

    def take(self, indices, axis=None, out=None, mode="wrap"):
        return wrapped(host(self, "take").take(host(indices, "take"), axis, None, "wrap"))

    def __getitem__(self, index):
        plain = host(self, "indexing")
        return wrapped(plain[wrapping(plain.shape, host(index, "an index"))])

    def __setitem__(self, index, value):
        plain = host(self, "item assignment")
        index, value = wrapping(plain.shape, host(index, "an index")), host(value, "item assignment")
        if getattr(getattr(value, "dtype", None), "kind", "") in ("f", "V") and plain.dtype.kind in "iu":
            value = saturated(value, plain.dtype)
        write_in_any_order(plain, index, value)

    def __iter__(self):
        return (self[i] for i in range(len(self)))


class Memory:
    """Where an array is, without weak references."""

    __slots__ = ("ptr",)

    def __init__(self, ptr):
        self.ptr = ptr


class Device:
    """What CuPy's arrays say they are on."""

    __hash__ = None

    def __repr__(self):
        return "<fake device 0>"


DEVICE = Device()
ORDERS = numpy.random.default_rng(0)


def row_major(result):
    """Return the results of a function as CuPy lays them out, which is never in the order of the operands."""
    if isinstance(result, tuple):
        return tuple(map(row_major, result))
    fresh = isinstance(result, numpy.ndarray) and result.base is None
    return numpy.ascontiguousarray(result).reshape(result.shape) if fresh else result


def saturated(plain, target):
    """Return floats as the integers that CUDA makes of them: the nearest there is, 0 for NaN."""
    wide, limits = plain.astype("float64"), numpy.iinfo("int32" if target.itemsize < 4 else target)
    with numpy.errstate(all="ignore"):
        inside = (wide >= limits.min) & (wide < float(limits.max) + 1)
        result = numpy.where(inside, wide, 0).astype("uint64" if target == "uint64" else "int64")
    result[wide >= float(limits.max) + 1] = limits.max
    result[wide < limits.min] = limits.min
    return result.astype(target)


def wrapping(shape, index):
    """Return an index whose integer arrays wrap where they are out of range, as CuPy's do."""
    items = index if isinstance(index, tuple) else (index,)
    used = sum([1 if not hasattr(i, "dtype") or i.dtype.kind != "b" else i.ndim for i in items if i is not None])
    used -= sum([item is Ellipsis for item in items])
    result, dim = [], 0
    for item in items:
        if item is Ellipsis:
            dim += len(shape) - used
        elif isinstance(item, numpy.ndarray) and item.dtype.kind in "iu" and item.ndim and dim < len(shape):
            item = item % shape[dim] if shape[dim] else item
            dim += 1
        elif item is not None:
            dim += item.ndim if hasattr(item, "dtype") and item.dtype.kind == "b" else 1
        result.append(item)
    return tuple(result) if isinstance(index, tuple) else result[0]


def write_in_any_order(plain, index, value):
    """Write at an index; of several values for one element any may be the last."""
    plain[index] = value
    arrays = [item for item in (index if isinstance(index, tuple) else (index,)) if isinstance(item, numpy.ndarray)]
    if not any([item.dtype.kind in "iu" and item.ndim for item in arrays]) or not plain.size:
        return
    places = numpy.arange(plain.size).reshape(plain.shape)[index].ravel()
    values = numpy.broadcast_to(value, plain[index].shape).ravel()
    order = ORDERS.permutation(places.size)
    flat = plain.reshape(-1)  # a copy where it is no view
    flat[places[order]] = values[order].astype(plain.dtype) if values.dtype != plain.dtype else values[order]
    plain[...] = flat.reshape(plain.shape)


def _method(name):
    function = getattr(numpy.ndarray, name)

    def method(self, *args, **kwargs):
        result = function(host(self, name), *host(args, name), **host(kwargs, name))
        return wrapped(result)

    return method


AT = {  # the dtypes that a ufunc's `at` takes, as CuPy's own error messages list them
    "add": "int32 float16 float32 float64 uint32 uint64",
    "subtract": "int32 uint32",
    "maximum": "int32 float32 float64 uint32 uint64",
    "minimum": "int32 float32 float64 uint32 uint64",
}


def refuse_method(name, inputs):
    """Raise NotImplementedError for a ufunc's method that CuPy lacks, or lacks for a dtype."""
    if name not in ALLOWED:
        raise NotImplementedError(f"CuPy has no {name}")
    if name.endswith(".at") and inputs[0].dtype.name not in AT.get(name[:-3], "int32 int64 uint32 uint64").split():
        raise TypeError(f"CuPy's {name} does not take {inputs[0].dtype}")


CONVERTED = (
    "all", "any", "argmax", "argmin", "argsort", "clip", "conj", "cumprod", "cumsum", "diagonal", "dot", "max", "mean",
    "min", "nonzero", "prod", "repeat", "round", "searchsorted", "sum", "trace", "argpartition",
)  # fmt: skip
for _name in CONVERTED:
    setattr(FakeArray, _name, _method(_name))


def host(value, what):
    """Return fake arrays as plain ones, in tuples and lists too; TypeError for plain arrays."""
    if isinstance(value, FakeArray):
        return value.view(numpy.ndarray)
    if isinstance(value, numpy.ndarray):
        raise TypeError(f"{what}: an array in host memory ({value.dtype}{list(value.shape)}) met the fake device")
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(host(item, what) for item in value)
    if isinstance(value, dict):
        return {key: host(item, what) for key, item in value.items()}
    return value


def wrapped(result):
    """Return what a function of NumPy gave as arrays of the fake device; scalars become 0-d arrays."""
    if isinstance(result, (numpy.ndarray, numpy.generic)):
        return numpy.asanyarray(result).view(FakeArray)
    if isinstance(result, (tuple, list)):
        items = [wrapped(item) for item in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


class FakeModule(types.ModuleType):
    """NumPy as far as CuPy has it, on fake arrays; or a module of SciPy, as far as cupyx.scipy has it."""

    def __init__(self, name="", module=numpy, names=None):
        super().__init__(f"fake.{name}")
        self.__dict__.update(_path=name, _module=module, _names=ALLOWED if names is None else names)

    def __getattr__(self, name):
        dotted = f"{self._path}.{name}".lstrip(".")
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self._module, name)
        if dotted in SUBMODULES and self._names is ALLOWED:
            stand_in = FakeModule(dotted, value)
        elif dotted not in self._names:
            raise AttributeError(f"CuPy has no {dotted}")
        elif isinstance(value, numpy.ufunc):
            stand_in = FakeUfunc(value)
        elif isinstance(value, type) and self._module is numpy:
            stand_in = FakeArray if value is numpy.ndarray else value
        elif callable(value):
            stand_in = _function(dotted, value)
        else:
            stand_in = value
        self.__dict__[name] = stand_in
        return stand_in


def refuse_broadcast(a, b):
    """Raise ValueError where NumPy would broadcast the batches of an equation, as CuPy does."""
    if b.ndim > 1 and a.shape[:-1] != b.shape[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K) for multidimensional b")


def take(x, indices, axis=None):
    """`numpy.take` as CuPy has it."""
    return x.take(indices, axis, mode="wrap")


def take_along_axis(x, indices, axis):
    """`numpy.take_along_axis` as CuPy has it."""
    size = x.size if axis is None else x.shape[axis]
    return numpy.take_along_axis(x, indices % size if size else indices, axis)


WRAPPING = {"take": take, "take_along_axis": take_along_axis}
KEEPING = {  # the order of what they are given, as CuPy's do, or another that is asked for
    "array", "asarray", "asfortranarray", "copy", "empty_like", "full_like", "ones_like", "zeros_like",
}  # fmt: skip


def _function(name, function):
    function = WRAPPING.get(name, function)
    plain = name in ("asarray", "array", "finfo", "iinfo", "dtype", "result_type", "promote_types", "can_cast")

    def call(*args, **kwargs):
        if plain and not isinstance(args[0], (tuple, list)):
            args = (args[0].view(numpy.ndarray) if isinstance(args[0], FakeArray) else args[0], *args[1:])
        else:
            args = host(args, f"xp.{name}")
        if name == "linalg.solve":
            refuse_broadcast(*args)
        result = function(*args, **host(kwargs, f"xp.{name}"))
        return wrapped(result if name in KEEPING else row_major(result))

    call.__name__ = name
    return call


class FakeUfunc:
    """A ufunc that also takes scalars alone to the fake device."""

    def __init__(self, ufunc):
        self.ufunc, self.__name__ = ufunc, ufunc.__name__

    def __call__(self, *args, out=None, **kwargs):
        kwargs = host(kwargs, f"xp.{self.__name__}")
        if out is not None:
            kwargs["out"] = host(out, self.__name__)
        result = self.ufunc(*host(args, f"xp.{self.__name__}"), **kwargs)
        return out if out is not None else wrapped(row_major(result))

    def __getattr__(self, method):
        function, name = getattr(self.ufunc, method), f"{self.__name__}.{method}"

        def call(*args, **kwargs):
            refuse_method(name, args)
            args = host(args, name)
            if method == "at":
                args = (args[0], wrapping(args[0].shape, args[1]), *args[2:])
            return wrapped(function(*args, **host(kwargs, name)))

        return call


SCIPY = ("special", "linalg", "sparse")


class FakeRandom:
    """A generator whose draws are on the fake device: the CPU's numbers, so that results can be compared."""

    def __init__(self, seed):
        self.generator = plugrad.Generator().manual_seed(seed)

    bit_generator = property(lambda self: self.generator.source.bit_generator)

    def random(self, size=(), dtype="float64"):
        return wrapped(_draws.uniform_array(numpy, as_size(size), dtype, self.generator))

    def standard_normal(self, size=(), dtype="float64"):
        return wrapped(_draws.normal_array(numpy, as_size(size), dtype, self.generator))

    def integers(self, low, high, size=(), dtype="int64"):
        return wrapped(_draws.integer_array(numpy, low, high, as_size(size), dtype, self.generator))

    def standard_gamma(self, shape):
        return wrapped(_rejection.draw(_rejection.gamma, self.generator.source, *host((shape,), "gamma")))

    def poisson(self, lam):
        return wrapped(_rejection.draw(_rejection.poisson, self.generator.source, *host((lam,), "poisson")))

    def binomial(self, n, p):
        return wrapped(_rejection.draw(_rejection.binomial, self.generator.source, *host((n, p), "binomial")))


def as_size(size) -> tuple:
    return (size,) if isinstance(size, int) else tuple(size)


ALLOWED = cupy_names()


class Fake(Backend):
    """The fake device."""

    name = "fake"
    xp = FakeModule()
    array_type = FakeArray

    def from_numpy(self, array, index):
        return numpy.array(array, copy=True).view(FakeArray)

    def to_numpy(self, array):
        return numpy.array(array.view(numpy.ndarray))

    def generator(self, seed):
        return FakeRandom(seed)

    def scipy(self, name):
        if name not in SCIPY:
            raise NotImplementedError(f"there is no cupyx.scipy.{name}")
        return FakeModule(name, importlib.import_module(f"scipy.{name}"), cupyx_names())

    def storage(self, array):  # NumPy gives a view the owner of its memory for a base, which is none of ours
        while array.base is not None:
            array = array.base
        return array
