"""The general path: any call of an op, step by step, and every error.

The fast path (`emitter`) hands over to `apply` what is not plain: mixed dtypes and devices, integers, `out=`, rare
modes, wrong arguments. A kernel that raised, on either path, is explained by `failed`.
"""

from __future__ import annotations

import numpy

from plugrad.devices import dtypes
from plugrad.devices.device import backends_room
from plugrad.dispatch import arguments, interception
from plugrad.dispatch.formulas import PLAIN
from plugrad.graph import modes, rare
from plugrad.graph.modes import LEAF, mode, tick
from plugrad.graph.nodes import OutputSlot
from plugrad.graph.saved import annotate
from plugrad.tensor import inference
from plugrad.tensor.layouts import lay_out, open_type
from plugrad.tensor.tensor import Tensor, from_raw, make, write_out
from plugrad.tensor.views import is_view_of, mark_view

_new = object.__new__

OPERANDS = (Tensor, int, float, complex, numpy.generic, numpy.ndarray)  # the last: `x += array` is `x = x + array`


def apply(op, values: tuple, out=None, inside=False):
    """Run an op on any mixture of Tensors and plain values.

    `inside` says that all who may take a call over (modes, overriding arguments, hooks) had their say.
    """
    if op.sequence and type(values[0]) not in (tuple, list) and isinstance(values[0], (tuple, list)):
        values = (list(values[0]), *values[1:])
    if not inside and (modes.watched and interception.interested(op) or overriding((*values, out))):
        further = lambda values: apply(op, values, out, True)  # noqa: E731
        return interception.call(op, values, out, lambda: interception.cast(op, values, out, further))
    values = values if out is None else rare.in_dtype_of(op, values, out)
    values = check(op, values)
    try:
        raw, ttype, requires, special = unwrap(op, values)
    except RuntimeError:  # of two devices, maybe
        if op.gathers and (moved := backends_room().gathered(op, values)):
            return apply(op, moved, out, True)
        raise
    if ttype.is_limited:
        rare.check_elements(op, ttype, requires)
    result_dtype = op.prepare(values, raw, ttype)
    result = run(op, values, raw, ttype)
    if op.returns is not None and not op.trusted and type(result) is not tuple:
        result = (result,)
    if type(result) is tuple or (type(result) is list and op.trusted):
        wrapped_result = finish_many(op, values, raw, ttype, result, result_dtype)
    else:
        wrapped_result = finish(op, values, raw, ttype, result, result_dtype, requires)
    if special or mode.inference:
        inference.settle(op, values, wrapped_result)
    return wrapped_result if out is None else write_out(op, wrapped_result, out, values=values)


def check(op, values) -> tuple:
    """Return the arguments as `arguments.right` does, if one is of a type that needs a look."""
    for position, types, ints in op.guards:
        value = values[position]
        if ints and type(value) is list:  # which may change before what is kept of the call is used
            value = tuple(value)
            values = (*values[:position], value, *values[position + 1 :])
        if type(value) not in types or ints and type(value) is tuple and not arguments.are_ints(value):
            return arguments.right(op, values)
    return values


# ---------------------------------------------------------------------------------------------------- unwrap


def unwrap(op, values):
    """Return the arguments as kernels get them, the type of the call, and whether any requires grad or is rare."""
    raw = list(values)
    ttype, requires, special = None, False, False
    for i, value in enumerate(values):
        cls = type(value)
        if cls in PLAIN:
            continue
        if isinstance(value, Tensor):
            if value._view is not None:
                value._refresh()
            raw[i] = value._raw
            if value._edge is not None:
                requires = True
            here = value._type
            if here.plain is not here and not (here.is_open and op.keeps_order):
                if here.is_open:
                    raw[i] = lay_out(value)._raw
                here, special = here.plain, special or not here.is_open
            if ttype is None or here.is_open and here.plain is ttype:
                ttype = here
            elif here is not ttype and here.device is not ttype.device:
                ttype = rare.of_two_devices(op, values, raw, i, ttype)
        elif cls in (tuple, list) and any([isinstance(item, Tensor) for item in value]):
            raw[i], ttype, needs = _unwrap_sequence(op, value, ttype)
            requires = requires or needs
        elif cls not in (tuple, list):
            raw[i] = _unwrap_plain(op, i, value)
    if ttype is None:
        ttype = rare.type_without_tensors(op, values)
    return raw, ttype, requires, special


def met(values) -> bool:
    """Whether a call may be for others to see: in most programs with overriding classes it is no business of these."""
    return modes.watched != {"overriding classes"} or overriding(values)


