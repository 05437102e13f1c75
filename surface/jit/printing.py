"""Staged programs as text: `code` in Python's syntax, and `graph` as a list of nodes."""

from __future__ import annotations

import itertools

__all__ = ["Graph", "code", "module_code"]

_NAMES = {"torch.nn.functional": "torch", "torch.linalg": "torch", "torch.special": "torch", "Tensor": "torch"}
_SIGNS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "remainder", "**": "pow", "@": "matmul",
          "&": "__and__", "|": "__or__", "^": "__xor__", "<<": "__lshift__", ">>": "__rshift__", "==": "eq", "!=": "ne",
          "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "is": "__is__", "is not": "__isnot__", "in": "__contains__",
          "not in": "__not_contains__"}  # fmt: skip


def code(program, name: str) -> str:
    """Return a function of a program as text."""
    return Text(program.trees[name]).function(name)


def module_code(module, name: str) -> str:
    """Return a method of a script module as text; of a layer, which is not compiled, the call of its class."""
    program = module._staged
    if name in program.trees:
        return code(program, name)
    arguments = getattr(program.signatures.get(name), "arguments", None) or []
    names = [one.name for one in arguments] or ["input"]
    layer = getattr(type(module), "_layer", type(module))
    children = [f"self.{child}" if child.isidentifier() else f'getattr(self, "{child}")' for child in module._modules]
    if layer.__name__ == "Sequential":
        lines = [f"  {names[0]} = ({child}).forward({names[0]}, )" for child in children]
        return "\n".join([_head(name, [f"{names[0]}: Tensor"], "Tensor"), *lines, f"  return {names[0]}", ""])
    given = ", ".join(["self", *names])
    returns = program.signatures[name].returns if name in program.signatures else "Tensor"
    return f"{_head(name, [f'{names[0]}: Tensor', *names[1:]], str(returns))}\n  return torch.nn.{layer.__name__}.{name}({given})\n"


def _head(name, arguments, returns, own=("self",)):
    return f"def {name}({(','+chr(10)+'    ').join([*own, *arguments])}) -> {returns}:"


