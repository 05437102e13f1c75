"""The source of a function: its syntax tree, its lines, and what its names mean outside of it."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import types
import typing

from plugrad.jit.errors import NotSupportedError, Place, UnsupportedNodeError
from plugrad.jit.types import TENSOR, of_annotation

__all__ = ["MISSING", "Source"]

MISSING = object()


class Source:
    """The source of a function.

    Attributes:
        function: the function.
        tree: its `def`.
        file, first, lines, indent: where it stands.

    Raises OSError where Python does not have the source.

    `names` are those that are known beside the function's globals: a class, for its methods.
    """

    def __init__(self, function, names=()):
        self.function, self.names = function, dict(names)
        try:
            lines, self.first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise OSError(
                f"Can't get source for {function}. A staged program is read from its source: write it in a file"
            ) from None
        self.file = inspect.getsourcefile(function) or "<unknown>"
        self.lines = [line.rstrip("\n") for line in lines]
        self.indent = len(lines[0]) - len(lines[0].lstrip())
        module = ast.parse(textwrap.dedent("".join(lines)))
        self.tree = module.body[0]
        self.first = self.first or 1
        if not isinstance(self.tree, ast.FunctionDef):
            raise UnsupportedNodeError(
                f"{function} is no function of its own: write it with `def`\n{Place(self, self.tree)}"
            )

    def place(self, node) -> Place:
        """Return where a node of the tree stands, for errors."""
        return Place(self, node)

    def outside(self, name: str):
        """Return what a name means outside of the function; MISSING if it means nothing."""
        function = self.function
        names = function.__code__.co_freevars
        if name in names:
            cell = function.__closure__[names.index(name)]
            try:
                return cell.cell_contents
            except ValueError:
                return MISSING
        if name in self.names:
            return self.names[name]
        if name in function.__globals__:
            return function.__globals__[name]
        return getattr(builtins, name, MISSING)

    def space(self) -> dict:
        """Return {name: value} of what annotations may name."""
        space = {**self.function.__globals__, **self.names}
        for name, cell in zip(self.function.__code__.co_freevars, self.function.__closure__ or ()):
            try:
                space[name] = cell.cell_contents
            except ValueError:
                continue
        return space

    def annotation(self, node):
        """Return the type that an annotation in the source is."""
        return self.typed(node, lambda: eval(compile(ast.Expression(node), self.file, "eval"), self.space()))

    def typed(self, node, evaluate):
        """Return the type of an annotation that is evaluated; RuntimeError with the line if it is none."""
        try:
            written = types.SimpleNamespace(__annotations__={"it": evaluate()})
            return of_annotation(typing.get_type_hints(written, self.space())["it"])  # texts in it are evaluated, too
        except (TypeError, NameError, AttributeError) as error:
            raise RuntimeError(f"\n{error}:\n{self.place(node)}") from None

    def arguments(self, is_method: bool) -> list:
        """Return [(name, type, default or MISSING)] of the function; the first of a method is left out."""
        args = self.tree.args
        if args.vararg or args.kwarg:
            raise NotSupportedError(
                "Compiled functions can't take variable number of arguments or use keyword-only arguments with "
                "defaults:"
                f"\n{self.place(args.vararg or args.kwarg or self.tree)}"
            )
        defaults = [MISSING] * (len(args.posonlyargs) + len(args.args) - len(args.defaults))
        defaults += self.function.__defaults__ or ()
        keyword = self.function.__kwdefaults__ or {}
        rows = [*zip([*args.posonlyargs, *args.args], defaults)]
        rows += [(one, keyword.get(one.arg, MISSING)) for one in args.kwonlyargs]
        return [(one.arg, self._type(one, default), default) for one, default in rows[is_method:]]

    def _type(self, arg, default):
        if arg.annotation is not None:
            return self.annotation(arg.annotation)
        if default is not MISSING and default is not None and not hasattr(default, "dtype"):
            raise RuntimeError(
                f'\nExpected a default value of type Tensor (inferred) on parameter "{arg.arg}".Because "{arg.arg}" '
                "was "
                f"not annotated with an explicit type it is assumed to be type 'Tensor'.:\n{self.place(arg)}"
            )
        return TENSOR

    def returns(self):
        """Return the annotated type of the result; None if there is no annotation."""
        return None if self.tree.returns is None else self.annotation(self.tree.returns)


def class_annotations(cls) -> dict:
    """Return the annotations of a class and its bases, evaluated where they can be."""
    annotations: dict = {}
    for base in reversed(cls.__mro__):
        own = base.__dict__.get("__annotations__", {})
        try:
            annotations.update(typing.get_type_hints(base, include_extras=True) if own else {})
        except (NameError, TypeError):
            annotations.update(own)
    return annotations


def is_plain_function(value) -> bool:
    """Whether a value is a function of Python that has a source."""
    return isinstance(value, types.FunctionType)