def overriding(values) -> bool:
    """Whether the class of an argument overrides ops."""
    for value in values:
        cls = type(value)
        if cls is Tensor or cls in PLAIN:
            if cls is Tensor and modes.levels and value._type.rare:
                return True
            continue
        if cls is tuple or cls is list:
            if interception.overloaded(value, {}):
                return True
            if modes.levels and any([isinstance(item, Tensor) and item._type.rare for item in value]):
                return True
        elif value._type.plain is not value._type if isinstance(value, Tensor) else hasattr(cls, "__torch_function__"):
            return True
    return False


def _unwrap_plain(op, position, value):
    """Return an argument that is neither a tensor nor a plain number as kernels want it."""
    if isinstance(value, dtypes.dtype):
        return value.numpy
    if isinstance(value, numpy.generic) and value.dtype.kind != "m":  # timedelta64 is no number, though of that class
        return float(value) if value.dtype.kind == "b" and op.broadcasts else value.item()
    if value.__class__ is type and value in dtypes.SCALAR:
        return dtypes.SCALAR[value].numpy
    if isinstance(value, numpy.ndarray) and op.broadcasts:
        raise TypeError(
            f"{op.name}(): argument '{op.parameters[position]}' (position {position + 1}) must be Tensor, not "
            "numpy.ndarray; write torch.from_numpy(array) or torch.as_tensor(array)"
        )
    return value


def _unwrap_sequence(op, value, ttype):
    items, needs = [], False
    for item in value:
        if isinstance(item, Tensor):
            if item._view is not None:
                item._refresh()
            lay_out(item)
            if ttype is None:
                ttype = item._type.plain
            elif item._type.device is not ttype.device:
                raise rare.device_mismatch(op, ttype.device, item._type.device)
            needs = needs or item._edge is not None
            item = item._raw
        items.append(item)
    return items if type(value) is list else tuple(items), ttype, needs


# ---------------------------------------------------------------------------------------------------- run


def run(op, values, raw, ttype):
    """Run the kernel, or what stands in its place: a dispatch mode, or the shape rule of a symbolic device."""
    if modes.special and mode.dispatch_modes:
        return interception.dispatch(op, values)
    return op.shape_rule(ttype, raw) if ttype.symbolic else compute(op, ttype, raw, values)


def compute(op, ttype, raw, values=None):
    """Run the kernel on raw arguments; where it raises, `failed` says what becomes of the call."""
    try:
        return op.compute(ttype, raw)
    except Exception as error:
        return failed(op, ttype, raw, error, values)


def failed(op, ttype, raw, error, values=None):
    """Return what is computed in place of a kernel that raised; else raise the error, explained where that is possible.

    Where the program turned NumPy's warnings into errors, one stopped the kernel, which runs again without them:
    infinities and NaN are results. No other kernel that raised is run a second time.
    """
    if isinstance(error, RuntimeWarning):
        with numpy.errstate(all="ignore"):
            return op.compute(ttype, raw)
    if isinstance(error, (NotImplementedError, AttributeError)) and ttype.backend.name != "cpu":
        if (cpu_fallback := backends_room().cpu_fallback).applies(error, ttype):
            return cpu_fallback.compute(op, ttype, raw, error)
    explained = op.explain(error, raw)
    if explained is error and values is not None:
        explained = op.wrong(values, error) or error
    if explained is error:
        raise error
    raise explained from explained.__cause__


# ---------------------------------------------------------------------------------------------------- wrap, history


def finish(op, values, raw, ttype, result, result_dtype, requires=True):
    """Return the one result of a kernel as a Tensor, with its history and what it is a view of."""
    if type(result) is not ttype.array_type:
        result = ttype.wrap(result) if op.trusted else rare.wrapped(op, ttype, result)
    if op.is_view and op.itself and result is values[0]._raw:
        return values[0]
    dtype = result.dtype
    if dtype.kind in "mMOSU":
        raise rare.wrong_result(op, result)
    if result_dtype is not None and dtype != result_dtype:
        result = ttype.backend.cast(result, result_dtype)
        dtype = result.dtype
    result = rare.order_result(op, ttype, values, raw, result) if op.trusted and len(op.ordered_by) > 1 else result
    tensor = make(result, ttype if dtype is ttype.np else ttype.device.tensor_type(dtype))
    if op.any_order and not ttype.symbolic:
        tensor._type = open_type(tensor._type, result, op.any_order)
    recorded = requires and op.formulas and mode.grad and (not op.is_view or op.has_history(values))
    if recorded and tensor._type.is_differentiable:
        tensor._edge = make_node(op, values, raw, result)
    if op.is_view and op.has_history(values) and is_view_of(result, values[0]._raw, ttype.backend, op, values[1:]):
        tensor._view = mark_view(values[0], op, values[1:])
    return tensor


