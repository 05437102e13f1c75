"""Calls as the traced program writes them: what is an argument by name, and which function it is by PyTorch's rules."""

from __future__ import annotations

import bisect
import dis
import functools
import sys

from plugrad import Tensor
from plugrad.fx._names import is_of_python

_listed = functools.lru_cache(maxsize=256)(lambda code: tuple(dis.get_instructions(code)))


def instructions_at(frame) -> tuple:
    """Return (instructions of a frame's code, index of the one that is running)."""
    listed = _listed(frame.f_code)
    return listed, max(bisect.bisect_right(listed, frame.f_lasti, key=lambda one: one.offset) - 1, 0)


def user_frame():
    """Return the frame of the program: the first one that is not of plugrad."""
    frame = sys._getframe(1)
    while frame is not None and (
        frame.f_code.co_filename.startswith("<plugrad") or frame.f_globals.get("__name__", "").startswith("plugrad.")
    ):
        frame = frame.f_back
    return frame


def written_call(frame) -> tuple:
    """Return (number of arguments without a name, names of the others) of the call that a frame carries out."""
    if frame is None:
        return 0, ()
    listed, at = instructions_at(frame)
    names: tuple = ()
    for one in reversed(listed[max(at - 2, 0) : at]):
        if one.opname == "KW_NAMES":
            names = frame.f_code.co_consts[one.arg]
    if "KW" in listed[at].opname and at and isinstance(listed[at - 1].argval, tuple):
        names = listed[at - 1].argval
    return (listed[at].arg or 0) - len(names) if listed[at].opname.startswith("CALL") else 0, names


def as_called(func, args, kwargs) -> tuple:
    """Return (opcode, target, args, kwargs) of the node for an op's call."""
    op = getattr(func, "__op__", None)
    if op is None:
        name = getattr(func, "__name__", "")
        is_method = getattr(func, "__qualname__", "") == f"Tensor.{name}" or name in ("__get__", "__set__")
        return ("call_method" if is_method else "call_function", name if is_method else func, args, kwargs)
    names = op.names or (f"Tensor.{op.name}",)
    if all(name.startswith("Tensor.") for name in names):
        name = names[0].removeprefix("Tensor.")
        return "call_method", name if hasattr(Tensor, name) else f"__{name}__", args, kwargs
    spreads = op.variadic in op.positional and func is op.function and isinstance(args[-1], (tuple, list))
    if spreads and op.variadic == op.positional[len(args) - 1]:
        is_method = op.called is not op
        named = func.__name__ if is_method else func
        return "call_method" if is_method else "call_function", named, (*args[:-1], *args[-1]), kwargs
    given = {**dict(zip(op.positional, args)), **kwargs}
    if is_of_python(func):
        required = [name for name in op.positional if name not in op.defaults]
        rest = {name: given.get(name, op.defaults[name]) for name in op.parameters if name in op.defaults}
        return "call_function", func, tuple([given[name] for name in required]), rest
    count, written = written_call(user_frame())
    given.update({name: op.defaults[name] for name in written if name in op.defaults and name not in given})
    first = next((i for i, name in enumerate(op.positional[: len(args)]) if name in written), len(args))
    while first < len(args) and first > count and _is_default(op, op.positional[first - 1], args[first - 1]):
        first -= 1  # stands there only since a later one was given by its name
    if len(args) <= first < count <= len(op.positional):  # what is as by default was written, too
        more = op.positional[first:count]
        if all(name in op.defaults and name not in given for name in more):
            return "call_function", func, (*args, *[op.defaults[name] for name in more]), kwargs
    named = {
        name: value for name, value in given.items()
        if name not in op.positional[:first] and (name in written or not _is_default(op, name, value))
    }  # fmt: skip
    return "call_function", func, args[:first], named


def _is_default(op, name, value) -> bool:
    default = op.defaults.get(name, op)
    return value is default or (
        type(value) is type(default) and isinstance(value, (int, float, str)) and value == default
    )
