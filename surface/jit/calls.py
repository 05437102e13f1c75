"""Calls in staged programs: of ops, methods, Python's own functions, other functions, and modules."""

from __future__ import annotations

import ast
import builtins
import enum

import plugrad
from plugrad.jit import names, types
from plugrad.jit.attributes import Bound
from plugrad.jit.decorators import declarations_of
from plugrad.jit.errors import unfinished, unsupported
from plugrad.jit.objects import ClassRecord
from plugrad.jit.overloads import chosen
from plugrad.jit.source import is_plain_function
from plugrad.jit.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    NUMBERS,
    STR,
    TENSOR,
    Type,
    fits,
    list_of,
    optional,
    tuple_of,
    unified,
)
from plugrad.jit.values import Known, Value, constant_of

_SIMPLE = {
    "int": INT, "float": FLOAT, "bool": BOOL, "str": STR, "complex": types.COMPLEX, "len": INT, "ord": INT, "chr": STR,
    "print": NONE, "hex": STR, "oct": STR, "bin": STR,
}  # fmt: skip
_MAGIC = ("len", "str", "int", "float", "bool", "complex")
_CONTAINERS = ("range", "enumerate", "zip", "reversed", "list", "tuple", "dict", "sorted")
_LITERALS = (int, float, bool, str, complex, type(None))
_PLACES = ("range", "reversed", "list", "tuple")
_OVER = ("max", "min", "sum", "abs", "round", "all", "any", "divmod")
_SPECIAL = {
    getattr(builtins, name): name
    for name in (*_SIMPLE, *_CONTAINERS, *_OVER, "isinstance", "hasattr", "getattr", "pow")
}


