"""Classes as type checkers read them: bases, constructor, public members."""

from __future__ import annotations

import inspect

import plugrad
from plugrad.arguments import NAMES
from plugrad.testing.stubs.functions import ANY, KINDS, function_lines, parameters, record_of, text_of, written
from plugrad.testing.stubs.results import described, result_of_layer

_BINARY = "add sub mul matmul truediv floordiv mod pow and or xor lshift rshift".split()
_OPERATORS = {f"__{kind}{name}__" for name in _BINARY for kind in ("", "r", "i")}
_OPERATORS |= {f"__{name}__" for name in "lt le gt ge eq ne neg pos abs invert".split()}
_UNARY = ("__neg__", "__pos__", "__abs__", "__invert__")
_DUNDERS = _OPERATORS | set(
    "__init__ __call__ __enter__ __exit__ __len__ __getitem__ __setitem__ __delitem__ __iter__ __next__ __contains__ "
    "__bool__ __int__ __float__ __complex__ __index__ __array__".split()
)
_PYTHON = {  # what Python itself says of them
    "__len__": "_b.int", "__bool__": "_b.bool", "__int__": "_b.int", "__float__": "_b.float",
    "__complex__": "_b.complex", "__index__": "_b.int", "__contains__": "_b.bool", "__init__": "None",
    "__setitem__": "None", "__delitem__": "None",
}  # fmt: skip


def _bases(cls, homes) -> tuple:
    """Return the texts of the public bases, and the classes whose members are this one's own."""
    own, bases = [cls], []
    for base in cls.__mro__[1:]:
        if base in homes:
            bases.append(base)
        elif base is not object and not any(issubclass(other, base) for other in bases):
            own.append(base)
    nearest = [base for base in bases if not any(other is not base and issubclass(other, base) for other in bases)]
    return [text_of(base, homes) for base in nearest], own


def class_lines(cls, homes) -> list[str]:
    """Return the lines of a class in a stub."""
    bases, own = _bases(cls, homes)
    builtin = next((base for base in (dict, list, tuple, int, float, str) if issubclass(cls, base)), None)
    if builtin is not None and not bases:
        item = "_b.int" if cls is plugrad.Size else ANY
        filled = {dict: f"[{ANY}, {ANY}]", list: f"[{item}]", tuple: f"[{item}, ...]"}
        bases = [f"_b.{builtin.__name__}{filled.get(builtin, '')}"]
    elif issubclass(cls, BaseException) and not bases:
        bases = [f"_b.{next(b for b in cls.__mro__ if b.__module__ == 'builtins').__name__}"]
    members: dict = {}
    for base in own:
        if base.__module__ != "builtins" and base.__module__.startswith(("plugrad", *_modules(cls))):
            for name, value in vars(base).items():
                members.setdefault(name, value)
    lines = []
    for name, value in sorted(members.items()):
        if name in _DUNDERS or not name.startswith("_"):
            lines += _member(cls, name, value, homes)
    lines += _call_lines(cls)
    if cls is plugrad.nn.Module:
        lines.append(f"    def __getattr__(self, name: _b.str) -> {ANY}: ...")
    head = f"class {cls.__name__}({', '.join(bases)}):" if bases else f"class {cls.__name__}:"
    return [head, *(lines or ["    ..."])] if lines else [f"{head} ..."]


def _modules(cls) -> tuple:
    return (cls.__module__.partition(".")[0],)


def _member(cls, name, value, homes) -> list[str]:
    if name == "__call__" and issubclass(cls, plugrad.nn.Module):
        return []
    if name == "forward" and cls is plugrad.nn.Module:  # which everybody overrides, with other parameters
        return [f"    forward: _t.Callable[..., {ANY}]"]
    static = inspect.getattr_static(cls, name)
    if isinstance(static, property) or inspect.isdatadescriptor(static):
        return [f"    {name}: {_property(cls, name, static)}"]
    if isinstance(value, (staticmethod, classmethod)):
        kind = "staticmethod" if isinstance(value, staticmethod) else "classmethod"
        first = None if kind == "staticmethod" else "cls"
        inner = parameters(value.__func__, lambda one: written(one.annotation), method=first)
        result = written(value.__func__.__annotations__.get("return", inspect.Parameter.empty))
        return [f"    @{kind}", f"    def {name}({inner}) -> {result}: ..."]
    if isinstance(value, type):
        return []
    try:
        function = getattr(cls, name, None)
    except ImportError:  # the plugin that promises it does not load
        return []
    if not callable(function):
        return [f"    {name}: {text_of(type(function), homes)}"]
    if name == "__init__":
        inner = parameters(function, _constructed, method="self")
        return [f"    def __init__({inner}) -> None: ..."]
    if name in _OPERATORS and cls is plugrad.Tensor:
        lines = [f"    def {name}(self{'' if name in _UNARY else f', other: {ANY}'}) -> _p.Tensor: ..."]
    elif name == "__getitem__" and cls is plugrad.Tensor:
        lines = [f"    def {name}(self, index: {ANY}) -> _p.Tensor: ..."]
    elif name in _PYTHON:
        inner = parameters(function, lambda one: written(one.annotation), method="self")
        lines = [f"    def {name}({inner}) -> {_PYTHON[name]}: ..."]
    else:
        lines = function_lines(name, function, method="self", indent="    ")
    return lines


def _constructed(one) -> str:
    """Return the type of a constructor's parameter."""
    if one.annotation is not one.empty:
        return written(one.annotation)
    if one.name in ("device", "dtype"):
        return f"{KINDS[one.name]} | None"
    return KINDS["bool"] if type(one.default) is bool and NAMES.get(one.name, "bool") == "bool" else ANY


def _property(cls, name, static) -> str:
    if cls is plugrad.Tensor:
        if name == "grad":
            return "_p.Tensor | None"
        try:
            return described(getattr(plugrad.ones(2, 3, dtype=plugrad.complex64), name))
        except (AttributeError, RuntimeError, TypeError, NotImplementedError):  # of other tensors
            return ANY
    getter = getattr(static, "fget", None)
    return ANY if getter is None else written(getattr(getter, "__annotations__", {}).get("return", inspect._empty))


def _call_lines(cls) -> list[str]:
    """Return how a layer's instances are called: as its `forward` is, whatever `__call__` adds."""
    if not issubclass(cls, plugrad.nn.Module):
        return []
    if cls.forward is plugrad.nn.Module.forward:
        anything = f"    def __call__(self, *args: {ANY}, **kwargs: {ANY}) -> {ANY}: ..."
        return [anything] if cls is plugrad.nn.Module else []
    inner = parameters(cls.forward, _argument, method="self")
    return [f"    def __call__({inner}) -> {result_of_layer(cls)}: ..."]


def _argument(one) -> str:
    if one.annotation is not one.empty:
        return written(one.annotation)
    optional = " | None" if one.default is None else ""
    return f"_p.Tensor{optional}" if NAMES.get(one.name) == "tensor" else ANY
