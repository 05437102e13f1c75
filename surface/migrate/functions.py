"""Functions of the older style, whose instances were called, as classes with static methods and `apply`."""

from __future__ import annotations

import ast
import textwrap

from plugrad.migrate.source import last

_METHODS = ("__init__", "forward", "backward")


def _old_functions(source) -> dict:
    """Return the Functions of the older style that can be rewritten, by name."""
    classes = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and any(last(base) in ("Function", "InplaceFunction") for base in node.bases):
            old = _Old(source, node)
            if old.reason is None:
                classes[node.name] = old
            elif old.reason:
                source.note(node, f"class {node.name} is left as it is: {old.reason}")
    return classes


def class_edits(source):
    """Yield the edits of the Functions themselves."""
    for old in _old_functions(source).values():
        yield old.edit()


def call_edits(source):
    """Yield the edits of the places where Functions of the older style are called."""
    classes = _old_functions(source)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            yield from _calls(source, node, classes)


def _calls(source, node, classes):
    """Rewrite `Name(options)(inputs)` to `Name.apply(inputs, options)`."""
    inner = node.func
    if not (isinstance(inner, ast.Call) and last(inner.func) in classes):
        return
    old = classes[last(inner.func)]
    options = old.ordered(inner)
    if options is None or node.keywords:
        source.note(node, f"a call of {old.name} is left: write {old.name}.apply(inputs, options), by position")
        return
    inputs = [source.of(argument) for argument in node.args]
    yield source.replace(node, f"{source.of(inner.func)}.apply({', '.join([*inputs, *options])})")


