"""Tensors of what other libraries hold: `asarray`, `from_dlpack`, `frombuffer`."""

from __future__ import annotations

import numpy

import plugrad
from plugrad import Tensor, as_tensor, dtypes, from_numpy
from plugrad.arguments import checked
from plugrad.errors import flag
from plugrad.storage import TypedStorage, UntypedStorage, tensor_over

__all__ = ["asarray", "from_dlpack", "frombuffer"]


@checked(dtype="dtype?", device="device?", copy="bool?", requires_grad="bool?")
def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """Return an object (tensor, array, buffer, numbers, DLPack) as a tensor.

    Args:
        obj: the object; memory as a storage too.
        dtype: of the result; None keeps that of the object.
        device: of the result; None keeps that of the object.
        copy: True always copies, False never does (ValueError where it would have to), None where it must.
        requires_grad: whether the result requires grad, as a leaf; None keeps a tensor's history.

    >>> import plugrad as torch
    >>> torch.asarray([1.0, 2.0], requires_grad=True)
    tensor([1., 2.], requires_grad=True)
    """
    if isinstance(obj, (TypedStorage, UntypedStorage)):
        obj = tensor_over(obj.untyped(), dtype or getattr(obj, "dtype", plugrad.uint8))
    if not isinstance(obj, (Tensor, numpy.ndarray, numpy.generic)) and hasattr(obj, "__dlpack__"):
        obj = from_dlpack(obj)
    result = as_tensor(obj, dtype=dtype, device=device)
    shared = isinstance(obj, (Tensor, numpy.ndarray)) and result._data is getattr(obj, "_data", obj)
    if copy and shared:
        result = result.clone()
    if copy is False and not shared:
        raise ValueError("can't alias the object: it would have to be copied; pass copy=None")
    if requires_grad is None:
        return result
    return (result if result.is_leaf else result.detach()).requires_grad_(requires_grad)


def from_dlpack(ext_tensor):
    """Return a tensor that shares the memory of any object with DLPack support.

    >>> import numpy, plugrad as torch
    >>> torch.from_dlpack(numpy.ones(2, "float32"))
    tensor([1., 1.])
    """
    if isinstance(ext_tensor, Tensor) and not ext_tensor.requires_grad:
        return ext_tensor.detach()
    if not hasattr(type(ext_tensor), "__dlpack__"):
        raise RuntimeError(
            f"from_dlpack() takes objects with a method __dlpack__, which {type(ext_tensor).__name__} has not; write "
            "torch.as_tensor(...)"
        )
    return from_numpy(numpy.from_dlpack(ext_tensor))


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
    try:
        memoryview(buffer)
    except TypeError:
        raise ValueError(f"{type(buffer).__name__} does not implement Python buffer protocol") from None
    result = from_numpy(numpy.frombuffer(buffer, dtype.numpy, count, offset))
    return result.requires_grad_() if requires_grad else result
