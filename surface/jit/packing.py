"""From script modules and functions to plain data, which is what files of programs hold."""

from __future__ import annotations

import contextlib
import enum
import importlib.metadata
import sys
import types as python_types

import plugrad
from plugrad import Tensor, nn
from plugrad.jit import names
from plugrad.jit.objects import FIELD, EnumRecord, Instance
from plugrad.jit.source import MISSING
from plugrad.jit.units import own_state

__all__ = ["FORMAT", "packed", "plain", "with_objects"]

FORMAT = 3  # 1 has no classes of a program's own, and no Union; 2 no arithmetic of C's
_LITERALS = (int, float, bool, str, complex, type(None), Tensor, plugrad.dtype, plugrad.device, plugrad.layout)


def packed(m, extra=None) -> dict:
    """Return the description of a script module or function, which is plain data."""
    if getattr(m, "_staged", None) is None:
        raise AttributeError(f"'{type(m).__name__}' is no staged program: save what torch.jit.script or trace returns")
    writer = _Writer()
    root = writer.record(m)
    number = FORMAT if writer.counts else 2 if writer.newer else 1
    return {
        "staged": number, "root": root, "records": writer.records, "needs": writer.needs,
        **({"classes": writer.classes} if number > 1 else {}),
        "extra": {str(name): value for name, value in (extra or {}).items()},
    }  # fmt: skip


class _Writer:
    def __init__(self):
        self.records: list = []
        self.numbers: dict = {}
        self.needs: dict = {}
        self.classes: dict = {}
        self.newer = False  # whether it has what the first format has not
        self.counts = False  # whether it has what the second has not

    def record(self, m) -> int:
        """Return the number of the record of a module or function."""
        if id(m) in self.numbers:
            return self.numbers[id(m)]
        number = self.numbers[id(m)] = len(self.records)
        self.records.append(None)
        program = m._staged
        called = [name for name in program.python if _calls(list(program.trees.values()), name)]
        if called:
            function = called[0].lstrip("!")
            raise RuntimeError(
                f"Could not export Python function call '{function}'. Remove calls to Python functions before "
                "export. Did "
                "you forget to add @script or @script_method annotation? If this is a nn.ModuleList, add it to "
                "__constants__"
            )
        self._note_needs(program)
        self._note_classes(program)
        texts = [one[1] for tree in program.trees.values() for one in tree["arguments"]]
        self.newer |= any("Union[" in one for one in texts) or bool(program.classes)
        self.counts |= _counts(list(program.trees.values()))
        entry = {"name": program.name, "functions": program.trees, "methods": _listed(program)}
        if isinstance(m, nn.Module):
            entry |= self._module(m, program)
        self.records[number] = entry
        return number

    def _module(self, m, program):
        layer = getattr(type(m), "_layer", None)
        kind = "traced" if type(m).__name__ == "TopLevelTracedModule" else "module"
        entry = {
            "kind": kind if layer is None else "layer", "training": m.training,
            "parameters": dict(m._parameters), "buffers": dict(m._buffers),
            "hidden": sorted(m._non_persistent_buffers_set),
            "modules": {name: None if one is None else self.record(one) for name, one in m._modules.items()},
            "attributes": {}, "types": {name: str(kind) for name, kind in program.attributes.items()},
            "constants": sorted(program.constants),
        }  # fmt: skip
        if layer is not None:
            entry["layer"] = name_of_layer(layer)
            self._need(layer.__module__)
        for name, value in own_state(m):
            entry["attributes"][name] = self._attribute(value, m, name)
        return entry

    def _note_classes(self, program):
        """Write the classes that a program names, and those that these name."""
        for name, record in program.classes.items():
            if name in self.classes:
                continue
            entry = self.classes[name] = {"home": record.home}
            if isinstance(record, EnumRecord):
                entry["members"] = {one.name: one.value for one in record.members}
                continue
            self._note_needs(record.program)
            self.counts |= _counts(list(record.program.trees.values()))
            entry |= {
                "fields": {field: str(kind) for field, kind in record.fields.items()},
                "properties": sorted(record.properties), "methods": _listed(record.program),
                "functions": record.program.trees,
            }  # fmt: skip
            self._note_classes(record.program)

    def _attribute(self, value, m, name):
        data = plain(value)
        if data is not MISSING:
            return ["value", data]
        data = with_objects(value)
        if data is not MISSING:
            return data
        function = names.name_of(value) if isinstance(value, python_types.FunctionType) else None
        if function is None:
            raise RuntimeError(
                f"a {m.original_name} can't be saved: its attribute {name!r} is a {type(value).__name__}, which is "
                "no data"
            )
        return ["function", function]

    def _note_needs(self, program):
        stack = [program.trees]
        while stack:
            one = stack.pop()
            if isinstance(one, dict):
                stack += one.values()
            elif isinstance(one, (list, tuple)):
                if len(one) == 4 and one[0] == "call":
                    op = getattr(names.function(one[1]), "__op__", None)
                    if op is not None:
                        self._need_of(op.provider)
                stack += one

    def _need_of(self, plugin):
        if not plugin.builtin:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):  # an op of the session
                self.needs[plugin.distribution] = importlib.metadata.version(plugin.distribution)

    def _need(self, module):
        top = module.partition(".")[0]
        if top != "plugrad":
            for name in importlib.metadata.packages_distributions().get(top, ()):
                self.needs[name] = importlib.metadata.version(name)


