"""`UntypedStorage`: memory as bytes."""

from __future__ import annotations

import math
import sys
import weakref

import numpy
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

import plugrad
from plugrad import Tensor, no_grad
from plugrad.arguments import is_int
from plugrad.autograd.rare import copied_views
from plugrad.extend import from_raw, locked_if_shared

_living = weakref.WeakValueDictionary()  # id of the array that owns the memory -> its storage, which keeps the array


def memory_of(tensor) -> UntypedStorage:
    """Return the storage of a tensor; always the same object for the same memory."""
    tensor.data_ptr()  # puts elements whose order was open into the one that counts
    root = tensor._type.backend.storage(copied_views.behind(tensor._raw))
    known = _living.get(id(root))
    if known is None:
        known = object.__new__(UntypedStorage)
        known._bytes, known._root, known._lent = _as_bytes(root, tensor), root, True
        _living[id(root)] = known
    known._shared = _is_numpys(tensor)
    return known


def _is_numpys(tensor) -> bool:
    """Whether a living array of NumPy's is known to share the memory of a tensor, or of what it is the `.data` of."""
    while tensor is not None:
        base = tensor if tensor._base is None else tensor._base
        if any([handle() is not None for handle in getattr(base._view, "handles", None) or ()]):
            return True
        source = getattr(base, "_source", None)
        tensor = None if source is None else source()
    return False


def _as_bytes(root, tensor):
    """Return the memory of an array as a uint8 Tensor of one dimension that shares it."""
    if tensor.is_meta:
        return plugrad.empty(root.size * root.itemsize, dtype=plugrad.uint8, device="meta")
    flat = root.transpose(sorted(range(root.ndim), key=lambda d: -root.strides[d]))  # kernels choose their own order
    if flat.flags.c_contiguous:
        flat = flat.view(numpy.ndarray) if isinstance(flat, numpy.memmap) else flat
        return from_raw(flat.reshape(-1).view("uint8"))
    low, high = byte_bounds(root)  # an array with gaps, which somebody outside made
    first = root[tuple([slice(1) if step >= 0 else slice(n - 1, n) for n, step in zip(root.shape, root.strides)])]
    return from_raw(as_strided(first.reshape(-1)[:0].view("uint8"), (high - low,), (1,)))


def _size(value) -> int:
    """Return a number of bytes; RuntimeError for what is none."""
    if not is_int(value):
        raise RuntimeError(f"resize_ expects an int, but got {type(value).__name__}: write a number of bytes")
    value = int(value)
    if value < 0:
        raise RuntimeError(f"Storage size must not be negative, got {value}")
    if value >= 1 << 63:
        raise ValueError(f"Overflow when unpacking long long: a storage of {value} bytes")
    return value


def _byte_values(data) -> list:
    """Return the items of a sequence that a storage is to hold; RuntimeError for what is none, or not all ints."""
    start = "torch.UntypedStorage():"
    if isinstance(data, (Tensor, dict)) or not hasattr(type(data), "__len__") or not hasattr(type(data), "__getitem__"):
        raise RuntimeError(f"{start} Expected a sequence type, but got {type(data).__name__}: write [1, 2]")
    try:
        items = list(data)
    except Exception as error:  # of an object's own methods
        what = f"{start} Could not obtain the length of sequence of type {type(data).__name__}"
        raise RuntimeError(what) from error
    for item in items:
        if not isinstance(item, (int, numpy.integer)):
            what = f"one of the items was of type {type(item).__name__} instead of int"
            raise RuntimeError(
                f"{start} tried to construct a storage from a sequence ({type(data).__name__}), but {what}"
            )
    return items


_PRINTED = 1 << 20  # bytes that are shown of a storage


