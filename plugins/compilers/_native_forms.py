"""Which steps compute element by element, and the C expression of each.

An `Element` reads one element of each operand and writes one of its target. What has no form here stays a call.
"""

from __future__ import annotations

import math

import numpy as np
from ml_dtypes import bfloat16

from plugrad.compiler.graph import Step, Value, varies

FLOATS, INTEGERS = frozenset("fd"), frozenset("bBhHiIlLqQ")
TYPES = {"?": "uint8_t", "f": "float", "d": "double"}
for _kind in INTEGERS:  # how wide some are depends on the system
    TYPES[_kind] = f"{'u' if _kind.isupper() or _kind == 'B' else ''}int{8 * np.dtype(_kind).itemsize}_t"
# Half precision, by NumPy's letters: functions of native/kernels/half_numbers.inc to floats and from them.
HALVES = {"e": ("of_half", "half_of"), np.dtype(bfloat16).char: ("of_brain", "brain_of")}
TYPES.update(dict.fromkeys(HALVES, "uint16_t"))
SINGLE = frozenset("?bBhHf")  # the types whose numbers a float can hold
REAL, ALL = FLOATS | INTEGERS, FLOATS | INTEGERS | {"?"}

# name of the universal function: (expression, types that it holds for, what it costs); integers wrap around.
FORMS = {
    "add": ("{0} + {1}", REAL, 1),
    "subtract": ("{0} - {1}", REAL, 1),
    "multiply": ("{0} * {1}", REAL, 1),
    "divide": ("{0} / {1}", FLOATS, 1),
    "negative": ("-{0}", REAL, 1),
    "positive": ("{0}", REAL, 1),
    "square": ("{0} * {0}", REAL, 1),
    "reciprocal": ("1 / {0}", FLOATS, 1),
    "absolute": ("ABSOLUTE({0})", FLOATS | frozenset("bhilq"), 1),
    "sqrt": ("SQUARE_ROOT({0})", FLOATS, 1),
    "exp": ("EXPONENTIAL({0})", FLOATS, 4),
    "tanh": ("TANH({0})", frozenset("f"), 4),
    "maximum": ("({0} > {1} || {0} != {0} ? {0} : {1})", REAL, 1),
    "minimum": ("({0} < {1} || {0} != {0} ? {0} : {1})", REAL, 1),
    "greater": ("{0} > {1}", ALL, 1),
    "greater_equal": ("{0} >= {1}", ALL, 1),
    "less": ("{0} < {1}", ALL, 1),
    "less_equal": ("{0} <= {1}", ALL, 1),
    "equal": ("{0} == {1}", ALL, 1),
    "not_equal": ("{0} != {1}", ALL, 1),
    "logical_and": ("({0} != 0) & ({1} != 0)", ALL, 1),
    "logical_or": ("({0} != 0) | ({1} != 0)", ALL, 1),
    "logical_xor": ("({0} != 0) ^ ({1} != 0)", ALL, 1),
    "logical_not": ("{0} == 0", ALL, 1),
    "bitwise_and": ("{0} & {1}", INTEGERS | {"?"}, 1),
    "bitwise_or": ("{0} | {1}", INTEGERS | {"?"}, 1),
    "bitwise_xor": ("{0} ^ {1}", INTEGERS | {"?"}, 1),
    "invert": ("~{0}", INTEGERS, 1),
    "isnan": ("{0} != {0}", FLOATS, 1),
    "sign": ("({0} > 0) - ({0} < 0)", frozenset("bhilq"), 1),
}
FORMS["true_divide"] = FORMS["divide"]
BOOLEAN = {"add": "{0} | {1}", "multiply": "{0} & {1}", "maximum": "{0} | {1}", "minimum": "{0} & {1}"}
# The same as in eager programs: native/kernels/elementwise.inc has their formulas, name: (how many arrays, cost).
OURS = {
    "relu": (1, 1), "relu_grad": (2, 1), "leaky_relu": (1, 1), "leaky_relu_grad": (2, 1), "sigmoid": (1, 4),
    "sigmoid_grad": (2, 1), "tanh_grad": (2, 1), "silu": (1, 4), "silu_grad": (2, 5), "exp": (1, 4), "elu": (1, 4),
    "elu_grad": (2, 4), "softplus": (1, 8), "softplus_grad": (2, 5), "clamp": (1, 1), "gelu": (1, 6),
    "gelu_grad": (2, 9),
    "negative": (1, 1), "square": (1, 1), "sqrt": (1, 1), "add": (2, 1), "subtract": (2, 1), "multiply": (2, 1),
    "divide": (2, 1),
}  # fmt: skip
IN_PLACE = frozenset(OURS) - {"add", "subtract", "multiply", "divide"}  # by themselves, they may write where they read
VARIANTS = {"clamp": "clamp_to", "gelu": ("gelu_erf", "gelu_tanh"), "gelu_grad": ("gelu_erf_grad", "gelu_tanh_grad")}
FILLED = {"zeros": 0, "zeros_like": 0, "ones": 1, "ones_like": 1}


