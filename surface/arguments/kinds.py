"""Kinds of arguments: what may stand for a parameter that is declared as an int, a flag, a size, a dtype..."""

from __future__ import annotations

import functools

import numpy

import plugrad
from plugrad.extend import LEFT_OUT

_LIMIT = 1 << 63  # PyTorch's ints have 64 bits


class Kind:
    """What may be passed for a parameter: values of some types as they are, others after a look.

    Attributes:
        words: how PyTorch's messages name it.
        example: what could be written.
        types: the exact types that pass without a look.
        fits: function of a value, whether it may be passed.
        plain: whether a tensor is only taken in the place of a number.
        real: whether a number may have no imaginary part.
    """

    __slots__ = ("words", "example", "types", "fits", "plain", "real")

    def __init__(self, words, example, types, fits, plain=True, real=False):
        self.words, self.example, self.types, self.fits, self.plain = words, example, frozenset(types), fits, plain
        self.real = real


def is_tensor(value) -> bool:
    """Whether a value is a tensor."""
    return isinstance(value, plugrad.Tensor)


def _scalar(value):
    """Return the dtype of a tensor that may stand for a number, one without dimensions or history; else None."""
    return value.dtype if is_tensor(value) and not value.ndim and not value.requires_grad else None


def is_int(value) -> bool:
    """Whether PyTorch takes a value for an int: bools it does not."""
    if isinstance(value, (bool, numpy.bool_, numpy.timedelta64)):  # the last is an integer of NumPy's by its class
        return False
    if isinstance(value, (int, numpy.integer)):
        return True
    dtype = _scalar(value)
    return dtype is not None and not (dtype.is_floating_point or dtype.is_complex or dtype is plugrad.bool)


def is_float(value) -> bool:
    """Whether PyTorch takes a value for a float: ints and bools, too."""
    if isinstance(value, (int, float, numpy.integer, numpy.floating, numpy.bool_)):
        return not isinstance(value, numpy.timedelta64)
    dtype = _scalar(value)
    return dtype is not None and not dtype.is_complex


def is_number(value) -> bool:
    """Whether PyTorch takes a value for a number."""
    if isinstance(value, (int, float, complex, numpy.number, numpy.bool_)):
        return not isinstance(value, numpy.timedelta64)
    return _scalar(value) is not None


def is_ints(value) -> bool:
    """Whether PyTorch takes a value for a tuple of ints: bools pass after the first element, and arrays of one int."""
    if not isinstance(value, (tuple, list)):
        return False
    fits = [is_int(item) or i > 0 and isinstance(item, bool) or _is_array_of_int(item) for i, item in enumerate(value)]
    return all(fits)


def _is_array_of_int(value) -> bool:
    return isinstance(value, numpy.ndarray) and not value.ndim and value.dtype.kind in "iu"


def is_some_ints(value) -> bool:
    """Whether a value is a sequence of ints, some of which may be left out: None."""
    return isinstance(value, (tuple, list)) and all([item is None or is_int(item) for item in value])


def is_floats(value) -> bool:
    """Whether a value is a sequence of floats."""
    return isinstance(value, (tuple, list)) and all(map(is_float, value))


def is_tensors(value) -> bool:
    """Whether a value is a sequence of tensors."""
    return isinstance(value, (tuple, list)) and all(map(is_tensor, value))


def is_dtype(value) -> bool:
    """Whether a value is a dtype, or one of Python's types that stand for some."""
    return isinstance(value, plugrad.dtype) or any(value is one for one in (float, int, bool, complex))


def _instance(*classes):
    return lambda value: isinstance(value, classes)


_SIZES = (tuple, list, plugrad.Size)


@functools.cache
def alternatives():
    """Return the kinds that a declaration can be composed of, by their names."""
    tensor, device = plugrad.Tensor, plugrad.device
    return {
        "tensor": Kind("Tensor", "torch.as_tensor(...)", (tensor, plugrad.nn.Parameter), is_tensor, False),
        "tensors": Kind("tuple of Tensors", "(x, y)", _SIZES, is_tensors, False),
        "indices": Kind("tuple of Tensors", "(i, j)", (), is_tensors),  # whose items are always looked at
        "number": Kind("Number", "1.0", (int, float, bool), is_number),  # complex ones get a look
        "real": Kind("Number", "1.0", (int, float, bool), is_number, real=True),
        "float": Kind("float", "1.0", (int, float, bool), is_float),
        "floats": Kind("tuple of floats", "(0.0, 1.0)", _SIZES, is_floats),
        "int": Kind("int", "1", (int,), is_int),
        "place": Kind("int", "1", (int,), lambda v: is_int(v) or is_tensor(v)),  # of tensors the op says which
        "ints": Kind("tuple of ints", "(2, 3)", _SIZES, is_ints),
        "some_ints": Kind("tuple of ints", "(2, None)", _SIZES, is_some_ints),
        "bool": Kind("bool", "True or False", (bool,), _instance(bool)),
        "str": Kind("str", "a string", (str,), _instance(str)),
        "dtype": Kind("torch.dtype", "torch.float32", (plugrad.dtype,), is_dtype),
        "device": Kind("torch.device", "'cpu'", (str, device), lambda v: is_int(v) or isinstance(v, (str, device))),
        "layout": Kind("torch.layout", "torch.strided", (plugrad.layout,), _instance(plugrad.layout)),
        "memory_format": Kind(
            "torch.memory_format", "torch.contiguous_format", (plugrad.memory_format,), _instance(plugrad.memory_format)
        ),
        "generator": Kind("torch.Generator", "torch.Generator()", (plugrad.Generator,), _instance(plugrad.Generator)),
    }  # fmt: skip


@functools.cache
def kind(declaration: str) -> Kind:
    """Return the kind of a declaration: names of `alternatives` joined by `|`, with a `?` where None may stand.

    With `...` in its place an argument may be left out, as its default `LEFT_OUT` says, but not given as None.

    >>> kind("int|ints?").words
    'int or tuple of ints'
    >>> kind("bool").fits(1), kind("float").fits(1)
    (False, True)
    """
    absent = [value for end, value in (("?", None), ("...", LEFT_OUT)) if declaration.endswith(end)]
    parts = [alternatives()[name] for name in declaration.rstrip("?.").split("|")]
    types = frozenset().union(*[part.types for part in parts], map(type, absent))
    words, tests = " or ".join(part.words for part in parts), [part.fits for part in parts]
    return Kind(
        words, parts[0].example, types,
        lambda value: any([value is one for one in absent]) or any([test(value) for test in tests]),
        all([part.plain for part in parts]), any([part.real for part in parts]),
    )  # fmt: skip


def overflows(value) -> bool:
    """Whether a value is an int that has no 64 bits."""
    return isinstance(value, int) and not -_LIMIT <= value < _LIMIT
