"""What a program can reach: its tensors, and the plain Python values that decide what it does.

A captured program is right as long as all of these are as they were. `World` follows a function's globals, closure and
defaults, bound objects, Modules, containers and other objects. A thing that it can't watch is a reason not to capture.
"""

from __future__ import annotations

import array
import builtins
import contextvars
import dis
import functools
import gc
import logging
import sys
import threading
import types
import weakref
from collections import deque
from itertools import chain
from operator import attrgetter, is_, methodcaller

import numpy

from plugrad import Generator, Tensor
from plugrad.compiler import names as words
from plugrad.compiler.calls import CACHED, Kept
from plugrad.compiler.drawing import DRAWING
from plugrad.compiler.graph import ASSIGNABLE, slots_of
from plugrad.compiler.sizes import CaptureError
from plugrad.extend import Op
from plugrad.nn import Module
from plugrad.optim import Optimizer

PLAIN = (int, float, bool, str, bytes, complex, type(None), type(Ellipsis), numpy.generic, numpy.dtype, range, slice)
VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
CHANGING = (list, set, deque, bytearray, array.array, *VIEWS)
LIMIT = 20_000  # objects that are followed
_OURS = ("plugrad", "numpy", "scipy")
MISSING = types.SimpleNamespace()  # what is there where nothing is
OF_A_THREAD = (threading.local, contextvars.ContextVar)
BUILTIN = (types.BuiltinFunctionType, types.MethodWrapperType)
_DESCRIPTORS = (  # in C: they are what they are
    types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.ClassMethodDescriptorType, *BUILTIN,
)  # fmt: skip


