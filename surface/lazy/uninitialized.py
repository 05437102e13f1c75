"""Tensors without a shape: they can be moved and cast, and become ordinary ones when they are given a shape."""

from __future__ import annotations

import plugrad
from plugrad import Tensor
from plugrad._C import DisableTorchFunctionSubclass
from plugrad.nn import Parameter

# What may be asked of a tensor that has no values, by name: functions and methods of one name mean the same.
_ALLOWED = {
    "__hash__", "size", "copy_", "is_complex", "is_floating_point", "half", "float", "double", "bfloat16", "char",
    "short", "int", "long", "cuda", "cpu", "to", "type", "get_device", "requires_grad_", "__get__", "__set__",
}  # fmt: skip


class UninitializedTensorMixin:
    """What parameters and buffers without a shape share.

    A class of your own gives ``cls_to_become``.
    """

    cls_to_become: type

    def materialize(self, shape, device=None, dtype=None) -> None:
        """Give the tensor a shape, in place: it becomes ordinary, with undefined values.

        Args:
            shape: its sizes, or one number.
            device, dtype: where and of which type; those that it has by default.
        """
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self._become(self.cls_to_become, plugrad.empty(shape, device=device, dtype=dtype))

    def _become(self, cls, data):
        self.data = data
        self.__class__ = cls
        self._type = data._type

    @property
    def shape(self):
        """Raise RuntimeError: there is none yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer: it gets one in the first forward of its "
            "module. Most often a state_dict is loaded that was saved before that; call the model that it comes from "
            "once before state_dict()"
        )

    def _refuse(self, *args, **kwargs):
        """Raise ValueError."""
        raise _error("its size", type(self))

    numel = nelement = dim = stride = item = tolist = numpy = _refuse

    def share_memory_(self):
        """Raise RuntimeError: there is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer: call the model once before "
            "`module.share_memory()`"
        )

    def detach(self):
        """Return the tensor itself: it has no history, and no data to share."""
        return self

    def clone(self):
        """Return a tensor like this one; copied back, it takes what this one got since."""
        copied = self.__deepcopy__({})
        copied._original = self
        return copied

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            data = self.data
            memo[id(self)] = type(self)(requires_grad=self.requires_grad, device=data.device, dtype=data.dtype)
            memo[id(self)].__dict__.update({k: v for k, v in self.__dict__.items() if k != "_original"})
        return memo[id(self)]

    def __repr__(self):
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol):
        return _rebuild, (type(self), self.requires_grad, str(self.data.device), self.data.dtype, dict(self.__dict__))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name == "copy_" and len(args) > 1 and getattr(args[1], "_original", None) is args[0]:
            lazy = args[1]  # what load_state_dict puts back after an error
            UninitializedTensorMixin._become(args[0], type(lazy), lazy.data)
            args[0]._type = lazy._type
            return args[0]
        if name not in _ALLOWED:
            raise _error(name or func, cls)
        with DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return cls._like(args[0], result) if type(result) is Tensor else result

    @classmethod
    def _like(cls, lazy, converted):
        """Return what a cast or move of an uninitialised tensor gives; that of a parameter is its new data."""
        return converted


def _error(what, cls) -> ValueError:
    return ValueError(
        f"Attempted to use an uninitialized parameter in {what}: it has no shape before the first forward of its lazy "
        "module. Call the model once, with a batch like those to come, before its parameters are used, or "
        f"{cls.__name__}.materialize(shape)"
    )


def _rebuild(cls, requires_grad, device, dtype, attributes):
    lazy = cls(requires_grad=requires_grad, device=device, dtype=dtype)
    lazy.__dict__.update(attributes)
    return lazy


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet.

    Args:
        requires_grad: whether gradients will be collected.
        device, dtype: where and of which type it will be.

    It can be moved, cast, and given a shape by ``materialize``. Everything else raises ValueError, and its ``shape``
    RuntimeError. Optimizers take it: it is the same object when it has its values.

    >>> import plugrad as torch
    >>> weight = torch.nn.UninitializedParameter()
    >>> weight
    <UninitializedParameter>
    >>> weight.materialize((2, 3))
    >>> type(weight).__name__, weight.shape
    ('Parameter', torch.Size([2, 3]))
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return Tensor._make_subclass(cls, plugrad.empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet; see UninitializedParameter.

    Args:
        requires_grad: whether gradients will be collected.
        device, dtype: where and of which type it will be.
        persistent: whether it is part of the module's ``state_dict``.
    """

    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        lazy = Tensor._make_subclass(cls, plugrad.empty(0, device=device, dtype=dtype), requires_grad)
        lazy.persistent = persistent
        lazy._is_buffer = True
        return lazy

    @classmethod
    def _like(cls, lazy, converted):
        return cls(lazy.requires_grad, converted.device, converted.dtype, lazy.persistent)


def is_lazy(param) -> bool:
    """Whether something is a parameter or buffer without a shape.

    >>> import plugrad as torch
    >>> torch.nn.parameter.is_lazy(torch.nn.LazyLinear(2).weight)
    True
    """
    return isinstance(param, UninitializedTensorMixin)
