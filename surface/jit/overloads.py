"""Overloaded functions: several declarations of types for one body, which is compiled for each that calls need."""

from __future__ import annotations

from plugrad.jit.decorators import declarations_of
from plugrad.jit.signatures import Argument, Signature
from plugrad.jit.source import MISSING, Source

__all__ = ["Overload", "chosen"]


class Overload(Source):
    """The source of a function with the types of one of its declarations."""

    def __init__(self, function, declaration, number):
        super().__init__(function)
        self.declaration, self.number = Source(declaration), number

    def arguments(self, is_method: bool) -> list:
        """Return [(name, type, default or MISSING)] of the function."""
        own = self.tree.args
        names = [one.arg for one in (*own.posonlyargs, *own.args, *own.kwonlyargs)][is_method:]
        count = len(own.posonlyargs) + len(own.args) - is_method
        values = self.function.__defaults__ or ()
        defaults = dict(zip(names[count - len(values) : count], values)) | (self.function.__kwdefaults__ or {})
        declared = self.declaration.arguments(is_method)
        if [name for name, *_ in declared] != names:
            raise RuntimeError(f"{self.function.__name__}: an overload has other arguments than the function: {names}")
        return [(name, kind, defaults.get(name, MISSING)) for name, kind, _ in declared]

    def returns(self):
        """Return the type of the result."""
        return self.declaration.returns()


def chosen(function, is_method, args, kwargs, refuse, node):
    """Return the Overload that arguments of a call fit, None for a function that has none; refuse what fits none."""
    declarations = declarations_of(function)
    for number, declaration in enumerate(declarations):
        one = Overload(function, declaration, number)
        signature = Signature(function.__name__, [Argument(*row) for row in one.arguments(is_method)], one.returns())
        try:
            signature.check(args, kwargs, refuse, node)
        except RuntimeError:
            if number == len(declarations) - 1:
                raise
        else:
            return one
    return None
