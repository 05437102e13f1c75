"""What a tensor tells about itself: shape, strides, dtype, device, flags."""

from __future__ import annotations

import reprlib
from functools import partial
from operator import index

import numpy

from plugrad import needs
from plugrad.tensor import layouts
from plugrad.tensor.layouts import channels_last, channels_last_3d, is_packed, lay_out, strided
from plugrad.tensor.shapes import axes


class Size(tuple):
    """A shape: a tuple of ints that also counts its elements."""

    __slots__ = ()

    def __new__(cls, sizes=()):
        try:
            return _size([+n if isinstance(n, int) else index(n) for n in tuple(sizes)])
        except TypeError:
            raise TypeError(f"torch.Size() takes an iterable of 'int', not {reprlib.repr(sizes)}") from None

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape."""
        total = 1
        for n in self:
            total *= n
        return total

    def __repr__(self):
        return f"torch.Size([{', '.join(map(repr, self))}])"

    def __getitem__(self, item):
        part = tuple.__getitem__(self, item)
        return _size(part) if isinstance(item, slice) else part

    def __add__(self, other):
        if isinstance(other, tuple):
            return Size(tuple.__add__(self, other))
        if hasattr(type(other), "__radd__"):
            return NotImplemented
        kind = type(other).__name__
        raise TypeError(f"can only concatenate tuple (not {kind}) to torch.Size; write size + tuple(...)")

    def __radd__(self, other):
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times):
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self):  # by a function, since the class is called torch.Size under `plugrad run`
        return _resized, (tuple(self),)


def _resized(sizes):
    return Size(sizes)


_size = partial(tuple.__new__, Size)  # of what is known for ints


def _op_property(name: str, doc: str, assigned=False):
    """Return a property that runs an op on the tensor, whose result can be assigned to."""
    set_part = (lambda self, value: needs.op(name).function(self).copy_(value)) if assigned else None
    return property(lambda self: needs.op(name).function(self), set_part, doc=doc)


def _matrix_property(name, op, *args, where="matrices or batches of matrices", doc):
    """Return a property that runs an op on a tensor of matrices."""

    def matrices(self):
        ndim = self._raw.ndim
        if ndim == 1 or ndim > 2 and name == "H":
            instead = " For batches of matrices, consider using tensor.mH" if ndim > 2 else ""
            raise RuntimeError(f"tensor.{name} is only supported on {where}. Got {ndim}-D tensor.{instead}")
        return needs.op(op).function(self, *args) if ndim or name != "mT" else self

    return property(matrices, doc=doc)


class Description:
    """The part of Tensor that describes it."""

    __slots__ = ()

    T = property(
        lambda self: needs.op("permute").function(self, *range(self._raw.ndim - 1, -1, -1) or ((),)),
        doc="The tensor with its dimensions in reverse order.",
    )
    mT = _matrix_property("mT", "transpose", -2, -1, doc="The transpose of each matrix in the last two dimensions.")
    H = _matrix_property("H", "adjoint", where="matrices (2-D tensors)", doc="The conjugate transpose of a matrix.")
    mH = _matrix_property("mH", "adjoint", doc="The conjugate transpose of each matrix in the last two dimensions.")
    real = _op_property("real", "The real part; a view.", assigned=True)
    imag = _op_property("imag", "The imaginary part of a complex tensor; a view.", assigned=True)

    @property
    def shape(self) -> Size:
        """The size of each dimension."""
        return _size(self._raw.shape)

    def size(self, dim=None):
        """Return the shape, or the size of one dimension."""
        if dim is None:
            return _size(self._raw.shape)
        if dim.__class__ is bool:
            raise TypeError("size(): argument 'dim' (position 1) must be int, not bool")
        if not self._raw.ndim:
            axes(dim, 0)
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        return self._raw.shape[axes(dim, self._raw.ndim)]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._raw.ndim

    @property
    def dtype(self):
        """The type of the elements."""
        return self._type.dtype

    @property
    def device(self):
        """Where the tensor lives."""
        return self._type.device

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._raw.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._raw.size * self._raw.itemsize

    @property
    def layout(self):
        """Always `strided`."""
        return strided

    volatile = is_mtia = is_maia = is_mps = is_xpu = is_xla = is_ipu = is_hpu = is_vulkan = False
    name = None
    is_sparse = is_quantized = is_mkldnn = is_nested = is_sparse_csr = False
    names = property(lambda self: (None,) * self._raw.ndim)
    is_cpu = property(lambda self: self._type.device.type == "cpu", doc="Whether the tensor is in host memory.")
    is_cuda = property(lambda self: self._type.device.type == "cuda", doc="Whether the tensor is on a CUDA device.")
    is_meta = property(lambda self: self._type.device.type == "meta", doc="Whether the tensor has no data.")

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self._raw.ndim

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements."""
        return Size.numel(self._raw.shape)

    nelement = numel

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return self._raw.itemsize

    def stride(self, dim=None):
        """Return the step between elements, in elements, of all dimensions or of one."""
        if dim.__class__ is bool:
            raise TypeError("stride(): argument 'dim' (position 1) must be int, not bool")
        data = lay_out(self)._raw
        size, shape = data.itemsize, data.shape
        steps = [step // size for step in data.strides]
        # NumPy leaves open the strides of new empty arrays and dimensions of size 1: PyTorch's go by what is behind.
        if 0 in steps and (0 in shape or 1 in shape):
            empty, after = 0 in shape and not any(steps), 1
            for i in range(len(shape) - 1, -1, -1):
                steps[i] = after if empty or shape[i] == 1 and not steps[i] else steps[i]
                after = steps[i] * max(shape[i], 1)
        return tuple(steps) if dim is None else steps[dim]

    def storage_offset(self) -> int:
        """Return where in its storage the first element is, in elements."""
        storage = self._type.backend.storage(lay_out(self)._raw)
        return (_address(lay_out(self)._raw) - _address(storage)) // self._raw.itemsize

    def data_ptr(self) -> int:
        """Return the address of the first element; 0 where there is none."""
        data = lay_out(self)._raw
        return _address(data) if data.size else 0

    def is_contiguous(self, memory_format=None) -> bool:
        """Whether the elements lie in row-major order, or in that of a memory format."""
        if memory_format is not None and not isinstance(memory_format, layouts.memory_format):
            kind = type(memory_format).__name__
            raise TypeError(f"is_contiguous(): argument 'memory_format' must be torch.memory_format, not {kind}")
        data = lay_out(self)._raw
        asks_channels = memory_format is channels_last or memory_format is channels_last_3d
        return is_packed(data, memory_format) if asks_channels else bool(data.flags.c_contiguous)

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating point one."""
        return self._type.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self._type.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype can hold negative numbers."""
        return self._type.dtype.is_signed

    def is_nonzero(self) -> bool:
        """Whether the only element is not zero."""
        return bool(self)

    def is_same_size(self, other) -> bool:
        """Whether the other tensor has the same shape."""
        if not isinstance(other, Description):
            raise TypeError(f"is_same_size(), is_set_to(): argument 'other' must be Tensor, not {type(other).__name__}")
        return self._raw.shape == other._raw.shape

    def get_device(self) -> int:
        """Return the number of the device, -1 for the CPU."""
        index = self._type.device.index
        return -1 if index is None else index


def _address(array) -> int:
    if isinstance(array, numpy.ndarray):
        return array.ctypes.data
    return array.data.ptr if hasattr(array, "data") and hasattr(array.data, "ptr") else id(array)
