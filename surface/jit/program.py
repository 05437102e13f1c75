"""A compiled unit: the trees of a function or of the methods of a module, and the Python functions made of them."""

from __future__ import annotations

import enum

from plugrad.jit.generate import functions_of
from plugrad.jit.signatures import Signature
from plugrad.jit.source import MISSING
from plugrad.jit.types import classes_in

__all__ = ["Program", "renamed", "tree_of"]


class Program:
    """What a script function or module runs.

    Attributes:
        name: of the class or function.
        trees: {name: tree of a function}, plain data.
        signatures: {name: Signature} of those that are called from outside.
        python: {name: (function, whether it takes the module)} of those that stay Python's.
        attributes: {name: Type} of a module's plain attributes.
        constants: names of attributes that are constants.
        functions: {name: Python function}.
        classes: {name: record} of the classes of a program's own that it names.
    """

    __slots__ = ("name", "trees", "signatures", "python", "attributes", "constants", "functions", "classes")

    def __init__(self, name):
        self.name, self.trees, self.signatures, self.python = name, {}, {}, {}
        self.attributes, self.constants, self.functions, self.classes = {}, frozenset(), {}, {}

    def make(self, declares=lambda path, name: False) -> None:
        """Make the Python functions."""
        self.functions = functions_of(self.trees, self.python, self.name, declares, self.classes)

    def note(self, *types) -> None:
        """Note the classes that types name."""
        for one in types:
            self.classes.update({record.name: record for record in classes_in(one)})

    def __deepcopy__(self, memo):
        return self  # nothing of it changes


def tree_of(body: list, signature: Signature, is_method: bool) -> dict:
    """Return the tree of a function."""
    arguments = [
        [one.name, str(one.type), *([] if one.default is MISSING else [_stated(one.default)])]
        for one in signature.arguments
    ]
    return {"arguments": arguments, "returns": str(signature.returns), "self": is_method, "body": body}


def _stated(default):
    return default.name if isinstance(default, enum.Enum) else default  # its type says of which


def renamed(tree, new: dict):
    """Return a tree in which calls of functions of the unit have other names."""
    if isinstance(tree, dict):
        return {key: renamed(one, new) for key, one in tree.items()}
    if not isinstance(tree, list):
        return tree
    if len(tree) == 4 and tree[0] == "function" and tree[1] in new:
        return ["function", new[tree[1]], renamed(tree[2], new), renamed(tree[3], new)]
    return [renamed(one, new) for one in tree]