class _Old:
    """A Function of the older style; `reason` says why it can't be rewritten: "" for one of today's."""

    def __init__(self, source, node):
        self.source, self.node, self.name = source, node, node.name
        self.methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
        self.reason = self._reason()

    def _reason(self) -> str | None:
        forward, backward = self.methods.get("forward"), self.methods.get("backward")
        if forward is None or forward.decorator_list or not forward.args.args or forward.args.args[0].arg == "ctx":
            return ""
        if backward is not None and backward.decorator_list:
            return ""
        others = sorted(self.methods.keys() - set(_METHODS))
        if others:
            return f"it has other methods ({', '.join(others)}), which belong to instances"
        several = forward.args.vararg or forward.args.kwonlyargs or forward.args.defaults
        init = self.methods.get("__init__")
        if several and self.options:
            return "its forward takes *inputs or has defaults: options come behind the inputs now"
        if init is not None and (init.args.vararg or init.args.kwarg or init.args.kwonlyargs):
            return "its __init__ takes *args or keywords, which apply can't pass on"
        if any(isinstance(one, ast.Return) and isinstance(one.value, ast.Name) for one in self._returns()) and (
            self.options and len(forward.args.args) > 2
        ):
            return "its backward returns a variable: it must return None for each option, too"
        return None

    @property
    def options(self) -> list[str]:
        """The parameters of its `__init__`."""
        init = self.methods.get("__init__")
        return [] if init is None else [one.arg for one in init.args.args[1:]]

    def _returns(self) -> list:
        """Return the `return` statements of backward itself, not of functions inside."""
        pending, returns = [*getattr(self.methods.get("backward"), "body", ())], []
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Return):
                returns.append(node)
            elif not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
                pending += ast.iter_child_nodes(node)
        return returns

    def ordered(self, call) -> list[str] | None:
        """Return the texts of a constructor's arguments by position; None if they can't be told."""
        given = dict(zip(self.options, call.args))
        given.update((keyword.arg, keyword.value) for keyword in call.keywords)
        starred = any(isinstance(argument, ast.Starred) for argument in call.args)
        if starred or len(call.args) > len(self.options) or not given.keys() <= set(self.options):
            return None
        known = self.options[: max([self.options.index(name) + 1 for name in given], default=0)]
        if any(name not in given and name not in self._defaults() for name in known):
            return None
        return [self.source.of(given[name]) if name in given else self._defaults()[name] for name in known]

    def _defaults(self) -> dict:
        init = self.methods.get("__init__")
        values = [] if init is None else init.args.defaults
        return {name: self.source.of(value) for name, value in zip(reversed(self.options), reversed(values))}

    def edit(self) -> tuple:
        """Return the edit of the whole class."""
        source, node = self.source, self.node
        start, end = source.span(node)
        start = source.position(node.lineno, 0)
        indent = source.text[start : source.span(node)[0]]
        text, edits = source.text, []
        for name, method in self.methods.items():
            first = source.position(method.lineno, 0)
            _, stop = source.span(method)
            if name == "__init__":
                rest = text[stop:end]
                edits.append((first, stop + len(rest) - len(rest.lstrip("\n")), ""))
            else:
                edits.append((first, stop, self._method(name, method)))
        pieces, position = [], start
        for first, stop, new in sorted(edits):
            pieces += [text[position:first], new]
            position = stop
        return start + len(indent), end, "".join([*pieces, text[position:end]])[len(indent) :]

    def _method(self, name, method) -> str:
        """Return the text of forward or backward as a static method."""
        source = self.source
        margin = " " * method.col_offset
        own = method.args.args[0].arg
        parameters = [source.of(one) for one in method.args.args[1:]]
        for place, value in enumerate(reversed(method.args.defaults), 1):
            parameters[-place] += f"={source.of(value)}"
        if method.args.vararg:
            parameters.append(f"*{source.of(method.args.vararg)}")
        before = []
        if name == "forward":
            defaults = self._defaults()
            parameters += [f"{one}={defaults[one]}" if one in defaults else one for one in self.options]
            before = self._kept()
        first = method.body[0]
        docstring = isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str)
        body = method.body[1:] if docstring and len(method.body) > 1 else method.body
        lines = [f"{margin}@staticmethod", f"{margin}def {name}({', '.join(['ctx', *parameters])}):"]
        if docstring and len(method.body) > 1:
            lines.append(f"{margin}    {source.of(first)}")
        lines += [f"{margin}    {line}" for line in before]
        return "\n".join([*lines, self._body(body, own, self._more_none(name))])

    def _more_none(self, name) -> dict:
        """Return {return statement: its new text} of backward, with a None for each option."""
        if name != "backward" or not self.options:
            return {}
        more, texts = ", None" * len(self.options), {}
        for one in self._returns():
            if one.value is not None:
                inner = self.source.of(one.value)
                several = isinstance(one.value, ast.Tuple)
                enclosed = several and _is_expression(f"({inner[1:-1]})")
                bare = (inner[1:-1] if enclosed else inner).rstrip()
                text = f"{bare.removesuffix(',') if several else bare}{more}"
                texts[one.value] = f"({text})" if enclosed else text
        return texts

    def _body(self, body, own, others) -> str:
        source = self.source
        start, end = source.position(body[0].lineno, 0), source.span(body[-1])[1]
        edits = [(*source.span(node), text) for node, text in others.items()]
        covered = [edit[:2] for edit in edits]
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and node.id == own:
                    span = source.span(node)
                    if not any(first <= span[0] < stop for first, stop in covered):
                        edits.append((*span, "ctx"))
        text, position, pieces = source.text, start, []
        for first, stop, new in sorted(edits):
            pieces += [text[position:first], _renamed(new, own)]
            position = stop
        return "".join([*pieces, text[position:end]]).replace(".saved_variables", ".saved_tensors")

    def _kept(self) -> list[str]:
        """Return the statements of `__init__` that forward begins with: what it kept, on the context."""
        init = self.methods.get("__init__")
        if init is None:
            return []
        own = init.args.args[0].arg
        kept = []
        for statement in init.body:
            called = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
            if called and last(statement.value.func) == "__init__" or "super" in ast.unparse(statement):
                continue
            if isinstance(statement, (ast.Pass,)) or (isinstance(statement, ast.Expr) and not called):
                continue
            first = self.source.position(statement.lineno, 0)
            block = textwrap.dedent(self.source.text[first : self.source.span(statement)[1]])
            kept += _renamed(block, own).splitlines()
        return kept


def _is_expression(text) -> bool:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def _renamed(text, own) -> str:
    """Return a piece of code in which the context has its name."""
    try:
        tree = ast.parse(text.strip())
    except SyntaxError:
        return text
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == own]
    lines = text.strip().splitlines(keepends=True)
    for node in sorted(names, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        line = lines[node.lineno - 1].encode()
        lines[node.lineno - 1] = (line[: node.col_offset] + b"ctx" + line[node.end_col_offset :]).decode()
    return "".join(lines)
