"""What a trace changes for its time: calls and attributes of modules, and the functions that `wrap` names."""

from __future__ import annotations

import builtins
import functools
import sys
import threading

from plugrad import nn
from plugrad.extend import process_lock
from plugrad.extend.blocks import Restoring
from plugrad.fx.node import map_aggregate
from plugrad.fx.proxy import Proxy

# Functions that are traced as one call: {(id of a module's names, name): the module's names}.
wrapped_functions: dict = {}


def wrap(fn_or_name):
    """Let traces take a function of the calling module as one call.

    They do not look into it.

    It is called at the top level of the module that uses the function, with the function or its name, or stands above
    the function as a decorator. NotImplementedError elsewhere.

    Args:
        fn_or_name: the function, or its name in that module: `torch.fx.wrap("len")`.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    wrapped_functions[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def find_proxy(*values):
    """Return a Proxy that nested values hold, or None."""
    proxies = []
    map_aggregate(values, lambda item: proxies.append(item) if isinstance(item, Proxy) else None)
    return proxies[-1] if proxies else None


def as_one_call(function):
    """Return a function that becomes one node if a proxy is among its arguments."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    call._is_one_call = True
    return call


# What one trace changes another would take for the original, and put back behind it: one thread traces at a time.
tracing = process_lock()


class Patches(Restoring):
    """Changes that last for a `with` block under the lock; other threads do not see those of Module."""

    def __init__(self):
        self._undo: list = []
        self._visited: set[int] = set()

    def begin(self):
        return self

    def end(self):
        while self._undo:
            function, *args = self._undo.pop()
            function(*args)

    def of_modules(self, name, function) -> None:
        """Have a method of all modules carried out by `function(original, module, *args)`, in this thread."""
        original, thread = getattr(nn.Module, name), threading.get_ident()

        @functools.wraps(original)
        def call(module, *args, **kwargs):
            if threading.get_ident() != thread:
                return original(module, *args, **kwargs)
            return function(original, module, *args, **kwargs)

        if name in vars(nn.Module):
            self._undo.append((setattr, nn.Module, name, original))
        else:
            self._undo.append((delattr, nn.Module, name))
        setattr(nn.Module, name, call)

    def in_namespace(self, names: dict, name: str, function) -> None:
        """Put a function that becomes one node in the place of one of a module's names."""
        if getattr(function, "_is_one_call", False):
            return
        if name in names:
            self._undo.append((names.__setitem__, name, names[name]))
        else:
            self._undo.append((names.__delitem__, name))
        names[name] = as_one_call(function)

    def wrapped(self) -> None:
        """Put all functions that `wrap` named."""
        for (_, name), names in list(wrapped_functions.items()):
            self.in_namespace(names, name, names[name] if name in names else getattr(builtins, name))

    def search(self, names: dict, functions: set[int]) -> None:
        """Put those of some functions, by their ids, that a module has among its names."""
        if id(names) in self._visited:
            return
        self._visited.add(id(names))
        for name, value in list(names.items()):
            if not name.startswith("_") and callable(value) and id(value) in functions:
                self.in_namespace(names, name, value)
