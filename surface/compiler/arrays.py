"""The arrays that programs compute with while they are captured: they note what NumPy is asked to do with them.

Capture is a backend. Its arrays are of no device that computes: each has an example, an array of NumPy with the shape,
the strides and the memory that it would have, on which all calls are carried out, so that shapes, dtypes and views
are NumPy's own. Nobody else can see the example: what looks at values raises CaptureError.
"""

from __future__ import annotations

import functools
import math
import operator
import weakref
from contextlib import nullcontext

import numpy

from plugrad import device, registry
from plugrad.autograd.rare.orders import order_others
from plugrad.compiler.graph import Buffer, Step, Value, changed, dims_in, hides_dims, plain, plainly, varies
from plugrad.compiler.sizes import CaptureError
from plugrad.extend import Backend, watching_random

# Functions of NumPy whose results have a shape that follows from the shapes of arrays, and which do nothing but return
# them. Universal functions are such, too.
PURE = frozenset(
    "all amax amin any append apply_along_axis arange argmax argmin argpartition argsort around array array_split "
    "as_strided asarray ascontiguousarray asfortranarray astype atleast_1d atleast_2d atleast_3d bartlett "
    "bitwise_count blackman broadcast_arrays broadcast_to clip concatenate conj convolve copy corrcoef "
    "count_nonzero cov cross cumprod cumsum cumulative_prod cumulative_sum diag diagflat diagonal diff dot dstack "
    "einsum empty empty_like expand_dims eye flip fliplr flipud frexp full full_like gradient hamming hanning "
    "histogram_bin_edges hstack hypot i0 identity imag indices inner interp isclose iscomplex isneginf isposinf "
    "isreal ix_ kaiser kron ldexp linspace logspace matmul matrix_transpose max maximum mean median meshgrid min "
    "minimum moveaxis nan_to_num nanargmax nanargmin nanmax nanmean nanmin nanprod nansum ones ones_like outer pad "
    "partition percentile permute_dims prod ptp quantile ravel real repeat reshape roll rollaxis rot90 searchsorted "
    "sinc sliding_window_view sort split squeeze stack std sum swapaxes take take_along_axis tensordot tile trace "
    "transpose trapezoid tri tril tril_indices triu triu_indices unpackbits unravel_index unstack unwrap vander var "
    "vdot vstack where zeros zeros_like".split()
)
SHAPED_BY_VALUES = frozenset(
    "argwhere compress extract flatnonzero intersect1d nonzero setdiff1d setxor1d trim_zeros union1d unique unique_all "
    "unique_counts unique_inverse unique_values".split()
)
METHODS = (
    "all any argmax argmin argpartition argsort astype choose clip conj conjugate copy cumprod cumsum diagonal dot "
    "flatten max mean min prod ravel repeat reshape round searchsorted squeeze std sum swapaxes take trace transpose "
    "var view"
).split()
FILLING = frozenset("full full_like ones ones_like zeros zeros_like".split())  # all elements are the same
WRITERS = {"copyto": 0, "put": 0, "put_along_axis": 0, "putmask": 0, "place": 0, "fill_diagonal": 0}
ASKS = frozenset(  # of shapes and dtypes alone
    "broadcast_shapes can_cast dtype finfo iinfo isscalar iscomplexobj isrealobj may_share_memory min_scalar_type ndim "
    "promote_types result_type shape shares_memory size issubdtype common_type isdtype".split()
)


