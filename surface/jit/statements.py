"""Statements of staged programs, and whole functions."""

from __future__ import annotations

import ast

from plugrad.jit import types
from plugrad.jit.attributes import Bound
from plugrad.jit.calls import Calls
from plugrad.jit.conditions import Conditions
from plugrad.jit.errors import refuse_starred, unfinished, unsupported
from plugrad.jit.expressions import Expressions
from plugrad.jit.modes import entered, mode_of
from plugrad.jit.objects import SETS
from plugrad.jit.signatures import Argument, Signature
from plugrad.jit.signs import BINARY
from plugrad.jit.source import Source
from plugrad.jit.types import ANY, NONE, TENSOR, Type, fits, tuple_of, unified
from plugrad.jit.values import Known, Scope, Undefined, Value

_NODES = {
    ast.Try: "try blocks", ast.FunctionDef: "function definitions", ast.ClassDef: "class definitions",
    ast.Global: "global variables", ast.Nonlocal: "nonlocal variables", ast.AsyncFunctionDef: "async functions",
    ast.Import: "import statements", ast.ImportFrom: "import statements", ast.AsyncFor: "async for loops",
    ast.AsyncWith: "async with statements", ast.Match: "match statements",
}  # fmt: skip


class Compiler(Expressions, Conditions, Calls):
    """Compiles one function of a unit to a tree of plain data.

    Args:
        unit: what the function belongs to; it gives other functions, and the modules of methods.
        function: the function of Python, or its Source.
        own: what its first argument is, for methods of modules.
        of_class: the record of the class that it is a method of, which is the type of its first argument.
    """

    def __init__(self, unit, function, own=None, of_class=None):
        self.unit, self.scope = unit, Scope()
        self.source = function if isinstance(function, Source) else Source(function)
        self.name = self.source.function.__name__
        self.own, self.of_class = own, of_class
        self.returned: Type | None = None  # the type of the results so far
        self.loops: list = []  # for each loop around, whether it is written out

    def compile(self) -> tuple:
        """Return (the tree of the function, its Signature)."""
        arguments = [Argument(*row) for row in self.source.arguments(self.own is not None)]
        if self.of_class is not None:
            if not arguments:
                raise self.refuse("a method has the object as its first argument", self.source.tree)
            arguments[0].type = self.of_class.type
        self.arguments_of = arguments
        self.declared = self.source.returns()
        if self.own is not None:
            tree = self.source.tree.args
            self.scope.put((tree.posonlyargs + tree.args)[0].arg, self.own)
        for one in arguments:
            self.scope.put(one.name, Value(["name", one.name], one.type))
        body, ends = self.block(self.source.tree.body)
        if not ends:
            self._fell_through()
        returns = self.declared if self.declared is not None else self.returned or NONE
        signature = Signature(self.name, arguments, returns)
        return body, signature

    def defines(self, base) -> bool:
        """Whether assignments to attributes of a value say which attributes its class has."""
        begins = self.of_class is not None and self.name == "__init__"
        return begins and base.tree == ["name", self.arguments_of[0].name]

    def _fell_through(self):
        wanted = self.declared
        if wanted is not None and not fits(NONE, wanted):
            raise self.refuse(
                "Function was not annotated as having type None, but does not return along all paths", self.source.tree
            )
        if wanted is None and self.returned is not None:
            self.returned = types.optional(self.returned)

    # ---- blocks

    def block(self, nodes) -> tuple:
        """Compile statements; return (their trees, whether none is reached behind them)."""
        trees = []
        for node in nodes:
            written = self.statement(node)
            ends = written and written[-1] == "ends"
            trees += written[:-1] if ends else written
            if ends:
                return trees, True
        return trees, False

    def statement(self, node) -> list:
        """Compile a statement; return its trees, and "ends" behind them if none is reached after it."""
        method = getattr(self, f"_do_{type(node).__name__.lower()}", None)
        if method is None:
            raise unsupported(_NODES.get(type(node), type(node).__name__), self.source.place(node))
        return method(node)

    def _line(self, node) -> int:
        return node.lineno + self.source.first - 1

    def _do_pass(self, node):
        return []

    def _do_expr(self, node):
        if isinstance(node.value, ast.Constant):
            return []
        meant = self.expression(node.value)
        if not isinstance(meant, Value):
            return []
        return [["do", self._line(node), meant.tree]]

    def _do_return(self, node):
        value = Value(["const", None], NONE, (None,)) if node.value is None else self.value(node.value, self.declared)
        if self.declared is not None:
            if not fits(value.type, self.declared):
                raise self.refuse(
                    f"Return value was annotated as having type {self.declared} but is actually of type {value.type}",
                    node,
                )
        elif self.returned is None:
            self.returned = value.type
        else:
            kind = unified(self.returned, value.type)
            if kind is None:
                raise self.refuse(
                    f"Previous return statement returned a value of type {self.returned} but this return statement "
                    "returns "
                    f"a value of type {value.type}",
                    node,
                )
            self.returned = kind
        return [["return", self._line(node), value.tree], "ends"]

    # ---- assignments

    def _do_assign(self, node):
        value = self.expression(node.value)
        trees = []
        for target in node.targets:
            trees += self.assign(target, value, node)
            if isinstance(value, Value) and len(node.targets) > 1 and isinstance(target, ast.Name):
                value = Value(["name", target.id], value.type)
        return trees

    def assign(self, target, value, node) -> list:
        """Return the statements that give a target a value."""
        if isinstance(value, Known):
            self.bind(target, value, node)
            return []
        if (setter := self._setter(target, value, node)) is not None:
            return [["do", self._line(node), setter.tree]]
        tree = self.target(target, value, node)
        return [["=", self._line(node), tree, value.tree]]

    def _setter(self, target, value, node):
        """Return the call that an assignment to a property of an object is; None for other targets."""
        if not isinstance(target, ast.Attribute):
            return None
        base = self.expression(target.value)
        if isinstance(base, Known) and base.kind == "module":
            return base.what.set_property(target.attr, value, self.refuse, node)
        if not isinstance(base, Value) or target.attr not in getattr(base.type.cls, "properties", ()):
            return None
        call = Bound(base).call(target.attr + SETS, [value], {}, self.refuse, node)
        if call is None:
            raise self.refuse(f"the property '{target.attr}' of a {base.type} has no setter", node)
        return call

    def bind(self, target, meant, node):
        """Let a target be something known, or parts of it."""
        if isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(meant, Value) and meant.type.name == "Tuple":
                items = [Value(["index", meant.tree, ["const", i]], one) for i, one in enumerate(meant.type.args)]
            elif isinstance(meant, Known):
                items = self.children(meant, node)
            else:
                raise self.refuse(f"'{meant.type}' can't be unpacked here", node)
            if len(items) != len(target.elts):
                raise self.refuse(f"Need {len(target.elts)} values to unpack, and there are {len(items)}", node)
            for one, item in zip(target.elts, items):
                self.bind(one, item, node)
        elif isinstance(target, ast.Name):
            self.scope.put(target.id, meant)
        else:
            raise self.refuse("modules and functions can be given names, and are no values", node)

    def target(self, target, value, node):
        """Return the tree of a target of an assignment, and note what its names are."""
        if isinstance(target, ast.Name):
            self._set(target.id, value, node)
            return ["name", target.id]
        if isinstance(target, (ast.Tuple, ast.List)):
            return self._unpack(target, value, node)
        if isinstance(target, ast.Subscript):
            base = self.value(target.value)
            if base.type.cls is not None:
                where = self.value(target.slice)
                self.magic("__setitem__", base, [where, value], node)
                return ["index", base.tree, where.tree]
            if base.type.name == "List" and not fits(
                value.type, base.type if isinstance(target.slice, ast.Slice) else base.type.args[0]
            ):
                raise self.refuse(
                    f"Expected an item of type '{base.type.args[0]}' but instead found type '{value.type}'", node
                )
            if base.type.name == "Dict" and not fits(value.type, base.type.args[1]):
                raise self.refuse(
                    f"Expected an item of type '{base.type.args[1]}' but instead found type '{value.type}'", node
                )
            if base.type.name not in ("List", "Dict", "Tensor", "Any"):
                raise self.refuse(f"'{base.type}' object does not support item assignment", node)
            return ["index", base.tree, self.index(target.slice, base.type).tree]
        if isinstance(target, ast.Attribute):
            base = self.expression(target.value)
            if isinstance(base, Value):
                if not hasattr(base.type.cls, "fields"):
                    raise self.refuse(f"Tried to set an attribute: {target.attr} on a non-class: {base.type}", node)
                return Bound(base).assigned(target.attr, value, self, node)
            if base.kind == "module":
                return base.what.assigned(target.attr, value, self.refuse, node)
        raise unsupported(f"Assignments to {type(target).__name__}", self.source.place(node))

    def _set(self, name, value, node):
        before = self.scope.outer(name)
        if isinstance(before, Value) and len(self.scope.frames) > 1 and not fits(value.type, self._declared(name)):
            raise self.refuse(
                f"Variable '{name}' previously had type {before.type} but is now being assigned to a value of type "
                f"{value.type}",
                node,
            )
        self.scope.put(name, Value(["name", name], value.type))

    def _declared(self, name):
        """Return the widest type that a name has in the blocks around: what tests found out counts for no writes."""
        kinds = [frame[name].type for frame in self.scope.frames[:-1] if isinstance(frame.get(name), Value)]
        return next((kind for kind in kinds if kind.name == "Optional"), kinds[-1])

    def _unpack(self, target, value, node):
        kind = value.type
        starred = next((i for i, one in enumerate(target.elts) if isinstance(one, ast.Starred)), None)
        if starred is not None:
            return self._unpack_starred(target.elts, starred, kind, node)
        if kind.name == "Tuple":
            if len(kind.args) != len(target.elts):
                raise self.refuse(f"Need {len(target.elts)} values to unpack, and the tuple has {len(kind.args)}", node)
            inner = kind.args
        elif kind.name == "List" or kind in (TENSOR, ANY):
            inner = [kind.args[0] if kind.args else kind] * len(target.elts)
        else:
            raise self.refuse(f"Cannot unpack a value of type '{kind}'", node)
        return ["tuple", [self.target(one, Value(["name", "?"], item), node) for one, item in zip(target.elts, inner)]]

    def _unpack_starred(self, targets, at, kind, node):
        """Return the tree of targets of which the one at a place takes all that the others leave, as a tuple."""
        if kind.name != "Tuple":
            why = "cannot statically infer the expected size of a list in this context"
            raise self.refuse(why if kind.name == "List" else f"{kind} cannot be used as a tuple", node)
        if not isinstance(targets[at].value, ast.Name):
            raise self.refuse("Cannot pack a tuple into a non-variable", node)
        least, after = len(targets) - 1, len(kind.args) - len(targets) + at + 1
        if len(kind.args) < least:
            raise self.refuse(f"need at least {least} values to unpack but found only {len(kind.args)}", node)
        parts = [*kind.args[:at], tuple_of(*kind.args[at:after]), *kind.args[after:]]
        plain = [one.value if isinstance(one, ast.Starred) else one for one in targets]
        trees = [self.target(one, Value(["name", "?"], part), node) for one, part in zip(plain, parts)]
        trees[at] = ["star", trees[at]]
        return ["tuple", trees]

    def _do_annassign(self, node):
        kind = self.source.annotation(node.annotation)
        if node.value is None:
            raise self.refuse("a variable without a value has no type: give it one", node)
        value = self.value(node.value, kind)
        if not fits(value.type, kind):
            raise self.refuse(
                f"Variable is annotated with type {kind} but is being assigned to a value of type {value.type}", node
            )
        return self.assign(node.target, Value(value.tree, kind), node)

    def _do_augassign(self, node):
        sign = BINARY[type(node.op)]
        old, value = self.value(_load(node.target)), self.value(node.value)
        new = self.combined(sign, old, value, node, "i")
        if sign == "**" and new.type != TENSOR or self._setter(node.target, new, node) is not None:
            return self.assign(node.target, new, node)
        target = self.target(node.target, new, node)
        return [["aug", self._line(node), target, sign, value.tree, *new.tree[4:]]]  # a number's kind, too

    def _do_delete(self, node):
        trees = []
        for one in node.targets:
            if isinstance(one, ast.Name):
                self.value(one)
                self.scope.put(one.id, Undefined(f"undefined value {one.id}"))
            elif isinstance(one, ast.Subscript):
                base = self.value(one.value)
                trees.append(["del", self._line(node), ["index", base.tree, self.index(one.slice, base.type).tree]])
            else:
                raise unsupported("del of attributes", self.source.place(node))
        return trees

    # ---- branches

    def _do_if(self, node):
        test = self.condition(node.test)
        if test.known is not None:
            trees, ends = self.block(node.body if test.known else node.orelse)
            return [*trees, "ends"] if ends else trees
        first, first_ends, first_frame = self._branch(node.body, test.true)
        second, second_ends, second_frame = self._branch(node.orelse, test.false)
        if first_ends and second_ends:
            return [["if", self._line(node), test.value.tree, first, second], "ends"]
        if first_ends or second_ends:
            self.scope.frames[-1].update(second_frame if first_ends else first_frame)
        else:
            self._merge(first_frame, second_frame)
        return [["if", self._line(node), test.value.tree, first, second]]

    def _branch(self, nodes, names):
        # What a test has found out of a name stands in a frame of its own: writes in the branch are not held to it.
        self.scope.frames += [dict(names), {}]
        try:
            trees, ends = self.block(nodes)
        finally:
            frame = self.scope.frames.pop()
            refined = self.scope.frames.pop()
        return trees, ends, {**refined, **frame}

    def _merge(self, first, second):
        for name in dict.fromkeys([*first, *second]):
            outer = self.scope.find(name)
            one, other = first.get(name, outer), second.get(name, outer)
            if isinstance(one, Value) and isinstance(other, Value):
                kind = unified(one.type, other.type)
                if kind is None:
                    merged = Undefined(
                        f"Type mismatch: {name} is set to type {one.type} in the true branch and type {other.type} "
                        "in the "
                        "false branch")  # fmt: skip
                elif one.tree == other.tree:
                    merged = Value(one.tree, kind)
                else:
                    merged = Undefined(f"{name} stands for different things in the branches")
            elif one == other and one is not None:
                merged = one
            else:
                branch = "true" if one is None or isinstance(one, Undefined) else "false"
                merged = Undefined(f"{name} is not defined in the {branch} branch")
            self.scope.put(name, merged)

    # ---- loops

    def _do_while(self, node):
        if node.orelse:
            raise unsupported("else branches of while loops", self.source.place(node))
        depth = len(self.scope.frames)
        try:
            test = self.condition(node.test)
            self.scope.frames.append(dict(test.true))
            body = self._loop_body(node.body)
        finally:
            del self.scope.frames[depth:]
        tree = [["while", self._line(node), test.value.tree, body]]
        forever = test.known and not _has_break(node.body)
        return [*tree, "ends"] if forever else tree

    def _loop_body(self, nodes):
        self.loops.append(False)
        self.scope.frames.append({})
        try:
            return self.block(nodes)[0]
        finally:
            self.scope.frames.pop()
            self.loops.pop()

    def _do_for(self, node):
        if node.orelse:
            raise unsupported("else branches of for loops", self.source.place(node))
        over = self.iterated(node.iter)
        if isinstance(over, list):
            return self._written_out_loop(node, over)
        self.loops.append(False)
        self.scope.frames.append({})
        try:
            target = self.target(node.target, Value(["name", "?"], over.type.args[0]), node)
            body = self.block(node.body)[0]
        finally:
            self.scope.frames.pop()
            self.loops.pop()
        return [["for", self._line(node), target, over.tree, body]]

    def _written_out_loop(self, node, over):
        """Compile the body of a loop for each of some things that have different types, as modules have."""
        trees = []
        self.loops.append(True)
        try:
            for one in over:
                if isinstance(one, Value):
                    trees += self.assign(node.target, one, node)
                else:
                    self.bind(node.target, one, node)
                written, ends = self.block(node.body)
                trees += written
                if ends:
                    return [*trees, "ends"]
        finally:
            self.loops.pop()
        return trees

    def _do_break(self, node):
        return self._leave("break", node)

    def _do_continue(self, node):
        return self._leave("continue", node)

    def _leave(self, what, node):
        if not self.loops:
            raise self.refuse(f"{what} cannot appear outside of a loop", node)
        if self.loops[-1]:
            raise unfinished(f"{what} in a loop over modules, which is written out", self.source.place(node))
        return [[what, self._line(node)], "ends"]

    # ---- errors and modes

    def _do_assert(self, node):
        test = self.condition(node.test)
        message = ["const", None] if node.msg is None else self.value(node.msg).tree
        self.scope.frames[-1].update(test.true)
        if test.known:
            return []
        return [["assert", self._line(node), test.value.tree, message]]

    def _do_raise(self, node):
        kind, message = "RuntimeError", ["const", ""]
        if node.exc is not None:
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            meant = self.expression(raised)
            what = meant.what if isinstance(meant, Known) else None
            if not (isinstance(what, type) and issubclass(what, BaseException)):
                raise self.refuse("a program raises exceptions by their classes", node)
            kind = what.__name__
            if isinstance(node.exc, ast.Call) and node.exc.args:
                message = self.value(node.exc.args[0]).tree
        return [["raise", self._line(node), kind, message], "ends"]

    def _do_with(self, node):
        modes = [self._entered(item, node) for item in node.items]
        trees, ends = self.block(node.body)
        written = [["with", self._line(node), modes, trees]]
        return [*written, "ends"] if ends else written

    def _entered(self, item, node):
        """Return what a `with` statement enters: [a mode's name, arguments] or ["object", it, target or None]."""
        call = item.context_expr
        meant = self.expression(call.func) if isinstance(call, ast.Call) else self.expression(call)
        mode = mode_of(meant)
        if mode is not None and isinstance(call, ast.Call):
            if item.optional_vars is not None:
                self.bind(item.optional_vars, Known("mode", mode[0]), node)
            args, kwargs = self.arguments(call)
            given = [one.tree for one in args], {key: one.tree for key, one in kwargs.items()}
            return entered(*mode, *given, lambda message: self.refuse(message, node))
        value = self.value(call)
        if not hasattr(value.type.cls, "fields"):
            raise self.refuse("With item expression must return an object", node)
        enter, leave = (value.type.cls.unit.method(one, self.refuse, node) for one in ("__enter__", "__exit__"))
        if enter is None or leave is None:
            raise self.refuse(
                "Object returned by with item expression does not define __enter__ and __exit__ methods", node
            )
        for what, count in ((enter, 1), (leave, 4)):
            if len(what.arguments) != count:
                raise self.refuse(f"{what.name} must have {'one argument' if count == 1 else 'four arguments'}", node)
        target = item.optional_vars
        if target is not None:
            refuse_starred(target, self.source)
            target = self.target(target, Value(["name", "?"], enter.returns), node)
        return ["object", value.tree, target]


def _load(node):
    copy = ast.parse(ast.unparse(node), mode="eval").body
    for one in ast.walk(copy):
        ast.copy_location(one, node)
    return copy


def _has_break(nodes) -> bool:
    """Whether a loop with such a body is left by a `break` of its own."""
    stack = list(nodes)
    while stack:
        one = stack.pop()
        if isinstance(one, ast.Break):
            return True
        if not isinstance(one, (ast.While, ast.For)):
            stack += ast.iter_child_nodes(one)
    return False
