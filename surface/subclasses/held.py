"""Tensors whose data is an array object of its own, such as sparse ones: how they are made, and asked for a rule."""

from __future__ import annotations

import numpy

import plugrad
from plugrad import registry
from plugrad.extend import from_raw
from plugrad.graph import rare
from plugrad.tensor.overriding import watch_classes


class HeldArray:
    """What makes the data of such tensors like an array, as far as its `values` say; a pattern has none."""

    __array_priority__ = 2000  # before NumPy's own arrays and scalars
    strides = ()  # gradients have the order that they come in
    values: object = None

    @property
    def home(self) -> str:
        """The device type that the values are on."""
        return from_raw(self.values).device.type

    @property
    def base(self):
        """Whose memory it is: never its own, so that whoever wants to write, as to a `.grad`, copies it first."""
        return self.values

    @property
    def dtype(self):
        """The dtype of the values."""
        return self.values.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one value."""
        return self.values.itemsize

    def astype(self, dtype):
        """Return an array with values of another dtype."""
        return self.with_values(self.values.astype(dtype))


def adds_to_dense(self, ufunc, method, *inputs, out=None, **options):
    """Add to a dense array, in place too: the `__array_ufunc__` of what gradients of ordinary ops are added to."""
    if ufunc is not numpy.add or method != "__call__":
        return NotImplemented
    dense = inputs[0] if inputs[1] is self else inputs[1]
    if out is None:
        return self + dense
    self.add_to(out[0])
    return out[0]


class Held:
    """Copies of tensors whose data is such an array: named before Tensor among the bases."""

    __slots__ = ()

    def detach(self):
        """Return a tensor of the same data without history."""
        return from_raw(self._raw)

    @property
    def data(self):
        """A tensor of the same data without history."""
        return from_raw(self._raw)

    @data.setter
    def data(self, value):
        rare.check_data(self, value)
        self._raw, self._type = value._raw, value._type

    def __copy__(self):
        return from_raw(self._raw).requires_grad_(self.requires_grad)

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user support the deepcopy protocol: detach() it")
        copied = memo[id(self)] = from_raw(self._raw.copy()).requires_grad_(self.requires_grad)
        if self.grad is not None:
            copied._grad = self.grad.__deepcopy__(memo)
        return copied


def name_of(function) -> str:
    """Return the name under which an intercepted function has a rule."""
    op = getattr(function, "__op__", None)
    return function.__name__ if op is None else op.name


def tensor_around(cls, array, ttype):
    """Return a tensor of a class around an array object; `ttype` is the type of ordinary tensors like it."""
    tensor = object.__new__(cls)
    tensor._raw, tensor._type, tensor._edge, tensor._view = array, ttype.variant(), None, None
    watch_classes()
    return tensor


def take_over(target, result):
    """Give a tensor that is written in place the data and the history of a result; return the tensor."""
    target._raw, target._type, target._edge = result._raw, result._type, result._edge
    return target


# Elementwise functions whose records do not say that they broadcast: composites of others.
ELEMENTWISE = frozenset(
    "positive div_rounded nan_to_num float_power isclose true_divide celu selu square conj_physical angle sinc exp2 "
    "relu6 hardswish logsigmoid softsign rsub".split()
)


def is_elementwise(name, op=None) -> bool:
    """Whether an op computes each element of its result from the elements at that place."""
    base = name.removeprefix("functional_")
    if base in ELEMENTWISE:
        return True
    if op is None or base != name:
        op = registry.op(base) if base in registry.ops else None
    return op is not None and op.broadcasts


def writes_elements(name, op) -> bool:
    """Whether a name is that of the in-place form of an elementwise op."""
    if op is not None:  # a record of its own, for what is no in-place form of another
        return name.endswith("_in_place") and is_elementwise(name.removesuffix("_in_place"))
    return name.endswith("_") and not name.endswith("__") and is_elementwise(name[:-1])


def check_leaf(target) -> None:
    """Raise RuntimeError for a leaf that requires grad, which is about to be written."""
    if target.requires_grad and target.is_leaf and plugrad.is_grad_enabled():
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