class Array(numpy.lib.mixins.NDArrayOperatorsMixin):
    """An array of a program that is captured: `example` is of NumPy, `value` says where in which buffer it lies."""

    __slots__ = ("example", "value", "base", "recorder", "__weakref__")
    __hash__ = object.__hash__
    __array_priority__ = 1000.0
    device = "capture"  # NumPy's say "cpu"

    def __init__(self, recorder, example, value, base):
        self.recorder, self.example, self.value, self.base = recorder, example, value, base

    shape = property(lambda self: self.value.shape)
    strides = property(lambda self: self.value.strides)
    dtype = property(lambda self: self.example.dtype)
    ndim = property(lambda self: self.example.ndim)
    size = property(lambda self: math.prod(self.value.shape))
    itemsize = property(lambda self: self.example.itemsize)
    nbytes = property(lambda self: math.prod(self.value.shape, start=self.example.itemsize))
    flags = property(lambda self: self.example.flags)
    T = property(lambda self: self.transpose())
    mT = property(lambda self: self.recorder.call(operator.attrgetter("mT"), (self,), {}, "mT"))
    real = property(lambda self: self.recorder.call(operator.attrgetter("real"), (self,), {}, "real"))
    imag = property(lambda self: self.recorder.call(operator.attrgetter("imag"), (self,), {}, "imag"))

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        if method == "at":
            return self.recorder.write(ufunc.at, inputs, kwargs, f"{ufunc.__name__}.at", inputs[0])
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        return self.recorder.call(ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs, name)

    def __array_function__(self, function, types, args, kwargs):
        return self.recorder.function(function, args, kwargs)

    def __array__(self, *args, **kwargs):
        raise self.recorder.refusal("its values are looked at by NumPy")

    def __getitem__(self, index):
        parts = index if isinstance(index, tuple) else (index,)
        if any(getattr(part, "dtype", "") == "bool" and part.ndim for part in parts):
            raise self.recorder.refusal("a result has as many elements as a mask selects", final=True)
        return self.recorder.call(operator.getitem, (self, index), {}, "getitem")

    def __setitem__(self, index, value):
        self.recorder.write(operator.setitem, (self, index, value), {}, "setitem", self)

    def nonzero(self):
        """Raise CaptureError: values decide how many there are."""
        raise self.recorder.refusal("values decide how many elements are not zero", final=True)

    def fill(self, value):
        """Write one value to all elements."""
        self.recorder.write(numpy.ndarray.fill, (self, value), {}, "fill", self)

    def sort(self, *args, **kwargs):
        """Sort in place."""
        self.recorder.write(numpy.ndarray.sort, (self, *args), kwargs, "sort", self)

    def __len__(self):
        if varies(self.shape[:1]):  # Python wants a plain number
            raise self.recorder.refusal("the length of an array is asked for", final=True)
        return len(self.example)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def item(self, *args):
        """Raise CaptureError: the number is not known yet. Constants that a kernel in C asks for are."""
        if self.recorder.expanding and self.recorder.is_settled(self):
            return self.example.item(*args)
        raise self.recorder.refusal("a Python number is made of one of its values")

    def __bool__(self):
        return bool(self.item())

    __int__ = __float__ = __index__ = __complex__ = tolist = item

    def __repr__(self):
        return f"Array({self.value!r})"


def _converted(array, dtype, *args, **options):
    """Return an array of another type, half precision by the CPU's own backend: in a tenth of NumPy's time."""
    if args or options.keys() - {"copy"} or array.dtype == dtype:
        return array.astype(dtype, *args, **options)
    return registry.backend("cpu").cast(array, numpy.dtype(dtype))


def _method(name):
    function = _converted if name == "astype" else getattr(numpy.ndarray, name)

    def method(self, *args, **kwargs):
        return self.recorder.call(function, (self, *args), kwargs, name)

    method.__name__ = name
    return method


for _name in METHODS:
    setattr(Array, _name, _method(_name))


