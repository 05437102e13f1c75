"""What a node saves for backward: in the user's own form if there are saved-tensor hooks, and checked before use."""

from __future__ import annotations

from numpy import ndarray

from plugrad.graph import rare
from plugrad.graph.modes import mode, no_grad
from plugrad.graph.numpy_writes import changed_since, open_exports, uses
from plugrad.graph.versions import copied, writes, written_since

_PLAIN = {int, float, bool, str, type(None)}
flagged: dict = {}  # by the ids of their arrays, tensors that got their flag late: see `rare.flagged_since`
FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)


class Packed:
    """A saved array as the user's saved-tensor hooks gave it; `edge` leads to the input or output of a Function."""

    __slots__ = ("packed", "unpacker", "edge")

    def __init__(self, packed, unpacker, edge=None):
        self.packed, self.unpacker, self.edge = packed, unpacker, edge

    def unpack(self):
        """Return the raw array again."""
        tensor = self.unpacker(self.packed)
        if not hasattr(tensor, "_live_edge"):
            raise TypeError(f"Output of saved tensor unpack_hook expected to be a Tensor but got {type(tensor)}")
        return tensor.data._raw  # an array of its own: its history is what was saved, whatever the input has become


def annotate(node, from_raw) -> None:
    """Give a new node what the modes of this thread ask for: the stack of the forward call, packed saved arrays.

    `from_raw` makes a Tensor of an array, which is what the user's hooks get.
    """
    if mode.anomaly:
        rare.note_stack(node)
    if mode.saved_hooks and node.saved:
        pack, unpack = mode.saved_hooks[-1]
        with no_grad():
            packed = [Packed(pack(from_raw(value)), unpack) if is_array(value) else value for value in node.saved]
            node.saved = tuple(packed)
        node._rare().unpack = True


def is_array(value) -> bool:
    """Whether a saved value is a raw array."""
    return hasattr(value, "dtype") and hasattr(value, "base")


def check_saved(node) -> None:
    """Raise RuntimeError if what a node saved is gone, or was written in place since."""
    if node.saved is not None:
        check_unchanged(node, node.saved)
    elif not node.asks:
        raise RuntimeError(FREED)


def check_unchanged(node, values) -> None:
    """Raise RuntimeError if an array among the values was written in place after the node was made."""
    for value in values:
        kind = type(value)
        if kind in _PLAIN or kind is tuple and _PLAIN.issuperset(map(type, value)):
            continue
        for array in value if kind is tuple or kind is list else (value,):
            if type(array) is ndarray and array.base is None:  # it is its own storage
                if not ((key := id(array)) in writes or key in copied or key in uses or key in open_exports):
                    continue
            elif not is_array(array):
                continue
            written = written_since(array, node.seq)
            if written is not None or changed_since(array, node.seq):
                rare.check_needed(node, array, written)
