"""What a third party's code may not do to its host while it is loaded.

Installing a plugin is running its code, and nothing here makes that safe. It catches what happens by accident and by
bad habit: names of plugrad's replaced or deleted, defaults of the whole program changed, output of the program mixed
with the plugin's own.
"""

from __future__ import annotations

import sys
import threading

import numpy

from plugrad.registry import store
from plugrad.registry.events import guarded_classes, guarded_settings

_GONE = object()


class Contained:
    """Put back what changed in plugrad when the block ends; raise RuntimeError if anything had.

    What the block prints on the standard output goes to standard error, and NumPy's error state is put back silently.
    """

    def __enter__(self):
        self.names = [(module, dict(vars(module))) for name, module in list(sys.modules.items()) if _is_core(name)]
        self.names += [(cls, dict(vars(cls))) for cls in guarded_classes]
        self.ops = {name: op for name, op in store.ops.items() if op.provider.builtin}
        self.public = {name: entry for name, entry in store.public.items() if entry.provider.builtin}
        self.settings = [read() for _, read, _ in guarded_settings]
        self.numpy = numpy.geterr()
        self.output = None
        if sys.stdout is not None and sys.stderr is not None:
            self.output, self.errors = _ToStandardError(sys.stdout), sys.stderr
            sys.stdout = self.output

    def __exit__(self, kind, error, trace):
        if self.output is not None:
            self.output.thread = None  # whoever kept it writes to the standard output from now on
            # Another thread that is loading a plugin takes its own away itself.
            if sys.stdout is self.output or not isinstance(sys.stdout, _ToStandardError):
                sys.stdout = self.output.real
            sys.stderr = self.errors
        numpy.seterr(**self.numpy)
        damage = self._repair()
        if damage and error is None:
            more = f" and {len(damage) - 3} more" if len(damage) > 3 else ""
            raise RuntimeError(
                f"it changed {', '.join(damage[:3])}{more} while it was loaded (plugrad put it back): declare an op "
                "with override=True to replace one of plugrad's"
            )

    def _repair(self) -> list[str]:
        damage = []
        for holder, before in self.names:
            now = vars(holder)
            for name, value in before.items():
                if now.get(name, _GONE) is not value and not _is_right(holder, value, now.get(name, _GONE)):
                    damage.append(f"{holder.__name__}.{name}")
                    setattr(holder, name, value)
            damage += _added(holder, before)
        for table, before, label in ((store.ops, self.ops, "op"), (store.public, self.public, "name")):
            for name, value in before.items():
                if name not in table or (table is store.ops and table[name] is not value):
                    damage.append(f"the {label} {name!r}")
                    table[name] = value
        for (label, read, write), before in zip(guarded_settings, self.settings):
            if read() is not before:
                damage.append(label)
                write(before)
        return damage


def _is_core(name) -> bool:
    return name == "plugrad" or (name.startswith("plugrad.") and not name.startswith("plugrad.plugins."))


def _is_right(holder, before, now) -> bool:
    """Whether a name's change is one that plugrad makes itself: methods are generated and functions found late."""
    if not callable(before) and not hasattr(type(before), "__get__"):
        return True  # a module's own state
    if now is _GONE:  # a function that is found again
        return not isinstance(holder, type) and hasattr(before, "__op__")
    return _is_ours(now)


def _is_ours(value) -> bool:
    module = getattr(value, "__module__", None) or ""
    return hasattr(value, "__op__") or f"{module}.".startswith("plugrad.")


def _added(holder, before) -> list[str]:
    """Take away what stands for a name of ours that was never used yet, such as `plugrad.relu = mine`."""
    if isinstance(holder, type):
        return []
    home = holder.__name__.removeprefix("plugrad").lstrip(".")
    added = []
    for name in [name for name in vars(holder) if name not in before]:
        entry = store.public.get(f"{home}.{name}" if home else name)
        value = vars(holder)[name]
        if entry is not None and entry.provider.builtin and value is not entry.value and not _is_ours(value):
            added.append(f"{holder.__name__}.{name}")
            delattr(holder, name)
    return added


class _ToStandardError:
    """Stands for `sys.stdout`: what one thread writes goes to standard error, what others write where it went."""

    def __init__(self, real):
        self.real, self.thread = real, threading.get_ident()

    def __getattr__(self, name):
        return getattr(sys.stderr if self.thread == threading.get_ident() else self.real, name)
