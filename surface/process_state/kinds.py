"""What a setting is: how it is read, told from another, and put back."""

from __future__ import annotations

import sys
import types
from operator import is_

from plugrad.process_state.owners import is_common, is_foreign

_GONE = object()
PLAIN = (bool, bytes, dict, float, int, list, str, tuple, type(None))


class Setting:
    """One setting: what it is called, functions to read and to write it.

    `random` says that it is a generator's state, `own` that plugrad draws from it.
    """

    __slots__ = ("label", "own", "random", "read", "write")

    def __init__(self, label, read, write, random=False, own=False):
        self.label, self.read, self.write, self.random, self.own = label, read, write, random, own

    def same(self, before, now) -> bool:
        """Whether nothing changed."""
        return same(before, now)

    def changes(self, before, now) -> list[str]:
        """Return in words what changed."""
        return [self.label]


class Chain(Setting):
    """A list that Python asks from its front; anybody may add to its end, and a library where it likes."""

    __slots__ = ()

    def __init__(self, label, entries):
        super().__init__(label, lambda: self._others(entries), lambda before: self._restore(entries, before))

    def same(self, before, now):
        if len(now) >= len(before) and all(map(is_, before, now)):
            return True
        places = [i for i, one in enumerate(now) if is_among(one, before)]
        kept = len(places) == len(before) and all(now[i] is one for i, one in zip(places, before))
        return kept and not any(is_foreign(_kind(now[i])) for i in range(max(places, default=0)) if i not in places)

    @staticmethod
    def _others(entries):
        """Return the entries but for those of plugrad's that watch what is imported, in any thread."""
        return [one for one in entries[:] if not type(one).__module__.startswith("plugrad.")]  # others add some

    def _restore(self, entries, before):
        others = self._others(entries)
        last = max((i for i, one in enumerate(others) if is_among(one, before)), default=-1)
        own = [one for one in entries if not is_among(one, others)]
        entries[:] = own + before + others[last + 1 :]


def is_among(one, others) -> bool:
    """Whether something is one of several; none is asked whether it equals another."""
    return any(one is other for other in others)


def _kind(one):
    return one if isinstance(one, type) or isinstance(one, types.FunctionType) else type(one)


class Table(Setting):
    """A setting that is a dict, whose changes are told by key."""

    __slots__ = ()

    def changes(self, before, now):
        changed = [key for key in {*before, *now} if key not in before or not same(before[key], now.get(key))]
        return [f"{self.label} ({', '.join(sorted(map(str, changed)))})"]


class Names(Table):
    """What some names of a module of Python's lead to, as far as they are there; nothing is compared."""

    __slots__ = ("module", "names")

    def __init__(self, module, *names, random=False):
        super().__init__(module.__name__, self._read, self._write, random)
        self.module, self.names = module, tuple(dict.fromkeys(names))

    def _read(self):
        now = vars(self.module)
        return {name: now[name] for name in self.names if name in now}

    def _write(self, values):
        for name in self.names:
            if name in values:
                setattr(self.module, name, values[name])
            elif name in vars(self.module):
                delattr(self.module, name)

    def same(self, before, now):
        return identical(before, now)

    def changes(self, before, now):
        changed = [name for name in self.names if before.get(name, _GONE) is not now.get(name, _GONE)]
        return [f"{self.label} ({', '.join(changed)})"]


class Registered(Table):
    """A dict, the result of `table`, of what is done with classes; anybody may enter classes of their own."""

    __slots__ = ("table",)

    def __init__(self, label, table):
        super().__init__(label, lambda: dict(table()), self._restore)
        self.table = table

    @staticmethod
    def _changed(before, now) -> list:
        lost = [key for key, one in before.items() if now.get(key) is not one]
        return lost + [key for key in now if key not in before and is_common(key) and not is_common(now[key])]

    def same(self, before, now):
        return identical(before, now) or not self._changed(before, now)

    def changes(self, before, now):
        changed = [ascii(getattr(key, "__qualname__", key)) for key in self._changed(before, now)]
        return [f"{self.label} ({', '.join(sorted(changed))})"]

    def _restore(self, before):
        table = self.table()
        for key in self._changed(before, dict(table)):
            if key in before:
                table[key] = before[key]
            else:
                del table[key]


def same(before, now) -> bool:
    """Whether a setting has its value: the same object, or an equal one of Python's own kinds."""
    return before is now or (type(before) is type(now) and isinstance(before, PLAIN) and bool(before == now))


def identical(before: dict, now: dict) -> bool:
    """Whether two dicts have the same names in the same order, and for each the same object; nothing is compared."""
    return len(before) == len(now) and all(map(is_, before.values(), now.values())) and [*before] == [*now]


def spec_of(module):
    """Return a module's `__spec__`, without asking one that is imported, or puts another in its place, when asked."""
    try:
        return object.__getattribute__(module, "__dict__").get("__spec__")
    except AttributeError:  # None, and what has no attributes
        return None


def is_whole(module) -> bool:
    """Whether no thread is still importing a module."""
    return not getattr(spec_of(module), "_initializing", False)


def imported(name):
    """Return a module; None if it isn't imported, or only being imported."""
    module = sys.modules.get(name)
    return module if is_whole(module) else None


def of_module(name, read, write, default):
    """Return functions that read and write what a module of Python's keeps; `default` until it is imported."""

    def read_it():
        module = imported(name)
        return default if module is None else read(module)

    return read_it, lambda value: write(sys.modules[name], value)