def _listed(program) -> list:
    """Return the names of a program's methods, without those that stay Python's."""
    return [name for name in program.signatures if name not in program.python]


def _calls(tree, name) -> bool:
    """Whether trees call a function of Python's."""
    if isinstance(tree, dict):
        return any(_calls(one, name) for one in tree.values())
    if not isinstance(tree, (list, tuple)):
        return False
    return list(tree[:2]) == ["python", name] or any(_calls(one, name) for one in tree)


def _counts(tree) -> bool:
    """Whether trees compute with numbers as C does."""
    if isinstance(tree, dict):
        return any(map(_counts, tree.values()))
    if not isinstance(tree, (list, tuple)):
        return False
    length = {"binary": 5, "unary": 4, "aug": 6}.get(tree[0] if tree and type(tree[0]) is str else "")
    return len(tree) == length or any(map(_counts, tree))


def plain(value):
    """Return a value as data, MISSING if it is none."""
    if type(value) in _LITERALS or isinstance(value, (Tensor, *_LITERALS)):
        return value
    if isinstance(value, (list, tuple)):
        items = [plain(one) for one in value]
        if any(one is MISSING for one in items):
            return MISSING
        return value if isinstance(value, plugrad.Size) else items if isinstance(value, list) else tuple(items)
    if type(value) is dict:
        items = {key: plain(one) for key, one in value.items()}
        return MISSING if any(one is MISSING for one in (*items.values(), *map(plain, items))) else items
    return MISSING


def with_objects(value):
    """Return a value in which there are objects of the program's classes as [kind, data], MISSING if it is no data."""
    if isinstance(value, Instance):
        fields = {name: getattr(value, FIELD + name, MISSING) for name in value._record.fields}
        items = {name: with_objects(one) for name, one in fields.items() if one is not MISSING}
        return MISSING if any(one is MISSING for one in items.values()) else ["object", [value._record.name, items]]
    if isinstance(value, enum.Enum) and (record := vars(type(value)).get("_staged_class")) is not None:
        return ["member", [record.name, value.name]]
    if type(value) in (list, tuple):
        items = [with_objects(one) for one in value]
        return MISSING if any(one is MISSING for one in items) else [type(value).__name__, items]
    if type(value) is dict:
        items = [[with_objects(key), with_objects(one)] for key, one in value.items()]
        return MISSING if any(one is MISSING for pair in items for one in pair) else ["dict", items]
    data = plain(value)
    return MISSING if data is MISSING else ["value", data]


def name_of_layer(cls) -> str:
    """Return the name under which a layer's class is found again: `nn.NAME`, or beside one that is public."""
    if getattr(nn, cls.__name__, None) is cls:
        return f"nn.{cls.__name__}"
    inside = vars(sys.modules[cls.__module__]).items()
    public = [name for name, one in inside if getattr(nn, name, None) is one]
    beside = [name for name in public if getattr(getattr(nn, name), "__module__", None) == cls.__module__]
    return f"nn.{beside[0]}:{cls.__name__}"
