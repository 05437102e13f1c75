"""From trees of plain data to Python functions.

A tree may come from a file, so nothing in it is taken at its word. There is no text of code anywhere: nodes of Python's
syntax tree are made one by one, from closed tables. A program can read its own local names, attributes that its module
declares, a few attributes of tensors, and call what `names.function` gives. It can name no global, no builtin and no
other attribute, so a hostile file has no way to anything.
"""

from __future__ import annotations

import ast
import collections
import copy
import enum
import keyword

import plugrad
from plugrad.jit import names
from plugrad.jit.modes import MODES
from plugrad.jit.numbers import OF_C
from plugrad.jit.objects import FIELD, METHOD, SPECIAL
from plugrad.jit.primitives import PRIMITIVES
from plugrad.jit.ranges import Ranges, in_ring
from plugrad.jit.types import classes_in, named

__all__ = ["Malformed", "default_of", "functions_of", "identifier"]

DEPTH = 150  # how deep trees may be nested
_BINARY = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "//": ast.FloorDiv, "%": ast.Mod, "**": ast.Pow,
           "@": ast.MatMult, "&": ast.BitAnd, "|": ast.BitOr, "^": ast.BitXor, "<<": ast.LShift,
           ">>": ast.RShift}  # fmt: skip
_COMPARE = {"==": ast.Eq, "!=": ast.NotEq, "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "is": ast.Is,
            "is not": ast.IsNot, "in": ast.In, "not in": ast.NotIn}  # fmt: skip
_UNARY = {"-": ast.USub, "+": ast.UAdd, "~": ast.Invert}
_LITERALS = (int, float, bool, str, complex, type(None))
_OTHERS = (plugrad.dtype, plugrad.device, plugrad.Tensor)
_OF_TORCH = frozenset(
    "strided sparse_coo sparse_csr contiguous_format preserve_format channels_last channels_last_3d".split()
)
_ATTRIBUTES = frozenset({*names.ATTRIBUTES, *names.DEVICE_ATTRIBUTES})
_OWN = frozenset("forward code graph original_name save schema _staged".split())  # what script modules have
_RESERVED = "_g"  # names of what a function is given begin with it


class Malformed(Exception):
    """A tree is not one that `script` makes."""


def identifier(name) -> str:
    """Return a name of a program; Malformed if it is none."""
    if type(name) is not str or not (name.isidentifier() and name.isascii()) or keyword.iskeyword(name):
        raise Malformed(f"{name!r:.60} is no name")
    if name.startswith((_RESERVED, "__")):
        raise Malformed(f"{name!r:.60} is a name of the language's own")
    return name


def attribute(name) -> str:
    """Return the name of an attribute of a module; Malformed for one that Modules have themselves."""
    if type(name) is not str or not (name.isidentifier() and name.isascii()) or name.startswith("__"):
        raise Malformed(f"{name!r:.60} is no name of an attribute")
    if name != "training" and (hasattr(plugrad.nn.Module, name) or name in _OWN):
        raise Malformed(f"{name!r:.60} is an attribute of every Module")
    return name


