"""Conditions: what is known before a program runs, and what types a value has where one holds."""

from __future__ import annotations

import ast
import contextlib
import dataclasses

from plugrad.jit import types
from plugrad.jit.signs import COMPARE
from plugrad.jit.types import ANY, BOOL, NONE, NUMBERS, STR, TENSOR, fits
from plugrad.jit.values import Known, Value, constant_of

__all__ = ["Condition", "Conditions"]


@dataclasses.dataclass
class Condition:
    """A test: its value, what names are where it holds and where not, and whether it is known already."""

    value: Value
    true: dict = dataclasses.field(default_factory=dict)
    false: dict = dataclasses.field(default_factory=dict)
    known: bool | None = None


def _known(value: bool) -> Condition:
    return Condition(Value(["const", value], BOOL, (value,)), known=value)


class Conditions:
    """Compiles tests, beside Expressions."""

    @contextlib.contextmanager
    def refined(self, names):
        """Let names have other types for some time."""
        self.scope.frames.append(dict(names))
        try:
            yield
        finally:
            self.scope.frames.pop()

    def condition(self, node) -> Condition:
        """Compile an expression as a test."""
        if isinstance(node, ast.BoolOp):
            return self._several(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.condition(node.operand)
            if inner.known is not None:
                return _known(not inner.known)
            return Condition(Value(["not", inner.value.tree], BOOL), inner.false, inner.true)
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if isinstance(node, ast.Call):
            special = self._asked(node)
            if special is not None:
                return special
        value = self.value(node)
        if value.constant:
            return _known(bool(value.constant[0]))
        if value.type not in NUMBERS | {TENSOR, ANY, STR} and value.type.name != "List":
            raise self.refuse(f"Could not cast value of type {value.type} to bool", node)
        return Condition(value)

    def _several(self, node):
        both = isinstance(node.op, ast.And)
        trees, names = [], {}
        for one in node.values:
            with self.refined(names):
                test = self.condition(one)
            if test.known is not None:
                if test.known is not both:
                    return _known(not both) if not trees else self._joined(both, [*trees, ["const", not both]], {})
                continue
            value = test.value
            trees.append(value.tree if value.type == BOOL else ["call", "prim.bool", [value.tree], {}])
            names |= test.true if both else test.false
        if not trees:
            return _known(both)
        return self._joined(both, trees, names)

    @staticmethod
    def _joined(both, trees, names):
        tree = trees[0] if len(trees) == 1 else ["and" if both else "or", trees]
        return Condition(Value(tree, BOOL), names if both else {}, {} if both else names)

    def _comparison(self, node):
        signs = [COMPARE[type(one)] for one in node.ops]
        if len(signs) == 1 and signs[0] in ("in", "not in"):
            among = self.expression(node.comparators[0])
            if isinstance(among, Known) and among.kind == "module" and among.what.is_dict:
                return self._among_modules(signs[0], self.value(node.left), among.what.module, node)
        parts = [self._side(one) for one in (node.left, *node.comparators)]
        if len(signs) == 1 and signs[0] in ("is", "is not"):
            return self._identity(signs[0], node, *parts)
        values = [self.compared(sign, *pair, node) for sign, pair in zip(signs, zip(parts, parts[1:]))]
        if len(values) == 1:
            one = values[0]
            (a, b) = (part.constant for part in parts)
            if a and b and one.type == BOOL and signs[0] in ("==", "!="):
                return _known((a == b) == (signs[0] == "=="))
            return Condition(one)
        return Condition(Value(["and", [one.tree for one in values]], BOOL))

    def _among_modules(self, sign, key, module, node):
        """Return whether a key is one of a dict of modules, which is known if the key is."""
        if key.constant:
            return _known((key.constant[0] in module) == (sign == "in"))
        return Condition(self.compared(sign, key, constant_of(list(module.keys())), node))

    def _side(self, node):
        meant = self.expression(node)
        if (
            isinstance(meant, Known)
            and meant.kind in ("module", "method", "python")
            and not isinstance(meant.what, (int, float, str, list, tuple, dict))
        ):  # a module or function that is there `is not None`
            return Value(["const", True], types.Type("Module"))
        return meant if isinstance(meant, Value) else self.value(node)

    def _identity(self, sign, node, left, right):
        is_none = sign == "is"
        if left.type == NONE and right.type != NONE:
            left, right, node_of = right, left, node.comparators[0]
        else:
            node_of = node.left
        if right.type != NONE:
            return Condition(self.compared(sign, left, right, node))
        if left.type == NONE:
            return _known(is_none)
        if left.type.name not in ("Optional", "Any"):
            return _known(not is_none)
        test = Condition(self.compared(sign, left, right, node))
        if isinstance(node_of, ast.Name) and left.type.name == "Optional":
            there = {node_of.id: Value(left.tree, left.type.args[0])}
            absent = {node_of.id: Value(left.tree, NONE)}
            test.true, test.false = (absent, there) if is_none else (there, absent)
        elif isinstance(node_of, ast.Name) and left.type.among:
            absent, there = _parted(node_of.id, left, [NONE])
            test.true, test.false = (absent, there) if is_none else (there, absent)
        return test

    # ---- isinstance, hasattr, is_scripting

    def _asked(self, node):
        function = self.expression(node.func)
        what = self.special(function)
        if what == "isinstance":
            return self._isinstance(node)
        if what == "hasattr":
            base = self.expression(node.args[0])
            name = self.value(node.args[1]).constant
            if not isinstance(base, Known) or base.kind != "module" or not name:
                raise self.refuse("hasattr() asks modules for names that are literals", node)
            return _known(base.what.has(name[0]))
        if what in ("is_scripting", "is_tracing"):
            return _known(what == "is_scripting")
        return None

    def _isinstance(self, node):
        subject = self.expression(node.args[0])
        if isinstance(subject, Known):
            if subject.kind == "module":
                kinds = self._classes(node.args[1])
                return _known(isinstance(subject.what.module, tuple(kinds)))
            raise self.refuse("isinstance() asks values and modules", node)
        wanted = self._kinds(node.args[1])
        kind = subject.type
        held = [one for one in wanted if _is(kind, one)]
        if held:
            return _known(True)
        if kind.name not in ("Optional", "Any"):
            return _known(False)
        inner = kind.args[0] if kind.name == "Optional" else None
        if inner is not None and not any(_is(inner, one) or one == NONE for one in wanted):
            return _known(False)
        self.unit.program.note(*wanted)
        plain = [["const", one.name] for one in wanted if one.cls is None]
        asked = [["call", "prim.isinstance", [subject.tree, *plain], {}]] if plain else []
        asked += [["instance", subject.tree, one.name] for one in wanted if one.cls is not None]
        test = Condition(Value(asked[0] if len(asked) == 1 else ["or", asked], BOOL))
        if isinstance(node.args[0], ast.Name):
            name = node.args[0].id
            if inner is not None:
                there = {name: Value(subject.tree, inner)}
                absent = {name: Value(subject.tree, NONE)}
                test.true, test.false = (absent, there) if wanted == [NONE] else (there, absent)
            elif kind.among:
                test.true, test.false = _parted(name, subject, wanted)
            elif len(wanted) == 1:
                test.true = {name: Value(subject.tree, wanted[0])}
        return test

    def _classes(self, node):
        meant = self.expression(node)
        return [one.what for one in (meant.what if meant.kind == "items" else [meant])]

    def _kinds(self, node):
        """Return the types that the second argument of isinstance() is."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        kinds = []
        for one in parts:
            plain = one.id if isinstance(one, ast.Name) else None
            if plain in ("list", "dict", "tuple"):
                kinds.append(types.Type({"list": "List", "dict": "Dict", "tuple": "Tuple"}[plain]))
            else:
                kind = self.source.annotation(one)
                kinds += [kind.args[0], NONE] if kind.name == "Optional" else [kind]
        return kinds


def _parted(name, union, wanted) -> tuple:
    """Return what a name is where a Union is one of the wanted types, and where it is another one."""
    inside = [one for one in union.type.among if any(_is(one, kind) for kind in wanted)]
    parts = inside, [one for one in union.type.among if one not in inside]
    return tuple([{name: Value(union.tree, types.union_of(part))} if part else {} for part in parts])


def _is(kind, wanted) -> bool:
    """Whether every value of a type is of the other one, which may leave out what is in containers."""
    if wanted == ANY or kind == ANY:
        return wanted == ANY
    return kind == wanted or kind.name == wanted.name and (not wanted.args or fits(kind, wanted))
