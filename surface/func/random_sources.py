"""The generators of random numbers that a function can draw from, beside the default one."""

from __future__ import annotations

import functools
import itertools
import types

from plugrad import Generator
from plugrad.nn import Module

LIMIT = 20_000  # objects that are looked at


def generators_of(*roots) -> list:
    """Return the generators that functions lead to: by arguments, closures, defaults, and globals that they name."""
    sources: list = []
    seen: dict = {}
    waiting = [*roots]
    while waiting and len(seen) < LIMIT:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        if isinstance(item, Generator):
            sources.append(item)
        elif isinstance(item, types.FunctionType):
            waiting += _held(item)
        elif isinstance(item, types.MethodType):
            waiting += (item.__self__, item.__func__)
        elif isinstance(item, functools.partial):
            waiting += (item.func, item.args, item.keywords)
        elif isinstance(item, (list, tuple, set, frozenset)):
            waiting += itertools.islice(item, LIMIT)
        elif isinstance(item, dict):
            waiting += itertools.islice(item.values(), LIMIT)
        elif isinstance(item, Module):
            waiting.append(vars(item))
    return sources


def _held(function) -> list:
    """Return what a function of a program holds, nothing of plugrad's own."""
    if (function.__globals__.get("__name__") or "").partition(".")[0] == "plugrad" and not function.__closure__:
        return []
    codes, names = [function.__code__], set()
    for code in codes:  # which grows by those of inner functions
        names.update(code.co_names)
        codes += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    held = [function.__globals__[name] for name in names if name in function.__globals__]
    for cell in function.__closure__ or ():
        if cell != types.CellType():  # one that is not empty
            held.append(cell.cell_contents)
    return [*held, function.__defaults__, function.__kwdefaults__]
