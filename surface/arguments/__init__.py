"""Wrong arguments: of what kind each parameter of an op is, and the error for what is of another kind."""

from __future__ import annotations

import functools
import inspect

import numpy

import plugrad
from plugrad.arguments.conventions import NAMES, declaration
from plugrad.arguments.foreign import translated
from plugrad.arguments.kinds import alternatives, is_int, is_tensor, kind, overflows
from plugrad.kernels import module, why_none

__all__ = ["alternatives", "NAMES", "are_ints", "checked", "declaration", "is_int", "kinds_of", "right", "wrong"]

_LIMIT = 1 << 63  # of ints of 64 bits
_INT = {int}


def are_ints(value) -> bool:
    """Whether a value is an int, or a tuple of ints: not of bools, tensors or other things that stand for one.

    >>> are_ints(2), are_ints((2, 3)), are_ints((2, True)), are_ints([2, 3])
    (True, True, False, False)
    """
    return type(value) is int or isinstance(value, tuple) and _INT.issuperset(map(type, value))


if why_none() is None and hasattr(module(), "is_ints"):  # a call of every view
    are_ints = module().is_ints


def checked(**declarations):
    """Return a decorator that raises TypeError for arguments of other kinds.

    >>> @checked(times="int", fast="bool")
    ... def repeat(what, times=1, *, fast=False):
    ...     return [what] * times
    >>> repeat("a", "b")
    Traceback (most recent call last):
        ...
    TypeError: repeat(): argument 'times' must be int, not str; write 1
    """

    def decorate(function):
        names = list(inspect.signature(function).parameters)

        @functools.wraps(function)
        def call(*args, **kwargs):
            for name, value in (*zip(names, args), *kwargs.items()):
                wanted = kind(declarations[name]) if name in declarations else None
                if wanted is not None and not wanted.fits(value):
                    if plugrad.overrides.has_torch_function((value,)):
                        relevant = (*args, *kwargs.values())
                        return plugrad.overrides.handle_torch_function(call, relevant, *args, **kwargs)
                    raise TypeError(_said(f"{function.__name__}(): argument '{name}'", wanted, value))
            return function(*args, **kwargs)

        call.__asks__ = any("Tensor" in kind(one).words for one in declarations.values())
        return call

    return decorate


def kinds_of(op) -> dict:
    """Return the kind of each parameter of an op of which one is known.

    >>> from plugrad import registry
    >>> kinds_of(registry.op("cumsum"))["dim"].words
    'int'
    """
    # One without a public name serves others, or is public as its in-place form: its kinds are those that it declares.
    unnamed = {**op.kinds, **({"generator": "generator?"} if "generator" in op.parameters else {})}
    declared = {name: declaration(op, name) for name in op.parameters} if op.names else unnamed
    return {name: kind(text) for name, text in declared.items() if text is not None}


def wrong(op, values, error=None):
    """Return PyTorch's error for the first argument that is of a wrong kind; None if there is none.

    Where all are right and NumPy raised an `error` of its own it is said in PyTorch's words.
    """
    for position, name in enumerate(op.parameters):
        wanted, value = op.known_kinds.get(name), values[position]
        if wanted is None:
            continue
        if not wanted.fits(value):
            return TypeError(_said(_place(op, position, name), wanted, value))
        if _wants_real(op, wanted, values) and _imaginary(value):
            said = f"{_place(op, position, name)} is complex, and a real number is meant"
            return RuntimeError(f"value cannot be converted to type double without overflow: {said}")
        if isinstance(value, int) and not -_LIMIT <= value < 2 * _LIMIT and "Number" in wanted.words:
            return OverflowError(f"int too big to convert: {_place(op, position, name)}; write a float")
        if "int" in wanted.words and overflows(value):
            return ValueError(f"Overflow when unpacking long long: {_place(op, position, name)} has more than 64 bits")
        if "ints" in wanted.words and isinstance(value, (tuple, list)) and any(map(overflows, value)):
            return TypeError(f"Overflow when unpacking long long: {_place(op, position, name)} has more than 64 bits")
    told = None if error is None else translated(op, error)
    if told is not None:
        told.__cause__ = error  # shown below it, and what tells it from a refusal
    return told


