"""Parameters and modules in plain lists, dicts, sets... of a module: nobody finds them there.

`parameters()` looks once at each module that it is called on. What a list holds may be registered elsewhere, so only
parameters that are found nowhere below that module count, and only such as require gradients: a list is also how a
program keeps a frozen teacher out of its parameters.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict, deque
from itertools import islice

from plugrad.nn import Module, Parameter

FIXES = {"module": "nn.ModuleList or nn.ModuleDict", "parameter": "nn.ParameterList or nn.ParameterDict"}
PLAIN = (list, tuple, dict, set, frozenset, deque, OrderedDict, defaultdict)
LONGEST = 1000  # how many items of a container are looked at, and
DEEPEST = 3  # how many containers deep: data of a program's own may be large

_said: set = set()  # (class, attribute): each is named once in a program


def look(root: Module) -> None:
    """Warn of what is lost below a module."""
    held = [
        (module, name, kept)
        for module in root.modules()
        for name, value in vars(module).items()
        if type(value) in PLAIN and value and not hasattr(Module, name) and (kept := [*_held(value)])
    ]
    if not held:
        return
    registered = {id(parameter) for module in root.modules() for parameter in module._parameters.values()}
    for module, name, kept in held:
        kinds = sorted({kind for kind, parameters in kept if any(_is_lost(p, registered) for p in parameters)})
        if kinds and (type(module), name) not in _said:
            _said.add((type(module), name))
            warnings.warn(_text(module, name, kinds), stacklevel=4)


def _held(value, depth=1):
    """Yield (kind, parameters) of the modules and parameters in nested plain containers."""
    for item in islice(value.values() if isinstance(value, dict) else value, LONGEST):
        if isinstance(item, Module):
            yield "module", [parameter for module in item.modules() for parameter in module._parameters.values()]
        elif isinstance(item, Parameter):
            yield "parameter", [item]
        elif type(item) in PLAIN and depth < DEEPEST:
            yield from _held(item, depth + 1)


def _is_lost(parameter, registered) -> bool:
    return parameter is not None and parameter.requires_grad and id(parameter) not in registered


def _text(module, name, kinds) -> str:
    held = " and ".join(f"{kind}s" for kind in kinds)
    return (
        f"{type(module).__name__}.{name} is a plain {type(getattr(module, name)).__name__} with {held} in it: "
        f"parameters(), state_dict() and to() don't find them, so they are neither trained nor saved. Make it "
        f"{' or '.join(FIXES[kind] for kind in kinds)}; if it is meant, requires_grad_(False) on them says so"
    )
