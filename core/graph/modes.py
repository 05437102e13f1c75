"""Grad modes and the other modes of a thread: recording, inference, anomaly detection, saved-tensor hooks."""

from __future__ import annotations

import itertools

from plugrad.devices.device import on_default_device
from plugrad.errors import flag
from plugrad.regions import Exit, Region, declare, elsewhere, mode, paused, region, special, watched
from plugrad.registry.namespaces import lazy_names

__all__ = ["Exit", "Region", "elsewhere", "mode", "paused", "region", "special", "watched"]

tick = itertools.count(1).__next__
_later, _ = lazy_names({"__name__": __name__}, None, {"autograd.rare.decorating": "decorated"})

declare("inference", False, special, elsewhere)
other_walks: set = set()  # not empty while in any thread there is another walk backward than the plain ones
declare("walk", None, other_walks)  # what walks in place of them: f(roots, retain, on_tensors, targets) -> captured
declare("anomaly", False, special, other_walks)
declare("check_nan", True)
declare("saved_hooks", (), special)
queued: list = []  # callbacks for the ends of walks in progress, in any thread
writes: list = []  # what transforms in progress, in any thread, call with tensors whose history a write begins
levels: set = set()  # forward derivatives in progress, in any thread
declare("function_modes", (), watched, special, elsewhere)
declare("dispatch_modes", (), watched, special, elsewhere)
declare("op_hooks", (), watched, special, elsewhere)
declare("autocast", None, watched, special)  # what casts arguments: f(op, values, run) -> the result of the call
declare("depth", 0)  # of the call that hooks see
declare("in_hook", False)
declare("no_override", False)  # whether the overrides of classes are not asked

installed_hooks: tuple = ()  # hooks on ops that act in every thread


def install(hooks: tuple) -> None:
    """Set the hooks on ops that act in every thread."""
    global installed_hooks
    for one in (watched, special, elsewhere):
        one.add("installed hooks")
    installed_hooks = hooks
    if not hooks:
        for one in (watched, special, elsewhere):
            one.discard("installed hooks")


on_default_device.append(lambda is_set: (elsewhere.add if is_set else elsewhere.discard)("the default device"))


class _Leaf:
    """Marks, as a tensor's edge, a tensor that requires grad and was not made by an op."""

    def __repr__(self):
        return "LEAF"


LEAF = _Leaf()
NOWHERE = _Leaf()  # in the place of a tensor's `_view`: it is an edge that no gradient goes on from


# ---------------------------------------------------------------------------------------------------- grad modes


class ModeContext(Region):
    """A context manager, usable as a decorator, that sets a mode."""

    __slots__ = ()

    def __new__(cls, mode=None, **options):
        # A function is decorated: it is written as `@no_grad`, without parentheses.
        return cls()(mode) if callable(mode) else object.__new__(cls)

    def __call__(self, function):
        return _later("decorated")(self.clone, function)

    def clone(self):
        """Return a fresh context of the same kind."""
        return type(self)()


class no_grad(ModeContext):
    """Record nothing inside; a context manager or a decorator.

    >>> import plugrad as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    __slots__ = ()

    def changes(self):
        return {"pausing": True}


class enable_grad(ModeContext):
    """Record inside of `no_grad`, not of `inference_mode`: a context or decorator."""

    __slots__ = ()

    def changes(self):
        return {"pausing": mode.inference}


class set_grad_enabled(ModeContext):
    """Switch recording on or off: at once, or as a context manager for the block."""

    __slots__ = ("_value", "_previous")

    def __init__(self, mode):
        self._value, self._previous = flag("enabled", mode), globals()["mode"].grad
        globals()["mode"].grad = self._value and not globals()["mode"].inference

    def changes(self):
        mode.grad = self._previous  # it acts in the block, and what was before is there again behind it
        return {"pausing": mode.inference or not self._value}

    def __call__(self, function):
        mode.grad = self._previous  # as a decorator it acts on the calls, not here
        return super().__call__(function)

    def clone(self):
        return set_grad_enabled(self._value)


class inference_mode(ModeContext):
    """Record nothing inside, and mark results so that they can't enter a graph later."""

    __slots__ = ("_on",)

    def __init__(self, mode=True):
        self._on = flag("mode", mode)

    def changes(self):
        return {"pausing": self._on or mode.pausing and not mode.inference, "inference": self._on}

    def clone(self):
        return inference_mode(self._on)


def is_grad_enabled() -> bool:
    """Whether ops on tensors that require grad are being recorded."""
    return mode.grad


def is_inference_mode_enabled() -> bool:
    """Whether `inference_mode` is on."""
    return mode.inference
