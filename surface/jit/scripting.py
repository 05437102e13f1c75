"""`script`: functions and modules read from their source."""

from __future__ import annotations

import functools
import types

from plugrad import nn
from plugrad.jit.classes import compiled_class
from plugrad.jit.decorators import is_tracing
from plugrad.jit.modules import RecursiveScriptModule, ScriptFunction, stage
from plugrad.jit.texts import functions_in, names_of_caller
from plugrad.jit.units import FunctionUnit, modifier

__all__ = ["CompilationUnit", "script", "script_if_tracing"]


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """Return the staged form of a function or Module, read from its source.

    Args:
        obj: a function, or a Module, whose `forward`, what it calls, and methods with `@torch.jit.export` are compiled;
            or a class, whose methods are, and which is returned as it is.

    Its `if`, `while` and `for` stay. What is not in the language is refused with the line: FrontendError for
    statements and expressions, RuntimeError for types, names and calls that do not fit, NotImplementedError for
    what TorchScript has and this has not. See docs/staged.md.

    >>> import plugrad as torch
    >>> model = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()))
    >>> model(torch.ones(1, 2)).shape, sorted(model.state_dict())
    (torch.Size([1, 3]), ['0.bias', '0.weight'])
    """
    if isinstance(obj, (RecursiveScriptModule, ScriptFunction)):
        return obj
    if isinstance(obj, nn.Module):
        return stage(obj).script
    if isinstance(obj, type):
        if issubclass(obj, nn.Module):
            raise RuntimeError(
                f"Type '{obj}' cannot be compiled since it inherits from nn.Module, consider passing an instance"
            )
        return compiled_class(obj)
    original = getattr(obj, "__original_fn", obj)
    if isinstance(original, types.MethodType):
        raise RuntimeError("a bound method can't be compiled: script the Module, or a function")
    if not isinstance(original, types.FunctionType):
        if not callable(original):
            raise TypeError(f"script() takes a function or Module, not {type(obj).__name__}")
        raise RuntimeError(f"{original!r} is no function of Python's and has no source that could be compiled")
    if modifier(original) in ("ignore", "unused"):
        return obj
    unit = FunctionUnit(original.__name__)
    return ScriptFunction(unit.compiled(original), original)


class CompilationUnit:
    """Functions that a text defines, compiled.

    Args:
        lang: the text, or None.

    >>> import plugrad as torch
    >>> unit = torch.jit.CompilationUnit("def twice(x: int) -> int:\\n    return 2 * x")
    >>> unit.twice(4)
    8
    """

    __module__ = "plugrad.jit"

    def __init__(self, lang=None, _frames_up=0):
        self._functions = {}
        if lang is not None:
            self.define(lang, _frames_up=_frames_up + 1)

    def define(self, lang, rcb=None, _frames_up=0) -> None:
        """Add the functions of a text, in which the names are known that the caller sees."""
        for function in functions_in(lang, names_of_caller(_frames_up + 1)):
            name = function.__name__
            if name in self._functions:
                raise RuntimeError(f"the function '{name}' is defined already")
            self._functions[name] = script(function)

    def __getattr__(self, name):
        try:
            return self.__dict__["_functions"][name]
        except KeyError:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'") from None

    def get_functions(self) -> list:
        """Return the functions."""
        return list(self._functions.values())


def script_if_tracing(fn):
    """Return a function that is compiled when it is called while tracing.

    It runs as it is otherwise.
    """

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return script(fn)(*args, **kwargs) if is_tracing() else fn(*args, **kwargs)

    wrapper.__original_fn = fn
    wrapper.__script_if_tracing_wrapper = True
    return wrapper