class Text:
    """Writes the tree of a function."""

    def __init__(self, tree):
        self.root = tree

    def function(self, name) -> str:
        """Return the text of the function."""
        tree = self.root
        arguments = [
            f"{one[0]}: {one[1]}" + (f"={self.constant(one[2])}" if len(one) > 2 else "") for one in tree["arguments"]
        ]
        own = ("self",) if tree["self"] else ()
        lines = [_head(name, arguments, tree["returns"], own), *self.block(tree["body"], 1)]
        return "\n".join(lines) + "\n"

    def block(self, trees, depth) -> list:
        """Return the lines of statements."""
        pad, lines = "  " * depth, []
        for kind, _, *rest in trees:
            if kind == "if":
                lines += [f"{pad}if {self.tree(rest[0])}:", *self.block(rest[1], depth + 1)]
                if rest[2]:
                    lines += [f"{pad}else:", *self.block(rest[2], depth + 1)]
            elif kind == "while":
                lines += [f"{pad}while {self.tree(rest[0])}:", *self.block(rest[1], depth + 1)]
            elif kind == "for":
                lines += [f"{pad}for {self.target(rest[0])} in {self.tree(rest[1])}:", *self.block(rest[2], depth + 1)]
            elif kind == "with":
                modes = ", ".join(f"torch.{name}({', '.join(map(self.tree, values))})" for name, *values in rest[0])
                lines += [f"{pad}with {modes}:", *self.block(rest[1], depth + 1)]
            else:
                lines.append(pad + self.simple(kind, rest))
        return lines or [f"{pad}pass"]

    def simple(self, kind, rest) -> str:
        """Return the line of a statement without a block."""
        if kind == "=":
            return f"{self.target(rest[0])} = {self.tree(rest[1])}"
        if kind == "aug":
            return f"{self.target(rest[0])} {rest[1]}= {self.tree(rest[2])}"
        if kind == "raise":
            return f"ops.prim.RaiseException({self.tree(rest[1])}, {rest[0]!r})"
        if kind == "assert":
            return f"assert {self.tree(rest[0])}, {self.tree(rest[1])}"
        if kind == "do":
            return self.tree(rest[0])
        parts = [self.tree(one) for one in rest]
        return f"{kind} {', '.join(parts)}".rstrip()

    def target(self, tree) -> str:
        """Return the text of a target."""
        if tree[0] == "tuple":
            return ", ".join(self.target(one) for one in tree[1]) + ("," if len(tree[1]) == 1 else "")
        return self.tree(tree)

    def constant(self, value) -> str:
        """Return the text of a constant."""
        if isinstance(value, float) and value == int(value) if isinstance(value, float) and abs(value) < 1e15 else False:
            return f"{int(value)}."
        if isinstance(value, str):
            return '"' + value.encode("unicode_escape").decode().replace('"', '\\"') + '"'
        return f"CONSTANTS.{'x'.join(map(str, value.shape))}" if hasattr(value, "shape") else str(value)

    def path(self, path) -> str:
        """Return the text of a module."""
        text = "self"
        for one in path:
            text = f"{text}.{one}" if one.isidentifier() else f'getattr({text}, "{one}")'
        return text

    def arguments(self, args, kwargs) -> str:
        """Return the text of the arguments of a call."""
        return ", ".join([*map(self.tree, args), *(f"{name}={self.tree(one)}" for name, one in kwargs.items())])

    def call(self, name, args, kwargs) -> str:
        """Return the text of a call of a function by its name."""
        home, _, own = name.rpartition(".")
        if name == "prim.list" and args and args[0][0] in ("attr", "call"):
            return self.tree(args[0])
        if name == "prim.slice":
            ends = ["" if one == ["const", None] else self.tree(one) for one in args]
            return ":".join(ends[:2] if len(ends) < 3 or not ends[2] else ends)
        if home in ("list", "dict", "str"):
            own = own if home != "Tensor" else name
            return f"{self.inner(args[0])}.{own}({self.arguments(args[1:], kwargs)})"
        if home == "prim":
            return f"{own}({self.arguments(args, kwargs)})"
        return f"{_NAMES.get(home, home)}.{own}({self.arguments(args, kwargs)})"

    def inner(self, tree) -> str:
        """Return the text of an operand, between parentheses where it needs them."""
        text = self.tree(tree)
        plain = tree[0] in ("name", "const", "call", "function", "self", "param", "buffer", "index", "attr", "list", "tuple")
        return text if plain else f"({text})"

    def tree(self, tree) -> str:
        """Return the text of an expression."""
        kind, *rest = tree
        if kind in ("binary", "compare"):
            sign, left, right = rest
            return f"{self.inner(left)} {sign} {self.inner(right)}"
        if kind in ("and", "or"):
            return f" {kind} ".join(map(self.inner, rest[0]))
        method = getattr(self, f"_{kind}")
        return method(*rest)

    def _name(self, name):
        return name

    def _const(self, value):
        return self.constant(value)

    def _torch(self, name):
        return f"torch.{name}"

    def _ellipsis(self):
        return "..."

    def _call(self, name, args, kwargs):
        return self.call(name, args, kwargs)

    def _function(self, name, args, kwargs):
        given = self.arguments(args, kwargs)
        return f"self.{name}({given})" if self.root["self"] else f"__torch__.{name}({given})"

    def _python(self, name, args, kwargs):
        return f"^{name.lstrip('!')}({self.arguments(args, kwargs)})"

    def _method(self, path, name, args, kwargs):
        return f"({self.path(path)}).{name}({self.arguments(args, kwargs)}, )"

    def _self(self, path, name):
        return f"{self.path(path)}.{name}"

    def _param(self, path, name):
        return self.path([*path, name])

    _buffer = _param

    def _unary(self, sign, value):
        return f"{sign}{self.inner(value)}"

    def _not(self, value):
        return f"not {self.inner(value)}"

    def _ifexp(self, test, first, second):
        return f"{self.inner(first)} if {self.inner(test)} else {self.inner(second)}"

    def _index(self, base, where):
        text = self.tree(where)
        return f"{self.inner(base)}[{text[1:-1] if where[0] == 'tuple' and len(where[1]) > 1 else text}]"

    def _slice(self, *ends):
        texts = ["" if one == ["const", None] else self.tree(one) for one in ends]
        return ":".join(texts if texts[2:] and texts[2] else texts[:2])

    def _list(self, items):
        return f"[{', '.join(map(self.tree, items))}]"

    def _tuple(self, items):
        return f"({', '.join(map(self.tree, items))}{',' if len(items) == 1 else ''})"

    def _dict(self, pairs):
        return "{" + ", ".join(f"{self.tree(key)}: {self.tree(value)}" for key, value in pairs) + "}"

    def _attr(self, base, name):
        return f"{self.inner(base)}.{name}"

    def _star(self, value):
        return f"*{self.inner(value)}"

    def _named(self, name, fields, items):
        return f"{name}({', '.join(f'{field}={self.tree(one)}' for field, one in zip(fields, items))})"

    def _comp(self, parts, target, over, tests):
        loop = f"for {self.target(target)} in {self.tree(over)}" + "".join(f" if {self.tree(one)}" for one in tests)
        if len(parts) == 2:
            return f"{{{self.tree(parts[0])}: {self.tree(parts[1])} {loop}}}"
        return f"[{self.tree(parts[0])} {loop}]"