class Recorder:
    """What was asked of arrays: `steps`, over `buffers`. `known` keeps all memory alive, by its owner's id.

    `sizes` is None, or is told all integers that arrays have, and says what they are in the program.
    """

    def __init__(self, sizes=None):
        self.sizes, self.given = sizes, ()
        self.steps: list[Step] = []
        self.drawn: list = []  # the generators that this thread drew from
        self.buffers: list[Buffer] = []
        self.known: dict[int, Buffer] = {}
        self.failure = self.op = None
        self.drew = self.expanding = False
        self.looked_into = 0  # how many kernels were
        self.settled: set = set()  # buffers that are the same at each call though a step fills them

    def refusal(self, why, final=False, kind=CaptureError) -> CaptureError:
        """Return the error for what can't be captured; it is also kept, since what it stops may hide it."""
        error = kind(why, self.op, final)
        if self.failure is None:
            self.failure = error
        return error

    # ---- memory

    def buffer(self, owner, kind="temporary") -> Buffer:
        """Return the buffer for memory that an array of NumPy owns, made if it is not known."""
        known = self.known.get(id(owner))
        if known is None:
            sizes = None
            if self.sizes is not None:
                shape, strides = self.sizes.told(owner.shape, self.given), [owner.itemsize]
                for n in shape[:0:-1]:
                    strides.insert(0, strides[0] * n)
                if not owner.flags.c_contiguous:
                    strides = self.sizes.told(owner.strides)
                sizes = math.prod(shape, start=owner.itemsize), shape, tuple(strides[: owner.ndim])
            known = self.known[id(owner)] = Buffer(len(self.buffers), owner, kind, sizes)
            self.buffers.append(known)
        return known

    def value(self, example, kind="temporary") -> Value:
        owner = owner_of(example)
        # NumPy lets no array begin behind its memory, with no elements either.
        offset = address(example) - address(owner) if example.size else 0
        buffer, shape, strides = self.buffer(owner, kind), example.shape, example.strides
        if self.sizes is not None and example is owner and buffer.itself is not None:
            return buffer.itself
        if self.sizes is not None:
            offset, *ints = self.sizes.told((offset, *shape, *strides), self.given)
            shape, strides = tuple(ints[: len(shape)]), tuple(ints[len(shape) :])
        return Value(buffer, shape, strides, offset, example.dtype)

    def array(self, example, kind="temporary") -> Array:
        """Return the array for an example; all views of one buffer have the same base."""
        value = self.value(example, kind)
        buffer = value.buffer
        base = buffer.holder and buffer.holder()
        array = Array(self, example, value, base)
        if base is None and example is not buffer.owner:
            base = array.base = Array(self, buffer.owner, self.value(buffer.owner), None)
            buffer.holder = weakref.ref(base)
        elif base is None:
            buffer.holder = weakref.ref(array)
        return array

    # ---- calls

    def function(self, function, args, kwargs):
        """Carry out a function of NumPy."""
        name = function.__name__
        if name in WRITERS and function is getattr(numpy, name, None):
            return self.write(function, args, kwargs, name, args[0])
        if name in ASKS:
            return self.ask(function, args, kwargs)
        if name in SHAPED_BY_VALUES or name == "where" and len(args) + len(kwargs) == 1:
            raise self.refusal(f"values decide how many elements numpy.{name} returns", final=True)
        whole = getattr(function, "__module__", None) in ("numpy.fft", "numpy.linalg") and name != "lstsq"
        if name not in PURE and not whole and not isinstance(function, numpy.ufunc):
            raise self.refusal(f"numpy.{name} is not known to give shapes that values don't decide")
        if name == "repeat" and isinstance(args[1] if len(args) > 1 else kwargs.get("repeats"), Array):
            raise self.refusal("values decide how often elements are repeated", final=True)
        if name in ("asarray", "ascontiguousarray", "array"):
            args = (args[0].copy() if isinstance(args[0], Array) and name == "array" else args[0], *args[1:])
        return self.call(function, args, kwargs, name)

    def ask(self, function, args, kwargs):
        """Return what a function says of shapes and dtypes."""
        answer = function(*changed(_example, args), **changed(_example, kwargs))
        if self.sizes is None or type(answer) not in (int, tuple):
            return answer
        told = self.sizes.told(answer if type(answer) is tuple else (answer,))
        return told if type(answer) is tuple else told[0]

    def call(self, function, args, kwargs, name, kind="array", effect=None):
        """Carry out a call; note it if there is more to it than another view of known memory."""
        out = kwargs.get("out")
        if out is not None:
            self.about_to_write(out)
        mark = len(self.buffers)
        if self.sizes is not None:
            self.given = (*args, *kwargs.values())
        draws: list = []  # a kernel that looked at values before it drew numbers has not said that it does
        with watching_random(draws.append) if kind == "kernel" else nullcontext():
            result = function(*changed(_example, args), **changed(_example, kwargs))
        self.drawn += draws
        effect = "random" if draws else effect
        if out is not None:
            self.note(Step(kind, name, function, self.plain(args), self.plain(kwargs), (), _values(out), effect))
            return out
        several = type(result) in (tuple, list)
        results = result if several else (result,)
        if not all(isinstance(one, (numpy.ndarray, numpy.generic)) or several and one is None for one in results):
            if result is NotImplemented or result is None or name in ASKS:
                return result
            raise self.refusal(f"{name} returned {type(result).__name__}, which is no array")
        examples = [None if one is None else numpy.asarray(one) for one in results]
        settled = kind == "array" and not effect and self.is_settled((args, kwargs))
        settled = settled and (name in FILLING or self.sizes is None or not dims_in((args, kwargs)))
        if self.expanding and settled and any(isinstance(one, Array) for one in args):
            return self.array(examples[0], "constant")
        arrays = [None if one is None else self.array(one) for one in examples]
        fresh = [a is not None and a.value.buffer.index >= mark for a in arrays]
        if any(fresh) or effect:
            values = [a.value if new else None for a, new in zip(arrays, fresh)]
            if name in ("empty", "empty_like"):
                return arrays[0]
            if settled:
                self.settled.update([value.buffer for value in values if value is not None])
            self.note(
                Step(kind, name, function, self.plain(args), self.plain(kwargs), tuple(values), (), effect, several)
            )
        if not several:
            return arrays[0]
        return type(result)(*arrays) if hasattr(result, "_fields") else type(result)(arrays)

    def whole(self, function, args, kwargs, name, result, inner):
        """Note a call of a kernel in C that was carried out already, by its inner steps."""
        if len(inner) == 1 and inner[0].kind == "array":  # a kernel for NumPy: compilers know that call by its name
            self.note(inner[0])
            return result
        several = type(result) in (tuple, list)
        values = tuple([None if one is None else one.value for one in (result if several else (result,))])
        step = Step("kernel", name, function, self.plain(args), self.plain(kwargs), values, (), None, several)
        step.inner = inner
        self.note(step)
        return result

    def write(self, function, args, kwargs, name, target):
        """Carry out a call that writes into an array."""
        if not isinstance(target, Array):
            raise self.refusal("an array of NumPy's own is written")
        self.about_to_write(target)
        function(*changed(_example, args), **changed(_example, kwargs))
        self.note(Step("array", name, function, self.plain(args), self.plain(kwargs), (), (target.value,), None))

    def is_settled(self, arguments) -> bool:
        """Whether all arrays in arguments are the same at each call."""
        known: list = []
        changed(lambda item: known.append(item.value.buffer) if isinstance(item, Array) else None, arguments)
        return all(b in self.settled or b.kind == "constant" and b.original is None for b in known)

    def about_to_write(self, targets) -> None:
        """Keep what constants are before they are written."""
        for one in targets if isinstance(targets, tuple) else (targets,):
            buffer = one.value.buffer if isinstance(one, Array) else None
            self.settled.discard(buffer)
            if buffer is not None and buffer.kind == "constant" and buffer.original is None:
                buffer.original = buffer.owner.copy("K")

    def plain(self, args):
        return changed(lambda item: _constant(self, item), args)

    def note(self, step) -> None:
        """Add a step."""
        if step.kind == "kernel" and self.sizes is not None and hides_dims((step.args, step.kwargs)):
            raise CaptureError("an argument of a kernel is an object that has a size", step.name, final=True)
        step.op = self.op
        self.steps.append(step)


