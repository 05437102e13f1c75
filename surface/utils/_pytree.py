"""Nested containers as trees: their leaves, their structure, and the same structure with other leaves.

Lists, tuples, named tuples, dicts, ordered and default dicts, and deques are inner nodes, and what a program registers;
everything else is a leaf, None too.
"""

from __future__ import annotations

import functools
import re
from collections import OrderedDict, defaultdict, deque, namedtuple

from plugrad.utils._pytree_nodes import (  # noqa: F401 -- the names that programs import from here
    SUPPORTED_NODES,
    Context,
    DumpableContext,
    FlattenFn,
    FromDumpableContextFn,
    GetAttrKey,
    MappingKey,
    NodeDef,
    PyTree,
    SequenceKey,
    ToDumpableContextFn,
    UnflattenFn,
    _deregister_pytree_node,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    node_type,
    register_pytree_node,
    tree_is_leaf,
)
from plugrad.utils._pytree_specs import LEAF, LeafSpec, TreeSpec, treespec_dumps, treespec_loads, treespec_pprint

__all__ = [
    "PyTree", "Context", "FlattenFn", "UnflattenFn", "DumpableContext", "ToDumpableContextFn", "FromDumpableContextFn",
    "PyTreeSpec", "TreeSpec", "LeafSpec", "keystr", "key_get", "register_pytree_node", "tree_is_leaf", "tree_flatten",
    "tree_flatten_with_path", "tree_unflatten", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_structure",
    "tree_map", "tree_map_with_path", "tree_map_", "tree_map_only", "tree_map_only_", "tree_all", "tree_any",
    "tree_all_only", "tree_any_only", "treespec_dumps", "treespec_loads", "treespec_pprint", "is_namedtuple",
    "is_namedtuple_class", "is_namedtuple_instance", "is_structseq", "is_structseq_class", "is_structseq_instance",
]  # fmt: skip

PyTreeSpec = TreeSpec
_get_node_type = node_type
_CLASSES = {
    "tuple": tuple, "list": list, "dict": dict, "namedtuple": namedtuple, "ordereddict": OrderedDict,
    "defaultdict": defaultdict, "deque": deque,
}  # fmt: skip
_register_pytree_node = register_pytree_node


def __getattr__(name):
    """Return a function by which a class of containers is taken apart or made again: `_dict_flatten` and so on."""
    match = re.fullmatch(rf"_({'|'.join(_CLASSES)})_(flatten|unflatten|flatten_with_keys)", name)
    if match is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(SUPPORTED_NODES[_CLASSES[match[1]]], f"{match[2]}_fn")


def tree_flatten(tree, is_leaf=None) -> tuple:
    """Return the leaves of a tree as a list, and its structure.

    >>> from plugrad.utils import _pytree
    >>> leaves, spec = _pytree.tree_flatten({"a": (1, [2]), "b": 3})
    >>> leaves, _pytree.tree_unflatten("xyz", spec)
    ([1, 2, 3], {'a': ('x', ['y']), 'b': 'z'})
    """
    leaves: list = []

    def structure(node):
        if tree_is_leaf(node, is_leaf):
            leaves.append(node)
            return LEAF
        cls = node_type(node)
        children, context = SUPPORTED_NODES[cls].flatten_fn(node)
        return TreeSpec(cls, context, [structure(child) for child in children])

    return leaves, structure(tree)


def tree_unflatten(leaves, treespec):
    """Return the tree of a structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of type "
            f"{type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree, is_leaf=None):
    """Yield the leaves of a tree."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree, is_leaf=None) -> list:
    """Return the leaves of a tree.

    >>> from plugrad.utils import _pytree
    >>> _pytree.tree_leaves([1, (2, None)])
    [1, 2, None]
    """
    return [*tree_iter(tree, is_leaf)]


def arg_tree_leaves(*args, **kwargs) -> list:
    """Return the leaves of a call's arguments."""
    return tree_leaves((*args, kwargs))


