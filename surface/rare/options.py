"""The options of a group of parameters as an optimizer's `update` reads them, where some are no plain numbers."""

from __future__ import annotations

from numbers import Real

import numpy

from plugrad import Tensor

_PLAIN = {float, int, bool}
_SINGLE = ("lr", "weight_decay", "momentum", "dampening")  # hyper-parameters that are one number in every optimizer


def plain_options(group):
    """Return a group's options with the numbers of tensors, such as a rate; TypeError for what is no number."""
    for name in _SINGLE:
        option = group.get(name, 0)
        if type(option) in _PLAIN or option is None and name != "lr":
            continue
        if not _is_number(option, group["params"]):
            raise TypeError(f"{name} must be a number, not {type(option).__name__}: set group[{name!r}] to one")
    holds = [isinstance(value, Tensor) or _is_tuple_of_tensors(value) for value in group.values()]
    if not any(holds):
        return group
    return {name: value if name == "params" else _number(name, value) for name, value in group.items()}


def _is_number(option, params) -> bool:
    """Whether an option is a number; a complex one is where parameters are complex."""
    if isinstance(option, numpy.ndarray):
        return option.ndim == 0 and _is_number(option[()], params)
    if isinstance(option, (complex, numpy.complexfloating)):
        return any([p.is_complex() for p in params])
    return isinstance(option, (Real, Tensor, numpy.bool_))


def _is_tuple_of_tensors(value) -> bool:
    return type(value) is tuple and bool(value) and isinstance(value[0], Tensor)


def _number(name, option):
    if isinstance(option, Tensor):
        if option.numel() != 1:
            raise TypeError(f"{name} must be Number, not Tensor with {option.numel()} elements: set it to a number")
        return option.item()
    return tuple([_number(name, one) for one in option]) if isinstance(option, tuple) else option
