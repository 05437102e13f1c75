"""`plugrad.autograd.forward_ad`: PyTorch's dual tensors, which do not exist here, and what to write instead."""

from __future__ import annotations

__all__ = ["dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


def dual_level(*args, **kwargs):
    """Raise NotImplementedError, which says how to get directional derivatives here."""
    raise NotImplementedError(
        "there are no dual tensors in plugrad: derivatives along a direction are those of plugrad.func.jvp(f, (x,), "
        "(tangent,)), and plugrad.func.linearize for many directions"
    )


enter_dual_level = exit_dual_level = make_dual = unpack_dual = dual_level
