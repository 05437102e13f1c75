"""`TypedStorage` and the classes of PyTorch's older programs: `FloatStorage`, `LongStorage`..."""

from __future__ import annotations

import plugrad
from plugrad.arguments import is_int
from plugrad.backends import warn_once
from plugrad.extend import from_raw
from plugrad.storage.untyped import UntypedStorage, _sequence, install_casts, memory_of

_TYPES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "LongStorage": "int64",
    "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
    "BoolStorage": "bool", "BFloat16Storage": "bfloat16", "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64",
}  # fmt: skip
_COMBINATION = (
    "{}.__new__ received an invalid combination of arguments. Expected one of:\n * no arguments\n * (int size)\n"
    " * (Sequence data)\n * (*, UntypedStorage wrap_storage)"
)


def _warn(stacklevel=4) -> None:
    """Warn once that storages with a dtype go, as PyTorch does."""
    warn_once(
        "typed storage",
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
        "class. This should only matter to you if you are using storages directly.  To access UntypedStorage "
        "directly, use tensor.untyped_storage() instead of tensor.storage()",
        stacklevel=stacklevel,
    )


def _dtype_to_storage_type_map() -> dict:
    """Return the names of the classes of storages by dtype."""
    return {getattr(plugrad, element): name for name, element in _TYPES.items()}


def _storage_type_to_dtype_map() -> dict:
    """Return the dtypes by the names of the classes of storages."""
    return {name: dtype for dtype, name in _dtype_to_storage_type_map().items()}


def storage_class(dtype, device="cpu"):
    """Return the class such as `FloatStorage` of a dtype."""
    name = next((name for name, element in _TYPES.items() if getattr(plugrad, element) is dtype), None)
    if name is None:
        raise KeyError(f"there is no storage class for {dtype}; use x.untyped_storage()")
    home = plugrad if plugrad.device(device).type == "cpu" else plugrad.cuda
    return getattr(home, name)


