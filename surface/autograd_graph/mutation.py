"""`allow_mutation_on_saved_tensors`: what a node saved is copied just before it is written in place."""

from __future__ import annotations

import weakref

from plugrad import Tensor
from plugrad.autograd.graph.saved import saved_tensors_hooks
from plugrad.extend import OpHook
from plugrad.graph.modes import Region, mode
from plugrad.regions import declare

declare("mutating", None)  # the context in which saved tensors may be written


class _Handle:
    """Stands in a node for a tensor that it saved."""

    __slots__ = ("key", "__weakref__")


class _Context(OpHook):
    """What was saved in the block: `original` while it is as it was saved, `cloned` once somebody wrote to it."""

    def __init__(self):
        self.original: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self.cloned: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self.handles: weakref.WeakValueDictionary = weakref.WeakValueDictionary()

    def pack(self, tensor):
        key = id(tensor._raw), tensor._version
        handle = self.handles.get(key)
        if handle is None:
            handle = self.handles[key] = _Handle()
            handle.key, self.original[handle] = key, tensor
        return handle

    def unpack(self, handle):
        kept = self.cloned.get(handle)
        kept = self.original.get(handle) if kept is None else kept
        if kept is None or mode.mutating is not self:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "originally recorded."
            )
        return kept

    def clear(self) -> None:
        """Forget all that was saved."""
        self.original.clear()
        self.cloned.clear()

    def wants(self, op) -> bool:
        return True

    def around(self, call, run):
        written = [call.kwargs.get("out")]
        if call.name == "setitem" or call.name.endswith("_") and not call.name.endswith("__"):
            written.append(call.args[0])
        for target in written:
            for tensor in target if isinstance(target, (tuple, list)) else (target,):
                if isinstance(tensor, Tensor):
                    self.before_write(tensor)
        return run()

    def before_write(self, tensor) -> None:
        """Copy what was saved in the memory of a tensor that is about to be written."""
        storage = _storage(tensor)
        for handle, saved in list(self.original.items()):
            if _storage(saved) is storage:
                self.cloned[handle] = saved.clone()
                del self.original[handle]
                self.handles.pop(handle.key, None)


def _storage(tensor):
    return tensor._type.backend.storage(tensor._raw)


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """A block in which tensors that were saved for backward may be written in place.

    They are copied before the write, and backward, which must run inside of the block, gets the copies. Raises
    RuntimeError when nested.

    >>> import plugrad as torch
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     a = torch.tensor([0.0], requires_grad=True)
    ...     b = a.clone()
    ...     y = b * b.exp()
    ...     _ = b.fill_(7.0)
    ...     y.sum().backward()
    >>> a.grad
    tensor([1.])
    """

    def __init__(self):
        self._context = _Context()
        super().__init__(self._context.pack, self._context.unpack)

    def changes(self):
        if mode.mutating is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        self._context.clear()
        return {**super().changes(), "op_hooks": (*mode.op_hooks, self._context), "mutating": self._context}

    def __enter__(self):
        Region.__enter__(self)
        return self._context
