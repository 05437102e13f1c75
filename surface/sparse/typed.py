"""PyTorch's older types of sparse tensors: `torch.sparse.FloatTensor(indices, values, size)`."""

from __future__ import annotations

import warnings

import plugrad
from plugrad import Tensor
from plugrad.sparse.creation import sparse_coo_tensor
from plugrad.sparse.tensors import LAYOUTS

__all__ = [
    "BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor",
    "LongTensor", "ShortTensor",
]  # fmt: skip


class _TypedMeta(type):
    """`FloatTensor(...)` makes sparse tensors, and `isinstance(x, FloatTensor)` asks for layout and dtype."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and instance.layout is cls.layout

    def __call__(cls, *args, device=None):
        warnings.warn(
            f"torch.sparse.{cls.__name__}(indices, values, shape, *, device=) is deprecated.  Please use "
            "torch.sparse_coo_tensor(indices, values, shape, dtype=, device=).",
            stacklevel=2,
        )
        if args and isinstance(args[0], Tensor):
            if len(args) not in (2, 3) or not isinstance(args[1], Tensor):
                raise TypeError(f"{cls.__name__}() takes (indices, values), (indices, values, size) or sizes")
            if args[0].dtype is not plugrad.int64:
                raise RuntimeError("indices must be an int64 tensor")
            return sparse_coo_tensor(*args, device=device)
        size = args[0] if len(args) == 1 and isinstance(args[0], plugrad.Size) else args or (0,)
        if not all(hasattr(one, "__index__") for one in size):
            raise TypeError(f"{cls.__name__}() takes (indices, values), (indices, values, size) or sizes")
        return sparse_coo_tensor(tuple(size), dtype=cls.dtype, device=device)


def _named(name):
    return _TypedMeta(name, (), {
        "dtype": getattr(plugrad, name).dtype, "is_cuda": False, "layout": LAYOUTS["sparse_coo"],
        "__module__": "torch.sparse", "__doc__": f"Legacy type of sparse tensors, as torch.{name} is of dense ones.",
    })  # fmt: skip


(BFloat16Tensor, ByteTensor, CharTensor, DoubleTensor, FloatTensor, HalfTensor, IntTensor, LongTensor,
 ShortTensor) = map(_named, __all__)  # fmt: skip
