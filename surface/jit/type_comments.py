"""Types in comments: `# type: (int, Tensor) -> Tensor` below a `def`, and `# type: int` behind an argument."""

from __future__ import annotations

import ast
import re
import typing

import plugrad

__all__ = ["KNOWN", "parsed", "signature_in"]

KNOWN = {  # what types may be named by without an import
    **{one: getattr(typing, one) for one in ("Any", "Dict", "List", "NamedTuple", "Optional", "Tuple", "Union")},
    "Tensor": plugrad.Tensor, "Device": plugrad.device, "torch": plugrad,
}  # fmt: skip
_SIGNATURE = re.compile(r"\s*#\s*type:\s*(\(.*)")


def parsed(text: str):
    """Return the syntax tree of a function's source; arguments with a type behind them have it as annotation."""
    is_inside = text[:1].isspace()
    text = f"if 1:\n{text}" if is_inside else text  # not dedented, since strings in it may go over several lines
    try:
        tree, annotating = ast.parse(text, type_comments=True), _Annotating()
    except SyntaxError:  # such a comment stands where Python's grammar has none
        tree, annotating = ast.parse(text), None
    function = tree.body[0].body[0] if is_inside else tree.body[0]
    ast.increment_lineno(function, -is_inside)
    return function if annotating is None else annotating.visit(function)


class _Annotating(ast.NodeTransformer):
    def visit_arg(self, node):
        node.annotation = node.annotation or _expression(node.type_comment, node)
        return node


def _expression(text, node):
    """Return the syntax tree of a type that a comment names, where a node stands; None for what is no expression."""
    try:
        tree = ast.parse(text or "", mode="eval").body
    except SyntaxError:
        return None
    for one in ast.walk(tree):
        ast.copy_location(one, node)
    return tree


def signature_in(tree, lines):
    """Return (types of the arguments or None, type of the result or None) in the comment of a function, as trees.

    The first is None for `(...)`, which leaves it to the arguments' own comments; both are where there is no comment.
    """
    end = tree.body[0].lineno if len(tree.body) == 1 else tree.body[1].lineno
    header = [_SIGNATURE.match(line[line.find("#") :]) for line in lines[: end + 1] if "#" in line]
    written = next((match for match in header if match), None)
    if written is None:
        return None, None
    arguments, _, result = written[1].partition("->")
    given, returns = _expression(arguments.strip(), tree), _expression(result.strip(), tree)
    types = list(given.elts) if isinstance(given, ast.Tuple) else [] if given is None else [given]
    is_open = len(types) == 1 and isinstance(types[0], ast.Constant) and types[0].value is Ellipsis
    return None if is_open else types, returns
