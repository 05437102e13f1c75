"""Nested containers as trees: their leaves, their structure, and the same structure with other leaves.

Lists, tuples, named tuples, dicts, ordered and default dicts, and deques are inner nodes, and what a program registers;
everything else is a leaf, None too.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

PyTree = Any
Context = Any
DumpableContext = Any
FlattenFn = Callable[[PyTree], tuple[list, Context]]
UnflattenFn = Callable[[list, Context], PyTree]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]

__all__ = [
    "PyTree", "Context", "FlattenFn", "UnflattenFn", "DumpableContext", "ToDumpableContextFn", "FromDumpableContextFn",
    "PyTreeSpec", "TreeSpec", "LeafSpec", "keystr", "key_get", "register_pytree_node", "tree_is_leaf", "tree_flatten",
    "tree_flatten_with_path", "tree_unflatten", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_structure",
    "tree_map", "tree_map_with_path", "tree_map_", "tree_map_only", "tree_map_only_", "tree_all", "tree_any",
    "tree_all_only", "tree_any_only", "treespec_dumps", "treespec_loads", "treespec_pprint", "is_namedtuple",
    "is_namedtuple_class", "is_namedtuple_instance", "is_structseq", "is_structseq_class", "is_structseq_instance",
]  # fmt: skip


class NodeDef(NamedTuple):
    """How a class of containers is taken apart and made again."""

    type: type
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: Callable | None = None
    serialized_type_name: str | None = None
    to_dumpable_context: ToDumpableContextFn | None = None
    from_dumpable_context: FromDumpableContextFn | None = None


SUPPORTED_NODES: dict = {}


# ---------------------------------------------------------------------------------------------------- kinds of nodes


class MappingKey(NamedTuple):
    """The place of a value in a mapping."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, parent):
        """Return what is there."""
        return parent[self.key]


class SequenceKey(NamedTuple):
    """The place of an item in a sequence."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, parent):
        """Return what is there."""
        return parent[self.idx]


class GetAttrKey(NamedTuple):
    """The place of a value as an attribute."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, parent):
        """Return what is there."""
        return getattr(parent, self.name)


def is_namedtuple(obj) -> bool:
    """Whether an object is a named tuple, or a class of such."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_class(cls) -> bool:
    """Whether a class is one of named tuples."""
    if not (isinstance(cls, type) and issubclass(cls, tuple)):
        return False
    fields = getattr(cls, "_fields", None)
    named = isinstance(fields, tuple) and all(isinstance(field, str) for field in fields)
    return named and callable(getattr(cls, "_make", None)) and callable(getattr(cls, "_asdict", None))


def is_namedtuple_instance(obj) -> bool:
    """Whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_structseq(obj) -> bool:
    """Whether an object is a tuple such as `time.struct_time`, or a class of such."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls) -> bool:
    """Whether a class is one of tuples such as `time.struct_time`."""
    if not isinstance(cls, type) or cls.__bases__ != (tuple,):
        return False
    counts = (getattr(cls, name, None) for name in ("n_fields", "n_sequence_fields", "n_unnamed_fields"))
    return all(isinstance(count, int) for count in counts)


def is_structseq_instance(obj) -> bool:
    """Whether an object is a tuple such as `time.struct_time`."""
    return is_structseq_class(type(obj))


def register_pytree_node(
    cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None, from_dumpable_context=None,
    flatten_with_keys_fn=None,
) -> None:  # fmt: skip
    """Have instances of a class be inner nodes of trees.

    Args:
        cls: the class.
        flatten_fn: function of an instance that returns (list of its children, context).
        unflatten_fn: function of (children, context) that returns an instance.
        serialized_type_name: what `treespec_dumps` writes for the class.
        to_dumpable_context, from_dumpable_context: between the context and what JSON can hold.
        flatten_with_keys_fn: as flatten_fn, with (key, child) for each child.

    Raises ValueError for a class that is registered already.

    >>> from plugrad.utils import _pytree
    >>> class Pair:
    ...     def __init__(self, *items):
    ...         self.items = items
    >>> _pytree.register_pytree_node(Pair, lambda pair: ([*pair.items], None), lambda items, _: Pair(*items))
    >>> _pytree.tree_leaves([Pair(1, 2), 3])
    [1, 2, 3]
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered together."
        )
    SUPPORTED_NODES[cls] = NodeDef(
        cls, flatten_fn, unflatten_fn, flatten_with_keys_fn, serialized_type_name, to_dumpable_context,
        from_dumpable_context,
    )  # fmt: skip


_register_pytree_node = register_pytree_node