def _constant(recorder, item):
    if isinstance(item, Array):
        return item.value
    if isinstance(item, numpy.ndarray) and item.ndim:
        return recorder.value(item.copy(), "constant")
    return item


def _example(item):
    return item.example if isinstance(item, Array) else plainly(item)


def _values(out) -> tuple:
    out = out if isinstance(out, tuple) else (out,)
    return tuple([one.value for one in out if isinstance(one, Array)])


def owner_of(array) -> numpy.ndarray:
    """Return the array that owns the memory of one."""
    base = array.base
    while base is not None:  # as_strided puts an object of its own between a view and its base
        if isinstance(base, numpy.ndarray):
            array = base
        base = getattr(base, "base", None)
    return array


def address(array) -> int:
    """Return where in memory the first element is."""
    return array.__array_interface__["data"][0]


class Functions:
    """NumPy as kernels see it while they are captured."""

    def __init__(self, current):
        self._current = current
        self.lib = _Lib(self)

    def __getattr__(self, name):
        function = getattr(numpy, name)
        if isinstance(function, numpy.ufunc):
            return function  # it comes back by __array_ufunc__
        if isinstance(function, type) or not callable(function) or name in ASKS:
            return self._asking(function) if name in ASKS and not isinstance(function, type) else function
        return functools.partial(self._call, function)

    def _asking(self, function):
        return lambda *args, **kwargs: self._current().ask(function, args, kwargs)

    def _call(self, function, *args, **kwargs):
        return self._current().function(function, args, kwargs)