class TypedStorage:
    """Memory as elements of one dtype.

    `TypedStorage(3)` is new memory, `TypedStorage([1, 2], dtype=torch.int32)` holds these numbers.

    Args:
        *args: a size, or a sequence of numbers.
        wrap_storage: the memory, an UntypedStorage, instead.
        dtype: of the elements.
        device: where new memory is.

    >>> import warnings, plugrad as torch
    >>> x = torch.tensor([1.0, 2.0])
    >>> with warnings.catch_warnings(action="ignore"):
    ...     x.storage()[1] = 5
    >>> x
    tensor([1., 5.])
    """

    __module__ = "torch.storage"
    is_sparse = is_hpu = False

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        if not _internal:
            _warn()
        if len(args) > 1 or args and wrap_storage is not None:
            raise RuntimeError(_COMBINATION.format("TypedStorage"))
        self.dtype = dtype or plugrad.get_default_dtype()
        if not isinstance(self.dtype, plugrad.dtype):
            raise TypeError(f"argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
        if wrap_storage is not None:
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(
                    f"argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage).__name__}"
                )
            self._untyped_storage = wrap_storage
            return
        data = args[0] if args else 0
        if is_int(data):
            self._untyped_storage = UntypedStorage(int(data) * self.dtype.itemsize, device=device)
            return
        if isinstance(data, float):
            raise TypeError(f"{_COMBINATION.format('TypedStorage')}; a size is an int, not {data!r}")
        data = data.tolist() if isinstance(data, TypedStorage) else data
        values = plugrad.tensor(_sequence(data), dtype=self.dtype, device=device)
        self._untyped_storage = memory_of(values.reshape(-1))
        self._untyped_storage._lent = False

    # ------------------------------------------------------------------------------------------ what it is

    device = property(lambda self: self._untyped_storage.device, doc="Where the memory is.")
    is_cuda = property(lambda self: self._untyped_storage.is_cuda, doc="Whether it is on a CUDA device.")
    filename = property(lambda self: self._untyped_storage.filename, doc="The file that is mapped, or None.")
    _cdata = property(lambda self: self._untyped_storage._cdata, doc="A number that is the same for the same memory.")
    _dtype = property(lambda self: self.dtype, doc="The dtype.")

    def _tensor(self):
        """Return the elements as a tensor that shares the memory."""
        memory = self._untyped_storage._bytes
        width = self.dtype.itemsize
        return from_raw(memory._raw[: memory.numel() // width * width].view(self.dtype.numpy))

    def size(self) -> int:
        """Return the number of elements."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    __len__ = _size = size

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._untyped_storage.nbytes()

    _nbytes = nbytes

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return self.dtype.itemsize

    _element_size = element_size

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._untyped_storage.data_ptr()

    _data_ptr = data_ptr

    def untyped(self):
        """Return the memory without its dtype."""
        return self._untyped_storage

    def pickle_storage_type(self) -> str:
        """Return the name of the class that files name: 'FloatStorage'..."""
        return storage_class(self.dtype).__name__

    _pickle_storage_type = pickle_storage_type

    def type(self, dtype=None, non_blocking=False):
        """Return the name of the type, or with `dtype` a storage of that class."""
        prefix = "torch." if self.device.type == "cpu" else f"torch.{self.device.type}."
        if dtype is None:
            return prefix + self.pickle_storage_type()
        name = dtype.rpartition(".")[2] if isinstance(dtype, str) else getattr(dtype, "__name__", repr(dtype))
        if name not in _TYPES:
            raise ValueError(f"invalid type: {dtype!r}; write a class such as torch.FloatStorage, or its name")
        return self._to(getattr(plugrad, _TYPES[name]))

    def __repr__(self):
        content = "..." if self.device.type == "meta" else "\n ".join(map(str, self.tolist()))
        text = f"[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self.size()}]"
        return f" {content}\n{text}"

    # ------------------------------------------------------------------------------------------ elements

    def _place(self, index):
        self._untyped_storage._readable()
        if not is_int(index):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if not -self.size() <= index < self.size():
            raise IndexError(f"index {index} out of range for storage of size {self.size()}")
        return index % self.size()

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        place = self._place(index)
        return self._tensor()[place].item()

    def __setitem__(self, index, value):
        self._untyped_storage._readable()
        where = index if isinstance(index, slice) else self._place(index)
        with plugrad.no_grad():
            self._tensor()[where] = value

    def __iter__(self):
        return iter(self.tolist())

    def tolist(self) -> list:
        """Return the elements as numbers."""
        self._untyped_storage._readable()
        return self._tensor().tolist()

    def __array__(self, dtype=None, copy=None):
        return self._tensor().numpy().__array__(dtype)

    _getitem, _setitem = __getitem__, __setitem__

    def fill_(self, value):
        """Set every element; return the storage."""
        self[:] = value
        return self

    def copy_(self, source, non_blocking=False):
        """Copy the elements of another storage, cast to the dtype; return the storage."""
        if isinstance(source, UntypedStorage):
            self._untyped_storage.copy_(source)
            return self
        if "meta" in (self.device.type, source.device.type):
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        if source.size() != self.size():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        with plugrad.no_grad():
            self._tensor().copy_(source._tensor())
        return self

    def resize_(self, size):
        """Give the storage another number of elements; see `UntypedStorage.resize_`."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    _resize_ = resize_

    # ------------------------------------------------------------------------------------------ copies

    def _over(self, memory):
        return TypedStorage(wrap_storage=memory, dtype=self.dtype, _internal=True)

    def _to(self, dtype):
        values = self._tensor().to(dtype, copy=True)
        return TypedStorage(wrap_storage=memory_of(values), dtype=dtype, _internal=True)

    def clone(self):
        """Return a copy."""
        return self._over(self._untyped_storage.clone())

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        return self._over(self._untyped_storage.__deepcopy__(memo))

    _deepcopy = __deepcopy__

    def new(self):
        """Return an empty storage of the same dtype and device."""
        return self._over(self._untyped_storage.new())

    def to(self, *, device, non_blocking=False):
        """Return the storage on a device."""
        return self._over(self._untyped_storage.to(device=device))

    def cpu(self):
        """Return the storage in host memory."""
        return self.to(device="cpu")

    def cuda(self, device=None, non_blocking=False):
        """Return the storage on a CUDA device."""
        return self.to(device="cuda" if device is None else device)

    def __reduce__(self):
        return _rebuild, (self._untyped_storage, self.dtype)

    def __getattr__(self, name):
        if name in _DELEGATED:
            return getattr(self._untyped_storage, name)
        if name in ("_is_shared", "_share_memory_"):
            return getattr(self._untyped_storage, name[1:])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def from_buffer(cls, *args, dtype=None, device=None, **kwargs):
        """Return a copy of a buffer's bytes; see `UntypedStorage.from_buffer`."""
        dtype = getattr(cls, "_type_of_class", None) or dtype or plugrad.get_default_dtype()
        memory = UntypedStorage.from_buffer(*args, dtype=dtype, **kwargs)
        return TypedStorage(wrap_storage=memory, dtype=dtype, _internal=True)

    @classmethod
    def from_file(cls, filename, shared=False, size=0):
        """Return the elements in a file as memory; see `UntypedStorage.from_file`."""
        dtype = getattr(cls, "_type_of_class", None) or plugrad.get_default_dtype()
        memory = UntypedStorage.from_file(filename, shared, size * dtype.itemsize)
        return TypedStorage(wrap_storage=memory, dtype=dtype, _internal=True)


_DELEGATED = frozenset({
    "_share_fd_cpu_", "_share_filename_cpu_", "_write_file", "get_device", "is_cpu", "is_pinned", "is_shared",
    "pin_memory", "resizable", "share_memory_",
})  # fmt: skip

install_casts(TypedStorage)


def _rebuild(memory, dtype):
    return TypedStorage(wrap_storage=memory, dtype=dtype, _internal=True)


class _LegacyStorageMeta(type):
    def __instancecheck__(cls, instance):
        if cls._type_of_class is None:
            return type.__instancecheck__(cls, instance)
        return (
            isinstance(instance, TypedStorage)
            and instance.dtype is cls._type_of_class
            and instance.device.type == cls._device_type
        )

    dtype = property(lambda cls: cls._type_of_class)


class _LegacyStorage(TypedStorage, metaclass=_LegacyStorageMeta):
    """Base of the classes for one dtype; their instances are `TypedStorage`s."""

    _device_type, _type_of_class = "cpu", None

    def __new__(cls, *args, wrap_storage=None, device=None, _internal=False, **others):
        if cls._type_of_class is None:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
        if cls._device_type == "cuda" and not plugrad.cuda.is_available():
            raise AssertionError("Torch not compiled with CUDA enabled: there is no CUDA device here")
        if others or len(args) > 1:
            raise RuntimeError(_COMBINATION.format(cls))
        if wrap_storage is None and device is None:
            device = cls._device_type
        if not _internal:
            _warn()
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls._type_of_class, device=device, _internal=True)


def classes(device_type: str) -> dict:
    """Return the classes of storages on one type of device, by name."""
    module = "torch" if device_type == "cpu" else f"torch.{device_type}"
    return {
        name: _LegacyStorageMeta(
            name, (_LegacyStorage,), {
                "_type_of_class": getattr(plugrad, element), "_device_type": device_type, "__module__": module,
                "__doc__": f"Legacy class of storages of {element} elements.",
            },
        )
        for name, element in _TYPES.items()
    }  # fmt: skip


CLASSES = classes("cpu")