def _enum_of(cls):
    return f"{cls.__module__}.{cls.__qualname__}"


def _sequence(cls, make):
    register_pytree_node(
        cls, lambda items: ([*items], None), lambda items, _: make(items),
        serialized_type_name=_enum_of(cls),
        flatten_with_keys_fn=lambda items: ([(SequenceKey(i), item) for i, item in enumerate(items)], None),
    )  # fmt: skip


def _mapping(cls, make, context=lambda mapping: [*mapping], keys=lambda context: context, **dumpable):
    def with_keys(mapping):
        return [(MappingKey(key), value) for key, value in mapping.items()], context(mapping)

    register_pytree_node(
        cls, lambda mapping: ([*mapping.values()], context(mapping)), make, serialized_type_name=_enum_of(cls),
        flatten_with_keys_fn=with_keys, **dumpable,
    )  # fmt: skip


_sequence(tuple, tuple)
_sequence(list, list)
_mapping(dict, lambda values, keys: dict(zip(keys, values, strict=True)))
_mapping(OrderedDict, lambda values, keys: OrderedDict(zip(keys, values, strict=True)))
_mapping(
    defaultdict,
    lambda values, context: defaultdict(context[0], zip(context[1], values, strict=True)),
    context=lambda mapping: [mapping.default_factory, [*mapping]],
)
register_pytree_node(
    deque, lambda items: ([*items], items.maxlen), lambda items, limit: deque(items, maxlen=limit),
    serialized_type_name="collections.deque",
    flatten_with_keys_fn=lambda items: ([(SequenceKey(i), item) for i, item in enumerate(items)], items.maxlen),
)  # fmt: skip
register_pytree_node(
    namedtuple, lambda items: ([*items], type(items)), lambda items, cls: cls(*items),
    serialized_type_name="collections.namedtuple",
    flatten_with_keys_fn=lambda items: ([(GetAttrKey(k), v) for k, v in zip(items._fields, items)], type(items)),
)  # fmt: skip


def _node_type(tree):
    cls = type(tree)
    return namedtuple if cls not in SUPPORTED_NODES and is_namedtuple_class(cls) else cls


def tree_is_leaf(tree, is_leaf=None) -> bool:
    """Whether something is a leaf: of no class of containers, or one that `is_leaf(tree)` takes for one.

    >>> from plugrad.utils import _pytree
    >>> _pytree.tree_is_leaf(1), _pytree.tree_is_leaf([1])
    (True, False)
    """
    return is_leaf is not None and bool(is_leaf(tree)) or _node_type(tree) not in SUPPORTED_NODES


# ---------------------------------------------------------------------------------------------------- structures


class TreeSpec:
    """The structure of a tree: what its nodes are, without the leaves."""

    __slots__ = ("type", "context", "_children", "num_nodes", "num_leaves", "num_children")

    def __init__(self, type, context, children_specs):
        self.type, self.context, self._children = type, context, list(children_specs)
        self.num_children = len(self._children)
        self.num_leaves = sum(child.num_leaves for child in self._children) if type is not None else 1
        self.num_nodes = 1 + sum(child.num_nodes for child in self._children)

    children_specs = property(lambda self: self._children, doc="The structures of the children.")

    def is_leaf(self) -> bool:
        """Whether it is the structure of a leaf."""
        return self.type is None

    def children(self) -> list:
        """Return the structures of the children."""
        return list(self._children)

    def child(self, index):
        """Return the structure of one child."""
        return self._children[index]

    def __eq__(self, other):
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self.context, self._children) == (other.type, other.context, other._children)

    def __hash__(self):
        context = self.context
        if isinstance(context, list):
            context = tuple(tuple(item) if isinstance(item, list) else item for item in context)
        return hash((self.type, context, tuple(self._children)))

    def __repr__(self, indent=0):
        if self.is_leaf():
            return "*"
        inner = [child.__repr__(indent + 2) for child in self._children]
        separator = f",\n{' ' * (indent + 2)}"
        return f"TreeSpec({self.type.__name__}, {self.context}, [{separator.join(inner)}])"

    def unflatten(self, leaves):
        """Return the tree with these leaves; ValueError if their number differs."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._built(iter(leaves))

    def _built(self, leaves):
        if self.is_leaf():
            return next(leaves)
        children = [child._built(leaves) for child in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree) -> list:
        """Return what of a tree stands at the places of this structure's leaves; ValueError if it is another one."""
        if self.is_leaf():
            return [tree]
        cls = _node_type(tree)
        if cls is not self.type and not {cls, self.type} <= {dict, OrderedDict, defaultdict}:
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = SUPPORTED_NODES[cls].flatten_fn(tree)
        if _is_mapping(cls):
            keys = self.context[1] if self.type is defaultdict else self.context
            if set(keys) != set(tree):
                raise ValueError(f"Node keys mismatch; expected {keys}, but got {[*tree]}.")
            children = [tree[key] for key in keys]
        elif len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        elif context != self.context:
            raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
        return [leaf for child, part in zip(self._children, children) for leaf in child.flatten_up_to(part)]


