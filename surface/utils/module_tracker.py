"""`torch.utils.module_tracker`: which modules are being called now."""

from __future__ import annotations

import weakref

from plugrad import nn
from plugrad.extend.blocks import Restoring

__all__ = ["ModuleTracker"]


class ModuleTracker(Restoring):
    """A context whose `parents` are the names of running modules, and "Global".

    A module's name is the class of the outermost module and the attributes that lead to it: "Sequential.0".

    >>> import plugrad as torch
    >>> class Shown(torch.nn.Module):
    ...     def forward(self, x):
    ...         print(sorted(tracker.parents))
    ...         return x
    >>> with torch.utils.module_tracker.ModuleTracker() as tracker:
    ...     _ = torch.nn.Sequential(Shown())(torch.ones(1))
    ['Global', 'Sequential', 'Sequential.0']
    """

    def __init__(self):
        self._names: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._running: list = []
        self._handles: list = []

    @property
    def parents(self) -> set:
        """The names of the modules that are running."""
        return {"Global", *self._running}

    def begin(self):
        self._running.clear()
        self._handles.append(nn.module.register_module_forward_pre_hook(self._begin))
        self._handles.append(nn.module.register_module_forward_hook(self._end, always_call=True))
        return self

    def end(self):
        while self._handles:
            self._handles.pop().remove()

    def _begin(self, module, args):
        name = self._names.get(module) or type(module).__name__
        self._name(module, name)
        self._running.append(name)

    def _end(self, module, args, output):
        self._running.pop()

    def _name(self, module, name):
        self._names[module] = name
        for attribute, child in module.named_children():
            if self._names.get(child) is None:
                self._name(child, f"{name}.{attribute}")