class Generator:
    """Makes the functions of one unit.

    Args:
        trees: {name: the tree of a function}.
        python: {name: function} of those that stay Python's (`@torch.jit.ignore`), of a program that was not loaded.
        unit: for messages: the name of the class or function.
        declares: whether the module at a path declares an attribute.
        classes: {name: record} of the classes of the program's own.
    """

    def __init__(self, trees, python, unit, declares, classes):
        self.trees, self.python, self.unit, self.declares, self.classes = trees, python, unit, declares, classes
        self.space: dict = {"__builtins__": {}, "__name__": "staged"}
        self.known: dict = {}
        self.depth = 0

    def given(self, key, value) -> ast.Name:
        """Return the global name of something that functions use."""
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = f"{_RESERVED}{len(self.known)}"
            self.space[known] = value
        return ast.Name(known, ast.Load())

    def make(self) -> dict:
        """Return {name: function}."""
        for name in self.trees:
            self.given(("function", name), None)
        for name, tree in self.trees.items():
            try:
                code = self._function(name, tree)
            except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
                raise Malformed(f"the function {name!r:.60}: {type(error).__name__}: {error}") from error
            except LookupError as error:
                raise Malformed(f"{error} is nothing that programs call") from error
            exec(code, self.space)
            own = self.known["function", name]
            self.space[own].__qualname__ = f"{self.unit}.{name}"
        return {name: self.space[self.known["function", name]] for name in self.trees}

    def _function(self, name, tree):
        own = self.known["function", name]
        arguments = [ast.arg(identifier(one[0])) for one in tree["arguments"]]
        if tree["self"]:
            arguments.insert(0, ast.arg(f"{_RESERVED}self"))
        stated = [one[1:3] for one in tree["arguments"] if len(one) > 2]
        defaults = [self._default(default_of(*one, self.classes)) for one in stated]
        if len(tree["arguments"]) and any(
            len(one) < 3 for one in tree["arguments"][len(tree["arguments"]) - len(stated) :]
        ):
            defaults = []  # arguments by name only may have defaults before others; calls from outside are bound anyway
        self.ranges = Ranges(tree)
        body = self.block(tree["body"], 0) or [ast.Pass()]
        node = ast.FunctionDef(
            name=own,
            args=ast.arguments(posonlyargs=[], args=arguments, kwonlyargs=[], kw_defaults=[], defaults=defaults),
            body=body, decorator_list=[], type_params=[],
        )  # fmt: skip
        module = ast.fix_missing_locations(ast.Module([node], []))
        try:
            return compile(module, f"<plugrad.jit {self.unit}.{name}>", "exec")
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise Malformed(f"the function {name!r:.60}: {error}") from error

    # ---- statements

    def block(self, trees, depth) -> list:
        """Return the statements of a block."""
        if depth > 15:
            raise Malformed("blocks are nested too deeply")
        nodes = []
        for tree in trees:
            kind, line = tree[0], tree[1]
            if kind not in _STATEMENTS or type(line) is not int:
                raise Malformed(f"{kind!r:.60} is no statement")
            written = _STATEMENTS[kind](self, depth, *tree[2:])
            for one in written if isinstance(written, list) else [written]:
                one.lineno = one.end_lineno = min(max(line, 1), 1 << 20)
                one.col_offset = one.end_col_offset = 0
                nodes.append(one)
        return nodes

    def _inner(self, trees, depth):
        return self.block(trees, depth + 1) or [ast.Pass()]

    def _assign(self, depth, target, value):
        return [ast.Assign([self.target(target)], self.tree(value)), *self._tuples(target)]

    def _tuples(self, target) -> list:
        """Return statements that make tuples of the lists that Python gives to starred targets."""
        if target[0] == "star":
            load, store = ast.Starred(self.tree(target[1]), ast.Load()), self.target(target[1])
            return [ast.Assign([store], ast.Tuple([load], ast.Load()))]
        return [node for one in target[1] for node in self._tuples(one)] if target[0] == "tuple" else []

    def _aug(self, depth, target, sign, value, kind=None):
        if kind is None:
            return ast.AugAssign(self.target(target), _BINARY[sign](), self.tree(value))
        nodes, store = [], self.target(target)
        for part in ("value", "slice") if target[0] in ("index", "field") else ():  # each is evaluated once
            if isinstance(getattr(store, part, None), ast.expr):
                nodes.append(ast.Assign([ast.Name(_RESERVED + part, ast.Store())], getattr(store, part)))
                setattr(store, part, ast.Name(_RESERVED + part, ast.Load()))
        load = copy.copy(store)
        load.ctx = ast.Load()
        combined = self._of_c(["binary", sign, target, value, kind], load, self._unwrapped(sign, value, kind))
        return [*nodes, ast.Assign([store], combined)]

    def _do(self, depth, value):
        return ast.Expr(self.tree(value))

    def _return(self, depth, value):
        return ast.Return(self.tree(value))

    def _if(self, depth, test, first, second):
        return ast.If(self.tree(test), self._inner(first, depth), self.block(second, depth + 1))

    def _while(self, depth, test, body):
        return ast.While(self.tree(test), self._inner(body, depth), [])

    def _for(self, depth, target, over, body):
        body = [*self._tuples(target), *self._inner(body, depth)]
        return ast.For(self.target(target), self.tree(over), body, [])

    def _assert(self, depth, test, message):
        failed = self._called("prim.assert", [self.tree(message)])
        return ast.If(ast.UnaryOp(ast.Not(), self.tree(test)), [ast.Expr(failed)], [])

    def _raise(self, depth, kind, message):
        return ast.Expr(self._called("prim.raise", [ast.Constant(str(kind)), self.tree(message)]))

    def _with(self, depth, modes, body):
        items = []
        for name, *values in modes:
            if name == "object":
                value, target = values
                call = self._called("prim.entered", [self.tree(value)])
                items.append(ast.withitem(call, None if target is None else self.target(target)))
                continue
            if len(values) not in MODES.get(name, ()):
                raise Malformed(f"{name!r:.60} is no mode")
            items.append(ast.withitem(self._called("prim.mode", [ast.Constant(name), *map(self.tree, values)])))
        return ast.With(items, self._inner(body, depth))

    def _del(self, depth, target):
        node = self.target(target)
        node.ctx = ast.Del()
        return ast.Delete([node])

    def _break(self, depth):
        return ast.Break()

    def _continue(self, depth):
        return ast.Continue()

    def target(self, tree):
        """Return the target of an assignment."""
        kind, *parts = tree
        if kind == "name":
            (name,) = parts
            return ast.Name(identifier(name), ast.Store())
        if kind == "tuple":
            (items,) = parts
            return ast.Tuple([self.target(one) for one in items], ast.Store())
        if kind == "star":
            (inner,) = parts
            return ast.Starred(ast.Name(identifier(inner[1]), ast.Store()), ast.Store())
        if kind == "index":
            base, where = parts
            return ast.Subscript(self.tree(base), self.tree(where), ast.Store())
        if kind in ("self", "field"):
            return (self._self if kind == "self" else self._field)(*parts, context=ast.Store())
        raise Malformed(f"{kind!r:.60} is no target")

    # ---- expressions

    def tree(self, tree):
        """Return an expression."""
        self.depth += 1
        if self.depth > DEPTH:
            raise Malformed("expressions are nested too deeply")
        kind = tree[0]
        if kind not in _EXPRESSIONS:
            raise Malformed(f"{kind!r:.60} is no expression")
        node = _EXPRESSIONS[kind](self, *tree[1:])
        self.depth -= 1
        return node

    def _name(self, name):
        return ast.Name(identifier(name), ast.Load())

    def _default(self, value):
        if type(value) in (list, tuple):  # no list: one function would hand the same to all its calls
            return ast.Tuple([self._default(one) for one in value], ast.Load())
        return self._constant(value)

    def _constant(self, value):
        if type(value) in _LITERALS:
            return ast.Constant(value)
        if not isinstance(value, _OTHERS) and not isinstance(value, enum.Enum):
            raise Malformed(f"{value!r:.60} is no constant")
        return self.given(("value", id(value)), value)

    def _torch(self, name):
        if name not in _OF_TORCH:
            raise Malformed(f"{name!r:.60} is no layout or memory format")
        return self.given(("torch", name), getattr(plugrad, name))

    def _ellipsis(self):
        return ast.Constant(Ellipsis)

    def _called(self, name, args):
        return ast.Call(self.given(("call", name), names.function(name)), args, [])

    def _arguments(self, args, kwargs):
        node = [ast.Starred(self.tree(one[1]), ast.Load()) if one[0] == "star" else self.tree(one) for one in args]
        return node, [ast.keyword(identifier(name), self.tree(one)) for name, one in kwargs.items()]

    def _call(self, name, args, kwargs):
        if type(name) is not str:
            raise Malformed("a call names what it calls")
        function = self.given(("call", name), names.function(name))
        return ast.Call(function, *self._arguments(args, kwargs))

    def _of_unit(self, name, args, kwargs):
        if name not in self.trees:
            raise Malformed(f"there is no function {name!r:.60}")
        args, keywords = self._arguments(args, kwargs)
        if self.trees[name]["self"]:
            args.insert(0, ast.Name(f"{_RESERVED}self", ast.Load()))
        return ast.Call(self.given(("function", name), None), args, keywords)

    def _python(self, name, args, kwargs):
        if name not in self.python:
            raise Malformed(f"{name!r:.60} is a function of Python's, which no file has")
        args, keywords = self._arguments(args, kwargs)
        function, is_method = self.python[name]
        if is_method:
            args.insert(0, ast.Name(f"{_RESERVED}self", ast.Load()))
        return ast.Call(self.given(("python", name), function), args, keywords)

    def _module(self, path):
        node = ast.Name(f"{_RESERVED}self", ast.Load())
        for one in path:
            if type(one) is not str:
                raise Malformed(f"{one!r:.60} is no name of a module")
            node = ast.Subscript(ast.Attribute(node, "_modules", ast.Load()), ast.Constant(one), ast.Load())
        return node

    def _method(self, path, name, args, kwargs):
        args, keywords = self._arguments(args, kwargs)
        module = self._module(path)
        if name == "forward":
            return ast.Call(self.given("forward", PRIMITIVES["forward"]), [module, *args], keywords)
        return ast.Call(self.given("method", PRIMITIVES["call"]), [module, ast.Constant(str(name)), *args], keywords)

    def _self(self, path, name, *, context=None):
        node = ast.Attribute(self._module(path), attribute(name), context or ast.Load())
        if not self.declares(path, name):
            raise Malformed(f"there is no attribute {name!r:.60}")
        return node

    def _param(self, path, name):
        return self._of_table("_parameters", path, name)

    def _buffer(self, path, name):
        return self._of_table("_buffers", path, name)

    def _of_table(self, table, path, name):
        inner = ast.Attribute(self._module(path), table, ast.Load())
        if type(name) is not str:
            raise Malformed(f"{name!r:.60} is no name of a tensor")
        return ast.Subscript(inner, ast.Constant(name), ast.Load())

    def _binary(self, sign, left, right, kind=None):
        if kind is not None:
            parts = [self._unwrapped(sign, one, kind) for one in (left, right)]
            return self._of_c(["binary", sign, left, right, kind], *parts)
        return ast.BinOp(self.tree(left), _BINARY[sign](), self.tree(right))

    def _unwrapped(self, sign, tree, kind):
        """Return an operand, with all of its bits if it is an operator's before another one that wraps around."""
        node = self.tree(tree)
        return node.args[0] if kind == "int" and sign != "<<" and in_ring(tree) and type(node) is ast.Call else node

    def _unary(self, sign, value, kind=None):
        if kind is not None:
            function = self.given(("number", sign, kind), OF_C[sign, kind])
            return ast.Call(function, [ast.UnaryOp(_UNARY[sign](), self.tree(value))], [])
        return ast.UnaryOp(_UNARY[sign](), self.tree(value))

    def _of_c(self, tree, left, right):
        """Return what an operator gives of two numbers in C; integers wrap around where they may have to."""
        _, sign, _, _, kind = tree
        if kind == "int" and in_ring(tree) and self.ranges.bound(tree) is not None:
            return ast.BinOp(left, _BINARY[sign](), right)
        function = self.given(("number", sign, kind), OF_C[sign, kind])
        return ast.Call(function, [ast.BinOp(left, _BINARY[sign](), right)] if kind == "int" else [left, right], [])

    def _not(self, value):
        return ast.UnaryOp(ast.Not(), self.tree(value))

    def _compare(self, sign, left, right):
        return ast.Compare(self.tree(left), [_COMPARE[sign]()], [self.tree(right)])

    def _and(self, values):
        return ast.BoolOp(ast.And(), [self.tree(one) for one in values])

    def _or(self, values):
        return ast.BoolOp(ast.Or(), [self.tree(one) for one in values])

    def _ifexp(self, test, first, second):
        return ast.IfExp(self.tree(test), self.tree(first), self.tree(second))

    def _index(self, base, where):
        return ast.Subscript(self.tree(base), self.tree(where), ast.Load())

    def _slice(self, *ends):
        return self._called("prim.slice", [self.tree(one) for one in ends[:3]])

    def _list(self, items):
        return ast.List([self.tree(one) for one in items], ast.Load())

    def _tuple(self, items):
        return ast.Tuple([self.tree(one) for one in items], ast.Load())

    def _dict(self, pairs):
        return ast.Dict([self.tree(key) for key, _ in pairs], [self.tree(value) for _, value in pairs])

    def _attr(self, base, name):
        if name not in _ATTRIBUTES:
            raise Malformed(f"{name!r:.60} is no attribute of values")
        return ast.Attribute(self.tree(base), name, ast.Load())

    def _named(self, name, fields, items):
        identifier(name)
        key = ("named", name, tuple(map(identifier, fields)))
        if key not in self.known:
            self.given(key, collections.namedtuple(name, fields))
        return ast.Call(self.given(key, None), [self.tree(one) for one in items], [])

    # ---- objects of the program's own classes

    def _field(self, base, name, *, context=None):
        return ast.Attribute(self.tree(base), FIELD + identifier(name), context or ast.Load())

    def _of(self, base, name, args, kwargs):
        name = name if name in SPECIAL else identifier(name)
        args, keywords = self._arguments(args, kwargs)
        return ast.Call(ast.Attribute(self.tree(base), METHOD + name, ast.Load()), args, keywords)

    def _record(self, name, attribute):
        record = self.classes.get(name) if type(name) is str else None
        if not hasattr(record, attribute):
            raise Malformed(f"there is no class {name!r:.60}")
        return record

    def _new(self, name, args, kwargs):
        record = self._record(name, "construct")
        return ast.Call(self.given(("new", name), record.construct), *self._arguments(args, kwargs))

    def _enum(self, name, member):
        members = self._record(name, "members").members.__members__
        if member not in members:
            raise Malformed(f"there is no member {member!r:.60} of {name}")
        return self.given(("enum", name, member), members[member])

    def _instance(self, value, name):
        record = self._record(name, "type")
        return ast.Call(self.given(("is", name), record.holds), [self.tree(value)], [])

    def _comp(self, parts, target, over, tests):
        loop = ast.comprehension(self.target(target), self.tree(over), [self.tree(one) for one in tests], 0)
        if len(parts) == 2:
            return ast.DictComp(self.tree(parts[0]), self.tree(parts[1]), [loop])
        (part,) = parts
        return ast.ListComp(self.tree(part), [loop])


