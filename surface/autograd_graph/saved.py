"""Hooks on what nodes save for backward: for a region of the program, or for one saved value of one node."""

from __future__ import annotations

from plugrad import no_grad
from plugrad.autograd.function_node import FunctionNode
from plugrad.graph.modes import LEAF, Region, mode
from plugrad.graph.saved import FREED, Packed, is_array
from plugrad.regions import declare
from plugrad.tensor.tensor import from_raw

declare("saved_hooks_refused", None)  # the message of the error for saved-tensor hooks where they are disabled


class saved_tensors_hooks(Region):
    """Pass tensors that are saved for backward through `pack_hook` and `unpack_hook`.

    Args:
        pack_hook: called with each tensor that an op saves; what it returns is kept in its place.
        unpack_hook: called with that, when backward needs the tensor; it returns a tensor of the same content.

    >>> import plugrad as torch
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda kept: torch.tensor(kept)):
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor([6.])
    """

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def changes(self):
        if mode.saved_hooks_refused is not None:
            raise RuntimeError(mode.saved_hooks_refused)
        return {"saved_hooks": (*mode.saved_hooks, (_reading(self.pack_hook), self.unpack_hook))}


def packed(pack, saved, unpack) -> Packed:
    """Return what a hook makes of a tensor that a Function saved, and where its history goes on."""
    if saved.output is not None:
        return Packed(pack(from_raw(saved.data)), unpack, saved.output)
    edge = saved.tensor._live_edge() and saved.tensor._edge
    return Packed(pack(saved.tensor), unpack, saved.tensor if edge is LEAF else edge)


def _reading(pack_hook):
    """Return a pack hook that raises RuntimeError if `pack_hook` writes to the tensor, which is the program's."""

    def pack(tensor):
        version = tensor._version
        result = pack_hook(tensor)
        if tensor._version != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
                "cannot be modified by in-place operations, as the program goes on using them: work on a clone()."
            )
        return result

    return pack


class save_on_cpu(saved_tensors_hooks):
    """Keep tensors that are saved for backward in host memory.

    `pin_memory` and `device_type` are accepted: host memory is not pinned here.

    >>> import plugrad as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> with torch.autograd.graph.save_on_cpu():
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor(6.)
    """

    def __init__(self, pin_memory=False, device_type="cuda"):
        if not isinstance(device_type, str):
            raise TypeError(f"save_on_cpu(): argument 'device_type' must be str, not {type(device_type).__name__}")
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0]))


class disable_saved_tensors_hooks(Region):
    """Refuse saved-tensor hooks in a block: RuntimeError with this message.

    >>> import plugrad as torch
    >>> with torch.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
    ...     with torch.autograd.graph.save_on_cpu():
    ...         pass
    Traceback (most recent call last):
        ...
    RuntimeError: no hooks here
    """

    def __init__(self, error_message: str):
        self._message = error_message

    def changes(self):
        if mode.saved_hooks:
            raise RuntimeError(self._message)
        return {"saved_hooks_refused": self._message}


def _saved_tensors_hooks_is_enabled() -> bool:
    """Whether saved-tensor hooks may be used: not within `disable_saved_tensors_hooks`."""
    return mode.saved_hooks_refused is None


class SavedTensor:
    """One tensor that a node saved, as `grad_fn._raw_saved_self` gives it: a place for a pair of hooks."""

    def __init__(self, *_):
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    def register_hooks(self, pack_hook, unpack_hook) -> None:
        """Pass this tensor through hooks of its own: `pack_hook` now, `unpack_hook` whenever it is needed.

        Raises RuntimeError if the tensor is gone or has hooks, TypeError if a hook can't be called.
        """
        node, place = self._node, self._place
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError("register_hooks(): incompatible function arguments: it takes two functions")
        if node.saved is None:
            raise RuntimeError(f"Calling register_hooks on a saved tensor after it has been freed. {FREED}")
        value = node.saved[place]
        if isinstance(value, Packed):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of "
                "hooks is allowed at a time."
            )
        if value is None or not is_array(value.data if isinstance(node, FunctionNode) else value):
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")

        pack = _reading(pack_hook)
        with no_grad():
            if isinstance(node, FunctionNode):
                kept = packed(pack, value, unpack_hook)
            else:
                kept, node._rare().unpack = Packed(pack(from_raw(value)), unpack_hook), True
        node.saved = (*node.saved[:place], kept, *node.saved[place + 1 :])


def raw_saved(node, name=None):
    """Return the `SavedTensor` for what a node saved under a name; without one, those of all that a Function saved."""
    if name is None:
        if node.saved is None:
            raise RuntimeError(FREED)
        return tuple([_handle(node, place) for place in range(len(node.saved))])
    return _handle(node, node.saves.index(name))


def _handle(node, place: int) -> SavedTensor:
    handle = object.__new__(SavedTensor)
    handle._node, handle._place = node, place
    return handle
