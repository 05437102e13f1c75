"""Which changes of what names lead to are plugrad's own, and which somebody else's."""

from __future__ import annotations

import builtins
import functools
import sys
import types

from plugrad import registry
from plugrad.process_state.withheld import real
from plugrad.registry.namespaces import LazyMethod

GONE = object()
_COUNTS = (int, tuple, type(None))  # what modules count or collect: others' modules change it, too


def is_right(holder, name, before, now) -> bool:
    """Whether a name's change is one that plugrad makes itself: methods are generated, functions found late."""
    if real(now) is real(before):
        return True
    if name[:2] == name[-2:] == "__" and not callable(before):
        return True  # what Python itself keeps there
    if type(now) is LazyMethod or (code := _code(now)) is not None and code.co_name == "first_call":
        return is_ours(now)  # it is looked up anew, since another plugin brought one
    if type(before) is LazyMethod and is_ours(now):  # a method that came from its room
        return True
    if now is GONE:  # a function that is found again when it is used
        return isinstance(holder, types.ModuleType) and hasattr(before, "__op__")
    if isinstance(before, _COUNTS) or (isinstance(holder, types.ModuleType) and name in _rebound(holder)):
        return not callable(now) or is_ours(now)
    record = getattr(now, "__op__", None)
    entry = registry.public.get(f"{holder.__name__}.{name}".removeprefix("plugrad."))
    if record is not None and entry is not None and entry.value is not record:
        return False
    code, earlier = _code(now), _code(before)
    generated = code is not None and code.co_filename.startswith("<plugrad ")
    if earlier is not None and earlier.co_name != "first_call":  # generated again, after a kernel was added
        return generated and earlier.co_filename == code.co_filename
    return generated and not isinstance(before, type)  # in the place of what stood there until it was first used


def _rebound(module) -> set:
    """Return the names of a module that its own functions rebind: its state."""
    known = _states.get(module)
    if known is None:
        import dis

        codes = [_code(value) for value in vars(module).values()]
        codes += [_code(m) for cls in vars(module).values() if isinstance(cls, type) for m in vars(cls).values()]
        known = _states[module] = {
            step.argval
            for code in codes if code is not None and "STORE_GLOBAL" not in code.co_names
            for step in dis.get_instructions(code) if step.opname == "STORE_GLOBAL"
        }  # fmt: skip
    return known


_states: dict = {}


def _code(value):
    """Return the code of a function, or of what stands for one; not of what `functools.wraps` says that it wraps."""
    for kinds, attribute in _AROUND:  # nothing else is asked: ctypes' loaders take each name for a library's
        if issubclass(type(value), kinds):
            value = getattr(value, attribute)
    return value.__code__ if isinstance(value, types.FunctionType) else None


_AROUND = (
    ((staticmethod, classmethod, types.MethodType), "__func__"),
    (property, "fget"),
    ((functools.partial, functools.cached_property), "func"),
)


def is_ours(value) -> bool:
    code = _code(value)
    if code is not None:
        return code.co_filename.startswith("<plugrad ") or is_from(code, files())
    kind = value if isinstance(value, type) else type(value)
    return f"{kind.__module__}.".startswith("plugrad.")


def is_from(code, files) -> bool:
    return code.co_filename.startswith("<plugrad ") or code.co_filename in files


def files() -> set:
    modules = [module for name, module in list(sys.modules.items()) if f"{name}.".startswith("plugrad.")]
    return {vars(module).get("__file__") for module in modules}


def remove_covers(holder, before) -> list[str]:
    """Take away what was put before a name of ours: an inherited one, or one that was never used yet."""
    home = holder.__name__.removeprefix("plugrad").lstrip(".")
    added = []
    for name in [name for name in vars(holder) if name not in before]:
        if isinstance(holder, type):
            asked = name[:2] == name[-2:] == "__"  # by Python, as `__getattr__` is
            asked = asked or any(name in vars(base) for base in holder.__mro__[1:])
            if asked and callable(vars(holder)[name]) and not is_ours(vars(holder)[name]):
                added.append(f"{shown(holder)}.{name}")
                delattr(holder, name)
            continue
        if holder is builtins and name != "_":  # which the prompt of Python sets
            added.append(f"builtins.{name}")
            delattr(holder, name)
            continue
        entry = registry.public.get(f"{home}.{name}" if home else name)
        value = vars(holder)[name]
        if entry is None and _covers(holder, name, value):
            added.append(f"{holder.__name__}.{name}")
        if entry is None or not entry.provider.builtin or value is entry.value:
            continue
        if getattr(value, "__op__", None) is not entry.value and not isinstance(value, types.ModuleType):
            added.append(f"{holder.__name__}.{name}")
            delattr(holder, name)
    return added


def shown(holder) -> str:
    """Return how a module or class is called in a message."""
    ours = isinstance(holder, types.ModuleType) or holder.__module__[:7] == "plugrad"
    return holder.__name__ if ours else f"{holder.__module__}.{holder.__qualname__}"


def _covers(module, name, value) -> bool:
    """Whether a value stands before what a module of plugrad's finds when it is asked; the latter is there then."""
    asked = vars(module).get("__getattr__")
    if asked is None or name[:2] == "__" or isinstance(value, types.ModuleType):
        return False
    if not is_ours(asked) or is_ours(value):
        return False
    delattr(module, name)
    try:
        return getattr(module, name) is not value
    except AttributeError:  # nothing: it is the third party's own
        setattr(module, name, value)
        return False