_STATEMENTS = {
    "=": Generator._assign, "aug": Generator._aug, "do": Generator._do, "return": Generator._return,
    "if": Generator._if,
    "while": Generator._while, "for": Generator._for, "assert": Generator._assert, "raise": Generator._raise,
    "with": Generator._with, "del": Generator._del, "break": Generator._break, "continue": Generator._continue,
}  # fmt: skip
_EXPRESSIONS = {
    "name": Generator._name, "const": Generator._constant, "ellipsis": Generator._ellipsis,
    "torch": Generator._torch, "call": Generator._call, "function": Generator._of_unit,
    "python": Generator._python, "method": Generator._method, "self": Generator._self, "param": Generator._param,
    "buffer": Generator._buffer, "binary": Generator._binary,
    "unary": Generator._unary, "not": Generator._not, "compare": Generator._compare, "and": Generator._and,
    "or": Generator._or, "ifexp": Generator._ifexp, "index": Generator._index, "slice": Generator._slice,
    "list": Generator._list, "tuple": Generator._tuple, "dict": Generator._dict, "attr": Generator._attr,
    "comp": Generator._comp, "named": Generator._named, "field": Generator._field, "of": Generator._of,
    "new": Generator._new, "enum": Generator._enum, "instance": Generator._instance,
}  # fmt: skip


def default_of(kind, value, classes):
    """Return the default of an argument, given its type's text: a member of an Enum stands there by its name."""
    if type(value) is not str or not classes or kind == "str":
        return value
    record = next((one for one in classes_in(named(kind, classes)) if hasattr(one, "members")), None)
    return value if record is None else record.members[value]


def functions_of(trees: dict, python: dict, unit: str, declares=lambda path, name: False, classes=()) -> dict:
    """Return {name: Python function} of the trees of a unit; Malformed if they are not such as `script` makes."""
    return Generator(trees, python, unit, declares, dict(classes)).make()
