"""How tensors meet Python and NumPy: conversion to numbers and arrays, iteration, printing, assignment by index."""

from __future__ import annotations

import numpy

from plugrad.devices import dtypes
from plugrad.errors import flag
from plugrad.graph import rare
from plugrad.graph.modes import mode
from plugrad.tensor import shared_memory, views
from plugrad.tensor.layouts import lay_out


class Protocols:
    """The part of Tensor that Python, NumPy and DLPack talk to."""

    __slots__ = ()

    def item(self):
        """Return the only element as a Python number."""
        if self._raw.size != 1:
            raise RuntimeError(f"a Tensor with {self._raw.size} elements cannot be converted to Scalar")
        return rare.item_of(self) if self._type.symbolic else self._host().item()

    def tolist(self):
        """Return the elements as nested lists of Python numbers."""
        return self._host().tolist()

    def _host(self) -> numpy.ndarray:
        views.copies and rare.follow_copy(self)
        data = self._type.backend.to_numpy(self._raw)
        return data if dtypes.is_native(data.dtype) else data.astype(numpy.float32)

    def numpy(self, *, force=False) -> numpy.ndarray:
        """Return the tensor as a NumPy array that shares its memory.

        With `force` detached and copied to the CPU.
        """
        array = self._shared(flag("force", force))
        if views.copies and rare.follow_copy(self):
            return rare.lent(self, force)
        if array is not self._raw:
            return array
        del array  # so that it does not count among those who hold the memory
        return shared_memory.export(self)

    def _shared(self, force=False):
        if not force:
            if self._live_edge() is not None and mode.grad:
                raise RuntimeError(
                    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
                )
            if self._type.device.type != "cpu":
                raise TypeError(
                    f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
                    "host memory first."
                )
        if self._type.dtype is dtypes.bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16; convert it first: x.float().numpy()")
        return self._type.backend.to_numpy(lay_out(self)._raw)

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"a tensor of {self.dtype} can be of {dtype} only as a copy: leave copy=False out")
            return array.astype(dtype)
        return array.copy() if copy else array

    __array_priority__ = 1000

    def __len__(self):
        if not self._raw.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._raw.shape[0]

    def __bool__(self):
        if self._raw.size != 1:
            if not self._raw.size:
                raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous; use .any() or .all()")
        return bool(self.item())

    def _number(self, number):
        if self._raw.size != 1:
            raise ValueError(
                "only one element tensors can be converted to Python scalars, and this one has "
                f"{self._raw.size} elements; for a list write .tolist()"
            )
        value = self.item()
        if number is not complex and isinstance(value, complex):
            if value.imag:
                raise RuntimeError(f"value cannot be converted to {number.__name__} without losing its imaginary part")
            value = value.real
        return number(value)

    def __float__(self):
        return self._number(float)

    def __int__(self):
        return self._number(int)

    def __complex__(self):
        return self._number(complex)

    def __index__(self):
        if self._raw.size != 1 or not dtypes.is_integral(self._raw.dtype):
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __iter__(self):
        if not self._raw.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, element):
        if isinstance(element, (Protocols, int, float, complex, numpy.number)):
            return bool((self == element).any())
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")

    def __delitem__(self, index):
        raise TypeError("Tensor does not support deleting items; write torch.cat(...) of what is to stay")

    __hash__ = object.__hash__

    def __format__(self, spec):
        if not self._raw.ndim and not self._type.symbolic:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __repr__(self, *, tensor_contents=None):
        from plugrad.printing import tensor_str

        return tensor_str(self, default_dtype_name=dtypes.get_default_dtype().name, contents=tensor_contents)

    def __reversed__(self):
        return self.flip(0) if self._raw.ndim else self
