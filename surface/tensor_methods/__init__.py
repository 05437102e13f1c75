"""Methods of Tensor that are no ops and that few programs need: they are put into the class at their first use."""

from __future__ import annotations

import warnings

import numpy

import plugrad
from plugrad import Tensor, no_grad
from plugrad._C import DisableTorchFunctionSubclass
from plugrad.autograd import Function
from plugrad.autograd.graph import increment_version
from plugrad.legacy import REMOVED, from_arguments, removed
from plugrad.overrides import wrap_torch_function
from plugrad.queries import is_storage
from plugrad.storage import TypedStorage, memory_of, storage_class, tensor_over
from plugrad.subclasses import asked
from plugrad.tensor.layouts import lay_out
from plugrad.tensor.tensor import as_class, make


def __dir__(self):
    """Return the names of the attributes; not of places that nothing was written to, and of memory elsewhere."""
    places = {name for cls in type(self).__mro__ for name in cls.__dict__.get("__slots__", ()) if "__" not in name}
    places |= {"__array_interface__", "__cuda_array_interface__"}
    return [name for name in object.__dir__(self) if name not in places or hasattr(self, name)]


# ---------------------------------------------------------------------------------------------------- storages


def untyped_storage(self):
    """Return the memory under the tensor, as bytes.

    It is the same object for all tensors that share it.

    >>> import plugrad as torch
    >>> torch.ones(2).untyped_storage().nbytes()
    8
    """
    return memory_of(self)


def _typed_storage(self):
    return TypedStorage(wrap_storage=memory_of(self), dtype=self.dtype, _internal=True)


def storage(self):
    """Return the memory under the tensor, as elements of its dtype.

    `untyped_storage` is preferred.

    >>> import warnings, plugrad as torch
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.arange(4)[2:].storage().tolist()
    [0, 1, 2, 3]
    """
    return TypedStorage(wrap_storage=memory_of(self), dtype=self.dtype)


def storage_type(self):
    """Return the class of the tensor's storage, such as `torch.FloatStorage`."""
    return storage_class(self.dtype, self.device)


def const_data_ptr(self) -> int:
    """Return the address of the first element, to read there."""
    return self.data_ptr()


def set_(self, source=None, storage_offset=None, size=None, stride=None):
    """Have the tensor be another one, or a part of a storage; return it.

    Args:
        source: a tensor, whose memory it shares from then on, or a storage; None: an empty one.
        storage_offset, size, stride: which part, in elements.

    >>> import plugrad as torch
    >>> torch.zeros(2).set_(torch.arange(6.0), 1, (2, 2), (3, 1))
    tensor([[1., 2.],
            [4., 5.]])
    """
    place = [storage_offset, size, stride]
    if any(one is not None for one in place) and (source is None or None in place[:2]):
        raise TypeError(
            "set_() received an invalid combination of arguments: it takes a Tensor or a storage, alone or with an "
            "offset, such as 0, and a size, and then strides"
        )
    if isinstance(source, Tensor):
        _same(self, source.dtype, source)
        if size is None:
            if source.is_conj():
                raise RuntimeError("set_() of a conjugate, which has no memory of its own: write x.resolve_conj()")
            return _become(self, source)
        source = memory_of(source)
    elif source is None:
        return _become(self, plugrad.empty(0, dtype=self.dtype, device=self.device))
    elif not is_storage(source):
        raise TypeError(
            f"set_() received an invalid combination of arguments - got ({type(source).__name__}): it takes a Tensor "
            "or a storage, then an offset, sizes and strides"
        )
    dtype = getattr(source, "dtype", self.dtype)
    if dtype is not self.dtype:
        raise RuntimeError(
            f"Expected a Storage of type {self.dtype} or an UntypedStorage, but got type {dtype} for "
            "argument 1 'storage'"
        )
    _same(self, self.dtype, source)
    return _become(self, tensor_over(source, self.dtype, storage_offset or 0, size, stride))


def _same(tensor, dtype, source) -> None:
    if dtype is not tensor.dtype or source.device != tensor.device:
        what = f"{dtype} on {source.device}"
        raise RuntimeError(f"Could not set tensor of type {what} to a tensor of type {tensor.dtype} on {tensor.device}")


class NotImplementedSet(Function):
    """The history of a tensor that became another one: there is no gradient through that."""

    @staticmethod
    def forward(ctx, tensor, other):
        ctx.mark_dirty(tensor)
        return _share(tensor, other)

    @staticmethod
    def backward(ctx, g):
        raise RuntimeError("derivative for aten::set_ is not implemented: write it of x.detach(), or under no_grad()")


