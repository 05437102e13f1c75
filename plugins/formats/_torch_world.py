"""What the pickles in PyTorch's files may mean here: tensors, their dtypes and devices, plain containers, no more."""

from __future__ import annotations

import collections
import math
from collections import Counter, OrderedDict, defaultdict

import numpy

import plugrad
from plugrad import Tensor, device, dtypes
from plugrad.formats import CheckpointError, damaged, inside, shown
from plugrad.nn import Parameter
from plugrad.serialization.description import DTYPES, are_attributes, place
from plugrad.serialization.safe_globals import build_trusted, trusted_names

from ._pickles import Name, quickly_hashed

_STORAGES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128", "UntypedStorage": "uint8",
}  # fmt: skip
STORAGE_OF = {dtype: name for name, dtype in _STORAGES.items() if name != "UntypedStorage"}
_LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
_CONSTANTS = {
    **{f"torch.{name}": value for name, value in DTYPES.items()},
    **{f"torch.{name}": getattr(plugrad, name) for name in _LAYOUTS},
    **{f"torch.{name}": getattr(plugrad, name) for name in ("contiguous_format", "channels_last", "preserve_format")},
}  # fmt: skip
_NUMPY = {f"{kind}{size}" for kind, sizes in {"b": "1", "i": "1248", "u": "1248", "f": "248"}.items() for size in sizes}
_NUMPY |= {"c8", "c16"}
_FACTORIES = {f"{home}.{one.__name__}": one for home in ("builtins", "__builtin__")
              for one in (list, dict, set, int, float, str, tuple, bool)}  # fmt: skip


class Memory:
    """A storage of the file: its key, the dtype of its elements, and its bytes once something needs them."""

    __slots__ = ("key", "element", "numel", "location", "_read", "_raw")

    def __init__(self, key, element, numel, location, read):
        self.key, self.element, self.numel, self.location, self._read, self._raw = (
            key,
            element,
            numel,
            location,
            read,
            None,
        )

    @property
    def data(self):
        """The bytes, an array of uint8."""
        if self._raw is None:
            data = self._read(self)
            # A kernel may rely on elements that lie at multiples of their size.
            self._raw = data if data.ctypes.data % 16 == 0 else data.copy()
        return self._raw


class _NumpyDtype:
    __slots__ = ("code", "order")

    def __init__(self, code):
        self.code, self.order = code, "="

    def numpy(self):
        return numpy.dtype(self.code).newbyteorder(self.order)


class _NumpyArray:
    """An array that the next opcode fills."""

    __slots__ = ()


