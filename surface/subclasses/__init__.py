"""Subclasses of Tensor that compute by a `__torch_dispatch__` of their own, and wrappers, which hold no memory.

A call of an op with such a tensor goes to its class below autograd: the class gets tensors without history, and what
it returns is the op's result, to which the history is attached here. What backward needs of a wrapper is an array that
has its shape and its attributes, but no elements: gradient formulas then run on tensors, through the class again.
"""

from __future__ import annotations

from plugrad.subclasses.arrays import WrapperArray, copy_slots, make_wrapper_subclass
from plugrad.subclasses.calls import asked, call_of_dispatching, detached, item_of, ones_like, write_of_dispatching

_make_wrapper_subclass = make_wrapper_subclass

__all__ = [
    "WrapperArray", "_make_wrapper_subclass", "asked", "call_of_dispatching", "copy_slots", "detached", "item_of",
    "make_wrapper_subclass", "ones_like", "write_of_dispatching",
]  # fmt: skip
