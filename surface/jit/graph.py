"""Staged programs as lists of nodes: `graph`."""

from __future__ import annotations

import itertools

from plugrad.jit.names import draws
from plugrad.jit.printing import Text

__all__ = ["Graph", "Node"]

_SIGNS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "remainder", "**": "pow",
          "@": "matmul", "&": "__and__", "|": "__or__", "^": "__xor__", "<<": "__lshift__", ">>": "__rshift__",
          "==": "eq", "!=": "ne",
          "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "is": "__is__", "is not": "__isnot__", "in": "__contains__",
          "not in": "__not_contains__"}  # fmt: skip


class Node:
    """A node of a graph: `kind`, the numbers of its inputs and outputs, and blocks of nodes."""

    def __init__(self, kind, inputs, output, blocks=(), detail="", random=False):
        self._kind, self._inputs, self._output, self._blocks, self._detail = kind, inputs, output, list(blocks), detail
        self._random = random

    def kind(self) -> str:
        """Return what the node does, such as `aten::add`."""
        return self._kind

    def inputs(self) -> list:
        """Return the names of its inputs."""
        return list(self._inputs)

    def outputs(self) -> list:
        """Return the names of its outputs."""
        return [self._output] if self._output else []

    def isNondeterministic(self) -> bool:
        """Whether it draws random numbers."""
        return self._random

    def blocks(self) -> list:
        """Return the lists of nodes in it."""
        return self._blocks

    def lines(self, pad) -> list:
        """Return the text of the node."""
        head = f"{pad}{self._output} = " if self._output else pad
        own = f"{head}{self._kind}{self._detail}({', '.join(self._inputs)})"
        inner = []
        for number, block in enumerate(self._blocks):
            inner.append(f"{pad}  block{number}():")
            inner += [line for node in block for line in node.lines(pad + "    ")]
        return [own, *inner]


