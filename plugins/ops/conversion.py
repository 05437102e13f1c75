"""Conversion between dtypes and devices: `to`, `type`, `float`, `cpu`..."""

from __future__ import annotations

import plugrad
from plugrad.extend import LEFT_OUT, Op, collect, composite, hookimpl, op, type_of

from ._checks import BOOL_OR_COMPLEX, converted, dtype_word
from ._memory_formats import empty_in_order, has, preserves


@op(at=(), node="ToCopyBackward0", eight_bits=True)
def to_copy(xp, input, dtype):
    """A copy with another element type; complex to real drops the imaginary part."""
    if input.dtype.kind == "c" and dtype.kind not in BOOL_OR_COMPLEX:
        input = input.real
    if dtype.itemsize == 1 and dtype.kind in "Vf":
        input = converted(xp, input, dtype)
    if 0 not in input.strides:  # what has no dimensions may be a scalar of NumPy's
        return type_of(input).backend.cast(input, dtype) if input.ndim else input.astype(dtype)
    copy = empty_in_order(xp, input, dtype)
    copy[...] = input
    return copy


@to_copy.vjp
def to_copy_vjp(F, g):
    return g  # the engine casts it to the dtype of the input


@to_copy.meta
def to_copy_meta(input, dtype):
    return input.shape, dtype, [input]


@to_copy.samples
def to_copy_samples(make):
    yield make.args(make(2, 3), plugrad.float64)


def _parse(args, dtype, device):
    """Read the positional arguments of `to`: a dtype, a tensor whose both are meant, or a device and a dtype; flags."""
    first, flags = args[0], args[1:]
    if isinstance(first, plugrad.Tensor):
        given = {"dtype": first.dtype, "device": first.device}
    elif _is_dtype(first):
        given = {"dtype": plugrad.empty(0, dtype=first).dtype, "device": None}
    else:
        given = {"device": first}
        if flags and dtype is None:
            given["dtype"], flags = flags[0], flags[1:]
            _check(args, given["dtype"] is None or _is_dtype(given["dtype"]))
            if given["dtype"] is not None:
                given["dtype"] = plugrad.empty(0, dtype=given["dtype"]).dtype
        _check(args, first is None or isinstance(first, (str, int, plugrad.device)) and not isinstance(first, bool))
    named = {"dtype": dtype, "device": device}
    _check(args, not any([named[name] is not None for name in given]))
    _check(args, len(flags) <= 2 and all([isinstance(flag, bool) for flag in flags]))
    named.update(given)
    return named["dtype"], named["device"], flags


def _is_dtype(value):
    return isinstance(value, plugrad.dtype) or any([value is one for one in (float, int, bool, complex)])


def _check(args, right):
    if not right:
        got = ", ".join(type(one).__name__ for one in args)
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({got}): write to(dtype), to(other) or "
            "to(device, dtype), then non_blocking and copy; what is given so is not named again"
        )


