"""What a third party's code may not change in its process: `ProcessState` notices it by identity and puts it back.

Installing a plugin is running its code, and nothing here makes that safe. It catches what happens by accident and by
bad habit while a plugin is loaded or checked: names of plugrad's replaced or deleted, modes and defaults of the whole
program changed, random numbers drawn, output of the program mixed with the plugin's own.
"""

from __future__ import annotations

import builtins
import os
import sys
import types
from bisect import bisect
from itertools import accumulate, chain, compress, count
from operator import attrgetter, is_, is_not

from plugrad import registry
from plugrad.interrupts import process_lock
from plugrad.process_state import settings
from plugrad.process_state.changes import GONE, files, is_from, is_ours, is_right, remove_covers, shown
from plugrad.process_state.endings import DAEMONS, THREADS, left_running
from plugrad.process_state.kinds import is_whole
from plugrad.process_state.of_interpreter import PRIORITY
from plugrad.process_state.of_python import FILTERS
from plugrad.process_state.output import Files, Heard, ToStandardError, is_alone, quiet_threads
from plugrad.process_state.withheld import Withheld, real
from plugrad.registry import kernels, loader

__all__ = ["DAEMONS", "FILTERS", "Contained", "Heard", "ProcessState", "is_whole", "left_running", "quiet_threads"]


class ProcessState:
    """The names of plugrad's modules and classes, its records, and the settings of the process, as they are now.

    Args:
        names: whether the names and records of plugrad belong to it, and not only settings.
        drawing: whether plugrad's random numbers may be drawn and seeded meanwhile.
        after: a state that has just been repaired, since when nothing has run: what it saw then is not looked at again.

    >>> import plugrad as torch
    >>> before = ProcessState()
    >>> torch.set_default_dtype(torch.float64)
    >>> before.repair(), torch.get_default_dtype()
    (['the default dtype'], torch.float32)
    """

    def __init__(self, names=True, drawing=False, after=None):
        self.names, self.replaced = None, False
        self.seen = _NEVER  # what names, functions and records led to when this was repaired, if nothing was wrong
        if names:
            with _loading_ours:  # two threads that import modules in two orders may each get one half done
                loader.load_ours()  # else what is changed of these would be all that was ever seen of them
            with _lock:
                (self.names, self.values), (self.tables, self.records) = _look(after), _look_at_records(after)
                self.classes, self.bases = [*_classes], [*map(_bases, _classes)]
                self.functions, self.insides = _look_inside(after)
        chosen = [setting for setting in settings.ALL if not (drawing and setting.own)]
        known = {} if after is None else after.left
        self.settings = [(setting, known[setting] if setting in known else setting.read()) for setting in chosen]
        self.left: dict = {}  # setting -> what it was when this was repaired; numbers are drawn in between

    def repair(self) -> list[str]:
        """Put back what is no longer as it was; return what that is, in words."""
        damage = []
        if self.names is not None:
            now = _values(self.names), _insides(self.functions), _parts(self.records[0])
            damage = [*self._repair_names(now[0]), *self._repair_insides(now[1]), *self._repair_records(now[2])]
            self.seen = _NEVER if damage else now
        self.replaced = any(not one.startswith(_OF_OTHERS) for one in damage)  # something of plugrad's own
        alone = is_alone()
        for setting, before in self.settings:
            if setting.random and (not alone or before is None):
                continue  # another thread may have drawn, or its module was imported meanwhile
            now = setting.read()
            if not setting.same(before, now):
                damage += setting.changes(before, now)
                setting.write(before)
            elif not setting.random:
                self.left[setting] = now
        return damage

    def _repair_names(self, values) -> list[str]:
        damage = []
        self.changed = _changed(self.names, self.values, values)
        for holder in self.changed:
            before, now = self.names[holder], vars(holder)
            if _is_same(before, now):
                continue
            for name, value in before.items():
                current = now.get(name, GONE)
                if current is value or (name not in _first[holder] and not is_ours(value)):
                    continue  # what a third party added is its own
                if not is_right(holder, name, value, current):
                    damage.append(f"{shown(holder)}.{name}")
                    setattr(holder, name, real(value))
            damage += remove_covers(holder, before)
        for cls, bases in zip(self.classes, self.bases):
            if cls.__bases__ is not bases:
                damage.append(f"{shown(cls)}.__bases__")
                cls.__bases__ = bases
        return damage

    def _repair_insides(self, now) -> list[str]:
        if all(map(is_, self.insides, now)):
            return []
        damage, count = [], len(_INSIDE)
        for number, function in enumerate(self.functions):
            before, after = (those[count * number : count * (number + 1)] for those in (self.insides, now))
            if not all(map(is_, before, after)):
                damage.append(f"what {function.__module__}.{function.__qualname__} does")
                for name, value in zip(_INSIDE, before):
                    setattr(function, name, value)
        return damage

    def _repair_records(self, now) -> list[str]:
        damage = []
        for (label, table), before in zip(_TABLES.items(), self.tables):
            if _is_same(before, dict(dict.items(table))):
                continue
            for name, value in before.items():
                ours = label in ("plugin", "device") or value.provider.builtin
                if ours and (name not in table or label in ("op", "plugin") and table[name] is not value):
                    damage.append(f"the {label} {name!r}")
                    table[name] = value
        _, parts, copies = self.records
        if parts == now:
            return damage
        brought = {entry.value.function for entries in kernels.brought.values() for entry in entries}
        for op, holder, own, formulas, rules in copies:
            changed = [name for name in {*own, *op.kernels} if op.kernels.get(name) is not own.get(name)]
            changed = [name for name in changed if op.kernels.get(name) not in brought]
            changed = changed or not all(map(is_, rules, _rules(op)))
            if changed or formulas != op.formulas or op.kernels is not holder:
                damage.append(f"the record of op {op.name!r}")
                kept = {name: kernel for name, kernel in op.kernels.items() if kernel in brought}
                op.kernels = holder
                holder.clear()
                holder.update(own | kept)
                op.formulas[:] = formulas
                vars(op).update(zip(_RULES, rules))
                _renew(op)
        return damage


