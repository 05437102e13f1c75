"""What is wrong in a walk backward, in words: saved values that were written."""

from __future__ import annotations

from plugrad import Tensor
from plugrad.autograd.rare.unrecorded_views import leads_nowhere


def check_needed(node, array, writes) -> None:
    """Raise RuntimeError for a saved array that was written since, unless only what leads nowhere needs it.

    `writes` is None or describes the writes.
    """
    if node.narrowed and any(map(leads_nowhere, node.edges)):
        mask = sum(1 << place for place, edge in zip(node.positions, node.edges) if not leads_nowhere(edge))
        needed = type(node).narrowed(mask).saves if mask else ()
        if all(value is not array or name not in needed for name, value in zip(node.saves, node.saved)):
            return
    raise RuntimeError(_stale(node, array, writes))


def _stale(node, array, writes) -> str:
    """Return what is wrong with a saved array that was written since."""
    what = f"[{Tensor._from_raw(array).dtype!r} {list(array.shape)}], saved by {node.name()}, "
    if writes is None or writes.last == writes.last_by_numpy:
        return (
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"{what}was written through a NumPy array that shares its memory, after it was saved. Hint: let "
            "NumPy write to a copy (x.detach().clone().numpy(), torch.tensor(array)), or write by "
            "`with torch.no_grad(): x.copy_(...)` before the forward pass"
        )
    return (
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: {what}is at version {writes.count}; it was written after it was saved. Hint: write the "
        "in-place operation out of place (x = x + 1 instead of x += 1) or clone() the tensor first; with "
        "torch.autograd.set_detect_anomaly(True) the error shows the forward call."
    )