class World:
    """All that `roots` lead to: `tensors`, `optimizers`, `generators`, and containers with what was in them.

    Of objects of the program's own classes that is what code names, unless they count as a `whole`.
    """

    def __init__(self, roots, places=(), whole=False):
        self.whole = whole
        self.apart: dict = {}  # names that a program takes as arguments, not from here, by the id of what has them
        for place in places:
            self.apart.setdefault(place.key[0], set()).add(place.key[1])
        self.attributes: set = set()  # ids of the dicts that objects have their attributes in, or modules variables
        self.absent: list = []  # (variables of a module, name of one that functions set and that is not there)
        self.partly: list = []  # (dict, a copy of it) of which not all names count
        self.tensors: list = []
        self.optimizers: list = []
        self.generators: list = []
        self.tables: list = []  # (dict, a copy of it, names that count or None for all)
        self.lists: list = []  # (what is in CHANGING, its items)
        self.cells: list = []  # (cell, content)
        self.options: list = []  # (group of an optimizer, a copy): they may change between calls, not in one
        self.slots: list = []  # (object, name of a slot, content or MISSING)
        self.classes: list = []  # (class, what it has that counts, all of its names)
        self.arrays: list = []  # (array of NumPy, its bytes)
        self.functions: list = []  # (function, (code, defaults, defaults of what is given by name))
        self.kinds: list = []  # (object, its class)
        self.drawing: list = []  # generators of Python's and NumPy's
        self.caches: list = []  # functions of `functools.lru_cache`
        self.suspects: dict = {}  # code of functions that ask for what is not watched, and in words what that is
        self.asks_for_gradients = False  # whether a function may look at those that tensors have
        self.seen: dict = {}
        self.names: set = set()  # those in the code of functions
        self.texts: set = set()  # by which names may be looked up
        self.waiting: list = []  # (names, where it counts from when code has one, its own name, it, what it leads to)
        self.as_kinds: set = set()  # ids of classes that are reached by their objects alone
        self.loaded: list = []  # (variables of a module of ours or Python's, name of one that is not there yet)
        self.looked_up: list = []  # (names of a module, those that count or None for all, parts of names)
        stack = list(roots)
        while stack or (stack := self._named()) or (stack := self._names_that_are_texts()):
            item = stack.pop()
            if isinstance(item, str):
                self.texts.add(item)
            if isinstance(item, PLAIN) or id(item) in self.seen:
                continue
            self.seen[id(item)] = item
            if len(self.seen) > LIMIT:
                raise CaptureError("the program can reach too many objects to watch")
            stack.extend(self._follow(item))
        self._prepare()

    # ---- following

    def _follow(self, item):
        """Note an object and return what it leads to."""
        if isinstance(item, Tensor):
            self.tensors.append(item)
            return self._table(item.__dict__)
        if isinstance(item, Optimizer):
            self.optimizers.append(item)
            self.asks_for_gradients = True
            self.options += [(group, dict(group)) for group in item.param_groups]
            for items in (item.param_groups, *[group["params"] for group in item.param_groups]):
                self.lists.append((items, tuple(items)))
            return [p for group in item.param_groups for p in group["params"]]
        if type(item).__module__.startswith("plugrad.compiler"):  # it changes when it is called; what counts is inside
            inner = vars(item)
            return [inner.get("graph"), inner.get("function"), *inner.get("_modules", {}).values()]
        if isinstance(item, Op):  # what is derived from a record comes at its first use; what counts are its functions
            return [*item.kernels.values(), *[formula.function for formula in item.formulas]]
        if isinstance(item, CACHED):
            self.caches.append(item)
            kept = Kept(item)
            led_to = [one for one in kept.results if not isinstance(one, PLAIN) and _matters(one)]
            return [*led_to, *kept.tensors(), *self._table(item.__dict__)]
        if type(item).__module__.startswith("plugrad.dispatch."):  # where functions look ops up
            return ()
        if isinstance(item, Generator):
            self.generators.append(item)
            return ()
        if isinstance(item, DRAWING):
            self.drawing.append(item)
            return ()
        if isinstance(item, OF_A_THREAD):
            raise CaptureError(f"the program can reach a {type(item).__name__}, which may differ from thread to thread")
        if isinstance(item, weakref.ReferenceType):
            return (item(),)
        if type(item) in (list, tuple, set, frozenset, dict):
            return self._contents(item)
        if isinstance(item, numpy.ndarray):
            if item.nbytes > 1 << 16 or item.dtype.hasobject:
                raise CaptureError("the program reads an array of NumPy, whose writes can't be noticed")
            self.arrays.append((item, item.tobytes()))
            return ()
        if isinstance(item, types.FunctionType):
            return () if _ours(item.__module__) else self._function(item)
        if isinstance(item, types.MethodType):
            return (item.__self__, item.__func__)
        if isinstance(item, functools.partial):
            return (item.func, item.args, item.keywords)
        if isinstance(item, type):
            return () if _foreign(item.__module__) else self._class(item)
        if isinstance(item, (attrgetter, methodcaller)) or isinstance(item, BUILTIN) and item.__name__ in words.LOOKS:
            self.names.add("getattr")  # under whatever name it is called
        if isinstance(item, BUILTIN):  # a method of an object perhaps
            return () if isinstance(item.__self__, types.ModuleType) else (item.__self__,)
        if isinstance(item, logging.Logger):  # whether it makes records; where they go does not count
            self._table(vars(item.manager), ["_disable"])
            return [item.parent, type(item), *self._table(vars(item), ["level", "disabled"])]
        if isinstance(item, types.ModuleType):  # in an attribute, say: functions name what they want of it
            self.looked_up += [(item.__dict__, None, ())] * (not _foreign(item.__name__))
            return ()
        if hasattr(type(item), "__next__"):
            raise CaptureError(f"the program can reach an iterator ({type(item).__name__}), which moves with each call")
        if isinstance(item, Module):
            tables = [name for name, value in item.__dict__.items() if isinstance(value, dict) and value]
            hooks = [name for name in tables if name.endswith("_hooks") and "state_dict" not in name]
            if hooks:
                raise CaptureError(f"a {type(item).__name__} has hooks ({hooks[0]})")
        state = getattr(item, "__dict__", None)
        self.attributes.add(id(state))
        led_to = self._attributes(type(item), state) if isinstance(state, dict) else []
        led_to += self._contents(item)
        if type(item).__flags__ & ASSIGNABLE:
            self.kinds.append((item, type(item)))
        if not _foreign(type(item).__module__):
            apart = self.apart.get(id(item), ())
            for name in [name for name in slots_of(type(item)) if name not in apart]:
                self.slots.append((item, name, getattr(item, name, MISSING)))
                led_to += [one for one in (self.slots[-1][2],) if one is not MISSING]
        return [*led_to, *self._kind(type(item))]

    def _attributes(self, cls, state):
        """Watch what an object has: of one whose classes are all the program's only what its code names."""
        if not _is_programs(cls):
            return self._table(state)
        apart, counts = self.apart.get(id(state), ()), {}
        self._in_part(state)
        self.tables.append((state, counts, counts))
        self.waiting += [({name}, counts, name, value, [value]) for name, value in state.items() if name not in apart]
        return []

    def _in_part(self, table):
        """Watch which names there are in a dict of which not all count."""
        self.partly.append((table, dict(table)))
        self.lists.append((table.keys(), tuple(table)))

    def _kind(self, cls):
        """Follow the class of an object: of the program's own classes what code names."""
        if not _is_programs(cls) or id(cls) in self.seen:
            return [cls]
        led_to = []
        if id(cls) not in self.as_kinds:
            self.as_kinds.add(id(cls))
            led_to = [one for base in cls.__bases__ for one in self._kind(base)] + self._class(cls, True)
        return led_to

    def _named(self) -> list:
        """Return what waited for code to name it; all that did, where code looks at an object as a whole."""
        known, whole, led_to = self.names | self.texts, self.whole or not words.LOOKS.isdisjoint(self.names), []
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            names, counts, name, content, leads = one
            if whole or not names.isdisjoint(known):
                counts[name] = content
                led_to += leads
            else:
                self.waiting.append(one)
        return led_to

    def _contents(self, item):
        """Return what a container holds, nothing of another object."""
        if isinstance(item, (dict, types.MappingProxyType)):
            return self._table(item)
        if id(item) in self.apart:
            return []
        if isinstance(item, CHANGING):
            self.lists.append((item, tuple(item)))
        return list(item) if isinstance(item, (*CHANGING, tuple, frozenset)) else []

    def _table(self, table, names=None):
        apart = self.apart.get(id(table))
        if apart is not None and names is None:
            self._in_part(table)
        if apart is not None:
            names = [name for name in (table if names is None else names) if name not in apart]
        self.tables.append((table, dict(table) if names is None else {name: table[name] for name in names}, names))
        values = list(self.tables[-1][1].values())
        return values if names is not None else [*[key for key in table if not isinstance(key, PLAIN)], *values]

    def _function(self, function):
        names, texts, code = set(), set(), [function.__code__]
        for one in code:
            names.update(one.co_names)
            texts.update([const for const in one.co_consts if isinstance(const, str)])  # for getattr
            for name in words.UNWATCHED.keys() & one.co_names:
                self.suspects[one] = f"{function.__name__} asks for {words.UNWATCHED[name]}, which may change ({name})"
            if any(name in one.co_names for name in words.BY_IDENTITY) and words.tells_apart(one, function.__globals__):
                self.suspects[one] = f"{function.__name__} asks for the id of an object, which a new one may have"
            code += [const for const in one.co_consts if isinstance(const, types.CodeType)]
            told = {*one.co_names} - words.NO_GRADIENT
            self.asks_for_gradients |= "grad" in one.co_consts or any("grad" in name for name in told)
        self.names |= names
        self.texts |= texts
        table, cells = function.__globals__, [content_of(cell) for cell in function.__closure__ or ()]
        used = [*names, *[one.__name__ for one in (*map(table.get, names), *cells) if isinstance(one, BUILTIN)]]
        by_name = not words.BY_NAME.isdisjoint(used)
        self.attributes.add(id(table))
        for one in code:
            self._new_variables(one, table)
        parts = tuple([text for text in texts if len(text) > 1]) if by_name else ()
        names |= texts
        own = [name for name in sorted(names) if name in table]
        lasting = all(isinstance(table[name], words.LASTING) for name in own)
        if not (by_name or lasting) and words.ELSEWHERE.isdisjoint(names):
            variables = set().union(*map(words.variables_of, code))
            own = [name for name in own if name in variables]
        led_to = self._table(table, own)
        led_to += [sys.modules[name] for name in names if name not in table and name in sys.modules]  # imported inside
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # empty still
                raise CaptureError(f"{function.__name__} uses a variable that has no value yet") from None
            if id(cell) not in self.apart:
                self.cells.append((cell, content))
                led_to.append(content)
        self.looked_up += [(table, self.texts, parts)] * by_name
        for module in led_to:  # which grows: of a module counts what the function names
            if isinstance(module, types.ModuleType) and (id(module), function) not in self.seen:
                self.seen[id(module), function] = module
                values = self._table(module.__dict__, [name for name in sorted(names) if name in module.__dict__])
                if _foreign(module.__name__):  # what is there may be replaced, and changes in no other way
                    led_to += [one for one in values if isinstance(one, types.ModuleType)]
                    self.loaded += [(module.__dict__, name) for name in names if name not in module.__dict__]
                else:
                    led_to += values
                    self.looked_up += [(module.__dict__, self.texts, parts)] * by_name
        led_to = [one for one in led_to if not isinstance(one, types.ModuleType)]
        self.functions.append((function, parts_of(function)))
        return [*led_to, function.__defaults__, function.__kwdefaults__, *self._table(function.__dict__)]

    def _new_variables(self, code, table):
        """Note the variables of its module that a function sets, and which are not there yet: others watch none."""
        if any(name not in table and not hasattr(builtins, name) for name in code.co_names):
            for step in dis.get_instructions(code):
                if step.opname == "STORE_GLOBAL" and step.argval not in table:
                    self.absent.append((table, step.argval))

    def _names_that_are_texts(self) -> list:
        """Return what is in modules under names that are a text that something is looked up by, or made of some."""
        led_to = []
        for table, texts, parts in self.looked_up:
            wanted = self.names | self.texts if texts is None else texts
            for name in [name for name in table if (id(table), name) not in self.seen]:
                if name in wanted or name.startswith(parts) or name.endswith(parts):
                    self.seen[id(table), name] = table
                    led_to += self._table(table, [name])
        return led_to

    def _class(self, cls, as_kind=False):
        led_to = [] if as_kind else [*cls.__bases__, type(cls)]
        counts: dict = {}
        for name, own in vars(cls).items():
            value = getattr(own, "__func__", own)
            if isinstance(value, property):
                leads = [one for one in (value.fget, value.fset) if one is not None]
            elif isinstance(value, (types.FunctionType, Tensor, list, dict, set, numpy.ndarray)):
                leads = [value]
            elif name[:2] == "__" or isinstance(value, _DESCRIPTORS):
                self.texts.update(own if name == "__match_args__" else ())
                continue
            else:
                leads = [value]
            leads += [cls] * (isinstance(own, classmethod) and as_kind)  # which may make objects
            if as_kind and (name[:2] != "__" or name in words.OF_NEW_ONES):
                making = {cls.__name__, "type", "__class__"} if name in words.OF_NEW_ONES else set()
                self.waiting.append(({name} | making, counts, name, own, leads))
                continue
            counts[name] = own
            led_to += leads
        self.classes.append((cls, counts, frozenset(vars(cls))))
        return led_to

    # ---- comparing

    def _prepare(self):
        self.entries: list = []
        whole = [table for table, _, names in self.tables if names is None]
        self._whole = [way for table in whole for way in (table.keys, table.values)]
        self._some = [(table, name) for table, _, names in self.tables for name in names or ()]
        self.fixed, self._snapshot = self.fixed_now(), self._now()

    def _now(self) -> list:
        return [
            *chain.from_iterable([parts() for parts in self._whole]),
            *[table.get(name) for table, name in self._some],
            *[table.get(name, MISSING) for table, name in self.absent],
            *[content_of(cell) for cell, _ in self.cells],
            *[getattr(item, name, MISSING) for item, name, _ in self.slots],
            *chain.from_iterable([items for items, _ in self.lists]),
            *self.fixed_now(),
            *[table.get(key) for table, key, _ in self.entries],
        ]

    def fixed_now(self) -> list:
        """Return what can't be replaced: see `places.replaced`."""
        return [
            *[vars(cls).get(name, MISSING) for cls, counts, _ in self.classes for name in counts],
            *[len(vars(cls)) for cls, _, _ in self.classes],
            *chain.from_iterable([parts_of(function) for function, _ in self.functions]),
            *[type(item) for item, _ in self.kinds],
        ]

    def settle(self) -> None:
        """Watch, from now on, what caches keep that the program may have looked up, and what modules have loaded."""
        self.entries = [entry for cached in self.caches for entry in Kept(cached).entries]
        self.entries += [(table, name, table[name]) for table, name in self.loaded if name in table]
        self.loaded = []
        self._snapshot += [content for _, _, content in self.entries]

    def holds(self) -> bool:
        """Whether everything is as it was, tensors' values aside."""
        now, before = self._now(), self._snapshot
        if len(now) != len(before):
            return False
        if not all(map(is_, now, before)) and not all(map(same, now, before)):
            return False
        return not self.arrays or all(one.tobytes() == content for one, content in self.arrays)

    def changed(self) -> str:
        """Return in words which name or container is no longer as it was: the first, if there are several."""
        for table, before, names in self.tables:
            for name in before if names is not None else {**before, **table}:
                if not same(table.get(name, MISSING), before.get(name, MISSING)):
                    return repr(name)
        for table, name in self.absent:
            if name in table:
                return repr(name)
        for item, name, before in self.slots:
            if not same(getattr(item, name, MISSING), before):
                return f"{name!r} of a {type(item).__name__}"
        for items, before in self.lists:
            now = tuple(items)
            if len(now) != len(before) or not all(map(same, now, before)):
                return f"the items of a {type(items).__name__}"
        return "what a function or class has"

    def watched(self) -> list:
        """Return all of it as (kind, object, name, content), as native/guard.inc compares it."""
        tests: list = []
        for table, before, names in self.tables:
            if names is not None:
                tests += [(1, table, name, before[name]) for name in names]
            elif type(table) is dict:
                tests.append((0, table, None, tuple(chain.from_iterable(before.items()))))
            else:  # it may have an order of its own
                tests += [(3, table.keys(), None, tuple(before)), (3, table.values(), None, tuple(before.values()))]
        tests += [(2, cell, "cell_contents", content) for cell, content in self.cells]
        tests += [(2 if content is not MISSING else 5, item, name, content) for item, name, content in self.slots]
        for cls, counts, names in self.classes:
            (table,) = [one for one in gc.get_referents(vars(cls)) if type(one) is dict]  # behind the view of it
            tests.append((6, table, None, len(names)))
            tests += [(1, table, name, value) for name, value in counts.items()]
        tests += [(3, items, None, before) for items, before in self.lists]
        tests += [(7, function, None, parts) for function, parts in self.functions]
        tests += [(8, item, None, cls) for item, cls in self.kinds]
        tests += [(1, table, key, content) for table, key, content in self.entries]
        return [*tests, *[(4, one, None, content) for one, content in self.arrays]]

    def changed_options(self) -> bool:
        """Whether options of an optimizer changed."""
        return any(not all(map(same, group.values(), before.values())) for group, before in self.options)

    def restore(self) -> None:
        """Put everything back as it was: a capture that fails has not happened."""
        for table, before, names in self.tables:
            if names is None and not isinstance(table, types.MappingProxyType):
                if len(table) != len(before) or not all(map(is_, table.values(), before.values())):
                    table.clear()
                    table.update(before)
            elif names is not None and not isinstance(table, types.MappingProxyType):
                for name, value in before.items():
                    if table.get(name) is not value:
                        table[name] = value
        for table, name in self.absent:
            table.pop(name, None)
        for table, before in self.partly:
            if table.keys() != before.keys():
                table.clear()
                table.update(before)
        for items, before in self.lists:
            now = tuple(items)
            if len(now) == len(before) and all(map(is_, now, before)) or isinstance(items, VIEWS):
                continue
            if isinstance(items, (list, bytearray)):
                items[:] = before
            elif isinstance(items, array.array):
                items[:] = array.array(items.typecode, before)
            else:
                items.clear()
                (items.update if isinstance(items, set) else items.extend)(before)
        for group, before in self.options:
            group.update(before)
        for cell, before in self.cells:
            cell.cell_contents = before
        for item, name, before in self.slots:
            if getattr(item, name, MISSING) is not before:
                delattr(item, name) if before is MISSING else setattr(item, name, before)
        for cls, counts, names in self.classes:
            for name in [*counts, *{*vars(cls)} - names]:
                if name not in counts:
                    delattr(cls, name)
                elif vars(cls).get(name, MISSING) is not counts[name]:
                    setattr(cls, name, counts[name])
        for function, parts in self.functions:
            for name, before in zip(_PARTS, parts):
                if getattr(function, name) is not before:
                    setattr(function, name, before)
        for item, cls in self.kinds:
            if type(item) is not cls:
                item.__class__ = cls
        for one, content in self.arrays:
            if one.tobytes() != content:
                one[...] = numpy.frombuffer(content, one.dtype).reshape(one.shape)


