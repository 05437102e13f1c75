"""Padding: constant, zeros, mirrored, repeated, and around the corner; in one, two and three dimensions."""

from __future__ import annotations

from plugrad.extend import Module, collect, hookimpl
from plugrad.nn import functional as F

from ._common import per_dimension


class _Pad(Module):
    """Padding in `n` dimensions; `mode` is that of nn.functional.pad."""

    n: int
    mode: str

    def __init__(self, padding):
        super().__init__()
        self.padding = per_dimension(padding, 2 * self.n)

    def forward(self, input):
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self):
        return str(self.padding)


class _ConstantPadNd(_Pad):
    mode = "constant"

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class _ReflectionPadNd(_Pad):
    mode = "reflect"


class _ReplicationPadNd(_Pad):
    mode = "replicate"


class _CircularPadNd(_Pad):
    mode = "circular"

    def forward(self, input):
        if input.ndim not in (self.n + 1, self.n + 2):
            raise ValueError(f"expected {self.n + 1}D or {self.n + 2}D input (got {input.ndim}D input)")
        return super().forward(input)


_FIRST_LINE = {
    "ConstantPad": "Add elements of one value to both sides of the last",
    "ZeroPad": "Add zeros to both sides of the last",
    "ReflectionPad": "Add the mirror image, without the edge, to both sides of the last",
    "ReplicationPad": "Repeat the edge on both sides of the last",
    "CircularPad": "Add to each side what is on the other side of the last",
}
_ORDER = {1: "(left, right)", 2: "(left, right, top, bottom)", 3: "(left, right, top, bottom, front, back)"}


def _class(prefix, n, base):
    """Return the class of one kind of padding in n dimensions."""
    dimensions = "dimension" if n == 1 else f"{n} dimensions"
    value = "\n    value: of the new elements." if base is _ConstantPadNd else ""
    doc = f"{_FIRST_LINE[prefix]} {dimensions}.\n\nArgs:\n    padding: one number, or {_ORDER[n]}.{value}\n"
    name = f"{prefix}{n}d"
    return type(name, (base,), {"n": n, "__doc__": doc, "__module__": __name__, "__qualname__": name})


ConstantPad1d, ConstantPad2d, ConstantPad3d = (_class("ConstantPad", n, _ConstantPadNd) for n in (1, 2, 3))
ZeroPad1d, ZeroPad2d, ZeroPad3d = (_class("ZeroPad", n, _ZeroPadNd) for n in (1, 2, 3))
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = (_class("ReflectionPad", n, _ReflectionPadNd) for n in (1, 2, 3))
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = (
    _class("ReplicationPad", n, _ReplicationPadNd) for n in (1, 2, 3)
)
CircularPad1d, CircularPad2d, CircularPad3d = (_class("CircularPad", n, _CircularPadNd) for n in (1, 2, 3))


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