def tree_structure(tree, is_leaf=None) -> TreeSpec:
    """Return the structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """Return a tree with `func(leaf, *others)` for each leaf; the others stand there in `rests`.

    >>> from plugrad.utils import _pytree
    >>> _pytree.tree_map(lambda a, b: a + b, {"x": 1, "y": [2]}, {"x": 10, "y": [20]})
    {'x': 11, 'y': [22]}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]))


def tree_map_(func, tree, *rests, is_leaf=None):
    """Call `func(leaf, *others)` for each leaf; return the tree as it is."""
    leaves, spec = tree_flatten(tree, is_leaf)
    deque(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]), maxlen=0)
    return tree


def _of_types(type_or_types_or_pred):
    if isinstance(type_or_types_or_pred, (type, tuple)) or type(type_or_types_or_pred).__name__ == "UnionType":
        return lambda value: isinstance(value, type_or_types_or_pred)
    if callable(type_or_types_or_pred):
        return type_or_types_or_pred
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(type_or_types_or_pred, /):
    """Return a decorator of functions of leaves, which leave those of other types as they are."""
    chosen = _of_types(type_or_types_or_pred)

    def decorate(func):
        @functools.wraps(func)
        def function(value):
            return func(value) if chosen(value) else value

        return function

    return decorate


def tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """Return a tree with `func(leaf)` for leaves of some types, the others as they are.

    >>> from plugrad.utils import _pytree
    >>> _pytree.tree_map_only(int, lambda n: n + 1, [1, "a"])
    [2, 'a']
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """Call `func(leaf)` for leaves of some types; return the tree as it is."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None) -> bool:
    """Whether `pred(leaf)` holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None) -> bool:
    """Whether `pred(leaf)` holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types, /, pred, tree, is_leaf=None) -> bool:
    """Whether `pred(leaf)` holds for all leaves of some types."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(type_or_types, /, pred, tree, is_leaf=None) -> bool:
    """Whether `pred(leaf)` holds for a leaf of some types."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """Return leaves of a tree, each as often as what stands there in a structure has leaves; None if it doesn't fit."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or node_type(tree) is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    parts = [_broadcast_to_and_flatten(*pair, is_leaf) for pair in zip(children, treespec.children_specs)]
    return None if None in parts else [leaf for part in parts for leaf in part]


# ---------------------------------------------------------------------------------------------------- paths


def _leaves_with_paths(tree, path, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    cls = node_type(tree)
    with_keys = SUPPORTED_NODES[cls].flatten_with_keys_fn
    if with_keys is None:
        raise ValueError(f"Did not find a flatten_with_keys_fn for type: {cls}. Please pass a flatten_with_keys_fn.")
    for key, child in with_keys(tree)[0]:
        yield from _leaves_with_paths(child, (*path, key), is_leaf)


def tree_leaves_with_path(tree, is_leaf=None) -> list:
    """Return (path, leaf) for each leaf: the keys that lead to it.

    >>> from plugrad.utils import _pytree
    >>> [(_pytree.keystr(path), leaf) for path, leaf in _pytree.tree_leaves_with_path({"a": [1, 2]})]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return [*_leaves_with_paths(tree, (), is_leaf)]


def tree_flatten_with_path(tree, is_leaf=None) -> tuple:
    """Return (path, leaf) for each leaf, and the structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """Return a tree with `func(path, leaf, *others)` for each leaf."""
    paths, spec = tree_flatten_with_path(tree, is_leaf)
    return spec.unflatten(
        func(path, *leaves)
        for (path, leaf), *others in zip(paths, *[spec.flatten_up_to(rest) for rest in rests])
        for leaves in [(leaf, *others)]
    )


def keystr(kp) -> str:
    """Return a path as text."""
    return "".join(map(str, kp))


def key_get(obj, kp):
    """Return what stands at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj
