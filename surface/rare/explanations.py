"""What is wrong in a walk backward, in words: saved values that were written."""

from __future__ import annotations

from plugrad import Tensor


def stale(node, array, writes) -> str:
    """Return what is wrong with a saved array that was written since; `writes` is None or describes the writes."""
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