def _renew(op) -> None:
    """Have a record forget what was generated from it; the functions that names lead to stay the same objects."""
    before = [record._function for record in (op, vars(op).get("called", op))]
    op.changed()
    for record, function in zip((op, op.called), before):
        if function is not None:
            fresh = record.function
            if function.__code__ != fresh.__code__:  # it was generated in between
                function.__code__ = fresh.__code__
            function.__globals__.update(fresh.__globals__)
            record._function = function


_TABLES = {"op": registry.ops, "name": registry.public, "plugin": registry.plugins, "device": registry.backends}
_OTHERS = (
    "atexit", "builtins", "codecs", "collections", "contextlib", "copy", "copyreg", "ctypes", "dataclasses",
    "functools", "gc", "hashlib", "heapq", "importlib", "inspect", "io", "itertools", "json", "logging", "math",
    "ml_dtypes", "numpy", "numpy._core._multiarray_umath", "numpy._core.fromnumeric", "numpy._core.multiarray",
    "numpy._core.numeric", "numpy.fft", "numpy.linalg", "numpy.random", "operator", "os", "os.path", "pathlib",
    "pickle", "pluggy", "random", "re", "scipy.linalg", "scipy.special", "shutil", "signal", "ssl", "struct",
    "subprocess", "tempfile", "threading", "time", "types", "typing", "uuid", "weakref", "zipfile", "zlib",
)  # fmt: skip
_WITH_CLASSES = "collections", "contextlib", "json", "logging", "pathlib", "pickle", "threading", "zipfile"
_OF_OTHERS = tuple(f"{name}." for name in (*_OTHERS, os.path.__name__))  # how their names begin in a message
_NOTHING: dict = {"": None}
_NEVER = None, None, None
_copies: dict = {}  # module or class -> its names when it was last looked at
_seen: list = [{}, None]  # these of all that there were then, and what they led to
_classes: dict = {}  # plugrad's classes, in the order in which they were found
_tables: dict = {}  # the same of tables, by label
_first: dict = {}  # module or class -> the names that it had when it was first looked at
_last: list = [(), None, None]  # plugrad's own ops, their parts when they were last looked at, and copies of these
_functions: list = [[]]  # those of plugrad's that names have led to
_unsorted: list = []  # functions that names lead to since these were last listed
_HEAP, _FLAGS = 1 << 9, 3 << 8  # of classes whose names can be set, and of those that say whether they can
_INSIDE = "__code__", "__defaults__", "__kwdefaults__"
_inside, _bases = attrgetter(*_INSIDE), attrgetter("__bases__")
_lock, _loading_ours = process_lock(), process_lock()


def _parts(own) -> list:
    """Return all kernels, formulas and rules of ops, and what holds them."""
    kernels_of, formulas_of = [op.kernels for op in own], [op.formulas for op in own]
    parts = [*chain.from_iterable(map(dict.values, kernels_of)), *chain.from_iterable(formulas_of)]
    rules = chain.from_iterable(map(_rules, own))
    return [*map(id, kernels_of), *map(id, formulas_of), *map(id, rules), *parts]


_RULES = "autocast", "batched", "jvps", "meta_function", "write_function"
_rules = attrgetter(*_RULES)


