"""Tensors from data: `tensor`, `as_tensor`, `from_numpy`..."""

from __future__ import annotations

import sys

import numpy

from plugrad.devices import dtypes
from plugrad.devices.device import device as _device
from plugrad.devices.device import resolve
from plugrad.errors import flag
from plugrad.graph import modes
from plugrad.registry.namespaces import lazy_names
from plugrad.tensor import inference, shared_memory
from plugrad.tensor.tensor import Tensor, make

_later, _ = lazy_names({"__name__": __name__}, None, {"arguments.data": "array_of converted copy_of made_by_modes"})


def new(array, ttype):
    """Return a tensor that was made from no tensor: an inference tensor while that mode is on."""
    tensor = make(array, ttype)
    return inference.mark(tensor) if modes.special and modes.mode.inference else tensor


def require_grad(tensor, requires_grad):
    """Have a new tensor require grad if that is wanted; return it."""
    if not flag("requires_grad", requires_grad):
        return tensor
    if not dtypes.is_differentiable(tensor._type.np):
        whose = f"this one is {tensor.dtype}: convert it first, as in x.float()"
        raise RuntimeError(f"Only Tensors of floating point and complex dtype can require gradients; {whose}")
    tensor._edge = None if tensor._type.rare else modes.LEAF  # no views are there yet that would have to know
    return tensor.requires_grad_()


def dtype_argument(dtype):
    """Return the dtype that a Python type means as an argument `dtype=`."""
    known = {float: dtypes.float64, int: dtypes.int64, bool: dtypes.bool, complex: dtypes.complex128}
    if not isinstance(dtype, type) or dtype not in known:
        raise TypeError(
            f"argument 'dtype' must be torch.dtype, not {type(dtype).__name__} ({dtype!r}); write torch.float32, ..."
        )
    return known[dtype]


_NUMBERS, _ROWS = frozenset({bool, int, float, complex}), frozenset({list, tuple, range})


def _infer(data, dtype=None):
    """Return nested data as a NumPy array with the dtype that PyTorch infers for it."""
    if isinstance(data, (numpy.ndarray, numpy.generic)):
        return numpy.array(data)
    if data.__class__ not in _NUMBERS and not (data.__class__ in _ROWS and _is_plain(data)):
        return _later("array_of")(data, dtype)
    try:
        array = numpy.array(data)
    except (OverflowError, ValueError):
        return _later("array_of")(data, dtype)
    kind = array.dtype.char
    if kind in "OLQ" or kind == "d" and array.size and numpy.maximum.reduce(array, None) >= 2.0**63:
        return _later("array_of")(data, dtype)
    if dtype is not None or not dtypes.is_differentiable(array.dtype):
        return array
    default = dtypes.get_default_dtype()
    return array.astype((default.to_complex() if dtypes.is_complex(array.dtype) else default).numpy)


def _is_plain(data, depth=0) -> bool:
    """Whether nested sequences hold Python's numbers alone, which NumPy takes as PyTorch does."""
    kinds = set(map(type, data[:1] if data.__class__ is range else data))
    if kinds <= _NUMBERS:
        return len(data) <= 1 << 32  # elements: more are too many for any memory
    return kinds <= _ROWS and depth < 128 and all(_is_plain(row, depth + 1) for row in data)


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """Return a new tensor with a copy of `data`: numbers, sequences, array or tensor.

    The dtype is inferred: Python floats give the default dtype, ints int64, bools bool; arrays keep theirs.

    >>> import plugrad as torch
    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    >>> torch.tensor(0.5)
    tensor(0.5000)
    """
    if modes.special and modes.mode.function_modes:
        options = {"dtype": dtype, "device": device, "requires_grad": requires_grad, "pin_memory": pin_memory}
        return _later("made_by_modes")(tensor, data, options)
    flag("pin_memory", pin_memory)
    if isinstance(data, Tensor):
        return require_grad(_later("copy_of")(data, dtype, device), requires_grad)
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        dtype = dtype_argument(dtype)
    if dtype in dtypes.EIGHT_BITS:
        return require_grad(tensor(data, device=device).to(dtype), requires_grad)
    array = _infer(data, dtype)
    dtypes.from_numpy(array.dtype)
    if dtype is not None and array.dtype != dtype.numpy:
        if dtype.is_complex or dtype.is_floating_point and not dtypes.is_complex(array.dtype):
            with numpy.errstate(all="ignore"):
                array = array.astype(dtype.numpy)
        else:
            array = _later("converted")(array, dtype, data)
    return require_grad(_place(array, device), requires_grad)


def _place(array, place):
    home = resolve(place)
    array = array if home.backend.name == "cpu" else home.put(array)
    return new(array, home.tensor_type(array.dtype))


def as_tensor(data, dtype=None, device=None):
    """Return `data` as a tensor, sharing memory and history unless it is converted.

    >>> import plugrad as torch
    >>> x = torch.ones(2)
    >>> torch.as_tensor(x) is x
    True
    """
    if modes.special and modes.mode.function_modes:
        return _later("made_by_modes")(as_tensor, data, {"dtype": dtype, "device": device})
    if isinstance(data, Tensor):
        return data.to(device if device is not None else data.device, dtype or data.dtype)
    if isinstance(data, numpy.ndarray) and (dtype is None or dtype.numpy == data.dtype):
        dtypes.from_numpy(data.dtype)
        result = _place(data.view(numpy.ndarray) if type(data) is not numpy.ndarray else data, device)
        return shared_memory.shared(result) if result._type.array_type is numpy.ndarray else result
    return tensor(data, dtype=dtype, device=device)


def from_numpy(ndarray):
    """Return a CPU tensor that shares the memory of a NumPy array.

    >>> import numpy, plugrad as torch
    >>> torch.from_numpy(numpy.array([1.0, 2.0]))
    tensor([1., 2.], dtype=torch.float64)
    """
    if ndarray.__class__ is not numpy.ndarray:
        if not isinstance(ndarray, numpy.ndarray):
            raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
        ndarray = ndarray.view(numpy.ndarray)  # of a memmap, or a matrix, for which `*` is another operation
    count = sys.getrefcount(ndarray)  # before a tensor holds it, too
    result = new(ndarray, _device("cpu").tensor_type(ndarray.dtype))
    return result if shared_memory.handed_over(ndarray, count) else shared_memory.shared(result)