class _Lib:
    """`numpy.lib`, of which kernels use `stride_tricks`."""

    def __init__(self, functions):
        self.stride_tricks = self
        self._functions = functions

    def __getattr__(self, name):
        return functools.partial(self._functions._call, getattr(numpy.lib.stride_tricks, name))


class _NoNumbers:
    """The random generator of captured programs: kernels that ask it run as a whole instead."""

    def __init__(self, current):
        self._current = current

    def __getattr__(self, name):
        if name[:2] == "__":
            raise AttributeError(name)
        recorder = self._current()
        recorder.drew = True
        raise CaptureError("random numbers are drawn", recorder.op)


def _refused(self, *args, **kwargs):
    raise self.recorder.refusal("its values are looked at")


class Later:
    """A number that a program makes of a tensor: nothing is known of it yet, so it can be returned, and no more."""

    def __init__(self, recorder, array):
        self.recorder, self.array = recorder, array

    __class__ = property(lambda self: type(self.array.example.item()))


class Looked:
    """An array of one element on its way to `Tensor.item`."""

    dtype = property(lambda self: self.array.dtype)

    def __init__(self, recorder, array):
        self.recorder, self.array = recorder, array

    def astype(self, dtype):
        """Return it in a type that Python has numbers for."""
        return Looked(self.recorder, self.array.astype(dtype))

    def item(self):
        """Return the number as it is now, whatever is written there later."""
        return Later(self.recorder, self.array.copy())


_OF_NUMBERS = {name for name in (*dir(complex), *dir(float), *dir(int)) if name[:2] == "__"} - {*dir(object)}
_OF_ALL = "eq ne lt le gt ge hash str repr format reduce_ex array getattr getitem len iter".split()
for _name in (*_OF_NUMBERS, *[f"__{name}__" for name in _OF_ALL]):
    setattr(Later, _name, _refused)
    setattr(Looked, _name, _refused)


class Place(device):
    """The device of a program that is captured, which is the CPU for whoever asks."""

    __slots__ = ()

    type = property(lambda self: "cpu", lambda self, name: None)
    backend = property(lambda self: registry.backend(Capturing.name))

    def __eq__(self, other):
        return str(other) == "cpu" if isinstance(other, device) else NotImplemented

    def __hash__(self):
        return hash(("cpu", None))

    def __reduce__(self):
        return device, ("cpu",)


class Capturing(Backend):
    """The backend of programs that are captured; `current()` is the recorder of this thread."""

    name = "capture"
    array_type = Array
    stands_for = "cpu"
    numbered = False

    def __init__(self, current):
        self.current = current
        self.xp = Functions(current)

    def from_numpy(self, array, index):
        return self.current().array(plain(array), "constant")

    def to_numpy(self, array):
        if array.size != 1:
            raise self.current().refusal("its values are looked at")
        return Looked(self.current(), array)

    def generator(self, seed):
        return _NoNumbers(self.current)


order_others(Array)
