"""Expressions of staged programs: from Python's syntax tree to trees of plain data, with types."""

from __future__ import annotations

import ast
import enum
import types as python_types

import plugrad
from plugrad import nn
from plugrad.jit import names, types
from plugrad.jit.attributes import Bound
from plugrad.jit.errors import NotSupportedError, refuse_starred, unfinished, unsupported, wrong
from plugrad.jit.numbers import OF_C
from plugrad.jit.objects import ClassRecord
from plugrad.jit.signs import BINARY, COMPARED_BY, OPERATORS, UNARY
from plugrad.jit.source import MISSING
from plugrad.jit.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBERS,
    STR,
    TENSOR,
    Type,
    fits,
    list_of,
    tuple_of,
    unified,
)
from plugrad.jit.values import Known, Undefined, Value, constant_of

_NODES = {ast.Lambda: "Lambda", ast.NamedExpr: "NamedExpr", ast.Yield: "Yield", ast.YieldFrom: "YieldFrom",
          ast.Set: "Set", ast.SetComp: "SetComp", ast.GeneratorExp: "GeneratorExp", ast.Await: "Await"}  # fmt: skip


class Expressions:
    """Compiles expressions; `self.scope`, `self.source` and `self.unit` are those of the function at work."""

    def refuse(self, message, node):
        """Return the error of a program that is wrong at a node."""
        return wrong(message, self.source.place(node))

    def value(self, node, hint=None) -> Value:
        """Compile an expression that must be a value of the program."""
        meant = self.expression(node, hint)
        if isinstance(meant, Value):
            return meant
        if meant.kind == "items" and all(isinstance(one, Value) for one in meant.what):
            return self.packed(meant.what)
        what = meant.what if meant.kind == "python" else nn.Module
        if isinstance(what, (int, float, str, list, tuple, dict, plugrad.Tensor)):
            kind = type(what).__name__
            raise self.refuse(
                f"python value of type '{kind}' cannot be used as a value. Perhaps it is a closed over global "
                "variable? "
                "If so, please consider passing it in as an argument or use a local variable instead.",
                node,
            )
        raise self.refuse(f"{_described(meant)} cannot be used as a value", node)

    def record(self, cls, node):
        """Return the record of a class of the program's own, None for others."""
        try:
            return types.of_class(cls)
        except TypeError as error:
            raise self.refuse(str(error), node) from None

    def packed(self, items) -> Value:
        """Return the tuple of some values."""
        return Value(["tuple", [one.tree for one in items]], tuple_of(*[one.type for one in items]))

    def expression(self, node, hint=None):
        """Compile an expression; return a Value or something Known."""
        method = getattr(self, f"_node_{type(node).__name__.lower()}", None)
        if method is None:
            raise unsupported(_NODES.get(type(node), type(node).__name__), self.source.place(node))
        return method(node, hint)

    # ---- names and constants

    def _node_constant(self, node, hint):
        if node.value is Ellipsis or isinstance(node.value, bytes):
            if node.value is Ellipsis:
                return Value(["ellipsis"], ANY)
            raise unsupported("Constants of bytes", self.source.place(node))
        return constant_of(node.value)

    def _node_name(self, node, hint):
        meant = self.scope.find(node.id)
        if isinstance(meant, Undefined):
            raise self.refuse(meant.why, node)
        if meant is not None:
            return meant
        outside = self.source.outside(node.id)
        if outside is MISSING:
            raise self.refuse(f"undefined value {node.id}", node)
        return self.of_python(outside, None, node)

    def of_python(self, value, where, node):
        """Return what an object of Python's is in a program; `where` is the (module, name) where it was found."""
        if value is None or isinstance(value, (plugrad.dtype, plugrad.device, plugrad.layout, plugrad.memory_format)):
            return constant_of(value)
        if where is not None and type(value) in (int, float, bool, str):
            return constant_of(value)
        if isinstance(value, enum.Enum) and (record := self.record(type(value), node)) is not None:
            self.unit.program.note(record.type)
            return Value(["enum", record.name, value.name], record.type)
        if isinstance(value, nn.Module):
            raise self.refuse(
                "module cannot be used as a value: a program calls the modules that are attributes of its own", node
            )
        return Known("python", value, where)

    # ---- attributes

    def _node_attribute(self, node, hint):
        base = self.expression(node.value)
        if isinstance(base, Value):
            return self._of_value(base, node)
        if base.kind == "module":
            return base.what.attribute(node.attr, self.refuse, node)
        if base.kind == "python" and isinstance(base.what, (python_types.ModuleType, type)):
            value = getattr(base.what, node.attr, MISSING)
            if value is MISSING:
                raise self.refuse(f"module '{base.what.__name__}' has no attribute '{node.attr}'", node)
            return self.of_python(value, (base.what.__name__, node.attr), node)
        if base.kind == "python":
            value = getattr(base.what, node.attr, MISSING)  # of a namespace of ops
            if callable(value) and base.name is not None:
                return Known("python", value, (".".join(base.name), node.attr))
        if base.kind in ("items", "modules"):
            return Known("bound", base, node.attr)
        raise self.refuse(f"{_described(base)} has no attribute '{node.attr}' in a staged program", node)

    def _of_value(self, base, node):
        name, kind = node.attr, base.type
        if kind == TENSOR and name in names.ATTRIBUTES:
            tree = ["attr", base.tree, name]
            if name == "shape":
                tree = ["call", "prim.list", [tree], {}]
            result = names.ATTRIBUTES[name]
            return Value(tree, {"dtype": types.DTYPE, "device": types.DEVICE}.get(name, result))
        if kind == types.DEVICE and name in names.DEVICE_ATTRIBUTES:
            return Value(["attr", base.tree, name], names.DEVICE_ATTRIBUTES[name])
        if isinstance(kind.cls, ClassRecord):
            if (meant := Bound(base).attribute(name, self.refuse, node)) is not None:
                return meant
            raise self.refuse(
                f"'{kind}' object has no attribute or method '{name}'. Did you forget to initialize an attribute in "
                "__init__()?",
                node,
            )
        if kind.cls is not None and name in ("name", "value"):
            result = STR if name == "name" else kind.cls.value_type
            return Value(["call", "prim.member", [base.tree, ["const", name]], {}], result)
        if name in kind.fields:
            at = kind.fields.index(name)
            return Value(["index", base.tree, ["const", at]], kind.args[at])
        home = {"Tensor": "Tensor", "List": "list", "Dict": "dict", "str": "str"}.get(kind.name)
        full = f"{home}.{name}"
        if full == "str.format":
            return Known("bound", base, full)
        try:
            names.function(full)
        except LookupError:
            if kind.name == "Optional":
                hint = f". It may be None: ask first, as in `if {ast.unparse(node.value)} is not None:`"
            else:
                hint = ""
            raise self.refuse(f"'{kind}' object has no attribute or method '{name}'{hint}", node) from None
        return Known("bound", base, full)

    # ---- operators

    def _node_binop(self, node, hint):
        left, right = self.value(node.left, hint), self.value(node.right, hint)
        return self.combined(BINARY[type(node.op)], left, right, node)

    def magic(self, name, value, args, node) -> Value:
        """Return the call of a method that an operator is for objects of a program's classes."""
        call = Bound(value).call(name, args, {}, self.refuse, node)
        if call is None:
            raise self.refuse(f"'{value.type}' object has no attribute or method '{name}'", node)
        return call

    def combined(self, sign, left, right, node, in_place="") -> Value:
        """Return the value of a binary operator."""
        a, b = left.type, right.type
        tree = ["binary", sign, left.tree, right.tree]
        if isinstance(a.cls, ClassRecord):
            name = OPERATORS[sign]
            own = in_place and a.cls.unit.method(f"__{in_place}{name}__", self.refuse, node)
            return Value(tree, self.magic(f"__{in_place if own else ''}{name}__", left, [right], node).type)
        if TENSOR in (a, b) and all(one == TENSOR or one in NUMBERS or one == ANY for one in (a, b)):
            return Value(tree, TENSOR)
        if a in NUMBERS and b in NUMBERS and sign != "@":
            return self._of_numbers(sign, left, right, tree)
        if sign == "%" and a == STR:
            return Value(["call", "prim.percent", [left.tree, right.tree], {}], STR)
        if sign == "+" and a == b == STR or sign == "*" and {a, b} == {STR, INT}:
            return Value(tree, STR)
        if sign == "+" and a.name == b.name == "List" and (one := unified(a, b)):
            return Value(tree, one)
        if sign == "*" and {a.name, b.name} == {"List", "int"}:
            return Value(tree, a if a.name == "List" else b)
        if sign == "+" and a.name == b.name == "Tuple":
            return Value(tree, tuple_of(*a.args, *b.args))
        if ANY in (a, b):
            return Value(tree, ANY)
        odd = next((one for one in (a, b) if one.name == "Optional"), None)
        more = f". A value of type '{odd}' may be None: ask first whether it `is not None`" if odd else ""
        raise self.refuse(
            f"Arguments for call are not valid. '{sign}' is not defined for values of type '{a}' and '{b}'{more}", node
        )

    def _of_numbers(self, sign, left, right, tree):
        kinds = {left.type, right.type}
        if sign == "**":
            tree = ["call", "prim.pow", [left.tree, right.tree], {}]
        if types.COMPLEX in kinds:
            return Value(tree, types.COMPLEX)
        if types.NUMBER in kinds:
            return Value(tree, types.NUMBER)
        if sign in ("&", "|", "^") and kinds == {BOOL}:
            return Value(tree, BOOL)
        kind = FLOAT if FLOAT in kinds or sign in ("/", "**") else INT
        return Value([*tree, kind.name] if (sign, kind.name) in OF_C else tree, kind)

    def _node_unaryop(self, node, hint):
        if isinstance(node.op, ast.Not):
            return self.condition(node).value
        inner = self.value(node.operand)
        sign = UNARY[type(node.op)]
        if isinstance(inner.type.cls, ClassRecord):
            name = {"-": "__neg__", "+": "__pos__", "~": "__invert__"}[sign]
            return Value(["unary", sign, inner.tree], self.magic(name, inner, [], node).type)
        if inner.type != TENSOR and inner.type not in NUMBERS or sign == "~" and inner.type == FLOAT:
            raise self.refuse(f"Arguments for call are not valid. '{sign}' takes no value of type '{inner.type}'", node)
        if inner.constant and sign == "-":
            return constant_of(-inner.constant[0])
        kind = INT if inner.type == BOOL else inner.type
        return Value(["unary", sign, inner.tree, *["int"] * (sign == "-" and kind == INT)], kind)

    def _node_boolop(self, node, hint):
        return self.condition(node).value

    def _node_compare(self, node, hint):
        return self.condition(node).value

    def compared(self, sign, left, right, node) -> Value:
        """Return the value of a comparison."""
        tree = ["compare", sign, left.tree, right.tree]
        a, b = left.type, right.type
        if sign in ("is", "is not"):
            return Value(tree, BOOL)
        if isinstance(b.cls, ClassRecord) and sign in ("in", "not in"):
            self.magic("__contains__", right, [left], node)
            return Value(tree, BOOL)
        if isinstance(a.cls, ClassRecord) and sign in COMPARED_BY:
            return Value(tree, self.magic(COMPARED_BY[sign], left, [right], node).type)
        if a.cls is not None and b.cls is not None and sign in ("==", "!="):
            return Value(tree, BOOL)
        if sign in ("in", "not in"):
            if b.name not in ("List", "Dict", "str", "Tuple", "Any"):
                raise self.refuse(f"'{sign}' takes no value of type '{b}'", node)
            return Value(tree, BOOL)
        if TENSOR in (a, b):
            if not all(one == TENSOR or one in NUMBERS or one == ANY for one in (a, b)):
                raise self.refuse(
                    f"Arguments for call are not valid. '{sign}' is not defined for '{a}' and '{b}'", node
                )
            return Value(tree, TENSOR)
        same = fits(a, b) or fits(b, a) or {a, b} <= NUMBERS
        if not same or sign not in ("==", "!=") and (a not in NUMBERS | {STR, ANY} and a.name not in ("List", "Tuple")):
            raise self.refuse(f"Arguments for call are not valid. '{sign}' is not defined for '{a}' and '{b}'", node)
        return Value(tree, BOOL)

    def _node_ifexp(self, node, hint):
        test = self.condition(node.test)
        if test.known is not None:
            return self.value(node.body if test.known else node.orelse, hint)
        with self.refined(test.true):
            first = self.value(node.body, hint)
        with self.refined(test.false):
            second = self.value(node.orelse, hint)
        kind = unified(first.type, second.type)
        if kind is None:
            raise self.refuse(
                f"if-expression's true branch has type {first.type} but false branch has type {second.type}", node
            )
        return Value(["ifexp", test.value.tree, first.tree, second.tree], kind)

    # ---- containers

    def _node_list(self, node, hint):
        inner = hint.args[0] if hint is not None and hint.name == "List" else None
        if not node.elts:
            return Value(["list", []], list_of(inner or TENSOR))
        items = [self.value(one, inner) for one in node.elts]
        kind = inner or self._common(items, "list", node)
        self._check_items(items, kind, node)
        return Value(["list", [one.tree for one in items]], list_of(kind))

    def _common(self, items, what, node):
        kind = items[0].type
        for one in items[1:]:
            kind = unified(kind, one.type)
            if kind is None:
                raise self.refuse(f"Could not unify the types of a {what}: {items[0].type} and {one.type}", node)
        return kind

    def _check_items(self, items, kind, node):
        for one in items:
            if not fits(one.type, kind):
                raise self.refuse(f"Expected an item of type '{kind}' but instead found type '{one.type}'", node)

    def _node_tuple(self, node, hint):
        hints = hint.args if hint is not None and hint.name == "Tuple" and len(hint.args) == len(node.elts) else None
        items = [self.expression(one, hints and hints[i]) for i, one in enumerate(node.elts)]
        if all(isinstance(one, Value) for one in items):
            return self.packed(items)
        return Known("items", items)

    def _node_dict(self, node, hint):
        given = hint.args if hint is not None and hint.name == "Dict" else (None, None)
        if None in node.keys:
            raise unsupported("`**` in dicts", self.source.place(node))
        keys, items = [self.value(one) for one in node.keys], [self.value(one, given[1]) for one in node.values]
        key = given[0] or (self._common(keys, "dict", node) if keys else STR)
        kind = given[1] or (self._common(items, "dict", node) if items else TENSOR)
        self._check_items(keys, key, node)
        self._check_items(items, kind, node)
        return Value(["dict", [[k.tree, v.tree] for k, v in zip(keys, items)]], Type("Dict", (key, kind)))

    def _node_joinedstr(self, node, hint):
        text, values = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += part.value
                continue
            if part.format_spec is not None or part.conversion not in (-1, 115):
                raise NotSupportedError(f"Don't support formatting in JoinedStr:\n{self.source.place(node)}")
            text += "{}"
            values.append(self.value(part.value).tree)
        if text.count("{}") != len(values):
            raise NotSupportedError(f"Don't support braces in JoinedStr:\n{self.source.place(node)}")
        return Value(["call", "prim.format", [["const", text], *values], {}], STR)

    def _node_listcomp(self, node, hint):
        inner = hint.args[0] if hint is not None and hint.name == "List" else None
        return self._comprehension(
            node, lambda: [self.value(node.elt, inner)], lambda kinds: list_of(inner or kinds[0])
        )

    def _node_dictcomp(self, node, hint):
        return self._comprehension(
            node,
            lambda: [self.value(node.key), self.value(node.value)],
            lambda kinds: Type("Dict", tuple(kinds)),
        )

    def _comprehension(self, node, items, kind):
        if len(node.generators) != 1:
            raise unsupported("Comprehensions with several loops", self.source.place(node))
        (loop,) = node.generators
        over = self.iterated(loop.iter)
        if isinstance(over, list):
            return self._written_out(node, loop, over, items, kind)
        self.scope.frames.append({})
        try:
            refuse_starred(loop.target, self.source)
            target = self.target(loop.target, Value(["name", "?"], over.type.args[0]), loop.target)
            tests = [self.condition(one) for one in loop.ifs]
            for one in tests:
                self.scope.frames[-1].update(one.true)
            parts = items()
        finally:
            self.scope.frames.pop()
        trees = [one.tree for one in parts]
        return Value(
            ["comp", trees, target, over.tree, [one.value.tree for one in tests]], kind([one.type for one in parts])
        )

    def _written_out(self, node, loop, over, items, kind):
        """Return a comprehension over modules, which has an item for each."""
        if loop.ifs or isinstance(node, ast.DictComp):
            raise unfinished("a comprehension over modules has no `if` and makes a list", self.source.place(node))
        parts = []
        for one in over:
            self.scope.frames.append({})
            try:
                self.bind(loop.target, one, loop.target)
                parts += items()
            finally:
                self.scope.frames.pop()
        common = self._common(parts, "list", node) if parts else TENSOR
        return Value(["list", [one.tree for one in parts]], kind([common]))

    # ---- subscripts

    def _node_subscript(self, node, hint):
        base = self.expression(node.value)
        if isinstance(base, Known):
            return self._of_known(base, node)
        index = node.slice
        kind = base.type
        if isinstance(kind.cls, ClassRecord):
            where = self.value(index)
            return Value(["index", base.tree, where.tree], self.magic("__getitem__", base, [where], node).type)
        if kind.name == "Tuple":
            return self._of_tuple(base, index, node)
        where = self.index(index, kind)
        if kind.name == "List":
            result = kind if isinstance(index, ast.Slice) else kind.args[0]
        elif kind.name == "Dict":
            if not fits(where.type, kind.args[0]):
                raise self.refuse(f"Expected a key of type '{kind.args[0]}' but instead found '{where.type}'", node)
            result = kind.args[1]
        elif kind in (TENSOR, STR, ANY):
            result = kind
        else:
            raise self.refuse(f"'{kind}' object is not subscriptable", node)
        if kind.name in ("List", "str") and not isinstance(index, ast.Slice) and where.type not in (INT, ANY):
            raise self.refuse(f"Expected an index of type 'int' but instead found type '{where.type}'", node)
        return Value(["index", base.tree, where.tree], result)

    def index(self, node, kind) -> Value:
        """Compile what stands between brackets."""
        if isinstance(node, ast.Slice):
            ends = [None if one is None else self.value(one) for one in (node.lower, node.upper, node.step)]
            for one in ends:
                if one is not None and one.type not in (INT, TENSOR, NONE, ANY) and one.type != types.optional(INT):
                    raise self.refuse(f"Expected a slice of type 'int' but instead found type '{one.type}'", node)
            return Value(["slice", *[["const", None] if one is None else one.tree for one in ends]], ANY)
        if isinstance(node, ast.Tuple) and kind == TENSOR:
            parts = [self.index(one, kind) for one in node.elts]
            return Value(["tuple", [one.tree for one in parts]], ANY)
        if isinstance(node, ast.Name) and self.scope.find(node.id) is None and self.source.outside(node.id) is Ellipsis:
            return Value(["ellipsis"], ANY)
        meant = self.value(node)
        if (
            kind == TENSOR
            and meant.type not in (INT, TENSOR, NONE, BOOL, ANY)
            and meant.type.name not in ("List", "Optional")
        ):
            raise self.refuse(f"Unsupported index type '{meant.type}' of a Tensor", node)
        return meant

    def _of_tuple(self, base, index, node):
        if isinstance(index, ast.Slice):
            ends = [None if one is None else self.value(one).constant for one in (index.lower, index.upper, index.step)]
            if any(one == () for one in ends):
                raise self.refuse("Tuples are sliced by integer literals", node)
            part = slice(*[None if one is None else one[0] for one in ends])
            return Value(["index", base.tree, self.index(index, base.type).tree], tuple_of(*base.type.args[part]))
        where = self.value(index)
        if not where.constant or type(where.constant[0]) is not int:
            kinds = set(base.type.args)
            if len(kinds) == 1 and where.type == INT:
                return Value(["index", base.tree, where.tree], kinds.pop())
            raise self.refuse(
                f"Cannot index into a {base.type} with a non-integer literal because we cannot resolve the output type",
                node,
            )
        at = where.constant[0]
        if not -len(base.type.args) <= at < len(base.type.args):
            raise self.refuse(f"Tuple index {at} is out of range for {base.type}", node)
        return Value(["index", base.tree, where.tree], base.type.args[at])

    def _of_known(self, base, node):
        if base.kind == "python":
            raise self.refuse(f"{_described(base)} is not subscriptable in a staged program", node)
        items = self.children(base, node)
        if isinstance(node.slice, ast.Slice):
            ends = [
                None if one is None else self.value(one).constant
                for one in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            if any(one == () for one in ends):
                raise self.refuse("Modules are sliced by integer literals", node)
            return Known("items", items[slice(*[None if one is None else one[0] for one in ends])])
        where = self.value(node.slice)
        if not where.constant:
            raise self.refuse("Modules are indexed by literals, since different ones have different types", node)
        key = where.constant[0]
        if isinstance(key, str) and base.kind == "module":
            return base.what.attribute(key, self.refuse, node)
        if not isinstance(key, int) or not -len(items) <= key < len(items):
            raise self.refuse(f"Index {key} is out of range", node)
        return items[key]


def _described(known) -> str:
    if known.kind == "python":
        value = known.what
        name = getattr(value, "__name__", None)
        return f"python value of type '{type(value).__name__}'" + (f" ({name})" if name else "")
    return "a module" if known.kind in ("module", "items") else f"the method {known.name!r}"
