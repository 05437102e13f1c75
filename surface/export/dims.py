"""Sizes that may vary: `Dim`, what `dynamic_shapes` says, and what an exported program checks of its inputs."""

from __future__ import annotations

import dataclasses

from plugrad import Tensor, nest, nn
from plugrad.torch_modules.dynamo import UserError

__all__ = ["Dim", "Guards", "ValueRange", "axes_of", "dims"]

ENDLESS = 1 << 62


class _Hint:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"DimHint({self.name})"


class Dim:
    """A size that may vary, by its name: the same one wherever the name stands.

    Args:
        name: of the size.
        min, max: between which it is.

    `Dim.AUTO`, `Dim.DYNAMIC` and `Dim.STATIC` are sizes without a name; AUTO varies where the program allows it. A
    multiple of a Dim plus a number (`2 * batch + 1`) is a size, too.

    >>> from plugrad.export import Dim
    >>> Dim("batch", max=64), 2 * Dim("length") + 1
    (Dim('batch', max=64), 2*length + 1)
    """

    AUTO, DYNAMIC, STATIC = _Hint("AUTO"), _Hint("DYNAMIC"), _Hint("STATIC")

    def __init__(self, name, *, min=None, max=None):
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"Dim name must be a valid identifier, got {name!r}")
        self.__name__, self.min, self.max = name, 0 if min is None else min, ENDLESS if max is None else max
        if self.max <= self.min:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        self.root, self.factor, self.offset = self, 1, 0

    def _derived(self, factor, offset):
        derived = object.__new__(Dim)
        derived.__name__, derived.root = str(self.root.__name__), self.root
        derived.factor, derived.offset = factor, offset
        derived.min, derived.max = self.root.min, self.root.max
        return derived

    def __add__(self, other):
        return self._derived(self.factor, self.offset + other)

    def __sub__(self, other):
        return self + -other

    def __mul__(self, other):
        if not isinstance(other, int) or other <= 0:
            raise NotImplementedError("a Dim is multiplied by a positive integer")
        return self._derived(self.factor * other, self.offset * other)

    __radd__, __rmul__ = __add__, __mul__

    def __repr__(self):
        name = self.root.__name__
        if self.root is self:
            low, high = f", min={self.min}" if self.min else "", f", max={self.max}" if self.max != ENDLESS else ""
            return f"Dim({name!r}{low}{high})"
        scaled = f"{self.factor}*{name}" if self.factor != 1 else name
        return f"{scaled} + {self.offset}" if self.offset else scaled


def dims(*names, min=None, max=None) -> tuple:
    """Return a Dim for each name."""
    return tuple(Dim(name, min=min, max=max) for name in names)


@dataclasses.dataclass(frozen=True)
class ValueRange:
    """Between which numbers a size is."""

    lower: int
    upper: int

    def __repr__(self):
        return f"VR[{self.lower}, {'int_oo' if self.upper == ENDLESS else self.upper}]"


def axes_of(rows, shapes) -> list:
    """Return [{axis: Dim}] for each tensor of the inputs, as `dynamic_shapes` says; hints became Dims of their own.

    Args:
        rows: [(name, example)].
        shapes: a dict by names of arguments, or a tuple or list in their order, or None.
    """
    names = [name for name, _ in rows]
    if shapes is None:
        shapes = {}
    elif isinstance(shapes, dict):
        if sorted(shapes) != sorted(names):
            raise UserError(
                f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names {names} of "
                f"`inputs`, but here they are {list(shapes)}. Alternatively, you could also ignore arg names "
                "entirely and "
                "specify `dynamic_shapes` as a list/tuple matching `inputs`."
            )
    elif isinstance(shapes, (tuple, list)):
        if len(shapes) != len(names):
            raise UserError(f"`dynamic_shapes` has {len(shapes)} items for {len(names)} inputs")
        shapes = dict(zip(names, shapes))
    else:
        raise UserError(f"`dynamic_shapes` is a dict, tuple or list, not {type(shapes).__name__}")
    sizes: list = []
    for name, example in rows:
        _collect(example, shapes.get(name), name, sizes)
    return sizes


