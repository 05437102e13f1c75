"""PyTorch's older names: the types of tensors (`FloatTensor`...), `Variable`, `InplaceFunction`."""

from __future__ import annotations

import warnings

import numpy

import plugrad
from plugrad import (
    Size,
    Tensor,
    bfloat16,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    strided,
    uint8,
)
from plugrad import bool as bool_
from plugrad.autograd import Function
from plugrad.autograd.rare import callbacks
from plugrad.backends import warn_once
from plugrad.queries import is_storage

_DATA = (Tensor, Size, numpy.ndarray)


def from_arguments(args, dtype, place, *, same_dtype=False, **named):
    """Return what `Tensor(*args)` means: sizes give an uninitialised tensor, data a tensor of it.

    Args:
        args: sizes; or a sequence of numbers, a tensor or a storage.
        dtype: of the result; None: the default dtype, for a tensor its own.
        place: the device.
        same_dtype: whether a tensor has to have that dtype already.
        named: `data` in the place of `args`; anything else is an error.
    """
    if "data" in named and not args:
        args = (named.pop("data"),)
    if named:
        given = ", ".join([type(one).__name__ for one in args] + [f"{k}={type(v).__name__}" for k, v in named.items()])
        raise TypeError(
            f"new() received an invalid combination of arguments - got ({given}); write torch.tensor(data, ...), whose "
            "options are dtype, device and requires_grad"
        )
    if not same_dtype and place is not None and plugrad.device(place).type != "cpu":
        raise RuntimeError(
            f"legacy constructor expects device type: cpu but device type: {plugrad.device(place).type} was passed; "
            "write torch.tensor(..., device=...)"
        )
    if len(args) == 1 and (isinstance(args[0], _DATA) or not hasattr(args[0], "__index__")):
        data = args[0]
        if isinstance(data, Tensor):
            if same_dtype and data.dtype is not dtype:
                raise TypeError(f"new(): expected a tensor of {dtype}, not of {data.dtype}; write x.to(dtype)")
            if not same_dtype and place is not None:
                raise RuntimeError(
                    "Legacy tensor constructor of the form torch.Tensor(tensor, device=device) is not supported. Use "
                    "torch.tensor(...) or torch.as_tensor(...) instead."
                )
            return Tensor.as_subclass(data, Tensor)  # with its history
        if is_storage(data):
            return _over_storage(data, dtype or get_default_dtype())
        if not isinstance(data, Size):
            return _of_data(data, dtype or get_default_dtype(), place)
        args = tuple(data)
    elif not args:
        args = (0,)
    for position, size in enumerate(args, 1):
        if not hasattr(size, "__index__") or isinstance(size, bool):
            raise TypeError(
                f"new(): argument 'size' failed to unpack the object at pos {position} with error \"type must be tuple "
                f'of ints,but got {type(size).__name__}"'
            )
    return plugrad.empty(args, dtype=dtype, device=place)


def _of_data(data, dtype, place):
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}': a tensor holds numbers")
    if not hasattr(type(data), "__len__") or not hasattr(type(data), "__getitem__"):
        raise TypeError(f"new(): data must be a sequence (got {type(data).__name__}); write torch.tensor(...)")
    return plugrad.tensor(data, dtype=dtype, device=place)


def _over_storage(storage, dtype):
    if getattr(storage, "dtype", dtype) is not dtype:
        raise RuntimeError(
            f"Expected a Storage of type {dtype} or an UntypedStorage, but got type {storage.dtype} for argument 1 "
            "'storage'"
        )
    return plugrad.storage.tensor_over(storage, dtype)