class UntypedStorage:
    """Memory as bytes.

    `UntypedStorage(size)` is new memory, `UntypedStorage([1, 2])` holds these bytes; `x.untyped_storage()` is the
    memory under a tensor, which writes to it change.

    >>> import plugrad as torch
    >>> x = torch.tensor([1, 2], dtype=torch.int16)
    >>> x.untyped_storage().tolist()
    [1, 0, 2, 0]
    >>> x[1:].untyped_storage() is x.untyped_storage()
    True
    """

    __module__ = "torch.storage"
    is_sparse = is_sparse_csr = is_hpu = False
    filename = None
    _shared = False

    def __init__(self, *args, device=None):
        if len(args) > 1:
            raise TypeError(f"UntypedStorage() takes a size or a sequence of bytes, got {len(args)} arguments")
        data = args[0] if args else 0
        if is_int(data):
            self._hold(plugrad.empty(_size(data), dtype=plugrad.uint8, device=device))
        else:
            self._hold(plugrad.tensor(_byte_values(data), dtype=plugrad.uint8, device=device))

    def _hold(self, memory):
        """Take a uint8 tensor for the memory, which nobody else has seen."""
        self._bytes, self._lent = memory, False
        self._root = memory._type.backend.storage(memory._raw)
        _living[id(self._root)] = self
        return self

    @classmethod
    def _of(cls, memory):
        return object.__new__(cls)._hold(memory)

    # ------------------------------------------------------------------------------------------ what it is

    device = property(lambda self: self._bytes.device, doc="Where the memory is.")
    is_cuda = property(lambda self: self._bytes.is_cuda, doc="Whether it is on a CUDA device.")
    is_cpu = property(lambda self: self._bytes.is_cpu, doc="Whether it is host memory.")
    _cdata = property(lambda self: id(self._root), doc="A number that is the same for the same memory.")

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._bytes.numel()

    size = __len__ = nbytes

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def element_size(self) -> int:
        """Return 1: the elements are bytes."""
        return 1

    def data_ptr(self) -> int:
        """Return the address of the first byte; 0 where there is none."""
        return self._bytes.data_ptr() if self.nbytes() and not self._bytes.is_meta else 0

    def get_device(self) -> int:
        """Return the number of the device, -1 for the CPU."""
        return self._bytes.get_device()

    def is_shared(self) -> bool:
        """Always False: memory is that of one process."""
        return False

    def is_pinned(self, device="cuda") -> bool:
        """Always False: host memory is never pinned."""
        return False

    def share_memory_(self):
        """Return the storage itself: there is no other process to share it with."""
        if self.device.type == "meta":
            raise RuntimeError("share_memory_: only available on CPU, not on the meta device, which has no memory")
        return self

    def _share_fd_cpu_(self, *args):
        self.share_memory_()
        raise NotImplementedError("memory of plugrad's is that of one process: send bytes(storage) to another one")

    _share_filename_cpu_ = _share_fd_cpu_

    def _write_file(self, file, is_real_file, save_size, element_size):
        content = bytes(self._bytes.cpu().numpy())
        if save_size:
            file.write((len(content) // element_size).to_bytes(8, "little"))
        file.write(content)

    def pin_memory(self, device="cuda"):
        """Return the storage itself: host memory is never pinned."""
        return self

    def resizable(self) -> bool:
        """Whether tensors that see the memory can get a longer one: not while an array of NumPy's shares it."""
        return not self._shared

    def untyped(self):
        """Return the storage itself."""
        return self

    def __repr__(self):
        content = "..."
        if not self._bytes.is_meta:
            first = self._bytes[:_PRINTED].tolist()  # of what is longer than anyone reads, the beginning
            content = "\n ".join([*map(str, first), *["..."] * (len(first) < self.nbytes())])
        return f" {content}\n[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"

    # ------------------------------------------------------------------------------------------ elements

    def _place(self, index):
        if not is_int(index):
            raise TypeError(f"can't index a {type(self).__qualname__} with {type(index).__name__}: use an int or slice")
        if isinstance(index, Tensor):
            raise TypeError(f"an index of {type(self).__qualname__} must be int or slice, not Tensor: write x.item()")
        if not -(1 << 63) <= index < 1 << 63:
            raise ValueError(f"Overflow when unpacking long long: {index} is no index of a storage")
        size = self.nbytes()
        if not -size <= index < size:
            raise IndexError(f"index {index} out of range for storage of size {size}")
        return index % size

    def __getitem__(self, index):
        if isinstance(index, slice):
            start, stop, step = index.indices(self.nbytes())
            if step != 1:
                raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
            part = object.__new__(type(self))
            part._bytes, part._root, part._lent = self._bytes[start : max(start, stop)], self._root, True
            return part
        self._readable()
        return self._bytes[self._place(index)].item()

    def __setitem__(self, index, value):
        if not isinstance(value, (int, numpy.integer)):
            raise RuntimeError(f"can only set storage content with a int types, but got {type(value).__name__} instead")
        if not isinstance(index, slice) and not is_int(index):
            raise RuntimeError(f"can't index a torch.UntypedStorage with {type(index).__name__}: use an int or slice")
        with no_grad():
            self._bytes[index if isinstance(index, slice) else self._place(index)] = value

    def __iter__(self):
        return iter(self.tolist())

    def _readable(self):
        if self._bytes.is_meta:
            raise NotImplementedError("Not available for 'meta' device type: it has no memory")

    def tolist(self) -> list:
        """Return the bytes as numbers."""
        self._readable()
        return self._bytes.tolist()

    def fill_(self, value):
        """Set every byte; return the storage."""
        if not isinstance(value, (int, numpy.integer)):
            raise RuntimeError(f"fill_ expects int, but got {type(value).__name__}: write a number from 0 to 255")
        with no_grad():
            self._bytes.fill_(value)
        return self

    def copy_(self, source, non_blocking=False):
        """Copy the bytes of another storage of the same size; return the storage."""
        if not hasattr(source, "untyped"):
            what = type(source).__name__
            raise TypeError(f"copy_(): argument 'source' must be torch.Storage, not {what}; write x.untyped_storage()")
        source = source.untyped()
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        with no_grad():
            self._bytes.copy_(source._bytes)
        return self

    def byteswap(self, dtype) -> None:
        """Reverse the order of bytes of each element of a dtype."""
        width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        with no_grad():
            rows = self._bytes[: self.nbytes() // width * width].view(-1, width)
            rows.copy_(rows.flip(1))

    def resize_(self, size):
        """Give the storage another number of bytes; return it.

        Those that stay keep their value. Raises NotImplementedError where tensors see the memory: they would have to
        move with it.
        """
        if self._lent:
            raise NotImplementedError(
                "resize_() of a storage that tensors see: an array of NumPy's can't grow or shrink under them. Write "
                "tensor.resize_(...), or tensor.set_(...) with a new storage"
            )
        if isinstance(size, Tensor):
            raise RuntimeError("resize_ expects an int, but got Tensor: write x.item()")
        size = _size(size)
        memory = plugrad.empty(size, dtype=plugrad.uint8, device=self.device)
        kept = min(size, self.nbytes())
        memory[:kept] = self._bytes[:kept]
        _living.pop(id(self._root), None)
        self._hold(memory)
        return self

    # ------------------------------------------------------------------------------------------ copies

    def clone(self):
        """Return a copy."""
        return self._of(self._bytes.clone())

    def new(self):
        """Return an empty storage on the same device."""
        return type(self)(device=self.device)

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = self._of(self._bytes.__deepcopy__(memo))  # shared with tensors that are copied together
        return memo[id(self)]

    def to(self, *, device, non_blocking=False):
        """Return the storage on a device."""
        moved = self._bytes.to(device)
        return self if moved is self._bytes else self._of(moved)

    def cpu(self):
        """Return the storage in host memory."""
        return self.to(device="cpu")

    def cuda(self, device=None, non_blocking=False):
        """Return the storage on a CUDA device."""
        return self.to(device="cuda" if device is None else device)

    def _to(self, dtype):
        return plugrad.storage.TypedStorage(wrap_storage=self, dtype=plugrad.uint8, _internal=True)._to(dtype)

    def type(self, dtype=None, non_blocking=False):
        """Return the name of the type."""
        if dtype is not None:
            raise TypeError("a storage without dtype has no other type: write torch.TypedStorage(wrap_storage=...)")
        return "torch.storage.UntypedStorage"

    def __reduce__(self):
        return _rebuild, (bytes(self._bytes.cpu().numpy()), str(self.device))

    @classmethod
    def from_buffer(cls, buffer, byte_order=None, count=-1, offset=0, *, dtype=None):
        """Return a storage with a copy of the bytes of a buffer.

        Args:
            buffer: bytes, or what has them.
            byte_order: "native", "little" or "big", in which the buffer's elements are.
            count: how many elements, -1 for all.
            offset: how many bytes to leave out.
            dtype: of the elements.
        """
        if dtype is None:
            raise TypeError("from_buffer(): the argument dtype= says how wide the buffer's elements are")
        if byte_order not in ("native", "little", "big") and dtype.itemsize > 1:
            raise ValueError(f"invalid byte_order {byte_order!r} (expected 'big', 'little', or 'native')")
        count = (len(memoryview(buffer).cast("B")) - offset) // dtype.itemsize if count < 0 else count
        memory = numpy.frombuffer(buffer, numpy.uint8, count * dtype.itemsize, offset).copy()
        storage = cls._of(from_raw(memory))
        if byte_order not in (None, "native", sys.byteorder):
            storage.byteswap(dtype)
        return storage

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """Return the bytes of a file as memory.

        With `shared` what is written goes to the file, which is made where it is not there.
        """
        if shared:
            with open(filename, "ab") as file:
                file.truncate(max(nbytes, file.tell()))
        size = (nbytes,) if nbytes else None
        mapped = numpy.memmap(filename, numpy.uint8, "r+" if shared else "c", shape=size)
        storage = cls._of(plugrad.from_numpy(numpy.asarray(mapped)))
        storage.filename = str(filename) if shared else None
        return storage


def _sequence(data):
    if isinstance(data, str) or not hasattr(type(data), "__len__") or not hasattr(type(data), "__getitem__"):
        raise TypeError(f"new(): invalid data type {type(data).__name__!r}: write a size, or a sequence of numbers")
    return data if isinstance(data, (list, tuple, numpy.ndarray)) else list(data)


def _rebuild(content, place):
    memory = from_raw(numpy.frombuffer(content, numpy.uint8).copy())
    return UntypedStorage._of(memory.to(place))


def tensor_over(storage, dtype, offset=0, size=None, stride=None):
    """Return a tensor of a dtype over a storage, by default over all of it.

    Offset and strides are in elements. A layout that needs more memory gets a bigger copy of the storage, as
    PyTorch's storage would grow.
    """
    storage, width = storage.untyped(), dtype.itemsize
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    if size is None:
        size = (storage.nbytes() // width - offset,)
    if stride is None:
        stride = [math.prod([max(n, 1) for n in size[d + 1 :]]) for d in range(len(size))]
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(stride)} and {len(size)}")
    if min(stride, default=0) < 0:
        raise RuntimeError(f"Tensor: negative strides are not supported, got {list(stride)}")
    last = 0 if 0 in size else offset + 1 + sum([(n - 1) * step for n, step in zip(size, stride)])
    memory = storage._bytes
    if last * width > memory.numel():
        grown = plugrad.zeros(last * width, dtype=plugrad.uint8, device=storage.device)
        grown[: memory.numel()] = memory
        memory = grown
    storage._lent = True
    flat = memory._raw[: memory.numel() // width * width].view(dtype.numpy)
    start = flat[offset:] if last else flat[:0]
    strided = memory._type.xp.lib.stride_tricks.as_strided(start, tuple(size), [step * width for step in stride])
    return from_raw(locked_if_shared(strided))


CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64",
    "int": "int32", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
    "complex_double": "complex128", "complex_float": "complex64",
}  # fmt: skip


def install_casts(cls) -> None:
    """Give a class of storages the methods `float()`, `long()`... that return their elements as another dtype."""
    for name, target in CASTS.items():

        def method(self, _target=target):
            return self._to(getattr(plugrad, _target))

        method.__name__, method.__qualname__ = name, f"{cls.__name__}.{name}"
        method.__doc__ = f"Return the elements as numbers of `{target}`, in a storage of that dtype."
        setattr(cls, name, method)


install_casts(UntypedStorage)