def _share(tensor, other):
    if asked(Tensor.set_, (tensor, other)):  # the class of a wrapper, whose elements are its own business
        return tensor
    increment_version(tensor)
    tensor._view = None
    tensor.data = other.detach()
    return tensor


def _become(tensor, other):
    if not plugrad.is_grad_enabled() or not (tensor.requires_grad or other.requires_grad):
        return _share(tensor, other)
    if tensor._is_view():
        of = "a view of a leaf Variable that requires grad" if tensor._base.is_leaf else "a view with a history"
        raise RuntimeError(f"{of} is being used in an in-place operation: set_() has no gradient, clone() it first")
    return NotImplementedSet.apply(tensor, other)


def is_pinned(self, device=None) -> bool:
    """Whether the tensor is in pinned host memory: see `pin_memory`."""
    if device is not None:
        plugrad.device(device)  # which refuses what is none
    return plugrad.cuda._pinned.is_pinned(self)


def pin_memory(self, device=None):
    """Return a copy in pinned host memory, from which CUDA devices copy.

    The tensor itself where it is pinned already, or there is no CUDA device.
    """
    return plugrad.cuda._pinned.pin(self)


def record_stream(self, stream) -> None:
    """Have the memory kept until what a stream has when the tensor is freed is done.

    CuPy gives memory back to the stream that it was asked for in, and knows nothing of others that use it.
    NotImplementedError for tensors that are not on CUDA devices.
    """
    plugrad.cuda.streams.record_stream(self, stream)


def is_shared(self) -> bool:
    """Always False: tensors live in the memory of one process."""
    return False


def share_memory_(self):
    """Return the tensor itself, which lives in the memory of one process."""
    if self.is_meta:
        raise RuntimeError("_share_fd_: only available on CPU: a meta tensor has no memory")
    return self


def is_set_to(self, other) -> bool:
    """Whether the other tensor is the same memory, seen in the same way."""
    same = self.is_same_size(other) and self.stride() == other.stride() and memory_of(self) is memory_of(other)
    return same and self.storage_offset() == other.storage_offset() and self.is_conj() == other.is_conj()


# ---------------------------------------------------------------------------------------------------- elements


def _applied(name, self, others, function):
    for position, other in enumerate(others, 1):
        which = "other" if len(others) == 1 else f"other{position}"
        if not isinstance(other, Tensor):
            raise TypeError(
                f"{name}(): argument '{which}' (position {position}) must be Tensor, not {type(other).__name__}"
            )
        if other.dtype is not self.dtype:
            raise TypeError(f"{name}: expected {self.type()} for '{which}' (got {other.type()})")
    for tensor in (self, *others):
        if tensor.requires_grad:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
            )
        if not tensor.is_cpu:
            raise TypeError(f"{name} is only implemented on CPU tensors")
    if not callable(function):
        raise TypeError(f"{type(function).__name__!r} object is not callable")
    lists = [tensor.expand_as(self).reshape(-1).tolist() for tensor in (self, *others)]
    results = [_number(self.dtype, function(*values)) for values in zip(*lists)]
    with no_grad():
        return self.copy_(plugrad.tensor(results, dtype=self.dtype).reshape(self.shape))


def _number(dtype, value):
    value = value.item() if isinstance(value, (Tensor, numpy.generic)) else value
    if not isinstance(value, (int, float, complex)):
        raise TypeError(f"the function must return a number, not {type(value).__name__}")
    integral = not (dtype.is_floating_point or dtype.is_complex)
    return int(value) if integral and isinstance(value, float) and dtype is not plugrad.bool else value


def apply_(self, callable):
    """Replace each element by `callable(element)`; return the tensor.

    >>> import plugrad as torch
    >>> torch.arange(3.0).apply_(lambda v: v * 2 + 1)
    tensor([1., 3., 5.])
    """
    return _applied("apply_", self, (), callable)


def map_(self, tensor, callable):
    """Replace elements by `callable(own, other's)`; return the tensor.

    >>> import plugrad as torch
    >>> torch.tensor([1.0, 5.0]).map_(torch.tensor([3.0, 3.0]), max)
    tensor([3., 5.])
    """
    return _applied("map_", self, (tensor,), callable)


def map2_(self, x, y, callable):
    """Replace elements by `callable(own, x's, y's)`; return the tensor."""
    return _applied("map2_", self, (x, y), callable)


