"""Samples stand beside their op: who changes one sees the other."""

from __future__ import annotations

import ast
import importlib
import pathlib

from plugrad import registry

LINES = 100


def attached(tree):
    """Yield (name of an op's function, line) for `@NAME.samples`, `NAME.samples(...)` and loops over names."""
    for node in tree.body:
        loop = ast.unparse(node.target) if isinstance(node, ast.For) else None
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute) and inner.attr == "samples" and isinstance(inner.value, ast.Name):
                names = [name.id for name in node.iter.elts] if inner.value.id == loop else [inner.value.id]
                yield from ((name, inner.lineno) for name in names)


def declared(tree):
    """Return the line of each top-level function, and whether a function of the same file declares it."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    local = {}
    for name, node in functions.items():
        decorators = [ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list]
        local[name] = any(decorator in functions for decorator in decorators)
    return {name: node.lineno for name, node in functions.items()}, local


def test_samples_stand_beside_their_op():
    far, seen = {}, 0
    files: dict = {}
    for op in registry.ops.values():
        if op.provider.builtin and op.sample_function is not None:
            files.setdefault(op.module, set()).add(op.kernels["*"].__name__)
    for module, names in files.items():
        tree = ast.parse(pathlib.Path(importlib.import_module(module).__file__).read_text())
        (lines, local), places = declared(tree), dict(attached(tree))
        for name in names & set(lines):
            seen += 1
            if name in places and not 0 < places[name] - lines[name] <= LINES:
                far[f"{module}.{name}"] = f"{places[name] - lines[name]} lines"
            elif name not in places and not local[name]:  # samples that a declaring decorator gives need no place
                far[f"{module}.{name}"] = "samples are given elsewhere"
    assert not far
    assert seen > 0.95 * sum(map(len, files.values()))
