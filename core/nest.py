"""Nested lists, tuples (named ones too) and dicts: their leaves, and the same nest with others."""

from __future__ import annotations


def leaves(value):
    """Yield what is in nested lists, tuples and dicts, in order.

    >>> from plugrad.nest import leaves
    >>> [*leaves({"a": (1, [2]), "b": 3})]
    [1, 2, 3]
    """
    stack, above = [iter((value,))], {0: None}  # without recursion: nests may be deep, or contain themselves
    while stack:
        item = next(stack[-1], stack)
        if item is stack:
            stack.pop(), above.popitem()
        elif isinstance(item, (list, tuple, dict)) and id(item) not in above:
            stack.append(iter(item.values() if isinstance(item, dict) else item))
            above[id(item)] = None
        else:
            yield item


def rebuild(value, items):
    """Return a nest like `value` with other leaves, taken in order from an iterator.

    >>> from plugrad.nest import rebuild
    >>> rebuild({"a": (1, [2]), "b": 3}, iter("xyz"))
    {'a': ('x', ['y']), 'b': 'z'}
    """
    if isinstance(value, (list, tuple)):
        parts = [rebuild(item, items) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        changed = {key: rebuild(item, items) for key, item in value.items()}
        return changed if type(value) is dict else type(value)(changed)
    return next(items)


def change(function, value):
    """Return the nest with every leaf replaced by `function(leaf)`."""
    return rebuild(value, map(function, leaves(value)))