class Given(World):
    """The lists, tuples and dicts of a nest: a program that writes to its arguments is not captured."""

    def _follow(self, item):
        return self._contents(item) if isinstance(item, (list, tuple, dict)) else ()

    @property
    def with_attributes(self) -> list:
        """Those that have attributes, being of classes of the program's."""
        return [
            one for one in self.seen.values() if isinstance(one, (list, tuple, dict)) and getattr(one, "__dict__", 0)
        ]


_PARTS = ("__code__", "__defaults__", "__kwdefaults__")
parts_of = attrgetter(*_PARTS)


def _matters(item) -> bool:
    """Whether what a cache keeps leads to what a capture has to know; else it is taken to stay as it is."""
    try:
        world = World([item], whole=True)
    except CaptureError:
        return True
    return bool(world.tensors or world.optimizers or world.generators or world.drawing)


def content_of(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def same(one, other) -> bool:
    if one is other:
        return True
    if type(one) is not type(other) or not isinstance(one, PLAIN):
        return False
    return repr(one) == repr(other) if isinstance(one, (float, complex, numpy.generic)) else one == other


def _ours(module) -> bool:
    return (module or "").partition(".")[0] in _OURS


def _is_programs(cls) -> bool:
    """Whether a class and all that it is made of, `object` aside, are the program's own."""
    return type(cls) is type and cls is not object and not any(_foreign(one.__module__) for one in cls.__mro__[:-1])


def _foreign(module) -> bool:
    """Whether a module is ours or Python's, whose values programs do not change."""
    return _ours(module) or (module or "").partition(".")[0] in sys.stdlib_module_names - {"__main__"}
