"""Which classes are inner nodes of trees: how each is taken apart and made again, and the keys of its children."""

from __future__ import annotations

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


def _deregister_pytree_node(cls) -> None:
    """Have instances of a class be leaves again."""
    if SUPPORTED_NODES.pop(cls, None) is None:
        warnings.warn(f"{cls} is not registered as pytree node", stacklevel=2)


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


def node_type(tree):
    cls = type(tree)
    return namedtuple if cls not in SUPPORTED_NODES and is_namedtuple_class(cls) else cls


def tree_is_leaf(tree, is_leaf=None) -> bool:
    """Whether something is a leaf: of no class of containers, or one that `is_leaf(tree)` takes for one.

    >>> from plugrad.utils import _pytree
    >>> _pytree.tree_is_leaf(1), _pytree.tree_is_leaf([1])
    (True, False)
    """
    return is_leaf is not None and bool(is_leaf(tree)) or node_type(tree) not in SUPPORTED_NODES
