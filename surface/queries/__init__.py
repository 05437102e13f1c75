"""What a program asks about values: `is_tensor`, `is_storage`, `typename`, `result_type`, `broadcast_shapes`."""

from __future__ import annotations

import functools

import numpy

import plugrad
from plugrad import Size, Tensor, dtypes, extend
from plugrad.overrides import overridable
from plugrad.overrides.asked import asks_for_all

__all__ = ["broadcast_shapes", "is_storage", "is_tensor", "result_type", "typename"]


def _of_tensors(name):
    """Return a method of Tensor as a function, which checks that it is given a tensor."""
    method = getattr(Tensor, name)

    @functools.wraps(method)
    def function(input, *args, **kwargs):
        if isinstance(input, Tensor) and not (type(input) is not Tensor and asks_for_all(input)):
            return method(input, *args, **kwargs)
        if plugrad.overrides.has_torch_function((input, *args)):
            return plugrad.overrides.handle_torch_function(function, (input, *args), input, *args, **kwargs)
        raise TypeError(f"{name}(): an argument must be a Tensor, not {type(input).__name__}")

    function.__asks__ = True
    return function


_METHODS = (
    "detach", "detach_", "get_device", "is_complex", "is_conj", "is_floating_point", "is_inference", "is_neg",
    "is_nonzero", "is_same_size", "is_signed", "numel",
)  # fmt: skip
globals().update((name, _of_tensors(name)) for name in _METHODS)
__all__ += _METHODS


def is_tensor(obj):
    """Whether an object is a Tensor.

    >>> import plugrad as torch
    >>> torch.is_tensor(torch.ones(2)), torch.is_tensor([1.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj):
    """Whether an object is a storage: the memory under a tensor.

    >>> import plugrad as torch
    >>> torch.is_storage(torch.ones(2).untyped_storage()), torch.is_storage(torch.ones(2))
    (True, False)
    """
    return getattr(type(obj), "__module__", None) == "torch.storage" and isinstance(
        obj, (plugrad.UntypedStorage, plugrad.TypedStorage)
    )


def typename(obj):
    """Return the name of an object's type; of a tensor such as 'torch.FloatTensor'."""
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None)
    if getattr(plugrad, named.__name__, None) is named:
        return f"torch.{named.__name__}"  # under the name that its repr has, too
    return named.__qualname__ if module in (None, "builtins") else f"{module}.{named.__qualname__}"


@overridable
def result_type(tensor1, tensor2):
    """Return the dtype that an op on two operands (tensors or numbers) would give.

    >>> import plugrad as torch
    >>> torch.result_type(torch.ones(2, dtype=torch.int32), 1.0)
    torch.float32
    """
    described = []
    for operand in (tensor1, tensor2):
        if isinstance(operand, Tensor):
            described.append((operand.dtype, "dim" if operand.ndim else "zero"))
        else:
            operand = operand.item() if isinstance(operand, numpy.generic) else operand
            if not isinstance(operand, (int, float, complex)):
                wrong = type(operand).__name__
                raise TypeError(f"result_type(): an argument must be a Tensor or Number, not {wrong}")
            kind = next(kind for kind in (bool, int, float, complex) if isinstance(operand, kind))
            described.append((dtypes.SCALAR[kind], "scalar"))
    return dtypes.result_type(*described)


def broadcast_shapes(*shapes):
    """Return the shape that the shapes broadcast to; RuntimeError when they don't fit.

    >>> import plugrad as torch
    >>> torch.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    for shape in shapes:
        sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
        if not all(isinstance(n, int) for n in sizes):
            raise RuntimeError(f"shapes are ints or tuples of ints, got {type(shape).__name__}: write (2, 3)")
        if any(n < 0 for n in sizes):
            raise ValueError(f"Attempting to broadcast a dimension with negative length! The shape is {shape}")
    return Size(extend.broadcast_shapes(*[tuple(s) if isinstance(s, (tuple, list)) else (s,) for s in shapes]))
