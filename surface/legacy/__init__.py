"""PyTorch's older names: the types of tensors (`FloatTensor`...), `Variable`, `InplaceFunction`."""

from __future__ import annotations

import warnings

from plugrad import Tensor, bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8
from plugrad import bool as bool_
from plugrad.autograd import Function


class _TypedMeta(type):
    """`FloatTensor(...)` makes float32 tensors, and `isinstance(x, FloatTensor)` asks for the dtype."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and not instance.is_cuda

    def __call__(cls, *args, device=None):
        data = args[0] if len(args) == 1 else 0  # else sizes
        if isinstance(data, Tensor) and data.dtype is not cls.dtype:
            raise TypeError(f"{cls.__name__}() takes a tensor of {cls.dtype}, not of {data.dtype}; write x.to(dtype)")
        if not isinstance(data, (int, Tensor)) and not hasattr(type(data), "__len__"):
            raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
        return Tensor._from_arguments(args, cls.dtype, device)


for _name, _element in {
    "FloatTensor": float32, "DoubleTensor": float64, "HalfTensor": float16, "LongTensor": int64, "IntTensor": int32,
    "ShortTensor": int16, "CharTensor": int8, "ByteTensor": uint8, "BoolTensor": bool_, "BFloat16Tensor": bfloat16,
}.items():  # fmt: skip
    _doc = f"Legacy type of {_element!r} tensors."
    globals()[_name] = _TypedMeta(_name, (), {"dtype": _element, "__module__": "torch", "__doc__": _doc})


class _VariableMeta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """The old name of tensors: `Variable(data, requires_grad=False)` returns a Tensor.

    `volatile=True` is accepted and ignored with a warning, as in PyTorch: use `no_grad()`.

    >>> import plugrad as torch
    >>> from plugrad.autograd import Variable
    >>> Variable(torch.ones(2), requires_grad=True).requires_grad
    True
    """

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        if volatile is not None:
            warnings.warn(
                "volatile was removed (Variable.volatile is always False); use `with torch.no_grad():`", stacklevel=2
            )
        data = Tensor() if data is None else data
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad and not volatile)


class InplaceFunction(Function):
    """The old base of Functions with an `inplace` argument."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace
        if inplace:
            warnings.warn("InplaceFunction is the old style; mark inputs with ctx.mark_dirty instead", stacklevel=2)
