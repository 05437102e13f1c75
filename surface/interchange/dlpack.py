"""DLPack both ways: memory on the CPU in NumPy's capsules, that of other devices in their arrays' own.

NumPy makes and reads capsules for the types that it knows. Of the others (bfloat16, floats of eight bits) it passes the
memory as unsigned integers of the same size, and the type is written into, or read from, the capsule here.
"""

from __future__ import annotations

import ctypes

import numpy

import plugrad
from plugrad import Tensor, as_tensor
from plugrad.arguments import is_int
from plugrad.extend import from_raw

_CPU, _CUDA, _PINNED, _ROCM, _MANAGED = 1, 2, 3, 10, 13  # DLPack's numbers of devices
_ON_CUDA = (_CUDA, _ROCM, _MANAGED)
# DLPack's (code, bits) of the types that NumPy's capsules don't have.
_CODES = {
    plugrad.bfloat16: (4, 16), plugrad.float8_e4m3fn: (10, 8), plugrad.float8_e4m3fnuz: (11, 8),
    plugrad.float8_e5m2: (12, 8), plugrad.float8_e5m2fnuz: (13, 8),
}  # fmt: skip
_TYPES = {code: dtype for dtype, code in _CODES.items()}
_UNSIGNED = 1


class _Array(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("array", _Array),
    ]  # fmt: skip


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def _array_in(capsule) -> _Array:
    """Return the description in a capsule, which can be written; RuntimeError for one that was used, or is another."""
    for name, struct in ((b"dltensor", _Array), (b"dltensor_versioned", _Versioned)):
        if _is_valid(capsule, name):
            inside = struct.from_address(_pointer(capsule, name))
            if struct is _Array:
                return inside
            if inside.version[0] > 1:
                version = "{}.{}".format(*inside.version)
                raise RuntimeError(f"from_dlpack(): the capsule is of DLPack {version}; versions up to 1.x are read")
            return inside.array
    raise RuntimeError(
        "from_dlpack received an invalid capsule. DLPack capsules can be consumed only once, so that you may have made "
        "a tensor of it already: pass the object itself"
    )


# ------------------------------------------------------------------------------------------------------- export


def __dlpack__(self, *, stream=-1, max_version=None, dl_device=None, copy=None):
    """Return a DLPack capsule over the tensor's memory, which it keeps alive.

    Args:
        stream: of CUDA, for tensors there: an int, None for the default one, -1 for none to wait for.
        max_version: the greatest version of DLPack that the caller reads; from (1, 0) on a capsule says whether its
            memory may be written.
        dl_device: where the memory is wanted, as in `__dlpack_device__`; (1, 0) is the CPU.
        copy: True always copies, False never does, None where it must.

    Raises BufferError for what a capsule can't hold: tensors that require grad, sparse and meta tensors.
    """
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self.layout is not plugrad.strided:
        raise BufferError("Can't export tensors with layout other than torch.strided, use tensor.to_dense()")
    if self.is_conj():
        raise BufferError("Can't export tensors with the conjugate bit set, use tensor.resolve_conj()")
    if self.is_meta:
        raise BufferError("Cannot pack tensors on meta: they have no data")
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if dl_device is not None and not (isinstance(dl_device, tuple) and all(map(is_int, dl_device))):
        raise TypeError(f"__dlpack__(): argument 'dl_device' must be tuple of ints, not {type(dl_device).__name__}")
    if copy is not None and type(copy) is not bool:
        raise TypeError(f"__dlpack__(): argument 'copy' must be bool or None, not {type(copy).__name__}")
    here = self.__dlpack_device__()
    if dl_device is not None and tuple(dl_device) != tuple(here):
        if copy is False:
            raise ValueError(f"cannot move DLPack tensor from device {here} to {tuple(dl_device)} without copying")
        if tuple(dl_device) != (_CPU, 0):
            raise BufferError(f"a tensor on {self.device} can't be exported to DLPack's device {tuple(dl_device)}")
        self, here, copy, stream = self.cpu(), (_CPU, 0), False, None
    if copy:
        self = self.clone()
    if here[0] != _CPU:
        return self._raw.__dlpack__(stream=None if stream == -1 else stream, max_version=max_version)
    if stream not in (None, -1):
        raise AssertionError("stream should be None on cpu.")
    code = _CODES.get(self.dtype)
    if code is not None:
        self = self.view(plugrad.uint16 if code[1] == 16 else plugrad.uint8)
    capsule = _writable(self.numpy()).__dlpack__(max_version=max_version)
    if code is not None:
        _array_in(capsule).code = code[0]
    return capsule


def __dlpack_device__(self):
    """Return DLPack's number of the tensor's kind of device, and which of them it is."""
    if self.is_meta:
        raise ValueError("Unknown device type meta for Dlpack")
    return (_CPU, 0) if self.device.type == "cpu" else tuple(self._raw.__dlpack_device__())


