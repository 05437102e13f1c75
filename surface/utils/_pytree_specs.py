"""The structure of a tree without its leaves: TreeSpec, LeafSpec, and structures as JSON text."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, namedtuple

from plugrad.utils._pytree_nodes import SUPPORTED_NODES, node_type


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
        cls = node_type(tree)
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


class _LeafType(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, TreeSpec) and instance.is_leaf()


class LeafSpec(metaclass=_LeafType):
    """The structure of a leaf: `LeafSpec()` returns a TreeSpec."""

    def __new__(cls):
        return LEAF


LEAF = TreeSpec(None, None, [])


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
    """Return the structure that `treespec_dumps` wrote; ValueError for text that is none."""
    try:
        protocol, data = json.loads(serialized)
        if protocol != _PROTOCOL:
            raise ValueError(f"Unknown protocol {protocol!r:.60}. Available protocols: [{_PROTOCOL}]")
        return _from_data(data)
    except (AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"{serialized!r:.60} is no structure of a tree: {type(error).__name__}: {error}") from error


def _from_data(data):
    if data["type"] is None:
        return LEAF
    node = next((one for one in SUPPORTED_NODES.values() if one.serialized_type_name == data["type"]), None)
    if node is None:
        name = f"{data['type']!s:.60}"
        raise NotImplementedError(f"Deserializing {name} is not supported: nothing is registered by that name")
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
