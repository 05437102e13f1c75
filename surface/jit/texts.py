"""Programs that are texts: `def` after `def`, in Python's syntax."""

from __future__ import annotations
import __future__

import ast
import itertools
import linecache
import math
import sys
import textwrap

import plugrad
from plugrad.jit.type_comments import KNOWN

__all__ = ["functions_in", "names_of_caller"]

_numbers = itertools.count()


def names_of_caller(above: int) -> dict:
    """Return {name: value} of what the function sees that calls, that many calls above this function's caller."""
    frame = sys._getframe(above + 1)
    return {**frame.f_globals, **frame.f_locals}


def functions_in(text: str, names: dict) -> list:
    """Return the functions that a text defines; `names` are known in it, `torch` and `math` always.

    Raises RuntimeError for what is no function, or not Python's syntax.
    """
    text, file = textwrap.dedent(text), f"<staged text {next(_numbers)}>"
    try:
        tree = ast.parse(text, file)
    except SyntaxError as error:
        raise RuntimeError(f"{error.msg}, in line {error.lineno} of the text of a program") from None
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.decorator_list:
            raise RuntimeError(f"a text of a program has nothing but functions; line {node.lineno} is something else")
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    space = {**KNOWN, "math": math, **names, "torch": names.get("torch", plugrad), "__name__": file}
    code = compile(tree, file, "exec", __future__.annotations.compiler_flag, dont_inherit=True)
    exec(code, space)
    return [space[node.name] for node in tree.body]
