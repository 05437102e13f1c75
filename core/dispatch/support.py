"""What generated functions call: their globals, and how they take an argument that is not plain."""

from __future__ import annotations

import numpy

from plugrad.devices import dtypes
from plugrad.dispatch import arguments, interception, interpreter, source
from plugrad.dispatch.formulas import PLAIN
from plugrad.graph import modes, rare
from plugrad.graph.modes import LEAF, mode, tick
from plugrad.graph.versions import touch, untouch
from plugrad.tensor.description import Size
from plugrad.tensor.layouts import open_type
from plugrad.tensor.shapes import axes
from plugrad.tensor.tensor import Tensor, write_out
from plugrad.tensor.views import copies, is_view_of, mark_view


class General(Exception):
    """Sends a call to the interpreter."""


def plain(value, ttype, types=None):
    """Return as kernels want it an argument that is not a plain number; General where that takes more than a look."""
    if types is not None and type(value) not in types:
        raise General
    if isinstance(value, Tensor):
        if value._type.home is not ttype.home:
            raise General
        return value._raw
    if isinstance(value, (tuple, list)):
        if not PLAIN.issuperset(map(type, value)) and any([isinstance(item, Tensor) for item in value]):
            raise General
        return tuple(value) if types is not None else value
    if isinstance(value, dtypes.dtype):
        return value.numpy
    if isinstance(value, (numpy.generic, numpy.ndarray)):
        raise General
    return value


def narrow(value, np) -> bool:
    """Whether an argument that a formula uses leaves gradients of the dtype `np` in that dtype."""
    dtype = getattr(value, "dtype", np)
    return dtype is np or dtypes.is_integral(dtype)


class _BoolTypes(dict):
    """The tensor type of bools on the device of a tensor type."""

    def __missing__(self, ttype):
        return self.setdefault(ttype, ttype.to(dtypes.bool))


PLAIN_OR_SEQUENCE = PLAIN | {tuple, list, Size}
_GLOBALS = {
    "FAR": 1 << 63, "General": General, "LEAF": LEAF, "INTS": {int}, "int": int, "PLAIN": PLAIN, "write_out": write_out,
    "PLAIN_OR_SEQUENCE": PLAIN_OR_SEQUENCE, "all_plain": PLAIN.issuperset, "Tensor": Tensor, "apply": interpreter.apply,
    "axes": axes, "bool_type": _BoolTypes(), "check": lambda *call: arguments.right(*call),
    "composed": lambda *call: rare.composed(*call), "composite": interception.composite, "failed": interpreter.failed,
    "finish_many": interpreter.finish_many, "fresh": lambda *call: rare.fresh(*call), "modes": modes,
    "is_view_of": is_view_of, "mark_view": mark_view, "misfit": lambda *call: rare.misfit(*call), "mode": mode,
    "narrow": narrow, "new": object.__new__, "refuse_whole": lambda op: rare.refuse_whole(op), "plain": plain,
    "older_form": lambda *call: rare.older_form(*call), "open_type": open_type, "named": interpreter.named,
    "met": interpreter.met, "meet": lambda *call: rare.meet(*call), "operate": interpreter.operate, "tick": tick,
    "touch": touch, "type": type, "untouch": untouch, "wrapped": lambda *call: rare.wrapped(*call), "copies": copies,
    **{one.__name__: one for one in (Exception, getattr, isinstance, list, map, tuple)},  # parameters' names, too
}  # fmt: skip


def globals_of(op, **own) -> dict:
    """Return the globals of a generated function; each begins with an underscore, as no parameter does."""
    names = {f"_{name}": value for name, value in (_GLOBALS | own).items()}
    names["_ordered"] = rare.ordered if op.ordered_by else None
    for name, kind in op.known_kinds.items():
        names["_are_ints"] = arguments.are_ints
        names[f"_types_{name}"], names[f"_plain_{name}"] = kind.types, kind.types & PLAIN
        names[f"_sizes_{name}"] = kind.types & PLAIN_OR_SEQUENCE
    names.update({f"_d_{name}": value for name, value in op.defaults.items()})  # see `default_source`
    return {**names, "MISSING": source.MISSING, "__name__": op.module, "Tensor": Tensor, "_op": op}
