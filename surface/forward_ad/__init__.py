"""`plugrad.autograd.forward_ad`: dual tensors, which carry a tangent: derivatives along a direction, in one pass.

Ops need no rule of their own: see `plugrad.autograd.forward_ad.rules`.
"""

from __future__ import annotations

from typing import NamedTuple

from plugrad import Tensor
from plugrad.arguments import is_int
from plugrad.autograd.forward_ad.levels import (
    Leaving,
    Level,
    check_out,
    follow_base,
    leaf_of,
    unwrapped,
    without_history,
)
from plugrad.autograd.forward_ad.rules import laid_out_as as _laid_out_as
from plugrad.autograd.forward_ad.rules import way
from plugrad.graph.modes import ModeContext, mode

__all__ = [
    "Level", "UnpackedDualTensor", "check_out", "dual_level", "enter_dual_level", "exit_dual_level", "leaf_of",
    "make_dual", "unpack_dual", "unwrapped", "way", "without_history",
]  # fmt: skip


def __getattr__(name):
    if name == "_current_level":  # as PyTorch counts: -1 outside of a level
        return -1 if mode.dual is None else 0
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def enter_dual_level() -> int:
    """Begin a level, in which tensors can carry tangents; return its number, 0.

    Raises RuntimeError inside of another one.
    """
    mode.dual = _begun()
    return 0


def _begun() -> Level:
    if mode.dual is not None:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment: nest torch.func.jvp, which can be, instead"
        )
    return Level().__enter__()


def exit_dual_level(*, level=None) -> None:
    """End the level: no tensor has a tangent any more. RuntimeError if there is none."""
    if mode.dual is None or level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    ended, mode.dual = mode.dual, None
    ended.__exit__()


class dual_level(ModeContext):
    """A block in which tensors can carry tangents.

    >>> import plugrad as torch
    >>> import plugrad.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x * x)
    UnpackedDualTensor(primal=tensor(9.), tangent=tensor(6.))
    """

    def __init__(self):  # which refuses arguments
        super().__init__()

    def changes(self):
        return {"dual": _begun()}

    def __enter__(self) -> int:
        super().__enter__()
        return 0

    __exit__ = Leaving()


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns: a tensor's `primal` and its `tangent`, or None."""

    primal: Tensor
    tangent: Tensor | None


def _check_level(level) -> None:
    """Raise TypeError for what is no int, and ValueError for one of more than 64 bits."""
    if level is not None and not is_int(level):
        raise TypeError(f"level must be int or None, not {type(level).__name__}: there is one level, 0")
    if level is not None and not -(1 << 63) <= level < 1 << 63:
        raise ValueError(f"Overflow when unpacking long long: level {level}; there is one level, 0")


def make_dual(tensor, tangent, *, level=None):
    """Return a view of a tensor that carries a tangent.

    Args:
        tensor: the primal, of a floating point or complex dtype.
        tangent: of the same shape; it is kept as it is, and in-place writes to the dual write to it, if it lies in its
            memory as the primal does: else a copy that does.
        level: 0 or None.

    Raises RuntimeError outside of a `dual_level`, for another shape, and for a tensor that has a tangent already;
    ValueError for integers.
    """
    _check_level(level)
    if mode.dual is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, one in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(one, Tensor):
            raise TypeError(f"make_dual(): the {name} must be a Tensor, not {type(one).__name__}")
        if not (one.is_floating_point() or one.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {one.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if mode.dual.of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    if mode.dual.of(tangent) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level 0 is not supported."
        )
    dual = tensor.view_as(tensor)
    mode.dual.put_on(dual, (_laid_out_as(tangent, tensor),))
    return dual


def unpack_dual(tensor, *, level=None) -> UnpackedDualTensor:
    """Return a tensor without its tangent, as a view, and the tangent, or None."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unpack_dual(): argument 'dual' (position 1) must be Tensor, not {type(tensor).__name__}")
    _check_level(level)
    current = mode.dual
    if current is None:
        return UnpackedDualTensor(tensor, None)
    if tensor._is_view():
        follow_base(tensor)
    with current.hidden([tensor]) as hidden:
        return UnpackedDualTensor(tensor.view_as(tensor), hidden.of(tensor, 0))


class _set_fwd_grad_enabled(ModeContext):
    """A block in which results get tangents, or none."""

    def __new__(cls, *args):
        return object.__new__(cls)

    def __init__(self, enabled: bool):
        self._enabled = bool(enabled)

    def changes(self):
        return {"forward_paused": not self._enabled}

    def clone(self):
        return type(self)(self._enabled)


def _set_enabled(enabled) -> None:
    """Say whether results get tangents from now on, in this thread."""
    mode.forward_paused = not enabled


def _is_fwd_grad_enabled() -> bool:
    """Whether results get tangents."""
    return not mode.forward_paused
