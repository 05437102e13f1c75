"""Tensors of what other libraries hold: `asarray`, `from_dlpack`, `frombuffer`."""

from __future__ import annotations

import numpy

import plugrad
from plugrad import Tensor, as_tensor, dtypes, from_numpy
from plugrad.arguments import checked
from plugrad.arguments.data import warn_of_read_only
from plugrad.errors import flag
from plugrad.extend import from_raw
from plugrad.interchange.dlpack import from_dlpack
from plugrad.overrides import seen_by_modes
from plugrad.storage import TypedStorage, UntypedStorage, tensor_over

__all__ = ["asarray", "from_dlpack", "frombuffer"]


@seen_by_modes
@checked(dtype="dtype?", device="device?", copy="bool?", requires_grad="bool?")
def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """Return an object (tensor, array, buffer, numbers, DLPack) as a tensor.

    Args:
        obj: the object; memory as a storage too.
        dtype: of the result; None keeps that of the object.
        device: of the result; None keeps that of the object.
        copy: True always copies, False never does (ValueError where it would have to), None where it must.
        requires_grad: whether the result requires grad; False ends a tensor's history, True keeps it, and None does
            as the object: a copy that was not recorded is a leaf that requires grad if the tensor does.

    >>> import plugrad as torch
    >>> torch.asarray([1.0, 2.0], requires_grad=True)
    tensor([1., 2.], requires_grad=True)
    """
    obj = _memory_of(obj, dtype)
    if copy is False:
        _check_alias(obj, dtype, device)
    if isinstance(obj, numpy.ndarray) and dtype is not None and obj.dtype != dtype.numpy:
        result = from_raw(numpy.asarray(obj)).to(device, dtype)
    else:
        result = as_tensor(obj, dtype=dtype, device=device)
    if copy and isinstance(obj, (Tensor, numpy.ndarray)) and result._raw is getattr(obj, "_raw", obj):
        result = result.clone()
    if requires_grad is None:
        requires_grad = isinstance(obj, Tensor) and obj.requires_grad
        if requires_grad is result.requires_grad and not (requires_grad and result.is_leaf):
            return result  # of other leaves a view without history gets a flag of its own
    return result.requires_grad_(requires_grad) if result.is_leaf or requires_grad else result.detach()


def _memory_of(obj, dtype):
    """A tensor over the memory of a storage, buffer or capsule, or of what has `__dlpack__`; else the object itself."""
    if isinstance(obj, (TypedStorage, UntypedStorage)):
        return tensor_over(obj.untyped(), dtype or getattr(obj, "dtype", plugrad.uint8))
    if isinstance(obj, (Tensor, numpy.ndarray, numpy.generic)):
        return obj
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        return from_dlpack(obj)
    if isinstance(obj, (bytes, bytearray, memoryview)):
        return frombuffer(obj, dtype=dtype or plugrad.get_default_dtype())
    return obj


def _check_alias(obj, dtype, device):
    """Raise the error of `copy=False` for what would have to be copied."""
    if isinstance(obj, numpy.generic):
        raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray.")
    if not isinstance(obj, (Tensor, numpy.ndarray)):
        raise ValueError("can't alias arbitrary sequence into a tensor; pass copy=None")
    tensor = obj if isinstance(obj, Tensor) else from_raw(numpy.asarray(obj))
    wanted = tensor.device if device is None else plugrad.device(device)
    if wanted != tensor.device:
        raise ValueError(f"can't alias tensor from device '{tensor.device}' to '{wanted}'; pass copy=None")
    if dtype is not None and dtype is not tensor.dtype:
        labels = tensor.dtype._label, dtype._label
        raise ValueError("can't alias tensor with dtype '{}' into dtype '{}'; pass copy=None".format(*labels))


def _check_buffer(buffer, size, count, offset):
    """Raise ValueError unless a buffer has `count` elements of `size` bytes, or with a negative count whole ones."""
    try:
        length = memoryview(buffer).nbytes
    except TypeError:
        what = "object does not implement Python buffer protocol."
        raise ValueError(f"{what} Give bytes, a bytearray or an array, not {type(buffer).__name__}") from None
    if not length or not count:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    rest = length - offset
    if count < 0 and rest % size:
        raise ValueError(
            f"buffer length ({rest} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})"
        )
    if count * size > rest:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({length} bytes)"
        )


@checked(count="int", offset="int")
def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """Return a 1-d tensor that shares the memory of a Python buffer.

    >>> import plugrad as torch
    >>> torch.frombuffer(bytearray([1, 2, 3]), dtype=torch.uint8, offset=1)
    tensor([2, 3], dtype=torch.uint8)
    """
    if not isinstance(dtype, dtypes.dtype):
        raise TypeError(f"frombuffer(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    requires_grad = flag("requires_grad", requires_grad)
    _check_buffer(buffer, dtype.numpy.itemsize, count, offset)
    array = numpy.frombuffer(buffer, dtype.numpy, count, offset)
    if array.flags.writeable:
        result = from_numpy(array)
    else:
        warn_of_read_only("buffer", "buffer")
        result = from_raw(array)
    return result.requires_grad_() if requires_grad else result