class World:
    """Makes the objects of one file; `placer` makes its tensors, `read(memory)` gets the bytes of a storage."""

    def __init__(self, placer, read, where):
        self.placer, self.read, self.where = placer, read, where
        self.storages: dict = {}
        self.trusted = trusted_names()

    def wrong(self, why) -> Exception:
        """Return the error that says what is wrong."""
        return damaged(self.where, why)

    # ------------------------------------------------------------------------------------ what interpreters ask

    def name(self, dotted):
        """Return what a name stands for: a dtype, a layout, or the name itself."""
        return _CONSTANTS.get(dotted) or Name(dotted)

    def strange(self, value) -> bool:
        """Whether a value of ours may be filled as a container."""
        return False

    def call(self, function, arguments):
        """Return what a call in the pickle gives, if it is one of those that are data."""
        if not isinstance(function, Name):
            raise self.wrong(f"a {type(function).__name__} is called")
        make = CALLS.get(function.dotted)
        if make is not None:
            return make(self, *arguments)
        if function.dotted in self.trusted:
            return self.trusted[function.dotted](*map(self._settled, arguments))
        raise self.refused(function.dotted)

    def new(self, cls, arguments):
        """Return a new object of a class."""
        if isinstance(cls, Name) and cls.dotted in self.trusted and cls.dotted not in CALLS:
            known = self.trusted[cls.dotted]
            if not isinstance(known, type):
                raise self.wrong(f"{cls.dotted} is no class")
            return known.__new__(known, *map(self._settled, arguments))
        return self.call(cls, arguments)

    def _settled(self, value):
        if isinstance(value, Name):
            if value.dotted not in self.trusted:
                raise self.refused(value.dotted)
            return self.trusted[value.dotted]
        return value

    def refused(self, dotted) -> Exception:
        """Return the error for a name of something that is no data."""
        dotted = dotted if dotted.isprintable() else ascii(dotted)
        return CheckpointError(
            f"Weights only load failed: the file holds pickled objects that need {dotted[:200]}, which is not trusted: "
            f"torch.serialization.add_safe_globals([{dotted.rpartition('.')[2][:100]}]) trusts it. Unpickling can run "
            "any code: if you trust the file as a whole, pass weights_only=False"
        )

    def build(self, instance, state):
        """Return an object with its state."""
        if isinstance(instance, OrderedDict) and type(state) is dict:
            if not are_attributes(state):
                raise self.wrong("an OrderedDict gets attributes that it can't have")
            instance.__dict__.update(state)
            return instance
        if (
            isinstance(instance, _NumpyDtype)
            and type(state) is tuple
            and len(state) > 1
            and state[1] in ("<", ">", "|", "=")
        ):
            instance.order = state[1]
            return instance
        if isinstance(instance, _NumpyArray) and type(state) is tuple and len(state) == 5:
            return self._array(*state[1:])
        if any(type(instance) is known for known in self.trusted.values()):
            build_trusted(instance, state)
            return instance
        raise self.wrong(f"a {type(instance).__name__} is given a state")

    def persistent(self, identity):
        """Return the storage that the file mentions."""
        if type(identity) is tuple:  # encoding="bytes" leaves texts of Python 2 as they are
            identity = tuple([str(part, "latin1") if type(part) is bytes else part for part in identity])
        if type(identity) is tuple and len(identity) == 4 and identity[0] == "module":
            return identity[1]  # a class, of which the older stream also holds the source
        if type(identity) is not tuple or len(identity) not in (5, 6) or identity[0] != "storage":
            raise self.wrong("something outside of its pickle is mentioned that is no storage")
        _, kind, key, location, numel = identity[:5]
        name = kind.dotted.rpartition(".")[2] if isinstance(kind, Name) else None
        if name not in _STORAGES:
            raise self.wrong(f"a storage of the kind {shown(name)}, of which NumPy has no numbers")
        if type(key) is not str or type(numel) is not int or not 0 <= numel < 2**60:
            raise self.wrong("a storage without a name or a size")
        location = place({"device": location}, self.where)
        if identity[5:] not in ((), (None,)):
            raise self.wrong("a view of a storage, which PyTorch has not written for a long time")
        memory = self.storages.get(key)
        if memory is None:
            memory = self.storages[key] = Memory(key, DTYPES[_STORAGES[name]], numel, location, self.read)
        return memory

    # ------------------------------------------------------------------------------------------------- tensors

    def rebuild(self, storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None, element=None):
        """Return a tensor over a storage; offset and strides are in elements."""
        if not isinstance(storage, Memory):
            raise self.wrong("a tensor without a storage")
        element, where = storage.element if element is None else element, f"{self.where}: storage {ascii(storage.key)}"
        if not isinstance(element, dtypes.dtype):
            named = element.dotted if isinstance(element, Name) else element
            raise CheckpointError(f"{where} has elements of {shown(named)}, which plugrad has no dtype for")
        shape, steps = _sizes(size, where), _sizes(stride, where)
        if len(shape) != len(steps) or type(offset) is not int or not 0 <= offset < 2**60:
            raise damaged(where, f"a tensor of shape {shown(list(shape))}, strides {shown(list(steps))} does not exist")
        itemsize = element.itemsize
        if math.prod([n or 1 for n in shape]) * itemsize >= 2**63 or max(steps, default=0) * itemsize >= 2**63:
            raise damaged(where, f"there is no tensor of shape {shown(list(shape))}")
        data = storage.data
        offset, steps = offset * itemsize, tuple(step * itemsize for step in steps)
        inside(shape, steps, offset, itemsize, data.size, where)
        tensor = self.placer.tensor(storage.key, data, element, shape, steps, offset, storage.location, where)
        if type(metadata) is dict:
            tensor = tensor.conj() if metadata.get("conj") else tensor
            tensor = -tensor if metadata.get("neg") else tensor
        return self._with_grad(tensor, requires_grad)

    def _with_grad(self, tensor, requires_grad):
        if type(requires_grad) is not bool or requires_grad and not (tensor.is_floating_point() or tensor.is_complex()):
            raise self.wrong(f"a tensor of {tensor.dtype} that requires grad")
        return tensor.requires_grad_(requires_grad)

    def parameter(self, tensor, requires_grad, hooks=None, state=None):
        """Return a Parameter of a tensor."""
        if not isinstance(tensor, Tensor):
            raise self.wrong("a Parameter that is no tensor")
        parameter = self._with_grad(Tensor._make_subclass(Parameter, tensor.detach()), requires_grad)
        return parameter if state is None else self._set(parameter, state)

    def from_type(self, function, cls, arguments, state):
        """Return a tensor with the attributes that a program set on it."""
        if (
            getattr(cls, "dotted", None) not in ("torch.Tensor", "torch.nn.parameter.Parameter")
            or type(arguments) is not tuple
        ):
            raise self.refused(cls.dotted if isinstance(cls, Name) else "a subclass of Tensor")
        return self._set(self.call(function, arguments), state)

    def _set(self, tensor, state):
        state = state[0] if type(state) is tuple and len(state) == 2 and state[1] in (None, {}) else state
        if type(state) is not dict or not isinstance(tensor, Tensor):
            raise self.wrong("a tensor has attributes that it can't have")
        for name, value in state.items():
            if type(name) is not str or not name.isidentifier() or name.startswith("__"):
                raise self.wrong(f"{shown(name)} is not an attribute that a program sets")
            if not name.startswith("_"):
                tensor.__dict__[name] = value
        return tensor

    def meta(self, element, size, stride, requires_grad):
        """Return a tensor on the meta device."""
        if not isinstance(element, dtypes.dtype):
            raise self.wrong("a tensor on the meta device without a dtype")
        tensor = plugrad.empty_strided(
            _sizes(size, self.where), _sizes(stride, self.where), dtype=element, device="meta"
        )
        return self._with_grad(tensor, requires_grad)

    def sparse(self, layout, parts):
        """Return a sparse tensor of its indices and values."""
        name = str(layout).rpartition(".")[2] if isinstance(layout, plugrad.layout) else None
        if name not in _LAYOUTS[1:] or type(parts) is not tuple or len(parts) not in (3, 4):
            raise self.wrong("a sparse tensor of a layout that is not known")
        coalesced = name == "sparse_coo" and parts[3:] == (True,)
        *tensors, shape = parts[:3] if name == "sparse_coo" else parts
        if not all(isinstance(one, Tensor) for one in tensors) or len(tensors) != (2 if name == "sparse_coo" else 3):
            raise self.wrong("a sparse tensor has other parts than sparse tensors have")
        try:
            return plugrad.sparse.rebuild(name, *tensors, tuple(_sizes(shape, self.where)), coalesced, False)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise self.wrong(f"a sparse tensor: {error}") from None

    # -------------------------------------------------------------------------------------------- plain values

    def ordered(self, *pairs):
        """Return an OrderedDict."""
        return OrderedDict(self._pairs(*pairs))

    def _pairs(self, pairs=()):
        if type(pairs) not in (list, tuple) or any(type(pair) not in (list, tuple) or len(pair) != 2 for pair in pairs):
            raise self.wrong("a dict that is not made of pairs")
        return [(quickly_hashed(key), value) for key, value in pairs]

    def layout(self, name):
        """Return the layout of that name."""
        if type(name) is not str or name.removeprefix("torch.") not in _LAYOUTS:
            raise self.wrong(f"{shown(name)} is no layout")
        return getattr(plugrad, name.removeprefix("torch."))

    def device(self, kind, index=None):
        """Return a device."""
        if type(kind) is not str or type(index) not in (int, type(None)):
            raise self.wrong(f"{shown(kind)} is no device")
        try:
            return device(kind) if index is None else device(kind, index)
        except (RuntimeError, TypeError) as error:
            raise self.wrong(error) from None

    def encoded(self, text, encoding="latin1"):
        """Return bytes, which older pickles hold as text."""
        if type(text) is not str or encoding not in ("latin1", "latin-1"):
            raise self.wrong("bytes that are no text")
        return text.encode("latin1")

    def default(self, factory=None, *pairs):
        """Return a defaultdict whose values begin as an empty one of a plain type."""
        if factory is not None:
            known = _FACTORIES.get(getattr(factory, "dotted", None))
            factory = known if known is not None else self._settled(factory)
        return defaultdict(factory, self._pairs(*pairs))

    def numpy_dtype(self, code, *_):
        """Return a dtype of NumPy's."""
        if type(code) is not str or code not in _NUMPY:
            raise self.wrong(f"{shown(code)} is no dtype of numbers")
        return _NumpyDtype(code)

    def numpy_scalar(self, dtype, data=b""):
        """Return a number of NumPy's."""
        return self._array((), dtype, False, data)[()]

    def numpy_array(self, cls, shape, code):
        """Return an array that is filled later."""
        return _NumpyArray()

    def numpy_from_buffer(self, data, dtype, shape, order):
        """Return an array over bytes."""
        return self._array(shape, dtype, order == "F", data)

    def _array(self, shape, dtype, columns, data):
        data = data.encode("latin1") if type(data) is str else data
        if not isinstance(dtype, _NumpyDtype) or type(data) not in (bytes, bytearray):
            raise self.wrong("an array of NumPy's that is not one of numbers")
        shape = _sizes(shape, self.where)
        if math.prod(shape) * dtype.numpy().itemsize != len(data):
            raise self.wrong(f"an array of shape {shown(list(shape))} has {len(data)} bytes")
        array = numpy.frombuffer(bytearray(data), dtype.numpy())
        if array.dtype.kind == "b":
            array = array.view(numpy.uint8) != 0
        return array.reshape(shape, order="F" if columns is True else "C")