class _TypedMeta(type):
    """`FloatTensor(...)` makes float32 tensors, and `isinstance(x, FloatTensor)` asks for the dtype."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and instance.device.type == cls.device_type

    def __call__(cls, *args, device=None):
        if cls.device_type == "cuda" and not plugrad.cuda.is_available():
            raise TypeError(f"type torch.cuda.{cls.__name__} not available. Torch not compiled with CUDA enabled.")
        return from_arguments(args, cls.dtype, cls.device_type if device is None else device, same_dtype=True)


def typed_classes(device_type: str) -> dict:
    """Return the classes `FloatTensor`, `LongTensor`... of one type of device, by name."""
    module = "torch" if device_type == "cpu" else f"torch.{device_type}"
    return {
        name: _TypedMeta(name, (), {
            "dtype": element, "device_type": device_type, "is_cuda": device_type == "cuda", "layout": strided,
            "__module__": module, "__doc__": f"Legacy type of {element!r} tensors.",
        })
        for name, element in _ELEMENTS.items()
    }  # fmt: skip


_ELEMENTS = {
    "FloatTensor": float32, "DoubleTensor": float64, "HalfTensor": float16, "LongTensor": int64, "IntTensor": int32,
    "ShortTensor": int16, "CharTensor": int8, "ByteTensor": uint8, "BoolTensor": bool_, "BFloat16Tensor": bfloat16,
}  # fmt: skip
globals().update(typed_classes("cpu"))


def type_named(name):
    """Return the class of a name such as 'torch.FloatTensor'; ValueError if there is none."""
    home, _, own = name.rpartition(".")
    if own not in _ELEMENTS or home not in ("torch", "torch.cuda"):
        raise ValueError(f"invalid type: {name!r}; write a dtype such as torch.float32")
    return getattr(plugrad if home == "torch" else plugrad.cuda, own)


def set_default_tensor_type(t) -> None:
    """Set the default dtype and device to those of a class.

    The class is such as `torch.DoubleTensor`, or its name. `set_default_dtype` and `set_default_device` are preferred.
    Raises TypeError for types of integers.

    >>> import warnings, plugrad as torch
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.set_default_tensor_type(torch.DoubleTensor)
    ...     torch.ones(1).dtype
    ...     torch.set_default_tensor_type("torch.FloatTensor")
    torch.float64
    """
    warn_once(
        "set_default_tensor_type",
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives.",
    )
    chosen = type_named(t) if isinstance(t, str) else t
    if type(chosen) is not _TypedMeta:
        raise TypeError(f"invalid type object: a {type(t).__name__}; write torch.FloatTensor or its name")
    if chosen.device_type == "cuda" and not plugrad.cuda.is_available():
        raise TypeError(f"type torch.cuda.{chosen.__name__} not available. Torch not compiled with CUDA enabled.")
    if not chosen.dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    plugrad.set_default_dtype(chosen.dtype)
    plugrad.set_default_device(None if chosen.device_type == "cpu" else chosen.device_type)


# Functions that PyTorch has given up, and what is written instead.
REMOVED = {
    "eig": "torch.linalg.eig(A), which returns complex tensors",
    "lstsq": "torch.linalg.lstsq(A, B): its arguments are the other way round, and it returns the residuals apart",
    "matrix_rank": "torch.linalg.matrix_rank(A)",
    "reinforce": "torch.distributions: loss = -distribution.log_prob(action) * reward; loss.backward()",
    "solve": "torch.linalg.solve(A, B): its arguments are the other way round, and it returns the solution alone",
    "symeig": "torch.linalg.eigh(A), or torch.linalg.eigvalsh(A), with UPLO='U' for the upper triangle",
}


def removed(name: str):
    """Return what stands for a function that is no more: it raises RuntimeError, which says what to write."""

    def gone(*args, **kwargs):
        raise RuntimeError(
            f"This function was deprecated since version 1.9 and is now removed. Instead of {name}(...) write "
            f"{REMOVED[name]}."
        )

    gone.__name__ = gone.__qualname__ = name
    gone.__doc__ = f"Raise RuntimeError: PyTorch has removed it.\n\nWrite {REMOVED[name]}."
    return gone


globals().update((_name, removed(_name)) for _name in REMOVED if _name != "reinforce")


class _VariableMeta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """The old name of tensors: `Variable(data, requires_grad=False)` returns a Tensor.

    `volatile=True` is accepted and ignored with a warning, as in PyTorch: use `no_grad()`.

    >>> import plugrad as torch
    >>> from plugrad.autograd import Variable
    >>> isinstance(torch.ones(2), Variable)
    True
    """

    _execution_engine = callbacks.ExecutionEngine()

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        if volatile is not None:
            warnings.warn(
                "volatile was removed (Variable.volatile is always False); use `with torch.no_grad():`", stacklevel=2
            )
        else:
            warnings.warn(
                "Variable(x) is the old name of a tensor: write x, or x.requires_grad_(); `plugrad migrate FILE` does",
                DeprecationWarning,
                stacklevel=2,
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
