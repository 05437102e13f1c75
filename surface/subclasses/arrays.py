"""The data of wrappers: arrays of a shape and a dtype without elements, and the tensors around them."""

from __future__ import annotations

import copy

import numpy

import plugrad
from plugrad import Tensor
from plugrad.devices.device import TensorType
from plugrad.tensor.layouts import strided
from plugrad.tensor.overriding import watch_classes
from plugrad.tensor.tensor import tensor_of

_OF_TENSORS = ("_hooks", "_post_accumulate_grad_hooks", "_tangents", "_inference", "_levels")  # not the class's own
_types: dict = {}  # (device, dtype) -> the type of wrappers


class WrapperArray(numpy.ndarray):
    """An array that has shape, dtype and strides, and no memory to read or write.

    `state` is what the tensor around it had for attributes when it was saved for backward.
    """

    home = "cpu"  # the device type whose backend answers for these arrays
    steps: tuple | None = None
    state: tuple | None = None

    @classmethod
    def of(cls, shape, dtype, steps=None):
        """Return an array of a shape; `steps` are its strides in elements, row-major ones if None."""
        array = numpy.broadcast_to(numpy.zeros((), dtype), shape).view(cls)
        array.steps = tuple(steps) if steps is not None else tuple(_row_major(array.shape))
        return array

    @property
    def strides(self):
        """The steps between elements in bytes, as the class declared them."""
        return tuple(step * self.itemsize for step in self.steps)

    def _refuse(self, *args, **kwargs):
        raise RuntimeError(
            "Cannot access data pointer of Tensor that doesn't have storage: its class computes by __torch_dispatch__, "
            "which must handle this op, and holds the elements in tensors of its own"
        )

    __array_ufunc__ = __array_function__ = __getitem__ = __setitem__ = copy = astype = tolist = tobytes = item = _refuse
    __array__ = view_as = reshape = transpose = _refuse

    def alike(self):
        """Return another array of the same form, for a copy of the tensor."""
        return WrapperArray.of(self.shape, self.dtype, self.steps)

    # ------------------------------------------------------------------------------------------ what is saved

    def captured(self, tensor):
        """Return an array for the tensor as it is now, with its class and attributes."""
        array = WrapperArray.of(self.shape, self.dtype, self.steps)
        attributes = attributes_of(tensor)
        held = [value for value in attributes.values() if isinstance(value, Tensor)]
        array.state = type(tensor), tensor._type, attributes, [(one, one._version) for one in held]
        return array

    def tensor(self):
        """Return the tensor that was captured, without history."""
        if self.state is None:
            self._refuse()
        cls, ttype, attributes, versions = self.state
        for one, version in versions:
            if one._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"a {cls.__name__} of shape {list(self.shape)} holds a tensor at version {one._version}, expected "
                    f"version {version} instead; clone() it before it is written"
                )
        return around(cls, self, ttype, attributes)


def attributes_of(tensor) -> dict:
    """Return the attributes that a tensor's class gave it, in slots too."""
    return {name: value for name, value in vars(tensor).items() if name not in _OF_TENSORS} | _slots_of(tensor)


def _slots_of(tensor) -> dict:
    attributes = {}
    for cls in type(tensor).__mro__:
        slots = vars(cls).get("__slots__", ()) if issubclass(cls, Tensor) and cls is not Tensor else ()
        names = [name for name in ((slots,) if isinstance(slots, str) else slots) if hasattr(tensor, name)]
        attributes |= {name: getattr(tensor, name) for name in names}
    return attributes


def copy_slots(tensor, copied, memo) -> None:
    """Give a deep copy of a tensor what its class keeps in slots."""
    for name, value in _slots_of(tensor).items():
        if not hasattr(copied, name):
            setattr(copied, name, copy.deepcopy(value, memo))


def _row_major(shape):
    steps, step = [], 1
    for n in reversed(shape):
        steps.append(step)
        step *= max(n, 1)
    return steps[::-1]


def around(cls, array, ttype, attributes):
    """Return an instance of a subclass around an array, with some attributes."""
    tensor = object.__new__(cls)
    tensor._raw, tensor._type, tensor._edge, tensor._view = array, ttype, None, None
    for name, value in attributes.items():
        setattr(tensor, name, value)
    return tensor


tensor_of[WrapperArray] = WrapperArray.tensor


def _type(device, dtype):
    """Return the type of wrappers that say they are on a device: a variant without data."""
    known = _types.get((device, dtype))
    if known is None:
        plain = device.tensor_type(dtype.numpy)
        known = _types[device, dtype] = TensorType(device, dtype, plain)
        known.symbolic = known.rare = True
    return known


def make_wrapper_subclass(
    cls, size, strides=None, storage_offset=None, memory_format=None, dtype=None, layout=strided, device=None,
    pin_memory=False, requires_grad=False, dispatch_sizes_strides_policy=None, dispatch_device=False,
    dispatch_layout=False, _extra_dispatch_keys=None, storage_size=None,
):  # fmt: skip
    """Return a tensor of a subclass that has no elements: the class holds them in tensors of its own.

    Args:
        cls: a subclass of Tensor that defines `__torch_dispatch__`.
        size: its shape.
        strides: in elements; row-major ones if None.
        dtype: of the elements, the default dtype if None.
        device: where the tensor says that it is; the CPU if None.
        requires_grad: whether it is a leaf that requires a gradient.

    The other arguments are PyTorch's; nothing depends on them. Raises RuntimeError for a class without
    `__torch_dispatch__`, TypeError for what is no subclass of Tensor.
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"_make_wrapper_subclass: cls must be a subclass of torch.Tensor, not {cls!r}")
    if not hasattr(cls, "__torch_dispatch__"):
        raise RuntimeError(f"{cls.__name__} must define __torch_dispatch__ to be a wrapper: that is what computes")
    if layout is not strided:
        raise NotImplementedError(f"wrappers are strided tensors here, got layout={layout}")
    dtype = plugrad.get_default_dtype() if dtype is None else dtype
    array = WrapperArray.of(tuple(int(n) for n in size), dtype.numpy, strides)
    tensor = around(cls, array, _type(plugrad.device("cpu" if device is None else device), dtype), {})
    watch_classes(dispatches=True)
    return tensor.requires_grad_(requires_grad)