def _is_mapping(cls) -> bool:
    return cls in (dict, OrderedDict, defaultdict)


PyTreeSpec = TreeSpec


class _LeafType(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, TreeSpec) and instance.is_leaf()


class LeafSpec(metaclass=_LeafType):
    """The structure of a leaf: `LeafSpec()` returns a TreeSpec."""

    def __new__(cls):
        return _LEAF


_LEAF = TreeSpec(None, None, [])


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
            return _LEAF
        cls = _node_type(node)
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
    for child in SUPPORTED_NODES[_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree, is_leaf=None) -> list:
    """Return the leaves of a tree.

    >>> from plugrad.utils import _pytree
    >>> _pytree.tree_leaves([1, (2, None)])
    [1, 2, None]
    """
    return [*tree_iter(tree, is_leaf)]


def tree_structure(tree, is_leaf=None) -> TreeSpec:
    """Return the structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


# ---------------------------------------------------------------------------------------------------- functions


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
    if treespec.is_leaf() or _node_type(tree) is not treespec.type:
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
    cls = _node_type(tree)
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


# ---------------------------------------------------------------------------------------------------- as text

_PROTOCOL = 1


def treespec_dumps(treespec, protocol=None) -> str:
    """Return a structure as JSON text.

    Raises NotImplementedError for classes that were registered without a `serialized_type_name`.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec_dumps(treespec): Expected `treespec` to be a TreeSpec but got {type(treespec)}.")
    if protocol not in (None, _PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return json.dumps((_PROTOCOL, _as_data(treespec)), separators=(", ", ": "))


def _as_data(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    node = SUPPORTED_NODES[spec.type]
    if node.serialized_type_name is None or spec.type is namedtuple:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please register it with a serialized_type_name"
        )
    if node.to_dumpable_context is not None:
        context = node.to_dumpable_context(spec.context)
    elif spec.type is defaultdict:
        factory, keys = spec.context
        names = factory.__module__, factory.__qualname__
        context = dict(zip(("default_factory_module", "default_factory_name", "dict_context"), (*names, keys)))
    else:
        context = spec.context
    try:
        text = context if node.to_dumpable_context or spec.type is defaultdict else json.dumps(context)
    except TypeError as error:
        raise TypeError(
            "Unable to serialize context. Please make the context json dump-able, or register a custom serializer "
            f"using _register_pytree_node: {error}"
        ) from error
    children = [_as_data(child) for child in spec.children_specs]
    return {"type": node.serialized_type_name, "context": text, "children_spec": children}


def treespec_loads(serialized: str) -> TreeSpec:
    """Return the structure that `treespec_dumps` wrote."""
    protocol, data = json.loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return _from_data(data)


def _from_data(data):
    if data["type"] is None:
        return _LEAF
    node = next((one for one in SUPPORTED_NODES.values() if one.serialized_type_name == data["type"]), None)
    if node is None:
        raise NotImplementedError(f"Deserializing {data['type']} is not supported: nothing is registered by that name")
    if node.from_dumpable_context is not None:
        context = node.from_dumpable_context(data["context"])
    else:
        context = data["context"]
        if node.type is not defaultdict:
            context = json.loads(context)
        else:
            module, name = context["default_factory_module"], context["default_factory_name"]
            if module != "builtins":
                raise NotImplementedError(f"a defaultdict of {module}.{name} is not read: its code is not looked up")
            known = {cls.__name__: cls for cls in (list, dict, set, tuple, int, float, str, bool)}
            context = [known[name], context["dict_context"]]
    return TreeSpec(node.type, context, [_from_data(child) for child in data["children_spec"]])


def treespec_pprint(treespec) -> str:
    """Return a structure as text, as it would be written with `*` for leaves."""
    return repr(treespec.unflatten([_Star()] * treespec.num_leaves))


class _Star:
    def __repr__(self):
        return "*"


def _deregister_pytree_node(cls) -> None:
    """Have instances of a class be leaves again."""
    if SUPPORTED_NODES.pop(cls, None) is None:
        warnings.warn(f"{cls} is not registered as pytree node", stacklevel=2)
