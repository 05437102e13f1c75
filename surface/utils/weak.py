"""`torch.utils.weak`: dictionaries whose keys are told by identity, and do not keep them alive."""

from __future__ import annotations

import collections.abc
import weakref
from copy import deepcopy

from plugrad import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to others of the same object, whatever that says of its own equality."""

    __slots__ = ("_id",)

    def __init__(self, key, callback=None):
        super().__init__(key, callback)
        self._id = id(key)

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        one, another = self(), other()
        return self is other if one is None or another is None else one is another


class TensorWeakRef:
    """A weak reference to a tensor, whose call gives it, or None when it is gone."""

    def __init__(self, tensor: Tensor):
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}")
        self.ref = weakref.ref(tensor)

    def __call__(self):
        return self.ref()


class WeakIdKeyDictionary(collections.abc.MutableMapping):
    """A dictionary by the identity of its keys: an entry goes when its key is gone.

    >>> import plugrad as torch
    >>> from plugrad.utils.weak import WeakIdKeyDictionary
    >>> x = torch.ones(2)
    >>> notes = WeakIdKeyDictionary({x: "ones"})
    >>> notes[x], torch.ones(2) in notes, len(notes)
    ('ones', False, 1)
    """

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.data, self.ref_type = {}, ref_type
        self._forget = lambda ref, data=weakref.ref(self): data() is not None and data().data.pop(ref, None)
        self.update(dict or {})

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value):
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # of such there are no weak references
            return False

    def __len__(self):
        return len(list(iter(self)))

    def __iter__(self):
        return iter([key for ref in list(self.data) if (key := ref()) is not None])

    def __repr__(self):
        return f"<{type(self).__name__} at {hex(id(self))}>"

    def copy(self):
        """Return a dictionary of the same keys and values."""
        return type(self)(self, self.ref_type)

    __copy__ = copy

    def __deepcopy__(self, memo):
        copied = type(self)(None, self.ref_type)
        for key, value in self.items():
            copied[key] = deepcopy(value, memo)
        return copied

    def __or__(self, other):
        if not isinstance(other, collections.abc.Mapping):
            return NotImplemented
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other):
        if not isinstance(other, collections.abc.Mapping):
            return NotImplemented
        joined = type(self)(other, self.ref_type)
        joined.update(self)
        return joined

    def __ior__(self, other):
        self.update(other)
        return self


WeakTensorKeyDictionary = WeakIdKeyDictionary