class Element:
    """One assignment of each element: `target` = `form` of `operands`, which are values or NumPy's scalars.

    `form` is C with {0}, {1} for the operands, each converted to its type in `types`; `result` is the type of what it
    gives.
    """

    __slots__ = ("name", "target", "operands", "types", "form", "result", "cost", "shape")

    def __init__(self, name, target, operands, types, form, result, cost=1, shape=None):
        self.name, self.target, self.operands, self.types = name, target, operands, types
        self.form, self.result, self.cost = form, result, cost
        self.shape = target.shape if shape is None else shape  # of operands, which has as many elements as the target


def elements(step: Step) -> list | None:
    """Return what a step assigns element by element, or None if that isn't all that it does."""
    if step.several or step.effect or len(step.values()) != 1 or step.kind == "python":
        return None
    (target,) = step.values()
    if target is None or target.dtype.char not in TYPES or not math.prod(target.shape):
        return None
    if not all(value.dtype.isnative for value in (target, *step.reads())):
        return None
    if step.kind == "native":
        return _ours(step, target)
    if step.name == "where":
        return _where(step, target)
    if step.kind == "kernel" and step.name in ("cat", "stack"):
        return _joined(step, target)
    if step.kind != "array":
        return None
    if isinstance(step.function, np.ufunc):
        return _ufunc(step, target)
    known = _STRUCTURAL.get(step.name)
    return None if known is None else known(step, target)


def _number(item):
    """Return an argument as an operand: a value, or a NumPy scalar; None for anything else."""
    if isinstance(item, Value):
        return item
    if isinstance(item, np.ndarray) and item.ndim == 0:
        item = item[()]
    return item if isinstance(item, (bool, int, float, np.generic)) else None


def _type(operand):
    """Return the type of an operand; a number of Python's has a weak one."""
    if hasattr(operand, "dtype"):
        return operand.dtype
    return next(kind for kind in (bool, int, float) if isinstance(operand, kind))


def _ufunc(step, target):
    name, given = step.name, [_number(one) for one in step.args]
    if any(key not in ("out", "dtype") for key in step.kwargs) or step.kwargs.get("dtype") is not None:
        return None
    if any(one is None for one in given) or not any(isinstance(one, Value) for one in given):
        return None
    given = given[: step.function.nin]  # `out` may come by its place
    if name == "power" and type(given[1]) in (int, float) and given[1] == 2 and _type(given[0]).char in FLOATS:
        name, given = "square", given[:1]
    if name not in FORMS and name not in BOOLEAN:
        return None
    types = [bool if _type(one) is bool else _type(one) for one in given]
    try:
        loop = getattr(np, name).resolve_dtypes((*[np.dtype(bool) if t is bool else t for t in types], None))
    except TypeError:
        return None
    return _loop(name, target, given, loop)


def _loop(name, target, given, loop):
    """Return the element of a function whose types NumPy told."""
    kinds, result = {t.char for t in loop[:-1]}, loop[-1]
    if len(kinds) != 1 or result.char not in TYPES:
        return None
    (kind,) = kinds
    form, types, cost = FORMS[name]
    if kind == "?" and name in BOOLEAN:
        form, types = BOOLEAN[name], ALL
    if kind not in types or not _castable(result, target.dtype):
        return None
    dtype = loop[0]
    operands = [_scalar(one, dtype) for one in given]
    if any(one is None for one in operands) or any(not _castable(one.dtype, dtype) for one in operands):
        return None
    return [Element(name, target, operands, [dtype] * len(operands), form, result, cost)]


class Varying:
    """A number that follows from a size, as an operand."""

    def __init__(self, number, dtype):
        self.number, self.dtype = number, dtype


def _scalar(item, dtype):
    """Return an operand: numbers as NumPy's of the type that the loop has; None for what does not fit."""
    if isinstance(item, Value):
        return item
    if varies(item):
        return Varying(item, dtype) if dtype.char in FLOATS else None
    with np.errstate(all="ignore"):
        try:
            return item if isinstance(item, np.generic) and item.dtype == dtype else dtype.type(item)
        except OverflowError:
            return None


def _castable(source, to) -> bool:
    """Whether C converts as NumPy does: what floating point numbers become as integers is nobody's to say."""
    if source.char not in TYPES or to.char not in TYPES:
        return False
    if source.char in HALVES or to.char in HALVES:
        return source == to  # numbers are kept as their bits
    return not (source.kind == "f" and to.kind in "iu")


