"""Hooks on tensors and nodes, and the handles that remove a hook again, also one of a module or optimizer."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict

from plugrad.graph.modes import LEAF


class RemovableHandle:
    """What every ``register_..._hook`` returns: it can remove its hook.

    The handle holds the table of hooks weakly, so it keeps nothing alive, and removing twice (or after the
    table's owner has gone) does nothing. As a context manager it removes the hook on leaving.

    Args:
        hooks_dict: the table of hooks, by id. An ``OrderedDict``: a plain ``dict`` has no weak references.
        extra_dict: a table, or a list of tables, that may hold more under the same id.

    >>> from collections import OrderedDict
    >>> from plugrad.graph.hooks import RemovableHandle
    >>> hooks = OrderedDict()
    >>> with RemovableHandle(hooks) as handle:
    ...     hooks[handle.id] = print
    ...     len(hooks)
    1
    >>> len(hooks)
    0
    """

    __slots__ = ("id", "_tables", "__weakref__")
    _ids = itertools.count()

    def __init__(self, hooks_dict, *, extra_dict=None):
        tables = [hooks_dict]
        if isinstance(extra_dict, (list, tuple)):
            tables += extra_dict
        elif extra_dict is not None:
            tables.append(extra_dict)
        self._tables = tuple(map(weakref.ref, tables))
        self.id = next(self._ids)

    hooks_dict_ref = property(lambda self: self._tables[0], doc="A weak reference to the table of hooks.")

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        for table in self._tables:
            hooks = table()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception) -> None:
        self.remove()

    def __getstate__(self):
        return self.id, [table() for table in self._tables]

    def __setstate__(self, state) -> None:
        self.id, tables = state
        # A table that had gone stays gone: a reference to a fresh one dies at once.
        self._tables = tuple(weakref.ref(OrderedDict() if table is None else table) for table in tables)
        while next(self._ids) < self.id:  # the tables have hooks of such numbers
            continue


class Rare:
    """What few nodes and leaves have: hooks, the stack of the forward call, packed saved tensors."""

    __slots__ = ("before", "after", "pre", "stack", "unpack", "retained", "metadata", "tangents")

    def __init__(self):
        self.before = None  # tensor hooks: id -> function(grad)
        self.retained = None  # weak reference to the tensor that keeps its gradient
        self.pre = None  # node pre-hooks: id -> function(grad_outputs)
        self.after = None  # node hooks: id -> function(grad_inputs, grad_outputs)
        self.stack = None
        self.unpack = None
        self.metadata = self.tangents = None

    def add(self, kind: str, hook) -> RemovableHandle:
        """Register a hook of the kind "before", "pre" or "after"."""
        table = getattr(self, kind)
        if table is None:
            table = OrderedDict()
            setattr(self, kind, table)
        return add_hook(table, hook)


def add_hook(table: OrderedDict, hook, marks=(), prepend=False) -> RemovableHandle:
    """Enter a hook in a table; return the handle that removes it.

    Args:
        table: the hooks by id, in the order in which they run.
        hook: a function.
        marks: further tables, {id: True}, where the hook is entered, too.
        prepend: whether it runs before the hooks that are there.
    """
    if not callable(hook):
        raise TypeError(f"a hook must be callable, not {type(hook).__name__}")
    handle = RemovableHandle(table, extra_dict=marks)
    table[handle.id] = hook
    for mark in marks:
        mark[handle.id] = True
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def hooks_of(leaf) -> Rare:
    """Return the hooks of a leaf tensor, made at first use."""
    return leaf.__dict__.setdefault("_hooks", Rare())


def move_retained(before, edge) -> None:
    """Have a tensor that got another history keep the gradient of its new value; hooks stay with the old one."""
    if before is None or before is LEAF or before.rare is None or edge is None:
        return
    retained, before.rare.retained = before.rare.retained, None
    if retained is not None:
        edge._rare().retained = retained


def add_tensor_hook(tensor, hook) -> RemovableHandle:
    """Register `hook(grad)` on a tensor; its result, if not None, replaces the gradient."""
    edge = tensor._live_edge()
    return (hooks_of(tensor) if edge is LEAF else edge._rare()).add("before", hook)
