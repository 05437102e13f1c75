"""Where a program keeps what it replaces at each call: attributes, entries of dicts, variables and items of lists.

A captured program takes what is there as an argument, and what is there afterwards is a result that is put there.
"""

from __future__ import annotations

import dis
import types
from collections import OrderedDict, defaultdict

from plugrad.compiler.names import LOOKS
from plugrad.compiler.world import MISSING, VIEWS, content_of, same

DICTS = (dict, OrderedDict, defaultdict)  # of which entries can be replaced
_ADDITIONS = ("+=", "-=")


class Entry:
    """What a dict has under a name; `is_attribute` where it is that of an object or module, read by code alone."""

    def __init__(self, table, name, is_attribute=False):
        self.table, self.name, self.is_attribute = table, name, is_attribute
        self.key = id(table), name

    def get(self):
        return self.table.get(self.name, MISSING)

    def put(self, content):
        if content is MISSING:
            self.table.pop(self.name, None)
        else:
            self.table[self.name] = content


class Slot:
    """What an object has in a slot."""

    is_attribute = True

    def __init__(self, item, name):
        self.item, self.name, self.key = item, name, (id(item), name)

    def get(self):
        return getattr(self.item, self.name, MISSING)

    def put(self, content):
        if content is not MISSING:
            setattr(self.item, self.name, content)
        elif hasattr(self.item, self.name):
            delattr(self.item, self.name)


class Cell:
    """What a variable of a function around has."""

    name, is_attribute = None, False

    def __init__(self, cell):
        self.cell, self.key = cell, (id(cell), None)

    def get(self):
        return self.cell.cell_contents

    def put(self, content):
        self.cell.cell_contents = content


class Items:
    """The items of a list, of which there are always as many."""

    name, is_attribute = None, False

    def __init__(self, items):
        self.items, self.key = items, (id(items), None)

    def get(self):
        return tuple(self.items)

    def put(self, content):
        self.items[:] = content


def replaced(world) -> list:
    """Return the places where something else is than a World has seen; none where anything else changed, too."""
    places = []
    for table, before, names in world.tables:
        for name in before if names is not None else {**before, **table}:
            if not same(table.get(name, MISSING), before.get(name, MISSING)):
                places.append(Entry(table, name, id(table) in world.attributes))
    for table, before in world.partly:
        places += [Entry(table, name, id(table) in world.attributes) for name in table.keys() ^ before.keys()]
    places += [Entry(table, name, True) for table, name in world.absent if name in table]
    if not all(type(one.table) in DICTS and isinstance(one.name, str) for one in places):
        return []
    for item, name, before in world.slots:
        places += [Slot(item, name)] * (not same(getattr(item, name, MISSING), before))
    places += [Cell(cell) for cell, before in world.cells if not same(content_of(cell), before)]
    for items, before in world.lists:
        if len(items) != len(before) or not all(map(same, items, before)):
            if type(items) is list and len(items) == len(before):
                places.append(Items(items))
            elif not isinstance(items, VIEWS):
                return []
    now = world.fixed_now()
    return places if len(now) == len(world.fixed) and all(map(same, now, world.fixed)) else []


class Uses:
    """How code uses attributes and global variables: `read` are the names of which it needs what is there.

    That of `x.count += 1` it does not need if nothing else reads `count`: it is one more, whatever it is.
    """

    def __init__(self, world):
        self.read, self.added, self.stored, names = set(), set(), set(), set()
        codes = [function.__code__ for function, _ in world.functions]
        for code in codes:  # which grows
            makes = code.co_name == "__init__"
            names.update([name for name in code.co_names if not makes or name != "__init__"])
            steps = [one for one in dis.get_instructions(code) if one.opname not in _BETWEEN]
            self._look_at(steps, code.co_varnames[0] if makes and code.co_argcount else None)
            for const in code.co_consts:
                self.read.update(_texts(const))
                codes += [const] if isinstance(const, types.CodeType) else []
        self.looks = not LOOKS.isdisjoint(names)

    def _look_at(self, steps, new):
        """Note the names that steps of code use, but of the object that the variable `new` has, which is new."""
        stores = set()  # those that end an addition, by number
        for number, step in enumerate(steps):
            name, before = step.argval, steps[number - 1]
            if new is not None and before.opname == "LOAD_FAST" and before.argval == new and step.opname in _OF_OBJECTS:
                continue
            if step.opname in _LOADS and _is_added(steps[number : number + 4], name):
                self.added.add(name)
                stores.add(number + 3)
            elif step.opname in _STORES:
                self.stored.update([name] if number not in stores else ())
            elif isinstance(name, str) and step.opname not in _OF_LOCALS:
                self.read.add(name)

    def is_read(self, place) -> bool:
        """Whether what is at a place decides what a program does, as far as its code tells."""
        return self.looks or not place.is_attribute or place.name in self.read or place.name in self.added

    def is_counted(self, place) -> bool:
        """Whether all that a program does with an attribute is to add constants to it."""
        only = place.name in self.added and place.name not in self.read | self.stored
        return only and place.is_attribute and not self.looks


_LOADS = ("LOAD_ATTR", "LOAD_GLOBAL", "LOAD_NAME")
_STORES = ("STORE_ATTR", "STORE_GLOBAL", "STORE_NAME")
_OF_OBJECTS = ("LOAD_ATTR", "STORE_ATTR")
_OF_LOCALS = ("LOAD_FAST", "STORE_FAST")
_BETWEEN = ("EXTENDED_ARG", "CACHE", "SWAP", "COPY")


def _is_added(steps, name) -> bool:
    """Whether a value that was loaded gets a constant added, and is stored under its name again."""
    if len(steps) < 4:
        return False
    _, constant, addition, store = steps
    whole = constant.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and type(constant.argval) is int
    added = addition.opname == "BINARY_OP" and addition.argrepr in _ADDITIONS
    return whole and added and store.opname in ("STORE_ATTR", "STORE_GLOBAL") and store.argval == name


def _texts(const) -> list:
    """Return the texts in a constant of code."""
    if isinstance(const, str):
        return [const]
    return [text for one in const for text in _texts(one)] if isinstance(const, (tuple, frozenset)) else []
