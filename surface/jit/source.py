"""The source of a function: its syntax tree, its lines, and what its names mean outside of it."""

from __future__ import annotations

import ast
import builtins
import inspect
import types
import typing

from plugrad.jit.errors import NotSupportedError, Place, UnsupportedNodeError
from plugrad.jit.type_comments import KNOWN, parsed, signature_in
from plugrad.jit.types import TENSOR, of_annotation

__all__ = ["MISSING", "Source"]

MISSING = object()


class Source:
    """The source of a function.

    Attributes:
        function: the function.
        tree: its `def`.
        file, first, lines: where it stands.

    Raises OSError where Python does not have the source.

    `names` are those that are known beside the function's globals: a class, for its methods.
    """

    said = said_returns = None  # types in a comment, as syntax trees

    def __init__(self, function, names=()):
        self.function, self.names = inspect.unwrap(function), dict(names)  # as PyTorch reads what was decorated
        try:
            lines, self.first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise OSError(
                f"Can't get source for {function}. A staged program is read from its source: write it in a file"
            ) from None
        self.file = inspect.getsourcefile(function) or "<unknown>"
        self.lines = [line.rstrip("\n") for line in lines]
        self.tree = parsed("".join(lines))
        self.first = self.first or 1
        if not isinstance(self.tree, ast.FunctionDef):
            raise UnsupportedNodeError(
                f"{function} is no function of its own: write it with `def`\n{Place(self, self.tree)}"
            )
        self.said, self.said_returns = signature_in(self.tree, self.lines)

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
        space = {**KNOWN, **self.function.__globals__, **self.names}
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
        rows = rows[is_method:]
        said = None if any(one.annotation for one, _ in rows) or self.tree.returns else self.said
        if said is not None:
            if len(said) == len(rows) - 1 and rows[0][0].arg == "self":  # a method of a class
                said = [ast.copy_location(ast.Name("Tensor", ast.Load()), rows[0][0]), *said]
            if len(said) != len(rows):
                raise RuntimeError(
                    f"Number of type annotations ({len(said)}) did not match the number of function parameters "
                    f"({len(rows)}):\n{self.place(self.tree)}"
                )
            return [(one.arg, self.annotation(kind), default) for (one, default), kind in zip(rows, said)]
        return [(one.arg, self._type(one, default), default) for one, default in rows]

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
        returns = self.tree.returns or self.said_returns
        return None if returns is None else self.annotation(returns)


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