def _look_at_records(after=None) -> tuple:
    """Return copies of the tables, and (ops, their parts, copies of these) of plugrad's own."""
    tables = []
    for label, table in _TABLES.items():
        now = dict(dict.items(table))  # without what it only promises
        if not _is_same(_tables.get(label, _NOTHING), now):
            _tables[label] = now
            if label in ("op", "name"):
                _last[:] = [op for op in registry.ops.values() if op.trusted], None, None
        tables.append(_tables[label])
    own, known, _ = _last
    seen = after is not None and after.seen[2]
    parts = seen if seen and after.records[0] is own else _parts(own)
    if parts != known:
        _last[1:] = parts, [(op, op.kernels, dict(op.kernels), list(op.formulas), _rules(op)) for op in own]
    return tables, tuple(_last)


def _look(after=None) -> tuple[dict, list | None]:
    """Return {module or class of plugrad: a copy of its names}, and what these lead to.

    It leaves out modules that are only being imported: another thread brings names that are nobody's damage.
    """
    modules = [module for name, module in list(sys.modules.items()) if name == "plugrad" or name[:8] == "plugrad."]
    others = [sys.modules[name] for name in _OTHERS if name in sys.modules]
    modules = [*dict.fromkeys([*modules, *others])]  # some go by two names
    names, values = _seen
    if [*names] == [*modules, *_classes]:
        if after is not None and after.seen[0] and after.values is values and [*after.names] == [*names]:
            now, changed = after.seen[0], after.changed
        else:
            changed = _changed(names, values, now := _values(names))
        if len(changed) < len(names) and all([_copy_again(holder, names) for holder in changed]):
            _seen[1] = now
            return dict(names), now
    whole = [one for one in modules if is_whole(one)]
    for module in whole:
        if not _is_same(_copies.get(module, _NOTHING), vars(module)):
            _copy(module)
            _classes.update(dict.fromkeys(_classes_in(module)))
    for cls in _classes:
        if not _is_same(_copies.get(cls, _NOTHING), vars(cls)):
            _copy(cls)
    names = {holder: _copies[holder] for holder in (*whole, *_classes)}
    _seen[:] = names, _values(names)
    return dict(names), _seen[1]


def _classes_in(module) -> list:
    """Return the classes that are looked at among what the names of a module, or class, led to when last copied."""
    values = _copies[module].values() if isinstance(module, types.ModuleType) else ()
    watched = _WITH_CLASSES if module.__name__ in _WITH_CLASSES else ()
    return [value for value in values if isinstance(value, type) and _is_watched(value, watched)]


def _is_watched(cls, others) -> bool:
    if cls.__module__[:7] == "plugrad":
        return True
    return cls.__module__.partition(".")[0] in others and cls.__flags__ & _FLAGS == _HEAP


def _copy_again(holder, names) -> bool:
    """Copy the names of one holder into `names`; say whether there are as many, and no class that was not found yet."""
    before = len(names[holder])
    _copy(holder)
    names[holder] = _copies[holder]
    return len(names[holder]) == before and not (
        holder.__name__ not in _OTHERS and [cls for cls in _classes_in(holder) if cls not in _classes]
    )


def _look_inside(after=None) -> tuple[list, list]:
    """Return plugrad's functions among all that names have led to, and what makes each do what it does."""
    if _unsorted:
        known, ours = set(_functions[0]), files()
        new = [one for one in dict.fromkeys(_unsorted) if one not in known and is_from(one.__code__, ours)]
        if new:
            _functions[0] = [*_functions[0], *new]  # another list: states keep theirs
        _unsorted.clear()
    seen = after is not None and after.seen[1]
    return _functions[0], seen if seen and after.functions is _functions[0] else _insides(_functions[0])


def _insides(functions) -> list:
    return [*chain.from_iterable(map(_inside, functions))]


def _copy(holder) -> None:
    before, now = _copies.get(holder, _NOTHING), dict(vars(holder))
    _copies[holder] = now
    _first.setdefault(holder, set(now))
    functions = [name for name, value in now.items() if type(value) is types.FunctionType]
    _unsorted.extend([now[name] for name in functions if before.get(name) is not now[name]])


def _values(holders) -> list | None:
    """Return what all names of modules and classes lead to; None where another thread enters more meanwhile."""
    try:
        return [*chain.from_iterable([vars(holder).values() for holder in holders])]
    except RuntimeError:
        return None


def _changed(names, before, now) -> list:
    """Return the modules and classes among whose names some lead elsewhere; all, where there are more or fewer."""
    if before is None or now is None or len(before) != len(now):
        return [*names]
    places = [*compress(count(), map(is_not, before, now))]
    if not places:
        return places
    holders, ends = [*names], [*accumulate(map(len, names.values()))]
    if ends != [*accumulate([len(vars(holder)) for holder in holders])] or ends[-1] != len(now):
        return holders
    return [*dict.fromkeys([holders[bisect(ends, place)] for place in places])]


