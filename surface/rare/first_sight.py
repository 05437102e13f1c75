"""Classes that are no Tensors and override ops (`__torch_function__`): nothing tells of one before it is an argument.

Ops that are made of others do not look for such classes before the first of them was met: in most programs there is
none. Where it is met, or fits nowhere, what runs is left up to the outermost op, which asks the class, as all do then.
"""

from __future__ import annotations

import sys

from plugrad.dispatch import interception
from plugrad.graph import modes
from plugrad.graph.modes import mode
from plugrad.tensor.overriding import watch_classes


class Unwound(Exception):
    """Leads back to the outermost of the composites that run; `left` counts those that it has not left yet."""

    def __init__(self, left):
        super().__init__("a class with a __torch_function__ was met for the first time")
        self.left = left


def note_class(outermost=0) -> None:
    """Have composites look for such classes from now on, and leave those that run but for so many of the outermost."""
    watch_classes()
    running, frame, called = -outermost, sys._getframe(1), None
    while frame is not None:
        # What is generated for a composite catches what is raised, but where a hook or mode has had it asked already.
        running += "_misfit" in frame.f_code.co_names and called is not interception.composite.__code__
        frame, called = frame.f_back, frame.f_code
    if running:
        raise Unwound(running)


def misfit(op, values, out, error):
    """Return (what an argument's class makes of a composite that failed,), or the error that says why it failed.

    None where what was raised says that itself.
    """
    if isinstance(error, Unwound):
        error.left -= 1
        return None if error.left else (interception.composite(op, values, out),)
    if not mode.no_override and "overriding classes" not in modes.watched:
        if interception.overloaded((*values, out), {}):
            note_class(outermost=1)
            return (interception.composite(op, values, out),)
    return op.wrong(values, error)
