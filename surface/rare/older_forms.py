"""Scales that stand before what they scale, as programs for the first PyTorch wrote: `x.add_(alpha, y)`."""

from __future__ import annotations

from plugrad import Tensor
from plugrad.backends import warn_once


def older_form(op, in_place, args, keywords):
    """Carry out a call of an op with scales among its positional arguments.

    They are taken in the order of `op.older`, the tensors in that of the op's parameters. Warns of the first such
    call of a process, as PyTorch does. Raises TypeError where there are too many arguments for that, or a scale is
    given twice.
    """
    method = op.in_place if in_place else op.function
    scales = [value for value in args if not isinstance(value, Tensor)]
    tensors = [value for value in args if isinstance(value, Tensor)]
    parameters = dict(zip(op.older, scales))
    if len(tensors) != len(op.positional) or not _is_older(op, args):
        name = method.__qualname__ if in_place else op.name
        raise TypeError(
            f"{name}() takes {len(op.positional)} positional arguments but {len(args)} were given; "
            f"{' and '.join(op.older)} {'is' if len(op.older) == 1 else 'are'} given by keyword"
        )
    if any(keywords[name] is not op.defaults[name] for name in parameters):
        raise TypeError(f"{op.name}() got multiple values for argument {next(iter(parameters))!r}")
    name = f"{op.name}_" if in_place else op.name
    old = ", ".join(value if isinstance(value, str) else "" for value in _signature(op, len(scales)))
    new = ", ".join(f"Tensor {parameter}" for parameter in op.positional[in_place:])
    scaled = ", ".join(f"Number {parameter} = 1" for parameter in op.older)
    warn_once(
        "older forms",
        f"This overload of {name} is deprecated:\n\t{name}({old})\nConsider using one of the following signatures "
        f"instead:\n\t{name}({new}, *, {scaled})",
        stacklevel=3,
    )
    return method(*tensors, **{**keywords, **parameters})


def _is_older(op, args) -> bool:
    """Whether the scales stand where older forms have them: a method's before all other arguments."""
    places = [i for i, value in enumerate(args) if not isinstance(value, Tensor)]
    return places in ([[1]] if len(op.older) == 1 else [[0], [1], [0, 2], [1, 2]])


def _signature(op, scales):
    """Return the parameters of an older form with so many scales, as a warning shows them."""
    tensors = [f"Tensor {name}" for name in op.positional]
    numbers = [f"Number {name}" for name in op.older[:scales]]
    if len(op.older) == 1:
        return [tensors[0], *numbers, *tensors[1:]]
    return [numbers[0], tensors[0], *numbers[1:], *tensors[1:]]