@composite(at=("Tensor.to",), variadic="args")
def to(F, input, args=LEFT_OUT, *, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
    """Return the tensor with another dtype, device or memory format.

    It is the tensor itself when nothing changes and not `copy`.

    >>> import plugrad as torch
    >>> torch.ones(2).to(torch.int64)
    tensor([1, 1])
    """
    if isinstance(args, list) or isinstance(args, tuple) and len(args) == 1 and not hasattr(args[0], "__index__"):
        _check((args,), False)  # given as a sequence
    if args == ():
        _check((args,), False)
    args = () if args is LEFT_OUT else args if isinstance(args, tuple) else (args,)
    if len(args) == 1 and args[0] is input.dtype and dtype is None and device is None and memory_format is None:
        return F.clone(input) if copy else input
    if args:
        dtype, device, flags = _parse(args, dtype, device)
        copy = copy or len(flags) > 1 and flags[1]
    result = input
    if device is not None:
        place = plugrad.device(device)
        if place.index is None and place.type == input.device.type:
            place = input.device
        if place is not input.device:
            result = result._transfer(place)
    if isinstance(dtype, type):  # one of Python's
        dtype = plugrad.empty(0, dtype=dtype).dtype
    if dtype is not None and dtype is not result.dtype:
        result = F.to_copy(result, dtype)
    if not has(result, memory_format) or copy and result is input:
        return F.clone(result, memory_format=memory_format)
    return result if result is input or preserves(memory_format) else F.contiguous(result, memory_format=memory_format)


@composite(at=("Tensor.type",), name="type", kinds={"dtype": "any"})
def type_(F, input, dtype=None, non_blocking=False):
    """Return the legacy type name, or with `dtype` the tensor converted.

    `dtype` is a dtype or such a name.

    >>> import plugrad as torch
    >>> torch.ones(1).type(), torch.ones(1).type(torch.int64).dtype
    ('torch.FloatTensor', torch.int64)
    """
    if dtype is None:
        names = {getattr(plugrad, name).dtype: name for name in _LEGACY}
        prefix = "torch." if input.device.type == "cpu" else f"torch.{input.device.type}."
        return prefix + (names.get(input.dtype) or f"{dtype_word(input.dtype.numpy)}Tensor")
    if isinstance(dtype, plugrad.dtype):
        return input.to(dtype)
    chosen = plugrad.legacy.type_named(dtype) if isinstance(dtype, str) else dtype
    if chosen is plugrad.Tensor:
        return input.to("cpu", plugrad.get_default_dtype())
    if isinstance(chosen, type) and not hasattr(chosen, "device_type"):
        raise ValueError(f"invalid type: {chosen.__name__!r}; write a dtype, such as torch.float32")
    if not hasattr(chosen, "device_type"):
        raise TypeError(f"dtype must be a type, str, or dtype object, not {type(dtype).__name__}")
    return input.to(chosen.device_type, chosen.dtype)


@to.samples
@type_.samples
def to_samples(make):
    yield make(3, 4), plugrad.complex128
    yield make(3, 4, requires_grad=False), plugrad.float32


_LEGACY = (
    "FloatTensor", "DoubleTensor", "HalfTensor", "LongTensor", "IntTensor", "ShortTensor", "CharTensor", "ByteTensor",
    "BoolTensor", "BFloat16Tensor",
)  # fmt: skip


def _cast_samples(make):
    yield make(3, 4, low=0, high=4, requires_grad=False)
    yield make.ints(3)


def _cast(name, target):
    """Return the record of a method such as `x.float()`."""

    dtype = getattr(plugrad, target)

    def method(F, input, *, memory_format=None):
        if memory_format is None:
            return input if input.dtype is dtype else F.to_copy(input, dtype)
        return input.to(dtype, memory_format=memory_format)

    method.__name__ = name
    method.__doc__ = f"""Return the tensor as `{target}`.

    >>> import plugrad as torch
    >>> torch.ones(2).{name}().dtype
    torch.{target}
    """
    record = composite(at=(f"Tensor.{name}",), name=name)(method)
    record.samples(_cast_samples)
    return record


_casts = {
    name: _cast(name, target)
    for name, target in {
        "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64",
        "int": "int32", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "cfloat": "complex64",
        "cdouble": "complex128", "chalf": "complex64",
    }.items()
}  # fmt: skip


@composite(at=("Tensor.type_as",), kinds={"other": "tensor"})
def type_as(F, input, other):
    """Return the tensor with the dtype and device of another.

    >>> import plugrad as torch
    >>> torch.ones(2).type_as(torch.tensor([1]))
    tensor([1, 1])
    """
    return input.to(other)


@type_as.samples
def type_as_samples(make):
    yield make(3, 4), make.ints(2)


@composite(at=("Tensor.cpu",))
def cpu(F, input, *, memory_format=None):
    """Return the tensor in host memory.

    >>> import plugrad as torch
    >>> torch.ones(2).cpu().device
    device(type='cpu')
    """
    return input.to("cpu", memory_format=memory_format)


@composite(at=("Tensor.cuda",))
def cuda(F, input, device=None, non_blocking=False, *, memory_format=None):
    """Return the tensor on a CUDA device (number, string or None for the first).

    >>> import plugrad as torch
    >>> torch.ones(2).cuda().device  # doctest: +SKIP
    device(type='cuda', index=0)
    """
    return input.to("cuda" if device is None else device, memory_format=memory_format)


cpu.samples(_cast_samples)
cuda.samples(_cast_samples)


@hookimpl
def plugrad_ops():
    return [*collect(Op, globals()), *_casts.values()]