_AMBIGUOUS = "The tensor does not have unique dim order, or cannot map to exact one of the given formats."


def dim_order(self, ambiguity_check=False) -> tuple:
    """Return the dimensions in memory's order, outermost first.

    Args:
        ambiguity_check: raise RuntimeError where more than one order fits; or a list of memory formats: where not
            exactly one of them fits.

    >>> import plugrad as torch
    >>> torch.empty(2, 3).t().dim_order()
    (1, 0)
    """
    formats = ambiguity_check if isinstance(ambiguity_check, list) else []
    if not isinstance(ambiguity_check, (bool, list)) or not all(isinstance(f, plugrad.memory_format) for f in formats):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    steps = self.stride()
    if ambiguity_check is True and (len(set(steps)) < len(steps) or 1 in self.shape):
        raise RuntimeError(_AMBIGUOUS)
    if formats and sum(self.is_contiguous(memory_format=f) for f in formats) != 1:
        raise RuntimeError(_AMBIGUOUS)
    return tuple(sorted(range(self.ndim), key=lambda d: (-steps[d], d)))


# ---------------------------------------------------------------------------------------------------- older forms


@wrap_torch_function(lambda self, *args, **options: (self, *args))
def new(self, *args, size=None, device=None):
    """Return a new tensor of this one's dtype: `new(2, 3)`, `new([1, 2])`.

    Older programs' form of `new_empty` and `new_tensor`; the device is this one's, too.

    >>> import plugrad as torch
    >>> torch.ones(2).new([1, 2])
    tensor([1., 2.])
    """
    if size is not None:
        if args:
            raise TypeError("new() takes sizes or data, or size=, not both; write new(2, 3) or new(size=(2, 3))")
        args = tuple(size)
    if device is not None and args and isinstance(args[0], Tensor):
        raise RuntimeError(
            "Legacy tensor new of the form tensor.new(tensor, device=device) is not supported. Use "
            "torch.as_tensor(...) instead."
        )
    return from_arguments(args, self.dtype, self.device if device is None else device, same_dtype=True)


@wrap_torch_function(lambda self, other, assign=False: (self, other))
def module_load(self, other, assign=False):
    """Return what `load_state_dict` puts in this tensor's place.

    With `assign` that is the other one, else this one with the other's values.
    Subclasses of Tensor override it by `__torch_function__`.
    """
    return other.detach() if assign else self.copy_(other).detach()


def as_subclass(self, cls):
    """Return a view of all of the tensor as an instance of a subclass of Tensor."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible: "
            f"as_subclass() got {cls.__name__ if isinstance(cls, type) else type(cls).__name__}"
        )
    if hasattr(type(self), "__torch_dispatch__") and isinstance(self, cls):  # which the call of an op would ask
        alias = make(lay_out(self)._raw, self._type.plain, self._live_edge())
        alias._view = self._view
    else:  # a view, so that writes to one of the two reach the other's history
        with DisableTorchFunctionSubclass():
            viewed = not self._type.symbolic and self.layout is plugrad.strided
            alias = Tensor.view(self, self.shape) if viewed else self
    return as_class(alias, cls)


def is_distributed(self) -> bool:
    """Always False: a tensor is in one process."""
    return False


def resize(self, *sizes):
    """Return the elements in another size; `reshape` is preferred."""
    warnings.warn("non-inplace resize is deprecated", UserWarning, stacklevel=2)
    return self.detach().clone().resize_(*sizes)


def resize_as(self, tensor):
    """Return the elements in another tensor's size; `reshape_as` is preferred."""
    warnings.warn("non-inplace resize_as is deprecated", UserWarning, stacklevel=2)
    return self.detach().clone().resize_as_(tensor)


def _of_no_device(name, error, message):
    def method(self, device=None, non_blocking=False, memory_format=None):
        raise error(message)

    method.__name__, method.__doc__ = name, f"Raise {error.__name__}: there are no such devices."
    return method


xpu = _of_no_device("xpu", AssertionError, "Torch not compiled with XPU enabled: write x.to(device)")
mtia = _of_no_device("mtia", AssertionError, "Torch not compiled with MTIA enabled: write x.to(device)")
ipu = _of_no_device("ipu", RuntimeError, "plugrad has no backend for ipu devices: write x.to(device)")
hpu = _of_no_device("hpu", RuntimeError, "plugrad has no backend for hpu devices: write x.to(device)")
globals().update((name, removed(name)) for name in REMOVED)
