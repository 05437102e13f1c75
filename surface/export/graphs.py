"""From the trees of a traced program to a graph of `torch.fx`."""

from __future__ import annotations

import operator
import re

import plugrad
from plugrad import fx
from plugrad.jit import ScriptFunction, names
from plugrad.jit.program import Program
from plugrad.jit.unpacking import signatures_of

__all__ = ["graph_of"]

_SIGNS = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
          "&": "and_", "|": "or_", "^": "xor", "<<": "lshift", ">>": "rshift", "==": "eq", "!=": "ne", "<": "lt",
          "<=": "le", ">": "gt", ">=": "ge", "is": "is_", "is not": "is_not"}  # fmt: skip
_IN_PLACE = {"+": "iadd", "-": "isub", "*": "imul", "/": "itruediv", "//": "ifloordiv", "%": "imod", "**": "ipow",
             "@": "imatmul", "&": "iand", "|": "ior", "^": "ixor"}  # fmt: skip
_UNARY = {"-": operator.neg, "+": operator.pos, "~": operator.invert}


class _Builder:
    def __init__(self, script, lifted):
        self.script, self.program, self.lifted = script, script._staged, lifted
        self.graph, self.env, self.constants = fx.Graph(), {}, {}
        self.tensors: dict = {}  # (kind, dotted name) -> node

    def build(self):
        tree = self.program.trees["forward"]
        if self.lifted:
            taken = {name for name, *_ in tree["arguments"]}
            for kind, table in (("param", self.script.named_parameters()), ("buffer", self.script.named_buffers())):
                for name, _ in table:
                    self.tensors[kind, name] = self.graph.placeholder(_argument(f"{kind[0]}_{name}", taken))
        for name, *_ in tree["arguments"]:
            self.env[name] = self.graph.placeholder(name)
        self.inputs = [self.env[one[0]] for one in tree["arguments"]]
        if not self.lifted and self.inputs:
            self.graph.call_module("_guards_fn", tuple(self.inputs))
        for kind, _, *rest in tree["body"]:
            self.statement(kind, rest)
        return self.graph

    def statement(self, kind, rest):
        if kind == "return":
            self.graph.output(self.value(rest[0]))
        elif kind == "do":
            self.value(rest[0])
        elif kind == "aug":
            target, sign, value = rest
            node = self.graph.call_function(getattr(operator, _IN_PLACE[sign]), (self.value(target), self.value(value)))
            self.store(target, node)
        else:
            self.store(rest[0], self.value(rest[1]))

    def store(self, target, node):
        if target[0] == "name":
            self.env[target[1]] = node
        elif target[0] == "tuple":
            for i, one in enumerate(target[1]):
                self.store(one, self.graph.call_function(operator.getitem, (node, i)))
        elif target[0] == "index":
            self.graph.call_function(operator.setitem, (self.value(target[1]), self.value(target[2]), node))

    def value(self, tree):
        kind, *rest = tree
        method = getattr(self, f"_{kind}", None)
        if method is not None:
            return method(*rest)
        if kind in ("binary", "compare"):
            return self.graph.call_function(
                getattr(operator, _SIGNS[rest[0]]), (self.value(rest[1]), self.value(rest[2]))
            )
        if kind in ("param", "buffer"):
            return self.tensor(kind, ".".join([*rest[0], rest[1]]))
        raise NotImplementedError(f"an exported graph has no {kind!r}")

    def tensor(self, kind, name):
        known = self.tensors.get((kind, name))
        if known is None:
            known = self.tensors[kind, name] = self.graph.get_attr(name)
        return known

    def _name(self, name):
        return self.env[name]

    def _const(self, value):
        if not hasattr(value, "requires_grad"):
            return value
        number = next((n for n, one in self.constants.items() if one is value), None)
        if number is None:
            number = f"lifted_tensor_{len(self.constants)}"
            self.constants[number] = value
        return self.tensor("constant", number)

    def _ellipsis(self):
        return ...

    def _torch(self, name):
        return getattr(plugrad, name)

    def _call(self, name, args, kwargs):
        if name == "prim.list":
            return self.value(args[0])
        args, kwargs = tuple(map(self.value, args)), {key: self.value(one) for key, one in kwargs.items()}
        home, _, own = name.rpartition(".")
        if home == "Tensor":
            return self.graph.call_method(own, args, kwargs)
        return self.graph.call_function(names.function(name), args, kwargs)

    def _function(self, name, args, kwargs):
        program = Program(name)
        program.trees, program.functions = self.program.trees, self.program.functions
        program.classes = self.program.classes
        program.signatures = signatures_of(program, [name])
        return self.graph.call_function(ScriptFunction(program), tuple(map(self.value, args)), {})

    def _method(self, path, name, args, kwargs):
        if name != "forward":
            raise NotImplementedError(f"an exported graph calls modules, and not their method {name!r}")
        named = {key: self.value(one) for key, one in kwargs.items()}
        return self.graph.call_module(".".join(path), tuple(map(self.value, args)), named)

    def _unary(self, sign, value):
        return self.graph.call_function(_UNARY[sign], (self.value(value),))

    def _index(self, base, where):
        return self.graph.call_function(operator.getitem, (self.value(base), self.value(where)))

    def _slice(self, *ends):
        return slice(*map(self.value, ends))

    def _list(self, items):
        return list(map(self.value, items))

    def _tuple(self, items):
        return tuple(map(self.value, items))

    def _dict(self, pairs):
        return {self.value(key): self.value(value) for key, value in pairs}


def _argument(text, taken) -> str:
    """Return a name like `text`, and none of those that are taken, for an argument; any text names a tensor."""
    name = re.sub("[^a-zA-Z0-9]", "_", text)
    chosen = next(one for one in (name, *(f"{name}_{i}" for i in range(1, len(taken) + 2))) if one not in taken)
    taken.add(chosen)
    return chosen


def graph_of(script, lifted) -> tuple:
    """Return (the graph of a traced module's forward, the nodes of its arguments, {name: constant tensor}).

    `lifted` makes parameters and buffers arguments of the graph; else they are attributes that it reads.
    """
    builder = _Builder(script, lifted)
    graph = builder.build()
    return graph, builder
