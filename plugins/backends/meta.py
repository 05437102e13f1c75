"""The meta device: shapes, strides and dtypes without data."""

from __future__ import annotations

from plugrad.extend import SymbolicBackend, hookimpl


class MetaArray:
    """A shape, strides and a dtype; `outline` is the NumPy array over one element that carries them."""

    __slots__ = ("outline", "base", "__weakref__")

    def __init__(self, outline, base=None):
        self.outline, self.base = outline, base

    shape = property(lambda self: self.outline.shape)
    strides = property(lambda self: self.outline.strides)
    dtype = property(lambda self: self.outline.dtype)
    ndim = property(lambda self: self.outline.ndim)
    size = property(lambda self: self.outline.size)
    itemsize = property(lambda self: self.outline.itemsize)
    flags = property(lambda self: self.outline.flags)

    def astype(self, dtype):
        """Return elements of another dtype, in the same order of dimensions."""
        return META.empty(self.shape, dtype, (self,))

    def copy(self):
        """Return another array of the same shape and dtype, in the same order of dimensions."""
        return META.empty(self.shape, self.dtype, (self,))

    def __repr__(self):
        return f"MetaArray({self.shape}, {self.dtype})"


class Meta(SymbolicBackend):
    """Shape rules instead of kernels."""

    name = "meta"
    array_type = MetaArray

    def outline(self, array):
        return array.outline

    def from_outline(self, outline, base=None):
        return MetaArray(outline, base)

    def to_numpy(self, array):
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! A module is given memory by `module.to_empty(device='cpu')`"
        )


META = Meta()


@hookimpl
def plugrad_backends():
    return [META]
