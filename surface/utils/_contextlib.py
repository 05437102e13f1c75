"""`torch.utils._contextlib`: context managers that are decorators, of generators too."""

from __future__ import annotations

import inspect

from plugrad.autograd.rare.decorating import decorated


class _DecoratorContextManager:
    """A context manager that also decorates: `clone()` makes the one for each call."""

    def __call__(self, orig_func):
        return decorated(self.clone, orig_func)

    def __enter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __enter__()")

    def __exit__(self, exc_type, exc_value, traceback):
        raise NotImplementedError(f"{type(self).__name__} has no __exit__()")

    def clone(self):
        """Return another one; a class whose constructor takes arguments defines it."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One without arguments, which may be written without parentheses: `@mode`."""

    def __new__(cls, orig_func=None):
        return super().__new__(cls) if orig_func is None else cls()(orig_func)


def context_decorator(ctx, func):
    """Return a function that runs in a context: a manager, or what makes one.

    Raises RuntimeError for a class, of which nobody knows which methods are meant.
    """
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(f"Passed in {ctx} is both callable and also a valid context manager: pass one of them")
    if inspect.isclass(func):
        raise RuntimeError("Cannot decorate classes: decorate each of the methods that are meant")
    return decorated((lambda: ctx) if hasattr(ctx, "__enter__") else ctx, func)
