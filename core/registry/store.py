"""What is registered: tables of entries by name, the plugins that they come from, and who else claims a name."""

from __future__ import annotations

import threading

from plugrad.interrupts import process_lock
from plugrad.registry import events


class Table(dict):
    """A dict whose values, items and keys one by one are those of a moment: other threads may enter more meanwhile."""

    __slots__ = ()

    def __iter__(self):
        return iter(list(self.keys()))

    def values(self):
        return [value for _, value in self.items()]

    def items(self):
        return list(super().items())


class Promising(Table):
    """A table that loads what a plugin of ours promises when it is asked for, and lists it in the order of promises."""

    __slots__ = ("promised", "order")

    def __init__(self):
        self.promised, self.order = {}, {}  # name -> plugin; that of all that were ever promised

    def _fetch(self, key):
        plugin = self.promised.get(key)
        if plugin is not None and not plugin.lock._is_owned():
            events.publish(events.on_needed, plugin, False)

    def __missing__(self, key):
        self._fetch(key)
        if key in super().keys():
            return self[key]
        raise KeyError(key)

    def get(self, key, default=None):
        self._fetch(key)
        return super().get(key, default)

    def __contains__(self, key):
        return super().__contains__(key) or key in self.promised

    def __len__(self):
        return len(self.keys())

    def keys(self):
        here, promised = dict.fromkeys(super().keys()), self.promised
        return dict.fromkeys([key for key in self.order if key in here or key in promised] + [*here]).keys()

    def items(self):
        for key in list(self.promised):
            self._fetch(key)
        here = dict(super().items())
        return [*{key: here[key] for key in (*self.order, *here) if key in here}.items()]


lock = process_lock()
ops: dict = Promising()  # primary name ("relu"; a third party's: "namespace.swish") -> Op
public: dict = Promising()  # dotted public name ("nn.functional.relu", "optim.SGD", "backends.cpu") -> Entry
tables: dict[str, dict] = {}  # kind -> name -> Entry
backends: dict = Table()  # device type -> its backend; None until the device is first used
claims: dict = Table()  # dotted public name -> plugins that promise or bring it, besides that of the public entry
plugins: dict = Table()  # "distribution:name" -> Plugin

_here = threading.local()  # .depth: how many plugins this thread is loading


class Entry:
    """A registered thing: its kind, name, value (an Op, class, function), and plugin."""

    __slots__ = ("kind", "name", "value", "provider")

    def __init__(self, kind, name, value, provider):
        self.kind, self.name, self.value, self.provider = kind, name, value, provider

    def target(self, dotted):
        """What a public name refers to."""
        value = self.value if self.kind != "ops" or dotted.startswith("Tensor.") else self.value.called
        return value.function if self.kind == "ops" else value


class loading:
    """Notes, while the block runs, that this thread is loading a third party's plugin."""

    def __enter__(self):
        _here.depth = getattr(_here, "depth", 0) + 1

    def __exit__(self, *exc):
        _here.depth -= 1


def loading_here() -> bool:
    """Whether this thread is loading a plugin of a third party."""
    return getattr(_here, "depth", 0) > 0
