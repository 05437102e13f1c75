"""What a traced program computes with: tensors whose sizes are known as such, and integers that follow from them."""

from __future__ import annotations

import contextlib
import operator
import threading
import warnings

import plugrad
from plugrad import Tensor
from plugrad.regions import region

__all__ = ["Integer", "TracerWarning", "Traced", "current", "here", "untraced"]

here = threading.local()


class TracerWarning(Warning):
    """A trace may not do what the program does.

    It has noted a decision, or a value, that depends on the example.
    """

    __module__ = "plugrad.jit"

    @classmethod
    def ignore_lib_warnings(cls) -> None:
        """Ignore such warnings where they come from libraries."""
        warnings.filterwarnings("ignore", category=cls, module="torch.(?!jit)")


@contextlib.contextmanager
def untraced():
    """Let nothing be noted for some time."""
    before, here.tracer = current(), None
    try:
        with region(tracing=False, function_modes=()):
            yield
    finally:
        here.tracer = before


def current():
    """Return the tracer at work in this thread, None if there is none."""
    return getattr(here, "tracer", None)


class Integer(int):
    """An integer of a traced program that follows from sizes: `tree` says how."""

    def __new__(cls, value, tree):
        traced = super().__new__(cls, value)
        traced.tree = tree
        return traced

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return int, (int(self),)


class Sizes(plugrad.Size):
    """The sizes of a traced tensor: a Size that keeps Integers."""

    def __new__(cls, values):
        return tuple.__new__(cls, values)

    def __add__(self, other):
        return Sizes(tuple.__add__(self, tuple(other)))

    def __radd__(self, other):
        return Sizes(tuple(other) + tuple(self))


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}


def _operator(name, sign):
    function = getattr(operator, name)

    def forward(self, other):
        if not isinstance(other, int):
            return getattr(int, f"__{name}__")(self, other)
        return Integer(function(int(self), int(other)), ["binary", sign, self.tree, _tree(other)])

    def reflected(self, other):
        if not isinstance(other, int):
            return getattr(int, f"__r{name}__")(self, other)
        return Integer(function(int(other), int(self)), ["binary", sign, _tree(other), self.tree])

    setattr(Integer, f"__{name}__", forward)
    setattr(Integer, f"__r{name}__", reflected)


def _tree(value):
    return value.tree if isinstance(value, Integer) else ["const", int(value)]


for _name, _sign in _SIGNS.items():
    _operator(_name, _sign)
Integer.__neg__ = lambda self: Integer(-int(self), ["unary", "-", self.tree])


def _warned(name, what):
    original = getattr(Tensor, name)

    def method(self, *args, **kwargs):
        tracer = current()
        if tracer is not None:
            tracer.looked_at(what)
        with untraced():
            return original(self, *args, **kwargs)

    return method


class Traced(Tensor):
    """A tensor of a traced program, for the time of the trace."""

    @property
    def shape(self):
        """The sizes, of which the trace knows that they are."""
        sizes = Tensor.shape.__get__(self)
        tracer = current()
        if tracer is None:
            return sizes
        return Sizes([tracer.size(self, axis, size) for axis, size in enumerate(sizes)])

    def size(self, dim=None):
        """Return the sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self):
        """Return the number of elements."""
        tracer = current()
        count = Tensor.numel(self)
        return count if tracer is None else tracer.number(self, count)

    nelement = numel

    def detach(self):
        """Return the tensor without its history; the call is noted."""
        return _noted(self, "detach")

    def detach_(self):
        """Take the history off; the call is noted."""
        return _noted(self, "detach_")

    def requires_grad_(self, requires_grad=True):
        """Set whether gradients are wanted; the call is noted."""
        return _noted(self, "requires_grad_", requires_grad)

    @property
    def data(self):
        """The tensor without its history."""
        return self.detach()

    __bool__ = _warned("__bool__", "a Python boolean")
    __int__ = _warned("__int__", "a Python integer")
    __float__ = _warned("__float__", "a Python float")
    __index__ = _warned("__index__", "a Python index")
    item = _warned("item", "a Python number")
    tolist = _warned("tolist", "a Python list")
    numpy = _warned("numpy", "a NumPy array")


def _noted(tensor, name, *args):
    function, tracer = getattr(Tensor, name), current()
    if tracer is None:
        return function(tensor, *args)
    return tracer.call(function, (tensor, *args), {}, name=f"Tensor.{name}")