def _writable(array):
    """Return an array of the same memory that says what the memory is, not that its elements overlap.

    NumPy marks what was expanded as not to be written, and a capsule of before 1.0 can't say so.
    """
    owner = array
    while not owner.flags.writeable and isinstance(owner.base, numpy.ndarray):
        owner = owner.base
    return array if array.flags.writeable or not owner.flags.writeable else _unlocked(array)


def _unlocked(array):
    facts = array.__array_interface__
    return numpy.asarray(_Memory({**facts, "data": (facts["data"][0], False)}, array))


class _Memory:
    """What NumPy makes an array of: a description, and who keeps the memory alive."""

    def __init__(self, description, keeper):
        self.__array_interface__, self.keeper = description, keeper


# ------------------------------------------------------------------------------------------------------- import


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """Return a tensor that shares the memory of an object with DLPack support.

    Args:
        ext_tensor: the object, on the CPU or a CUDA device; or a capsule, which can be used once.
        device: where the tensor shall be; by default where the memory is.
        copy: True always copies, False never does (ValueError where it would have to), None where it must.

    Memory that may not be written comes without a warning, as in PyTorch: whoever writes to the tensor writes there.
    Raises BufferError for objects that refuse, RuntimeError for elements that no dtype has.

    >>> import numpy, plugrad as torch
    >>> torch.from_dlpack(numpy.ones(2, "float32"))
    tensor([1., 1.])
    """
    if type(ext_tensor).__name__ == "PyCapsule":
        if device is not None or copy is not None:
            raise AssertionError(
                "device and copy are not supported for a DLPack capsule: pass the object that it is of, or write "
                ".to(device) and .clone() behind"
            )
        return _of_capsule(ext_tensor)
    if not hasattr(type(ext_tensor), "__dlpack__"):
        raise RuntimeError(
            f"from_dlpack() takes objects with a method __dlpack__, which {type(ext_tensor).__name__} has not; write "
            "torch.as_tensor(...)"
        )
    place = ext_tensor.__dlpack_device__()
    if isinstance(ext_tensor, Tensor):
        if ext_tensor.is_meta or ext_tensor.requires_grad or ext_tensor.is_conj():
            ext_tensor.__dlpack__()  # says why not
        result = ext_tensor.detach()
    elif place[0] in (_CPU, _PINNED):
        result = _of_capsule(_capsule(ext_tensor))
    elif place[0] in _ON_CUDA:
        result = from_raw(_cupy(place[1]).from_dlpack(ext_tensor))
    else:
        raise BufferError(f"from_dlpack(): no device here has DLPack's number {tuple(place)}: copy it to the CPU")
    if device is not None and plugrad.device(device) != result.device:
        if copy is False:
            raise ValueError(
                f"cannot move DLPack tensor from {result.device} to {device} without copying. Set copy=None or "
                "copy=True."
            )
        return result.to(device)
    return result.clone() if copy else result


def _capsule(producer):
    """Ask for a capsule, of the new kind where the producer knows of it."""
    try:
        return producer.__dlpack__(max_version=(1, 1))
    except TypeError:
        return producer.__dlpack__()


def _of_capsule(capsule):
    description, is_older = _array_in(capsule), bool(_is_valid(capsule, b"dltensor"))
    place = tuple(description.device)
    dtype = _TYPES.get((description.code, description.bits)) if description.lanes == 1 else None
    kind = f"code {description.code} with {description.bits} bits in {description.lanes} lanes"
    if dtype is not None:
        description.code = _UNSIGNED
    if place[0] in _ON_CUDA:
        reader = _cupy(place[1])
    elif place[0] in (_CPU, _PINNED):
        reader, place = numpy, (_CPU, 0)
    else:
        raise BufferError(f"from_dlpack(): no device here has DLPack's number {place}: copy it to the CPU")
    try:
        array = reader.from_dlpack(_Capsule(capsule, place))
    except (BufferError, RuntimeError) as error:
        raise RuntimeError(f"from_dlpack(): no tensor can hold elements of DLPack's type {kind}: {error}") from None
    if is_older and reader is numpy:  # which can't say whether it may be written; NumPy takes that for a no
        array = _unlocked(array)
    tensor = as_tensor(array) if reader is numpy and array.flags.writeable else from_raw(array)
    return tensor if dtype is None else tensor.view(dtype)


def _cupy(index):
    """Return the array module of a CUDA device, by its number."""
    return plugrad.empty(0, device=plugrad.device("cuda", index))._type.xp


class _Capsule:
    """What NumPy or CuPy asks for the memory in a capsule, and for where that is."""

    def __init__(self, capsule, place):
        self.capsule, self.place = capsule, place

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return self.place
