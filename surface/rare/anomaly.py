"""Anomaly mode: nodes remember the forward call that made them, and NaN gradients stop a walk."""

from __future__ import annotations

import sys
import traceback
import warnings

from plugrad import Tensor
from plugrad.autograd.engine import CarefulWalk, Walk
from plugrad.errors import flag
from plugrad.extend import from_raw
from plugrad.graph.modes import Region, mode
from plugrad.graph.nodes import Outputs
from plugrad.graph.saved import Packed

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]


class detect_anomaly(Region):
    """Show the forward stack of an op whose backward fails; stop at NaN gradients.

    Args:
        check_nan: whether NaN in a gradient is an error.

    >>> import plugrad as torch
    >>> with torch.autograd.detect_anomaly(check_nan=False):
    ...     torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    (True, False)
    """

    def __init__(self, check_nan=True):
        self._wanted = {"anomaly": True, "check_nan": flag("check_nan", check_nan)}
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def changes(self):
        return self._wanted


class set_detect_anomaly(detect_anomaly):
    """Switch anomaly mode on or off: at once, or as a context manager for the block."""

    def __init__(self, mode, check_nan=True):
        self._wanted = {"anomaly": flag("mode", mode), "check_nan": flag("check_nan", check_nan)}
        self._previous = _set_anomaly(self._wanted)

    def changes(self):
        _set_anomaly(self._previous)
        return self._wanted


def _set_anomaly(wanted) -> dict:
    previous = {name: getattr(mode, name) for name in wanted}
    for name, value in wanted.items():
        setattr(mode, name, value)
    return previous


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return mode.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode, where it is on, stops at NaN gradients.

    >>> import plugrad as torch
    >>> with torch.autograd.set_detect_anomaly(True, check_nan=False):
    ...     torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    (True, False)
    """
    return mode.check_nan


class Stack(list):
    """The lines of the stack of the call that made a node; `parent` is the node whose backward made that call."""

    parent = None


def note_stack(node) -> None:
    """Keep with a new node the stack of its call, and of which node's backward that is a part.

    They stand in its `metadata`, too, under the names that they have there in PyTorch.
    """
    frame = caller = sys._getframe()
    while caller.f_back is not None and caller.f_globals.get("__name__", "plugrad").partition(".")[0] == "plugrad":
        caller = caller.f_back
    stack = node._rare().stack = node.metadata["traceback_"] = Stack(traceback.format_stack(caller))
    while frame is not None and frame.f_code is not Walk.pull_hooked.__code__:
        frame = frame.f_back
    if frame is not None:
        stack.parent = node.metadata["parent_"] = frame.f_locals["node"]


def explain_stack(error: Exception, node) -> None:
    """Add to an error in a node's backward the stack of the forward call that made it, and what that was part of."""
    stack = None if node.rare is None else node.rare.stack
    explained = error.__dict__.setdefault("_explained", [])
    if any(node is one for one in explained):
        return
    explained.append(node)
    if stack is None:
        _warn(
            f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during "
            "forward pass for more information."
        )
        return
    text = "".join(stack)
    _warn(f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{text}")
    error.add_note(f"The forward call of {node.name()} was:\n{text}")
    parent = stack.parent
    while parent is not None:
        stack = parent.rare.stack if parent.rare is not None else None
        _warn(
            f"Previous calculation was induced by {parent.name()}. Traceback of forward call that induced the previous "
            f"calculation:\n{''.join(stack or ())}"
        )
        parent = getattr(stack, "parent", None)


def explain(error: Exception, node) -> None:
    """Explain an error in the backward of a node that has hooks or knows its forward call.

    Raises RuntimeError in the place of NumPy's own words for values whose shapes don't fit, which an unpack hook gave.
    """
    if node.rare.stack is not None:
        explain_stack(error, node)
    if node.rare.unpack is None or type(error) not in (ValueError, IndexError) or _is_of_hooks(error):
        return
    if str(error).startswith(("operands could not", "cannot reshape", "could not broadcast", "tuple index out of")):
        raise RuntimeError(
            f"{node.name()}: the values that saved-tensor unpack hooks returned do not fit the gradient ({error}): an "
            "unpack hook must return a tensor of the shape and dtype that its pack hook was given"
        ) from error


def _is_of_hooks(error) -> bool:
    """Whether an error comes from elsewhere than a formula: from hooks of the program, around it or in unpacking."""
    codes = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
    return Walk.formulas.__code__ not in codes or Packed.unpack.__code__ in codes


def _warn(text: str) -> None:
    """Warn; where warnings are errors print it, since the error that it is about goes on."""
    try:
        warnings.warn(text, stacklevel=6)
    except Warning:
        traceback.print_exc()


def check_nan(node, grads) -> None:
    """Raise RuntimeError if NaN is among the gradients that a node returned."""
    for number, grad in enumerate(grads):
        if grad is None or type(grad) is Outputs:
            continue
        tensor = grad if isinstance(grad, Tensor) else from_raw(grad)
        if bool(tensor.isnan().any()):
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {number}th output.")


class _Watching:
    """A walk that looks for NaN behind every node, also those that were recorded while anomaly mode was off."""

    plain = False

    def pull(self, node, g):
        try:
            grads = super().pull(node, g)
            if node.rare is None and mode.check_nan:
                check_nan(node, grads)
        except Exception as error:
            if node.rare is None or node.rare.stack is None:
                explain_stack(error, node)
            raise
        return grads


class _WatchingWalk(_Watching, Walk):
    pass


class _WatchingCarefulWalk(_Watching, CarefulWalk):
    pass


def watching_walks() -> tuple:
    """Return the walks of anomaly mode: a plain one, and one on Tensors or to some inputs."""
    return _WatchingWalk, _WatchingCarefulWalk
