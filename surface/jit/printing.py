"""Staged programs as text in Python's syntax: `code`."""

from __future__ import annotations

__all__ = ["Text", "code", "module_code"]

_NAMES = {"torch.nn.functional": "torch", "torch.linalg": "torch", "torch.special": "torch", "Tensor": "torch"}


def code(program, name: str) -> str:
    """Return a function of a program as text."""
    return Text(program.trees[name]).function(name)


def module_code(module, name: str) -> str:
    """Return a method of a script module as text.

    Of a layer, which is not compiled, the call of its class.
    """
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
    head = _head(name, [f"{names[0]}: Tensor", *names[1:]], str(returns))
    return f"{head}\n  return torch.nn.{layer.__name__}.{name}({given})\n"


def _head(name, arguments, returns, own=("self",)):
    return f"def {name}({(',' + chr(10) + '    ').join([*own, *arguments])}) -> {returns}:"


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
                modes = ", ".join(self.mode(*one) for one in rest[0])
                lines += [f"{pad}with {modes}:", *self.block(rest[1], depth + 1)]
            else:
                lines.append(pad + self.simple(kind, rest))
        return lines or [f"{pad}pass"]

    def mode(self, name, *values) -> str:
        """Return the text of what a `with` statement enters."""
        if name == "object":
            return self.tree(values[0]) + ("" if values[1] is None else f" as {self.target(values[1])}")
        return f"torch.{name}({', '.join(map(self.tree, values))})"

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
            return ", ".join(map(self.target, tree[1])) + ("," if len(tree[1]) == 1 else "")
        return f"*{self.target(tree[1])}" if tree[0] == "star" else self.tree(tree)

    def constant(self, value) -> str:
        """Return the text of a constant."""
        if (
            isinstance(value, float) and value == int(value)
            if isinstance(value, float) and abs(value) < 1e15
            else False
        ):
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
        plain = tree[0] in (
            "name",
            "const",
            "call",
            "function",
            "self",
            "param",
            "buffer",
            "index",
            "attr",
            "list",
            "tuple",
        )
        return text if plain else f"({text})"

    def tree(self, tree) -> str:
        """Return the text of an expression."""
        kind, *rest = tree
        if kind in ("binary", "compare"):
            sign, left, right = rest[:3]
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

    def _unary(self, sign, value, kind=None):
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

    def _field(self, base, name):
        return f"{self.inner(base)}.{name}"

    def _of(self, base, name, args, kwargs):
        return f"({self.tree(base)}).{name}({self.arguments(args, kwargs)}, )"

    def _new(self, name, args, kwargs):
        return f"__torch__.{name}({self.arguments(args, kwargs)})"

    def _enum(self, name, member):
        return f"__torch__.{name}.{member}"

    def _instance(self, value, name):
        return f"isinstance({self.tree(value)}, __torch__.{name})"

    def _comp(self, parts, target, over, tests):
        loop = f"for {self.target(target)} in {self.tree(over)}" + "".join(f" if {self.tree(one)}" for one in tests)
        if len(parts) == 2:
            return f"{{{self.tree(parts[0])}: {self.tree(parts[1])} {loop}}}"
        return f"[{self.tree(parts[0])} {loop}]"