def _sizes(values, where) -> tuple:
    if type(values) not in (tuple, list, plugrad.Size) or len(values) > 64:
        raise damaged(where, f"{shown(values)} are no sizes")
    for value in values:
        if type(value) is not int or not 0 <= value < 2**62:
            raise damaged(where, f"{shown(value)} is no size or stride")
    return tuple(values)


def _plain(make, *kinds):
    """Return what calls `make` with one argument of given types."""

    def call(world, *arguments):
        if len(arguments) > 1 or arguments and type(arguments[0]) not in kinds:
            given = ", ".join(type(argument).__name__ for argument in arguments)
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise world.wrong(f"a {make.__name__} of a {given}, not of a {wanted}")
        return make(*arguments)

    return call


def _number(world, *parts):
    if len(parts) > 2 or any(type(part) not in (int, float) for part in parts):
        raise world.wrong("a complex number that is none")
    return complex(*parts)


def _keys(make):
    """Return what makes a set whose items can be hashed in a short time."""
    call = _plain(make, list, tuple)

    def checked(world, *items):
        for one in items:
            if type(one) in (list, tuple):  # else it is refused, and may be a range of a thousand million numbers
                collections.deque(map(quickly_hashed, one), 0)
        return call(world, *items)

    return checked


CALLS = {
    "torch._utils._rebuild_tensor_v2": World.rebuild,
    "torch._utils._rebuild_tensor": World.rebuild,
    "torch._utils._rebuild_tensor_v3": lambda world, *a: World.rebuild(world, *a[:6], None, *a[6:7]),
    "torch._utils._rebuild_parameter": World.parameter,
    "torch._utils._rebuild_parameter_with_state": World.parameter,
    "torch._utils._rebuild_meta_tensor_no_storage": World.meta,
    "torch._utils._rebuild_sparse_tensor": World.sparse,
    "torch._tensor._rebuild_from_type_v2": World.from_type,
    "torch.serialization._get_layout": World.layout,
    "torch.Size": lambda world, values=(): plugrad.Size(_sizes(values, world.where)),
    "torch.device": World.device,
    "collections.OrderedDict": World.ordered,
    "collections.defaultdict": World.default,
    "collections.Counter": _plain(Counter, dict),
    "_codecs.encode": World.encoded,
    "numpy.dtype": World.numpy_dtype,
    **{f"numpy.{home}.multiarray.scalar": World.numpy_scalar for home in ("core", "_core")},
    **{f"numpy.{home}.numeric._frombuffer": World.numpy_from_buffer for home in ("core", "_core")},
    **{f"numpy.{home}.multiarray._reconstruct": World.numpy_array for home in ("core", "_core")},
    **{f"{home}.{name}": make for home in ("builtins", "__builtin__") for name, make in {
        "set": _keys(set), "frozenset": _keys(frozenset), "complex": _number, "bytearray": _plain(bytearray, bytes),
        "bytes": _plain(bytes, bytes, list), "slice": lambda world, *parts: _slice(world, parts),
        "range": lambda world, *parts: range(*_sizes(parts, world.where)),
        "xrange": lambda world, *parts: range(*_sizes(parts, world.where)),
    }.items()},
}  # fmt: skip


def _slice(world, parts):
    if len(parts) != 3 or any(type(part) not in (int, type(None)) for part in parts):
        raise world.wrong("a slice that is not of whole numbers")
    return slice(*parts)


class Outline(World):
    """Follows a pickle without making its tensors: which storages it mentions, and where it ends."""

    def __init__(self, where):
        super().__init__(None, None, where)

    def strange(self, value):
        """Whether it stands for something that is not made."""
        return value is UNKNOWN

    def call(self, function, arguments):
        """Return a container, or what stands for everything else."""
        plain = isinstance(function, Name) and function.dotted in ("collections.OrderedDict", "torch.Size")
        return super().call(function, arguments) if plain else UNKNOWN

    new = call

    def build(self, instance, state):
        """Return the object as it is."""
        return instance


class _Unknown:
    __slots__ = ()


UNKNOWN = _Unknown()