def _is_same(before, now) -> bool:
    """Whether two tables have the same objects in the same order; none is asked whether it equals another."""
    return len(before) == len(now) and all(map(is_, before.values(), now.values()))


# ---------------------------------------------------------------------------------------------------- loading


class _FirstImports:
    """Has each module that is imported for the first time, and is watched, looked at before anybody can change it.

    It stays on `sys.meta_path` for good: a thread that is walking along that list would miss a finder if one in front
    of it were taken away.
    """

    def __init__(self):
        self.watching = []  # the names of the states of those who are loading a plugin

    def watch(self, names) -> None:
        with _lock:
            self.watching.append(names)
            if not sys.meta_path or sys.meta_path[0] is not self:
                sys.meta_path.insert(0, self)

    def forget(self, names) -> None:
        with _lock:
            self.watching[:] = [one for one in self.watching if one is not names]

    def find_spec(self, name, path=None, target=None):
        if not self.watching or not name.startswith("plugrad.") and name not in _OTHERS:
            return None
        others = [finder for finder in sys.meta_path[:] if finder is not self]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Looking(spec.loader, self.watching)
        return spec


class _Looking:
    """A loader that has the names of what it loads copied for all who are watching."""

    def __init__(self, loader, watching):
        self.loader, self.watching = loader, watching

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        classes = [one for one in vars(module).values() if isinstance(one, type) and one.__module__[:7] == "plugrad"]
        with _lock:  # whole by now: one that it imports itself may have been looked at with half of its names
            for names in self.watching:
                for holder in (module, *(one for one in classes if one not in names)):
                    _copy(holder)
                    _first[holder] = set(_copies[holder])
                    names[holder] = _copies[holder]
                    if isinstance(holder, type):
                        _classes[holder] = None


_first_imports = _FirstImports()


class Contained:
    """Put back what the block changes in the process; raise RuntimeError if it changed anything.

    What it prints on the standard output goes to standard error: what children and C code print, too, where no other
    thread could lose its output by that.

    Attributes: `names`, whether the names and records of plugrad are looked at, too. For that all of ours are loaded,
    which a process that only computes for another one can do without.
    """

    names = True

    def __enter__(self):
        self.builtins = dict(builtins.__dict__)
        self.state, self.withheld = ProcessState(self.names), Withheld()
        self.withheld.__enter__()
        if self.names:
            _first_imports.watch(self.state.names)
        self.output, self.files = None, Files()
        if sys.stdout is not None and sys.stderr is not None:
            self.output, self.errors = ToStandardError(sys.stdout), sys.stderr
            self.files.point_output_at_errors(sys.stdout)
            sys.stdout = self.output

    def __exit__(self, kind, error, trace):
        # These first, and without a call of one: all that follows is Python, too.
        known = builtins.__dict__
        changed = [f"builtins.{name}" for name, one in self.builtins.items() if known.get(name) is not one]
        known.update(self.builtins)
        changed = [name for name in changed if name != "builtins._"]  # which the prompt of Python sets
        _first_imports.forget(self.state.names)
        if self.output is not None:
            self.output.thread = None  # whoever kept it writes to the standard output from now on
            given = self.output, self.errors
            # Another thread that is loading a plugin takes its own away itself.
            others = isinstance(sys.stdout, ToStandardError) and sys.stdout is not self.output
            left = (given[0] if others else sys.stdout), sys.stderr
            changed += [name for name, one, now in zip(_STREAMS, given, left) if is_not(one, now) and is_alone()]
            sys.stdout, sys.stderr = sys.stdout if others else self.output.real, self.errors
        self.withheld.__exit__()
        damage = [*changed, *self.withheld.asked, *self.files.repair(), *self.state.repair()]
        if damage and error is None:
            more = f" and {len(damage) - 3} more" if len(damage) > 3 else ""
            advice = ": declare an op with override=True to replace one of plugrad's" if self.state.replaced else ""
            lasting = ["what could not be taken back was not done"] * bool(self.withheld.asked)
            lasting += [how for what, how in _LASTING.items() if any(one.startswith(what) for one in damage)]
            back = lasting[0] if lasting else "plugrad put it back"
            raise RuntimeError(f"it changed {', '.join(damage[:3])}{more} while it was loaded ({back}){advice}")


_STREAMS = "sys.stdout", "sys.stderr"
_LASTING = {
    THREADS: "a thread can't be ended by another: start it with daemon=True, or when it is needed",
    PRIORITY: "plugrad put it back, unless only a privileged process can",
}