def finish_many(op, values, raw, ttype, results, result_dtype=None, mask=True, makers=None):
    """Return the results of a kernel as a tuple of Tensors, with their history and what they are views of."""
    if result_dtype is not None or not op.trusted or {*map(type, results)} != {ttype.array_type}:
        results = tuple([_settled(op, ttype, item, result_dtype) for item in results])
    tensors, np, looked_at, node = [], ttype.np, op.any_order and not ttype.symbolic, None
    if mask and op.formulas and (not modes.paused or mode.grad):
        node = (make_node if makers is None else makers[-mask])(op, values, raw, tuple(results))
    for i, item in enumerate(results):
        tensors.append(tensor := _new(Tensor))  # as `make` does
        tensor._raw, dtype = item, item.dtype
        tensor._type = here = ttype if dtype is np else ttype.device.tensor_type(dtype)
        if looked_at and not item.flags.c_contiguous:
            tensor._type = here = open_type(here, item, op.any_order)
        tensor._edge = OutputSlot(node, i) if node is not None and here.is_differentiable else None
        tensor._view = mark_view(values[0], op, values[1:], i) if op.is_view else None
    if node is not None:
        node.outputs = tuple([(tensor._raw.shape, tensor._type) for tensor in tensors])
    if op.returns is None:
        return tuple(tensors)
    if len(tensors) != len(op.returns._fields):
        raise rare.wrong_length(op, len(tensors))
    return tuple.__new__(op.returns, tensors)


def _settled(op, ttype, item, result_dtype):
    """Return one of several results as an array of the dtype that the call has; indices beside values keep theirs."""
    if type(item) is not ttype.array_type:
        item = ttype.wrap(item) if op.trusted else rare.wrapped(op, ttype, item)
    dtype = item.dtype
    if dtype.kind in "mMOSU":
        raise rare.wrong_result(op, item)
    if result_dtype is None or dtype == result_dtype:
        return item
    computed = "f" if result_dtype.kind == "V" else result_dtype.kind  # V: bfloat16, which is computed in float32
    return ttype.backend.cast(item, result_dtype) if dtype.kind == computed else item


def make_node(op, values, raw, y):
    """Make the node of one call: edges to the inputs that require grad, and what the formulas name."""
    mask, edges, fits, sequences = 0, [], [], ()
    for bit, name, position in op.plan.inputs:
        value = values[position]
        if isinstance(value, Tensor):
            edge = value._edge
            if edge is not None:
                mask |= bit
                edges.append(value if edge is LEAF else edge)
                fits.append((value._raw.shape, value._type.np))
        elif type(value) is list or type(value) is tuple:
            if any([isinstance(item, Tensor) and item._edge is not None for item in value]):
                mask |= bit
                sequences += (name,)
                for item in value:
                    edge = item._edge if isinstance(item, Tensor) else None
                    edges.append(item if edge is LEAF else edge)
                    fits.append((item._raw.shape, item._type.np) if edge is not None else None)
    if not mask:
        return None
    cls = op.node(mask, sequences, type(y) is tuple, op.name_node and op.name_node(*values))
    if inference.exist:
        inference.check_saved(op, cls, values)
    node = cls()
    node.edges, node.fit, node.rare, node.seq = tuple(edges), tuple(fits), None, tick()
    if type(y) is tuple:
        node.slots = {}
    given = [*raw, y]  # so -1 is the position of the output
    for at, what in cls.savers:
        if what is None and at >= 0 and given[at] is not values[at] and isinstance(values[at], Tensor):
            if given[at] is not values[at]._raw:
                rare.note_copy(given[at], values[at])
    node.saved = tuple([given[at] if what is None else what(given[at], values[at]) for at, what in cls.savers])
    if modes.special:
        annotate(node, from_raw)
    return node


# ---------------------------------------------------------------------------------------------------- variations


def named(op, values: tuple, out=None):
    """Run a binary op that is called by name, which takes numbers in fewer places than its operator does."""
    op.check_numbers(values)
    return apply(op, values, out)


def operate(op, values):
    """Run a binary op as one of Python's operators; NotImplemented if an operand is neither tensor nor number."""
    operands = list(values)
    for i, operand in enumerate(operands[:2]):
        if not isinstance(operand, (Tensor, int, float, complex)):
            if not isinstance(operand, OPERANDS) or operand.dtype.kind in "OUSMm":
                return NotImplemented  # Python then asks the other operand
            if not isinstance(operand, numpy.generic):
                return apply(op, rare.beside_array(op, operands, i))
            operands[i] = float(operand) if operand.dtype.kind == "b" else operand.item()  # a bool of NumPy's is 1.0
    return apply(op, tuple(operands))
