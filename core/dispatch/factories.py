"""Calls of factory ops, which make tensors from none: `zeros`, `arange`, `randn`..."""

from __future__ import annotations

import numpy

from plugrad.devices import dtypes
from plugrad.devices.device import device as _device
from plugrad.devices.device import resolve
from plugrad.dispatch import arguments, interception, interpreter
from plugrad.errors import flag
from plugrad.graph import modes, rare
from plugrad.tensor.creation import dtype_argument, new, require_grad
from plugrad.tensor.layouts import strided
from plugrad.tensor.tensor import Tensor, write_out


def create(op, values, dtype, place, requires_grad, out=None, layout=None, pin_memory=False, inside=False):
    """Run the kernel of a factory op on a device: the common part of `zeros`, `arange`, `randn`...

    `inside` is that of `interpreter.apply`.
    """
    if layout is not None and layout is not strided:
        return rare.factory_of_layout(layout, op, out)(values, dtype, place, requires_grad, layout)
    if modes.watched and not inside and interpreter.met((*values, out)):
        options = {"dtype": dtype, "device": place, "requires_grad": requires_grad, "out": out}
        return interception.factory(
            op, values, options, lambda: create(op, values, dtype, place, requires_grad, out, None, pin_memory, True)
        )
    values = arguments.right(op, values)
    if out is not None and not isinstance(out, Tensor):
        raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    for name, value in (("requires_grad", requires_grad), ("pin_memory", pin_memory)):
        flag(name, value is not None and value)
    seen = len(modes.watched) + len(modes.other_walks)
    home = resolve(out.device if out is not None and place is None else place)
    if dtype is None and out is not None:
        dtype = out.dtype
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        dtype = dtype_argument(dtype)
    if out is not None and dtype is not out.dtype:
        raise RuntimeError(f"dtype {dtype} does not match dtype of out parameter ({out.dtype}); leave one of them out")
    if dtype is None and op.promote == "float":
        dtype = dtypes.get_default_dtype()
    raw = [value._raw if isinstance(value, Tensor) else value for value in values]
    if "dtype" in op.index:
        raw[op.index["dtype"]] = None if dtype is None else dtype.numpy
    if "size" in op.index:
        rare.check_size(op, raw)
    backend = home.backend
    if len(modes.watched) + len(modes.other_walks) > seen:  # the first use of a second device
        return create(op, values, dtype, place, requires_grad, out, layout, pin_memory)
    if backend.symbolic and op.meta_function is not None:
        result = backend.empty(*rare.rule_of(op, raw))
    elif backend.symbolic:
        if "size" in op.index:
            result = backend.empty(raw[op.index["size"]], (dtype or dtypes.get_default_dtype()).numpy)
        else:
            host = interpreter.compute(op, _device("cpu").tensor_type(numpy.dtype("float32")), raw, values)
            result = backend.empty(host.shape, dtype.numpy if dtype is not None else host.dtype)
    else:
        result = interpreter.compute(op, home.tensor_type(numpy.dtype("float32")), raw, values)
    if not op.trusted:
        result = rare.wrapped(op, home.tensor_type(numpy.dtype("float32")), result)
    ttype = home.tensor_type(dtype.numpy if dtype is not None else result.dtype)
    if dtype is not None and result.dtype != dtype.numpy:
        result = result.astype(dtype.numpy)
    if result.__class__ is not ttype.array_type:
        result = ttype.wrap(result)
    tensor = new(result, ttype)
    if out is not None:
        if op.index.keys() & {"step", "steps", "d"} and tensor.shape != out.shape:
            tensor = rare.laid_as(op, tensor, out)
        return write_out(op, tensor, out, resized=False)
    return require_grad(tensor, requires_grad)


def failed(op, values, raw, error):
    """Return what stands in place of the result of a kernel that raised, else raise the error, or what explains it."""
    if "size" in op.index and op.wrong(values) is None:
        rare.check_size(op, list(values))
    return interpreter.failed(op, _device("cpu").tensor_type(numpy.dtype("float32")), raw, error, values)