class Calls:
    """Compiles calls, beside Expressions."""

    def special(self, function) -> str | None:
        """Return the name of a function that the language has a rule of its own for, None for others."""
        if not isinstance(function, Known) or function.kind != "python":
            return None
        what = function.what
        if str(getattr(what, "__module__", "")).startswith("plugrad.jit") and not hasattr(what, "_staged"):
            return getattr(what, "__name__", None)
        try:
            return _SPECIAL.get(what)
        except TypeError:  # it has no hash
            return None

    def _node_call(self, node, hint):
        function = self.expression(node.func)
        if isinstance(function, Value):
            if isinstance(function.type.cls, ClassRecord):
                call = Bound(function).call("__call__", *self.arguments(node), self.refuse, node)
                if call is not None:
                    return call
            raise self.refuse(f"a value of type '{function.type}' can't be called", node)
        rule = self.special(function)
        if rule is not None:
            return self._by_rule(rule, node, hint)
        if function.kind == "module":
            return function.what.call("forward", *self.arguments(node), self.refuse, node)
        if function.kind == "method":
            return function.what.call(function.name, *self.arguments(node), self.refuse, node)
        if function.kind == "bound":
            return self._bound(function, node)
        if function.kind == "python":
            return self._python(function, node)
        raise self.refuse("several modules can't be called as one", node)

    def arguments(self, node, hints=()) -> tuple:
        """Return ([values], {name: value}) of a call; a starred one is a Value whose tree says so."""
        args = []
        for i, one in enumerate(node.args):
            if isinstance(one, ast.Starred):
                inner = self.expression(one.value)
                if isinstance(inner, Known):
                    raise unsupported("Starred modules", self.source.place(one))
                if inner.type.name == "Tuple":
                    args += [Value(["index", inner.tree, ["const", k]], kind) for k, kind in enumerate(inner.type.args)]
                else:
                    args.append(Value(["star", inner.tree], ANY))
            else:
                args.append(self.value(one, hints[i] if i < len(hints) else None))
        if any(one.arg is None for one in node.keywords):
            raise unsupported("`**` in calls", self.source.place(node))
        return args, {one.arg: self.value(one.value) for one in node.keywords}

    # ---- functions

    def _python(self, function, node):
        what = function.what
        if isinstance(what, type):
            return self._class(what, node)
        name = names.name_of(what, *(function.name or (None, None)))
        if name is not None:
            return self._named(name, *self.arguments(node), node)
        staged = getattr(what, "_staged", None)
        if (
            staged is not None
            and hasattr(staged, "signatures")
            or is_plain_function(what)
            and not hasattr(what, "__op__")
        ):
            return self._of_program(what, node)
        raise self.refuse(
            f"python value of type '{type(what).__name__}' ({getattr(what, '__name__', what)!s:.80}) cannot be "
            "called in a "
            "staged program; mark a function that calls it with @torch.jit.ignore",
            node,
        )

    def _of_program(self, what, node):
        if is_plain_function(what) and declarations_of(what):
            args, kwargs = self.arguments(node)
            key, signature = self.unit.overload(chosen(what, False, args, kwargs, self.refuse, node), self.refuse, node)
        else:
            key, signature = self.unit.function(what, self.refuse, node)
            args, kwargs = self.arguments(node, [one.type for one in signature.arguments])
        signature.check(args, kwargs, self.refuse, node)
        kind = "python" if key.startswith("!") else "function"
        return Value([kind, key, [one.tree for one in args], _trees(kwargs)], signature.returns)

    def _class(self, cls, node):
        fields = getattr(cls, "_fields", None)
        if issubclass(cls, tuple) and fields is not None:
            args, kwargs = self.arguments(node)
            kinds = [
                self.source.typed(node, lambda one=one: cls.__annotations__.get(one, plugrad.Tensor)) for one in fields
            ]
            given = {name: constant_of(one) for name, one in cls._field_defaults.items() if type(one) in _LITERALS}
            given |= dict(zip(fields, args)) | kwargs
            missing = [one for one in fields if one not in given]
            if missing:
                raise self.refuse(f"{cls.__name__}() needs a value for {missing[0]!r}", node)
            for one, kind in zip(fields, kinds):
                if not fits(given[one].type, kind):
                    raise self.refuse(
                        f"Expected a value of type '{kind}' for argument '{one}' but instead found type "
                        f"'{given[one].type}'",
                        node,
                    )
            tree = ["named", cls.__name__, list(fields), [given[one].tree for one in fields]]
            return Value(tree, tuple_of(*kinds, fields=fields))
        if isinstance(record := self.record(cls, node), ClassRecord):
            signature = record.unit.method("__init__", self.refuse, node)
            args, kwargs = self.arguments(node, [one.type for one in signature.arguments[1:]])
            signature.check([Value(["name", "self"], record.type), *args], kwargs, self.refuse, node)
            self.unit.program.note(record.type)
            return Value(["new", record.name, [one.tree for one in args], _trees(kwargs)], record.type)
        if record is not None:
            raise self.refuse(f"the Enum {cls.__name__} can't be called in a staged program: name its members", node)
        if cls is plugrad.device:
            args, _ = self.arguments(node)
            return Value(["call", "prim.device", [one.tree for one in args], {}], types.DEVICE)
        if cls is plugrad.Size:
            return self._by_rule("list", node, None)
        self.arguments(node)  # what is no expression of the language is said first
        raise unfinished(f"instances of the class {cls.__name__} are no values of staged programs: it is "
                         "a library's, or not written in Python", self.source.place(node))  # fmt: skip

    def _named(self, name, args, kwargs, node):
        """Return the call of a function that the registry or Python has."""
        self._check(name, args, kwargs, node)
        given = {key: one.constant[0] if one.constant else None for key, one in kwargs.items()}
        if name == "math.pow":
            result = FLOAT
        else:
            result = names.result_type(name, [one.type for one in args], given)
        tree = ["call", name, [one.tree for one in args], _trees(kwargs)]
        if result.name == "List" and not name.startswith("str."):
            tree = ["call", "prim.list", [tree], {}]
        return Value(tree, result)

    def _check(self, name, args, kwargs, node):
        signature = names.signature(name)
        if signature is not None and not any(one.tree[0] == "star" for one in args):
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise self.refuse(f"Arguments for call are not valid. {name}: {error}", node) from None
        op = getattr(names.function(name), "__op__", None)
        if op is None or not args or not op.positional or name.startswith("Tensor."):
            return
        if op.positional[0] in ("input", "self") and (
            args[0].type in (NONE, STR) or args[0].type.name in ("Optional", "Dict")
        ):
            raise self.refuse(
                f"Arguments for call are not valid. {name}: Expected a value of type 'Tensor' for argument "
                f"'{op.positional[0]}' but instead found type '{args[0].type}'",
                node,
            )

    # ---- methods of values

    def _bound(self, function, node):
        if isinstance(function.what, Known):
            return self._of_modules(function, node)
        base, name = function.what, function.name
        home, _, own = name.partition(".")
        if home == "list" or home == "dict":
            return self._of_container(base, name, own, node)
        args, kwargs = self.arguments(node)
        if name == "str.format":
            return Value(["call", "prim.format", [base.tree, *[one.tree for one in args]], {}], STR)
        return self._named(name, [base, *args], kwargs, node)

    def _of_container(self, base, name, own, node):
        inner = base.type.args
        args, kwargs = self.arguments(node, [inner[-1]] if own in ("append",) else [])
        wanted = {"append": [inner[0]], "remove": [inner[0]], "count": [inner[0]], "index": [inner[0]],
                  "insert": [INT, inner[0]], "extend": [base.type], "get": [inner[0], optional(inner[-1])],
                  "setdefault": [inner[0], inner[-1]], "update": [base.type]}.get(own)  # fmt: skip
        for one, kind in zip(args, wanted or ()):
            if not fits(one.type, kind):
                raise self.refuse(
                    f"Could not match type {one.type} to {kind} in the argument of '{own}' of a {base.type}", node
                )
        tree = ["call", name, [base.tree, *[one.tree for one in args]], _trees(kwargs)]
        if own in ("keys", "values", "items"):
            kind = {"keys": inner[0], "values": inner[-1], "items": tuple_of(*inner)}[own]
            return Value(["call", "prim.list", [tree], {}], list_of(kind))
        if own == "get":
            return Value(tree, optional(inner[-1]) if len(args) < 2 else unified(inner[-1], args[1].type) or ANY)
        kinds = {"pop": inner[-1], "setdefault": inner[-1], "copy": base.type, "index": INT, "count": INT}
        return Value(tree, kinds.get(own, NONE))

    def _of_modules(self, function, node):
        children = self.children(function.what, node)
        ref = function.what.what
        keys = [constant_of(key) for key in ref.module._modules] if hasattr(ref, "module") else None
        if function.name == "values":
            return Known("items", children)
        if function.name == "keys" and keys is not None:
            return Known("items", keys)
        if function.name == "items" and keys is not None:
            return Known("items", [Known("items", [k, v]) for k, v in zip(keys, children)])
        raise self.refuse(f"modules have no method '{function.name}' in a staged program", node)

    # ---- Python's own functions

    def _by_rule(self, rule, node, hint):
        method = getattr(self, f"_rule_{rule}", None)
        if rule in ("isinstance", "hasattr", "is_scripting", "is_tracing"):
            return self.condition(node).value
        if node.keywords and rule in _PLACES:
            raise self.refuse(f"Arguments for call are not valid. {rule}() takes none by their names", node)
        if method is not None:
            return method(node, hint)
        if rule in _SIMPLE:
            if rule == "len" and isinstance(meant := self.expression(node.args[0]), Known):
                return constant_of(len(self.children(meant, node)))
            args, kwargs = self.arguments(node)
            if len(args) == 1 and isinstance(args[0].type.cls, ClassRecord) and rule in _MAGIC:
                if rule != "str" or args[0].type.cls.unit.method("__str__", self.refuse, node):
                    self.magic(f"__{rule}__", args[0], [], node)
            if rule == "len" and args and args[0].type in (INT, FLOAT, BOOL, NONE):
                raise self.refuse(f"Arguments for call are not valid. len() takes no '{args[0].type}'", node)
            if rule == "float" and args and args[0].constant and type(args[0].constant[0]) is str:
                return constant_of(float(args[0].constant[0]))
            if rule in ("int", "float", "bool") and args and args[0].type not in NUMBERS | {TENSOR, STR, ANY}:
                raise self.refuse(f"Could not cast value of type {args[0].type} to {rule}", node)
            return Value(["call", f"prim.{rule}", [one.tree for one in args], _trees(kwargs)], _SIMPLE[rule])
        raise self.refuse(f"'{rule}' cannot be called in a staged program", node)

    def _rule_annotate(self, node, hint):
        kind = self.source.annotation(node.args[0])
        value = self.value(node.args[1], kind)
        if not fits(value.type, kind):
            raise self.refuse(f"Expected a value of type '{kind}' but instead found type '{value.type}'", node)
        return Value(value.tree, kind, value.constant)

    def _rule_getattr(self, node, hint):
        base, name = self.expression(node.args[0]), self.value(node.args[1])
        if not isinstance(base, Known) or base.kind != "module" or not name.constant:
            raise self.refuse("getattr() asks modules for names that are literals", node)
        if len(node.args) == 3 and not base.what.has(name.constant[0]):
            return self.value(node.args[2])
        return base.what.attribute(name.constant[0], self.refuse, node)

    def _rule_fork(self, node, hint):
        inner = self._node_call(ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node), None)
        return Value(["call", "prim.future", [inner.tree], {}], Type("Future", (inner.type,)))

    def _rule_wait(self, node, hint):
        (one,), _ = self.arguments(node)
        kind = one.type.args[0] if one.type.name == "Future" else ANY
        return Value(["call", "prim.wait", [one.tree], {}], kind)

    def _rule_range(self, node, hint):
        args, _ = self.arguments(node)
        for one in args:
            if one.type not in (INT, BOOL, ANY, TENSOR, NUMBER):
                raise self.refuse(f"range() takes values of type 'int', not '{one.type}'", node)
        trees = [["call", "prim.int", [one.tree], {}] if one.type in (TENSOR, NUMBER) else one.tree for one in args]
        return Value(["call", "prim.range", trees, {}], Type("Iterator", (INT,)))

    def _rule_enumerate(self, node, hint):
        over = self.iterated(node.args[0])
        given = [*node.args[1:], *[one.value for one in node.keywords if one.arg == "start"]]
        if len(given) > 1 or len(given) != len(node.args) - 1 + len(node.keywords):
            raise self.refuse("Arguments for call are not valid. enumerate() takes what it goes over and `start`", node)
        start = self.value(given[0]) if given else constant_of(0)
        if isinstance(over, list):
            return Known(
                "items", [Known("items", [constant_of(start.constant[0] + i), one]) for i, one in enumerate(over)]
            )
        return Value(
            ["call", "prim.enumerate", [over.tree, start.tree], {}], Type("Iterator", (tuple_of(INT, *over.type.args),))
        )

    def _rule_zip(self, node, hint):
        overs = [self.iterated(one) for one in node.args]
        known = [len(one) for one in overs if isinstance(one, list)]
        if not known:
            kinds = [one.type.args[0] for one in overs]
            return Value(["call", "prim.zip", [one.tree for one in overs], {}], Type("Iterator", (tuple_of(*kinds),)))
        rows = []
        for i in range(min(known)):
            rows.append(Known("items", [
                one[i] if isinstance(one, list) else Value(["index", one.tree, ["const", i]], one.type.args[0])
                for one in overs
            ]))  # fmt: skip
        return Known("items", rows)

    def _rule_reversed(self, node, hint):
        over = self.iterated(node.args[0])
        if isinstance(over, list):
            return Known("items", over[::-1])
        return Value(
            ["call", "prim.reversed", [["call", "prim.list", [over.tree], {}]], {}], Type("Iterator", over.type.args)
        )

    def _rule_list(self, node, hint):
        if not node.args:
            return self.expression(ast.copy_location(ast.List([], ast.Load()), node), hint)
        over = self.iterated(node.args[0])
        if isinstance(over, list):
            return Known("items", over)
        return Value(["call", "prim.list", [over.tree], {}], list_of(over.type.args[0]))

    def _rule_sorted(self, node, hint):
        over = self.iterated(node.args[0])
        kwargs = {one.arg: self.value(one.value).tree for one in node.keywords if one.arg == "reverse"}
        if len(kwargs) != len(node.keywords):
            raise self.refuse("sorted() takes `reverse` and nothing else by its name", node)
        return Value(["call", "prim.sorted", [over.tree], kwargs], list_of(over.type.args[0]))

    def _rule_tuple(self, node, hint):
        value = self.value(node.args[0])
        if value.type.name == "Tuple":
            return value
        raise self.refuse("the length of a tuple must be known: tuple() takes a tuple", node)

    def _rule_dict(self, node, hint):
        names = [one.arg for one in node.keywords]
        if None in names:
            raise self.refuse("dict() takes no `**` in a staged program", node)
        keys = [ast.copy_location(ast.Constant(name), node) for name in names]
        named = ast.copy_location(ast.Dict(keys, [one.value for one in node.keywords]), node)
        if not node.args:
            return self.expression(named, hint)
        over = self.iterated(node.args[0])
        (pair,) = over.type.args
        if pair.name != "Tuple" or len(pair.args) != 2:
            raise self.refuse("dict() takes pairs", node)
        more = {}
        if names:
            value = self.expression(named, Type("Dict", pair.args))
            more = {name: tree for name, (_, tree) in zip(names, value.tree[1], strict=True)}
        return Value(["call", "prim.dict", [over.tree], more], Type("Dict", pair.args))

    def _rule_pow(self, node, hint):
        args, kwargs = self.arguments(node)
        if len(args) != 2 or kwargs:
            raise self.refuse("Arguments for call are not valid. pow() takes a base and an exponent", node)
        return self.combined("**", *args, node)

    def _over(self, name, node):
        args, kwargs = self.arguments(node)
        kinds = [one.type for one in args]
        trees = [one.tree for one in args]
        if TENSOR in kinds:
            return self._named(f"torch.{name}", args, kwargs, node)
        if kwargs:
            raise self.refuse(f"Arguments for call are not valid. {name}() takes none by their names", node)
        call = Value(["call", f"prim.{name}", trees, {}], FLOAT)
        if name in ("all", "any"):
            call.type = BOOL
        elif name == "divmod":
            call.type = tuple_of(*[FLOAT if FLOAT in kinds else INT] * 2)
        elif name == "round" and kinds[0] in NUMBERS:
            call.tree = ["call", "prim.float", [call.tree], {}]
        elif len(kinds) == 1 and kinds[0].name == "List":
            call.type = kinds[0].args[0]
        elif set(kinds) <= NUMBERS:
            call.type = FLOAT if FLOAT in kinds else kinds[0]
        else:
            raise self.refuse(f"Arguments for call are not valid. {name}() takes no {', '.join(map(str, kinds))}", node)
        return call

    def children(self, known, node) -> list:
        """Return the modules, or other things, that something known is made of."""
        if known.kind == "items":
            return known.what
        if known.kind == "module":
            return known.what.children(self.refuse, node)
        raise self.refuse("it can't be iterated over in a staged program", node)

    def iterated(self, node):
        """Compile what a loop goes over: a Value whose type has that of the items, or a list of what they are."""
        meant = self.expression(node)
        if isinstance(meant, Known):
            if meant.kind == "python" and isinstance(meant.what, enum.EnumMeta) and self.record(meant.what, node):
                return [self.of_python(one, None, node) for one in meant.what]
            if meant.kind == "module" and meant.what.is_dict:
                return [constant_of(key) for key in meant.what.module._modules]
            return self.children(meant, node)
        kind = meant.type
        if kind.name in ("Iterator", "List"):
            return meant
        if kind.name == "Dict":
            return Value(meant.tree, Type("Iterator", kind.args[:1]))
        if kind in (STR, TENSOR, ANY):
            return Value(meant.tree, Type("Iterator", (kind,)))
        if kind.name == "Tuple":
            if len(set(kind.args)) == 1:
                return Value(meant.tree, Type("Iterator", kind.args[:1]))
            return [Value(["index", meant.tree, ["const", i]], one) for i, one in enumerate(kind.args)]
        raise self.refuse(f"'{kind}' object is not iterable", node)


for _name in _OVER:
    setattr(Calls, f"_rule_{_name}", lambda self, node, hint, name=_name: self._over(name, node))


def _trees(kwargs) -> dict:
    return {name: one.tree for name, one in kwargs.items()}