def _copied(name, target, operand, shape=None):
    dtype = operand.dtype
    if dtype.char not in TYPES or not _castable(dtype, target.dtype):
        return None
    return [Element(name, target, [operand], [dtype], "{0}", dtype, 1, shape)]


def _where(step, target):
    if len(step.args) != 3 or step.kwargs:
        return None
    given = [_number(one) for one in step.args]
    if any(one is None for one in given) or not isinstance(given[0], Value) or given[0].dtype != bool:
        return None
    dtype = target.dtype
    for one in given[1:]:
        if isinstance(one, (Value, np.generic)) and one.dtype != dtype or type(one) is float and dtype.kind != "f":
            return None
    operands = [given[0], *[_scalar(one, dtype) for one in given[1:]]]
    if any(one is None for one in operands):
        return None
    return [Element("where", target, operands, [np.dtype(bool), dtype, dtype], "({0} ? {1} : {2})", dtype)]


def _ours(step, target):
    if step.name not in OURS or target.dtype.char not in FLOATS:
        return None
    count, cost = OURS[step.name]
    reads = [one for one in step.args if isinstance(one, Value)]
    numbers = [one for one in step.args if not isinstance(one, Value)]
    if varies(numbers):
        return None
    numbers = [float(one) for one in numbers]
    if len(reads) != count or any(one.dtype != target.dtype for one in reads):
        return None
    if step.name in ("add", "subtract", "multiply", "divide"):
        if reads[0].shape != reads[1].shape:
            return None
    elif any(one.shape != target.shape for one in reads):
        return None
    name = VARIANTS.get(step.name, step.name)
    if isinstance(name, tuple):
        name, numbers = name[int(numbers[0])], []
    if name == "clamp_to" and any(number != number for number in numbers):
        return None
    if name in FORMS and step.name not in ("exp", "sqrt"):
        form = FORMS[name][0]
    else:
        marks = ", ".join(f"{{{i}}}" for i in range(count))
        extra = ", ".join(f"{{{count + i}}}" for i in range(len(numbers)))
        kind, second = "F" if target.dtype.char == "f" else "D", ", {0}" if count == 1 else ""
        form = f"OURS({name}, {kind}, {marks}{second}, {extra or 0})"
    operands = [*reads, *[np.float64(number) for number in numbers]]
    types = [target.dtype] * count + [np.dtype(float)] * len(numbers)
    return [Element(name, target, operands, types, form, target.dtype, cost)]


# ---------------------------------------------------------------- copies


def _astype(step, target):
    if not isinstance(step.args[0], Value) or len(step.args) > 2 or set(step.kwargs) - {"copy", "dtype"}:
        return None
    return _from_or_to_halves(target, step.args[0]) or _copied("astype", target, step.args[0])


def _from_or_to_halves(target, operand):
    """Return what converts halves by way of floats; None where that would round twice, or where there are none."""
    source, single = operand.dtype, np.dtype("float32")
    if source == target.dtype or not {source.char, target.dtype.char} & HALVES.keys():
        return None
    if source.char not in SINGLE and source.char not in HALVES:
        return None
    form = f"{HALVES[source.char][0]}({{0}})" if source.char in HALVES else "{0}"
    types = [source if source.char in HALVES else single]
    if target.dtype.char in HALVES:
        return [Element("astype", target, [operand], types, f"{HALVES[target.dtype.char][1]}({form})", target.dtype, 2)]
    return [Element("astype", target, [operand], types, form, single, 2)] if _castable(single, target.dtype) else None


def _copy(step, target):
    """`copy`, `ascontiguousarray`, `reshape` and the like, where they make a new array."""
    source = step.args[0]
    if not isinstance(source, Value) or step.results == () or step.kwargs.get("order") not in (None, "C", "K"):
        return None
    if step.name in ("array", "asarray") and len(step.args) + len(step.kwargs) > 1:
        return None
    if math.prod(source.shape) != math.prod(target.shape) or source.dtype != target.dtype:
        return None
    return _copied(step.name, target, source, source.shape)


def part_of(value: Value, index) -> Value | None:
    """Return the value that basic indices select of another, or None where they are not basic."""
    indices = index if type(index) is tuple else (index,)
    if not all(one is None or one is Ellipsis or type(one) in (int, slice) for one in indices):
        return None
    offset, shape, strides, at = value.offset, [], [], 0
    left = sum(one is not None and one is not Ellipsis for one in indices)
    for one in [*indices] if Ellipsis in indices else [*indices, Ellipsis]:
        if one is None:
            shape.append(1)
            strides.append(0)
        elif one is Ellipsis:
            skipped = len(value.shape) - left
            shape += value.shape[at : at + skipped]
            strides += value.strides[at : at + skipped]
            at += skipped
        else:
            chosen = _chosen(one, value.shape[at])
            if chosen is None:
                return None
            first, count, step = chosen
            offset += first * value.strides[at]
            if type(one) is slice:
                shape.append(count)
                strides.append(step * value.strides[at])
            at += 1
    return Value(value.buffer, tuple(shape), tuple(strides), offset, value.dtype)


