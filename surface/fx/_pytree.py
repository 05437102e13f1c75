"""Nested arguments as generated code takes them apart: `tree_flatten_spec`."""

from __future__ import annotations

from plugrad.utils import _pytree as pytree

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

_flatten = {
    dict: lambda value, spec: [value[key] for key in spec.context],
    list: lambda value, spec: [value[i] for i in range(len(spec.children_specs))],
    tuple: lambda value, spec: [value[i] for i in range(len(spec.children_specs))],
}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None) -> None:
    """Say how instances of a class are taken apart: `flatten_fn_spec(value, spec)` returns a list of what they hold."""
    _flatten[cls] = flatten_fn_spec


def tree_flatten_spec(tree, spec) -> list:
    """Return the leaves of a nested value that is as `spec` says; ValueError for a class that is not known."""
    if spec.is_leaf():
        return [tree]
    if spec.type not in _flatten:
        leaves, given = pytree.tree_flatten(tree)
        if given != spec:
            raise ValueError(f"the arguments are nested as {given}, and {spec} was traced")
        return leaves
    below = zip(_flatten[spec.type](tree, spec), spec.children_specs, strict=True)
    return [leaf for value, child in below for leaf in tree_flatten_spec(value, child)]