def right(op, values) -> tuple:
    """Return arguments, with Python's numbers in the place of tensors and of NumPy's that stand for some.

    Ints of more than 64 bits become floats where such are meant. Who writes to a tensor afterwards that stood for a
    number changes neither what the call keeps for its gradient nor the view that it made. Raises PyTorch's error for
    the first argument that is of a wrong kind.
    """
    error = wrong(op, values)
    if error is not None:
        raise error
    right = list(values)
    for name, wanted in op.known_kinds.items():
        position = op.index[name]
        value = right[position]
        if wanted.plain and "Tensor" not in wanted.words:
            value = right[position] = _number(value, "int" in wanted.words)
        if type(value) is list and "ints" in wanted.words:  # which may change before what is kept of the call is used
            value = right[position] = tuple(value)
        if isinstance(value, numpy.generic):
            value = right[position] = value.item()
        if isinstance(value, complex) and wanted.real:
            right[position] = value.real
        elif wanted.words == "float" and overflows(value):
            right[position] = float(value)
    return tuple(right)


def refuse_wrong(op, args, kwargs) -> None:
    """Raise what is wrong with the kinds of a call's arguments, where the op that would say so does not run."""
    if op is None:
        return
    given = {**op.defaults, **dict(zip(op.positional, args)), **kwargs}
    if all([name in given for name in op.parameters]):
        right(op, [given[name] for name in op.parameters])
    for name in op.tensors if op.broadcasts else ():
        one = given.get(name)
        if one is not None and not isinstance(one, (plugrad.Tensor, int, float, complex, numpy.generic)):
            raise TypeError(f"{op.name}(): argument {name!r} must be Tensor or Number, not {type(one).__name__}")
        if isinstance(one, int) and not -_LIMIT <= one < 2 * _LIMIT:
            raise OverflowError(f"int too big to convert: {op.name}(): argument {name!r}; write a float")


def _number(value, whole):
    """Return a value with numbers in the place of tensors that stand for one; with `whole` of integer tensors only."""
    if type(value) in (tuple, list) and any(map(is_tensor, value)):
        return type(value)([_number(item, whole) for item in value])
    if not is_tensor(value) or value.ndim or whole and not is_int(value):
        return value
    return value.item()


def _imaginary(value) -> bool:
    """Whether a number, or a tensor in its place, has an imaginary part."""
    value = value.item() if is_tensor(value) and value.dtype.is_complex and not value.is_meta else value
    return isinstance(value, complex) and value.imag != 0


def _wants_real(op, wanted, values) -> bool:
    """Whether a number must be real: by its kind, or as the result is, by the tensors among the arguments.

    An op with a `dtype` knows what it can hold.
    """
    if "Number" not in wanted.words or not wanted.plain or wanted.real or "dtype" in op.parameters:
        return wanted.real
    tensors = list(filter(is_tensor, values))
    return bool(tensors) and not any(one.dtype.is_complex and (one.ndim or one is tensors[0]) for one in tensors)


def public_name(op) -> str:
    """Return the name under which programs call an op."""
    return (op.names or (op.name,))[0].rpartition(".")[2]


def _place(op, position, name) -> str:
    if name in op.keyword_only:
        return f"{public_name(op)}(): argument '{name}'"
    return f"{public_name(op)}(): argument '{name}' (position {position + 1})"


def _said(place, wanted, value) -> str:
    start = f"{place} must be {wanted.words}, "
    if isinstance(value, (tuple, list)) and ("ints" in wanted.words or "Tensors" in wanted.words):
        one = kind("int" if "ints" in wanted.words else "tensor")
        for i, item in enumerate(value):
            if not one.fits(item):
                return f"{start}but found element of type {type(item).__name__} at pos {i}; write {wanted.example}"
    what = type(value).__name__
    if is_tensor(value):
        what = f"Tensor of shape {list(value.shape)}" + (" that requires grad" if value.requires_grad else "")
    return f"{start}not {what}; write {wanted.example}"
