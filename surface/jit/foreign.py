"""Classes of staged programs from files: records of them, the types that name them, and values that hold their objects.

A file's class is the one that is here if both are the same; else its objects are of a class that is the file's alone.
"""

from __future__ import annotations

import enum

from plugrad.jit.generate import Malformed, default_of, identifier
from plugrad.jit.objects import SPECIAL, ClassRecord, EnumRecord, records_of
from plugrad.jit.packing import plain
from plugrad.jit.program import Program
from plugrad.jit.signatures import Argument, Signature
from plugrad.jit.source import MISSING
from plugrad.jit.types import FLOAT, INT, STR, named, of_value

__all__ = ["classes_of", "settled", "value_of"]

_STATEMENTS = frozenset("= aug do return if while for assert raise with del break continue".split())


def classes_of(entries) -> dict:
    """Return {name in the file: record} of a file's classes."""
    entries = {identifier(name): one for name, one in entries.items()}
    known = _known(entries)
    new = {name: _blank(name, one) for name, one in entries.items() if name not in known}
    classes = {**known, **new}
    for name, record in new.items():
        if isinstance(record, ClassRecord):
            _fill(record, entries[name], classes)
    for record in new.values():
        if isinstance(record, ClassRecord):
            record.program.make()
            record.finish()
    return classes


def _known(entries) -> dict:
    """Return those classes that are here already: the same in all that they are and name."""
    known = {}
    for name, entry in entries.items():
        known |= {one.name: one for one in records_of(str(entry["home"])) if one.name == name and _alike(one, entry)}
    while True:
        left = {name: one for name, one in known.items() if _names(one) & {*entries} <= {*known}}
        if len(left) == len(known):
            return known
        known = left


def _names(record) -> set:
    return {*record.program.classes} if isinstance(record, ClassRecord) else set()


def _alike(record, entry) -> bool:
    if isinstance(record, EnumRecord):
        return {one.name: one.value for one in record.members} == entry.get("members")
    fields = {name: str(kind) for name, kind in record.fields.items()}
    own = {"home": record.home, "fields": fields, "properties": sorted(record.properties),
           "methods": list(record.program.signatures), "functions": record.program.trees}  # fmt: skip
    return _same(own, entry)


def _same(one, other) -> bool:
    """Whether two trees are the same but for the lines where they stood."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        skip = 1 if len(one) > 1 and type(one[0]) is str and one[0] in _STATEMENTS and type(one[1]) is int else None
        return all(at == skip or _same(a, b) for at, (a, b) in enumerate(zip(one, other)))
    return type(one) is type(other) and plain(one) is not MISSING and not hasattr(one, "shape") and one == other


def _blank(name, entry):
    if "members" not in entry:
        return ClassRecord(name, str(entry["home"]))
    members = {identifier(one): value for one, value in entry["members"].items()}
    kinds = {of_value(value) for value in members.values()}
    if len(kinds) != 1 or not kinds <= {INT, FLOAT, STR} or any(one.startswith("_") or one == "mro" for one in members):
        raise Malformed(f"the members of {name!r:.60} are none of an Enum")
    return EnumRecord(name, str(entry["home"]), members, kinds.pop())


def _fill(record, entry, classes):
    record.fields = {identifier(name): named(text, classes) for name, text in entry["fields"].items()}
    record.properties = {*map(identifier, entry["properties"])}
    program = record.program = Program(record.name)
    program.classes = {one.name: one for one in classes.values()}
    for name, tree in entry["functions"].items():
        program.trees[name if name in SPECIAL else identifier(name)] = settled(tree, classes)
    for name in entry["methods"]:
        program.signatures[name] = signature_of(name, program.trees[name], program.classes)
        if not program.signatures[name].arguments:
            raise Malformed(f"the method {name!r:.60} has no object")


def signature_of(name, tree, classes) -> Signature:
    """Return the signature of a function that is called from outside, by its tree."""
    arguments = []
    for own, kind, *stated in tree["arguments"]:
        defaults = [default_of(kind, one, classes) for one in stated]
        if any(plain(one) is MISSING and not isinstance(one, enum.Enum) for one in defaults):
            raise Malformed(f"{defaults[0]!r:.60} is no default")
        arguments.append(Argument(identifier(own), named(kind, classes), *defaults[:1]))
    return Signature(name, arguments, named(tree["returns"], classes))


def settled(tree, classes: dict):
    """Return the tree of a function in which classes have the names that they have here."""
    if type(tree) is not dict or type(tree["self"]) is not bool:
        raise Malformed("it is no function")
    if all(name == one.name for name, one in classes.items()):
        return tree
    arguments = [[one[0], str(named(one[1], classes)), *one[2:]] for one in tree["arguments"]]
    returns = str(named(tree["returns"], classes))
    return {**tree, "arguments": arguments, "returns": returns, "body": _with_names(tree["body"], classes, 0)}


def _with_names(tree, classes, depth):
    if depth > 900:
        raise Malformed("it is nested too deeply")
    if isinstance(tree, dict):
        return {key: _with_names(one, classes, depth + 1) for key, one in tree.items()}
    if not isinstance(tree, list):
        return tree
    at = {"new": 1, "enum": 1, "instance": 2}.get(tree[0] if tree and type(tree[0]) is str else None)
    if at is not None and len(tree) == (4 if tree[0] == "new" else 3) and tree[at] in classes:
        tree = [*tree[:at], classes[tree[at]].name, *tree[at + 1 :]]
    return [_with_names(one, classes, depth + 1) for one in tree]


def value_of(kind, data, classes):
    """Return the value of an attribute, as `packing.with_objects` wrote it."""
    if kind == "value":
        return data
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(value_of(*one, classes) for one in data)
    if kind == "dict":
        return {value_of(*key, classes): value_of(*one, classes) for key, one in data}
    record = classes.get(data[0]) if kind in ("object", "member") else None
    if kind == "object" and isinstance(record, ClassRecord) and {*data[1]} <= {*record.fields}:
        return record.filled({name: value_of(*one, classes) for name, one in data[1].items()})
    if kind == "member" and isinstance(record, EnumRecord) and data[1] in record.members.__members__:
        return record.members[data[1]]
    raise Malformed(f"{kind!r:.60} is no kind of attribute")
