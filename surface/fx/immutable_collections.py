"""Lists and dicts that hold the arguments of nodes: these are changed by assigning new ones, so that users are kept."""

from __future__ import annotations

from plugrad.utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self, *args, **kwargs):
    raise TypeError(
        f"'{type(self).__name__}' object does not support mutation. If you are attempting to modify the kwargs or args "
        "of a torch.fx.Node object,\ninstead create a new copy of it and assign the copy to the node:\n"
        "    new_args = ... # copy and mutate args\n    node.args = new_args"
    )


def _without(base, *methods):
    """Return a subclass of a collection in which these methods, which change it, refuse."""
    name = f"immutable_{base.__name__}"
    body = dict.fromkeys(methods, _refuse)
    body.update(
        __doc__=f"A {base.__name__} that can't be changed: copy it, and assign the copy to the node.",
        __module__=__name__,
        __reduce__=lambda self: (globals()[name], (base(self),)),
        __hash__=lambda self: hash(tuple(self.items() if base is dict else self)),
    )
    return type(name, (base,), body)


_CHANGES = ("__delitem__", "__setitem__", "__ior__", "clear", "pop")
immutable_list = _without(
    list, *_CHANGES, "__iadd__", "__imul__", "append", "extend", "insert", "remove", "reverse", "sort"
)
immutable_dict = _without(dict, *_CHANGES, "popitem", "setdefault", "update")

_pytree.register_pytree_node(
    immutable_list,
    lambda values: (list(values), None),
    lambda values, context: immutable_list(values),
    flatten_with_keys_fn=_pytree._list_flatten_with_keys,
)
_pytree.register_pytree_node(
    immutable_dict,
    lambda values: (list(values.values()), list(values)),
    lambda values, keys: immutable_dict(zip(keys, values)),
    flatten_with_keys_fn=_pytree._dict_flatten_with_keys,
)