class Graph:
    """A function as a list of nodes, in the order in which they are run; its text is like TorchScript's."""

    def __init__(self, program, name):
        self._tree, self._name, self._numbers = program.trees[name], name, itertools.count(1)
        self._arguments = [f"%{one[0]} : {one[1]}" for one in self._tree["arguments"]]
        if self._tree["self"]:
            self._arguments.insert(0, f"%self : {program.name}")
        self._returned = []
        self._nodes = self._block(self._tree["body"])

    def nodes(self) -> list:
        """Return the nodes."""
        return list(self._nodes)

    def inputs(self) -> list:
        """Return the names of the arguments, with their types."""
        return list(self._arguments)

    def findAllNodes(self, kind: str) -> list:
        """Return the nodes of a kind, those in blocks too."""
        match, stack = [], [self._nodes]
        while stack:
            for node in stack.pop():
                match += [node] * (node.kind() == kind)
                stack += node.blocks()
        return match

    def __str__(self):
        head = f"graph({(',' + chr(10) + '      ').join(self._arguments)}):"
        return "\n".join([head, *[line for node in self._nodes for line in node.lines("  ")], ""])

    __repr__ = __str__

    def _block(self, trees) -> list:
        nodes = []
        for kind, _, *rest in trees:
            self._statement(kind, rest, nodes)
        return nodes

    def _statement(self, kind, rest, nodes):
        if kind in ("=", "aug"):
            value = self._value(rest[2 if kind == "aug" else 1], nodes)
            if kind == "aug":
                value = self._add(f"aten::{_SIGNS[rest[1]]}_", [self._value(rest[0], nodes), value], nodes)
            self._store(rest[0], value, nodes)
        elif kind == "if":
            test = self._value(rest[0], nodes)
            nodes.append(Node("prim::If", [test], "", [self._block(rest[1]), self._block(rest[2])]))
        elif kind == "while":
            inner: list = []
            test = self._value(rest[0], inner)
            nodes.append(Node("prim::Loop", [test], "", [inner + self._block(rest[1])]))
        elif kind == "for":
            over = self._value(rest[1], nodes)
            nodes.append(
                Node("prim::Loop", [over], "", [self._block(rest[2])], f"[{Text(self._tree).target(rest[0])}]")
            )
        elif kind == "with":
            entered = [self._value(one[1], nodes) for one in rest[0] if one[0] == "object"]
            detail = f"[{', '.join(one[0] for one in rest[0])}]"
            nodes.append(Node("prim::With", entered, "", [self._block(rest[1])], detail))
        elif kind == "do":
            self._value(rest[0], nodes)
        else:
            names = {"return": "return", "raise": "prim::RaiseException", "assert": "prim::Assert"}
            values = [self._value(one, nodes) for one in rest if isinstance(one, list)]
            nodes.append(Node(names.get(kind, f"prim::{kind}"), values, ""))

    def _store(self, target, value, nodes):
        if target[0] == "name":
            nodes.append(Node("prim::Store", [value], f"%{target[1]}"))
        elif target[0] == "tuple":
            kind = "prim::TupleUnpack"
            nodes.append(
                Node(kind, [value], ", ".join(map(_stored, target[1])))
            )
        elif target[0] == "self":
            nodes.append(
                Node(
                    "prim::SetAttr", [self._value(["module", target[1]], nodes), value], "", (), f'[name="{target[2]}"]'
                )
            )
        elif target[0] == "field":
            nodes.append(Node("prim::SetAttr", [self._value(target[1], nodes), value], "", (), f'[name="{target[2]}"]'))
        else:
            nodes.append(
                Node("aten::_set_item", [self._value(target[1], nodes), self._value(target[2], nodes), value], "")
            )

    def _add(self, kind, inputs, nodes, detail="", random=False):
        output = f"%{next(self._numbers)}"
        nodes.append(Node(kind, inputs, output, (), detail, random))
        return output

    def _value(self, tree, nodes) -> str:
        kind, *rest = tree
        if kind == "name":
            return f"%{rest[0]}"
        if kind == "const":
            return self._add("prim::Constant", [], nodes, f"[value={Text(self._tree).constant(rest[0])}]")
        if kind in ("ellipsis", "torch"):
            return self._add("prim::Constant", [], nodes, f"[value={'.'.join(rest) or '...'}]")
        if kind == "module":
            return (
                "%self"
                if not rest[0]
                else self._add("prim::GetAttr", ["%self"], nodes, f'[name="{".".join(rest[0])}"]')
            )
        if kind in ("self", "param", "buffer"):
            base = self._value(["module", rest[0]], nodes)
            return self._add("prim::GetAttr", [base], nodes, f'[name="{rest[1]}"]')
        if kind in ("binary", "compare", "unary"):
            name = _SIGNS[rest[0]] if kind != "unary" else {"-": "neg", "~": "bitwise_not"}.get(rest[0], "pos")
            return self._add(f"aten::{name}", [self._value(one, nodes) for one in rest[1:] if type(one) is list], nodes)
        if kind in ("call", "function", "python"):
            name = rest[0].rpartition(".")[2]
            home = {"call": "prim" if rest[0].startswith("prim.") else "aten"}.get(kind, "prim::CallFunction")
            given = [self._value(one, nodes) for one in (*rest[1], *rest[2].values())]
            kind = f"{home}::{name}" if "::" not in home else home
            detail = "" if "::" not in home or kind != home else f'[name="{rest[0]}"]'
            return self._add(kind, given, nodes, detail, home == "aten" and draws(*rest[:3]))
        if kind == "method":
            given = [
                self._value(["module", rest[0]], nodes),
                *[self._value(one, nodes) for one in (*rest[2], *rest[3].values())],
            ]
            return self._add("prim::CallMethod", given, nodes, f'[name="{rest[1]}"]')
        if kind in ("field", "of", "new", "enum", "instance"):
            return self._of_class(kind, rest, nodes)
        names = {"list": "prim::ListConstruct", "tuple": "prim::TupleConstruct", "dict": "prim::DictConstruct",
                 "index": "aten::__getitem__", "not": "aten::__not__", "and": "prim::And", "or": "prim::Or",
                 "ifexp": "prim::IfExp", "attr": "prim::attr", "comp": "prim::Comprehension", "slice": "aten::slice",
                 "star": "prim::Star", "named": "prim::TupleConstruct"}  # fmt: skip
        if kind in ("comp", "attr"):
            detail = f"[{Text(self._tree).tree(tree)}]" if kind == "comp" else f'[name="{rest[1]}"]'
            return self._add(names[kind], [self._value(rest[0], nodes)] if kind == "attr" else [], nodes, detail)
        if kind == "dict":
            parts = [part for pair in rest[0] for part in pair]
        elif kind in ("index", "slice", "not", "ifexp", "star"):
            parts = rest
        else:
            parts = rest[-1]
        return self._add(names[kind], [self._value(one, nodes) for one in parts], nodes)

    def _of_class(self, kind, rest, nodes) -> str:
        """Return the output of a node that is about the program's own classes."""
        if kind == "enum":
            return self._add("prim::Constant", [], nodes, f"[value={'.'.join(rest)}]")
        name, given = (rest[0], []) if kind == "new" else (rest[1], [self._value(rest[0], nodes)])
        if kind in ("new", "of"):
            given += [self._value(one, nodes) for one in (*rest[-2], *rest[-1].values())]
        names = {"field": "prim::GetAttr", "of": "prim::CallMethod", "new": "prim::CreateObject",
                 "instance": "prim::isinstance"}  # fmt: skip
        return self._add(names[kind], given, nodes, f'[name="{name}"]')


def _stored(target) -> str:
    """Return the text of a target among others."""
    if target[0] == "star":
        return f"*{_stored(target[1])}"
    return f"%{target[1]}" if target[0] == "name" else "%_"