def _chosen(index, n):
    """Return (first, count, step) of what an index selects of a dimension; None where that depends on the size."""
    if type(index) is int:
        first = n + index if index < 0 else index
        return (first, 1, 1) if _always(first, n - 1) else None
    if not varies(n) and not varies((index.start, index.stop, index.step)):
        first, stop, step = index.indices(n)
        count = len(range(first, stop, step))
        return (first if count else 0), count, step
    ends = [default if end is None else end for end, default in ((index.start, 0), (index.stop, n))]
    first, stop = [n + end if type(end) is int and end < 0 else end for end in ends]
    if index.step not in (None, 1) or not _always(first, stop) or not _always(stop, n):
        return None
    return first, stop - first, 1


def _always(one, other) -> bool:
    """Whether for all sizes one number is not negative, and not more than another one."""
    return all(bool((n.values >= 0).all()) if varies(n) else n >= 0 for n in (one, other - one))


def _setitem(step, target):
    _, index, source = step.args
    part = part_of(target, index)
    if part is None or not math.prod(part.shape):
        return None
    return _assigned("setitem", part, source)


def _assigned(name, part, source):
    operand = _number(source)
    if operand is None:
        return None
    if not isinstance(operand, Value):
        operand = _scalar(operand, part.dtype) if not isinstance(operand, float) or part.dtype.kind == "f" else None
        return None if operand is None else [Element(name, part, [operand], [part.dtype], "{0}", part.dtype)]
    shape = operand.shape
    while len(shape) > len(part.shape) and shape[0] == 1:  # an assignment may drop leading dimensions of size 1
        shape = shape[1:]
    if len(shape) < len(operand.shape):
        strides = operand.strides[len(operand.shape) - len(shape) :]
        operand = Value(operand.buffer, shape, strides, operand.offset, operand.dtype)
    if operand.buffer is part.buffer and operand.key != part.key:
        return None  # it may be read after it was written
    return _copied(name, part, operand)


def _copyto(step, target):
    if len(step.args) != 2 or step.kwargs:
        return None
    return _assigned("copyto", target, step.args[1])


def _fill(step, target):
    return _assigned("fill", target, step.args[1])


def _filled(step, target):
    if step.results == ():
        return None
    value = target.dtype.type(FILLED[step.name])
    return [Element(step.name, target, [value], [target.dtype], "{0}", target.dtype)]


def _concatenate(step, target):
    parts, axis = step.args[0], step.args[1] if len(step.args) > 1 else step.kwargs.get("axis", 0)
    if len(step.args) > 2 or set(step.kwargs) - {"axis", "out"} or type(axis) is not int:
        return None
    if not all(isinstance(one, Value) and one.dtype == target.dtype for one in parts):
        return None
    axis, forms, begin = axis % len(target.shape), [], 0
    for part in parts:
        end = begin + part.shape[axis]
        piece = part_of(target, (slice(None),) * axis + (slice(begin, end),))
        begin = end
        if not math.prod(part.shape):
            continue
        copied = None if part.buffer is target.buffer else _copied("concatenate", piece, part)
        if copied is None:
            return None
        forms += copied
    return forms


def _joined(step, target):
    """`cat` and `stack`, whose kernels are in C, but no part of a tape."""
    parts, dim = step.args[0], step.args[1] if len(step.args) > 1 else 0
    if len(step.args) > 2 or step.kwargs or type(dim) is not int or not all(isinstance(one, Value) for one in parts):
        return None
    dim, forms, begin = dim % len(target.shape), [], 0
    for part in parts:
        if step.name == "stack":
            piece, begin = part_of(target, (slice(None),) * dim + (begin,)), begin + 1
        elif len(part.shape) == len(target.shape):
            end = begin + part.shape[dim]
            piece, begin = part_of(target, (slice(None),) * dim + (slice(begin, end),)), end
        else:
            return None
        copied = _copied(step.name, piece, part) if math.prod(part.shape) else []
        if copied is None or part.dtype != target.dtype or piece.shape != part.shape:
            return None
        forms += copied
    return forms or None


_STRUCTURAL = {
    "astype": _astype, "copy": _copy, "ascontiguousarray": _copy, "reshape": _copy, "flatten": _copy, "ravel": _copy,
    "array": _copy, "setitem": _setitem, "copyto": _copyto, "fill": _fill, "concatenate": _concatenate,
    **dict.fromkeys(FILLED, _filled),
}  # fmt: skip