class Node:
    """A node of a graph: `kind`, the numbers of its inputs and outputs, and blocks of nodes."""

    def __init__(self, kind, inputs, output, blocks=(), detail=""):
        self._kind, self._inputs, self._output, self._blocks, self._detail = kind, inputs, output, list(blocks), detail

    def kind(self) -> str:
        """Return what the node does, such as `aten::add`."""
        return self._kind

    def inputs(self) -> list:
        """Return the names of its inputs."""
        return list(self._inputs)

    def outputs(self) -> list:
        """Return the names of its outputs."""
        return [self._output] if self._output else []

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
        found, stack = [], [self._nodes]
        while stack:
            for node in stack.pop():
                found += [node] * (node.kind() == kind)
                stack += node.blocks()
        return found

    def __str__(self):
        head = f"graph({(','+chr(10)+'      ').join(self._arguments)}):"
        return "\n".join([head, *[line for node in self._nodes for line in node.lines("  ")], ""])

    __repr__ = __str__

    def _block(self, trees) -> list:
        nodes = []
        for kind, _, *rest in trees:
            self._statement(kind, rest, nodes)
        return nodes

    def _statement(self, kind, rest, nodes):
        if kind in ("=", "aug"):
            value = self._value(rest[-1], nodes)
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
            nodes.append(Node("prim::Loop", [over], "", [self._block(rest[2])], f"[{Text(self._tree).target(rest[0])}]"))
        elif kind == "with":
            nodes.append(Node("prim::With", [], "", [self._block(rest[1])], f"[{', '.join(one[0] for one in rest[0])}]"))
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
            nodes.append(Node(kind, [value], ", ".join(f"%{one[1]}" if one[0] == "name" else "%_" for one in target[1])))
        elif target[0] == "self":
            nodes.append(Node("prim::SetAttr", [self._value(["module", target[1]], nodes), value], "", (), f'[name="{target[2]}"]'))
        else:
            nodes.append(Node("aten::_set_item", [self._value(target[1], nodes), self._value(target[2], nodes), value], ""))

    def _add(self, kind, inputs, nodes, detail=""):
        output = f"%{next(self._numbers)}"
        nodes.append(Node(kind, inputs, output, (), detail))
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
            return "%self" if not rest[0] else self._add("prim::GetAttr", ["%self"], nodes, f'[name="{".".join(rest[0])}"]')
        if kind in ("self", "param", "buffer"):
            base = self._value(["module", rest[0]], nodes)
            return self._add("prim::GetAttr", [base], nodes, f'[name="{rest[1]}"]')
        if kind in ("binary", "compare", "unary"):
            name = _SIGNS[rest[0]] if kind != "unary" else {"-": "neg", "~": "bitwise_not"}.get(rest[0], "pos")
            return self._add(f"aten::{name}", [self._value(one, nodes) for one in rest[1:]], nodes)
        if kind in ("call", "function", "python"):
            name = rest[0].rpartition(".")[2]
            home = {"call": "prim" if rest[0].startswith("prim.") else "aten"}.get(kind, "prim::CallFunction")
            given = [self._value(one, nodes) for one in (*rest[1], *rest[2].values())]
            kind = f"{home}::{name}" if "::" not in home else home
            return self._add(kind, given, nodes, "" if "::" not in home or kind != home else f'[name="{rest[0]}"]')
        if kind == "method":
            given = [self._value(["module", rest[0]], nodes), *[self._value(one, nodes) for one in (*rest[2], *rest[3].values())]]
            return self._add("prim::CallMethod", given, nodes, f'[name="{rest[1]}"]')
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