def _collect(example, shape, path, sizes):
    if isinstance(example, Tensor):
        sizes.append(_axes(example, shape, path, len(sizes)))
    elif isinstance(example, dict):
        for key, one in example.items():
            _collect(one, shape.get(key) if isinstance(shape, dict) else None, f"{path}[{key!r}]", sizes)
    elif isinstance(example, (tuple, list)):
        inner = shape if isinstance(shape, (tuple, list)) else [None] * len(example)
        for i, (one, item) in enumerate(zip(example, inner)):
            _collect(one, item, f"{path}[{i}]", sizes)


def _axes(example, shape, path, number) -> dict:
    if shape is None:
        return {}
    if isinstance(shape, (tuple, list)):
        shape = dict(enumerate(shape))
    if not isinstance(shape, dict):
        raise UserError(f"the shape of {path} is a dict from axes to Dims, or a tuple of them, not {shape!r}")
    axes = {}
    for axis, dim in shape.items():
        if not isinstance(axis, int) or not -example.ndim <= axis < example.ndim:
            raise UserError(f"{path} has {example.ndim} axes, and no axis {axis!r}")
        axis %= example.ndim
        if isinstance(dim, _Hint) and dim is not Dim.STATIC:
            derived = Dim(f"s{number}_{axis}")
            derived.is_auto = dim is Dim.AUTO
            axes[axis] = derived
        elif isinstance(dim, Dim):
            axes[axis] = dim
        elif isinstance(dim, int) and not isinstance(dim, bool) and dim != example.shape[axis]:
            raise UserError(f"{path} has size {example.shape[axis]} in axis {axis}, not {dim}")
    return axes


class Guards(nn.Module):
    """Checks the shapes of the inputs of an exported program, and the values of those that are no tensors.

    Args:
        specs: for each tensor (path of it, [size or Dim]), for other inputs (path, (value,)).
    """

    def __init__(self, specs):
        super().__init__()
        self.specs = specs

    def forward(self, *args):
        leaves, later = list(nest.leaves(args)), []
        values: dict = {}
        if len(leaves) != len(self.specs):
            raise AssertionError(f"Guard failed: {len(self.specs)} inputs are expected, and there are {len(leaves)}")
        for (path, sizes), tensor in zip(self.specs, leaves):
            if isinstance(sizes, tuple) and (type(tensor), tensor) != (type(sizes[0]), sizes[0]):
                raise AssertionError(f"Guard failed: {path} == {sizes[0]!r}, and it is {tensor!r}")
            if isinstance(sizes, tuple):
                continue
            if not isinstance(tensor, Tensor):
                raise AssertionError(f"Guard failed: {path} is a tensor, and it is {tensor!r}")
            if tensor.ndim != len(sizes):
                raise AssertionError(f"Guard failed: {path}.ndim == {len(sizes)}, and it is {tensor.ndim}")
            for axis, (wanted, size) in enumerate(zip(sizes, tensor.shape)):
                where = f"{path}.size()[{axis}]"
                if not isinstance(wanted, Dim):
                    if size != wanted:
                        raise AssertionError(f"Guard failed: {where} == {wanted}, and it is {size}")
                    continue
                later.append((where, wanted, size))
        for where, wanted, size in later:
            root, rest = wanted.root, (size - wanted.offset) % wanted.factor
            value = (size - wanted.offset) // wanted.factor
            if rest or values.setdefault(root.__name__, value) != value:
                raise AssertionError(f"Guard failed: {where} == {wanted!r}, and it is {size}")
            if not root.min <= value <= root.max:
                bound = f">= {root.min}" if value < root.min else f"<= {root.max}"
                raise AssertionError(f"Guard failed: {where} {bound}, and it is {size}")
