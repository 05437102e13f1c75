"""Parameter and Buffer: the tensors that a Module finds by assignment."""

from __future__ import annotations

from plugrad import needs
from plugrad.registry.namespaces import lazy_names
from plugrad.tensor.copies import attributes_of
from plugrad.tensor.overriding import disabled
from plugrad.tensor.tensor import Tensor

__all__ = ["Parameter", "Buffer"]
__getattr__, __dir__ = lazy_names(globals(), None, {
    "nn.lazy": "UninitializedBuffer UninitializedParameter UninitializedTensorMixin is_lazy",
})  # fmt: skip


class _MarkedType(type(Tensor)):
    """Makes isinstance() accept tensors of other classes that carry a mark."""

    def __instancecheck__(cls, instance):
        if type.__instancecheck__(cls, instance):
            return True
        mark = cls.__dict__.get("_mark")  # subclasses inherit no mark: they mean their own instances only
        return mark is not None and isinstance(instance, Tensor) and getattr(instance, mark, False)


class Parameter(Tensor, metaclass=_MarkedType):
    """A tensor to be learned: assigning it to a Module registers it there.

    Args:
        data: its values, shared and not copied; None gives an empty tensor.
        requires_grad: whether gradients are collected.

    A tensor of a class of its own keeps that class and is marked, so that ``isinstance(t, Parameter)`` holds.

    >>> import plugrad as torch
    >>> torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    _mark = "_is_param"
    __torch_function__ = disabled  # results of ops are Tensors

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = needs.op("empty").function(0)
        if type(data) in (Tensor, Parameter, cls):
            return Tensor._make_subclass(cls, data, requires_grad)
        marked = _detached(data, cls).requires_grad_(requires_grad)
        if type(marked) is not getattr(data, "detached_type", type(data)):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that"
                " detach() returns an instance of the same type, but it returned a"
                f" {type(marked).__name__}; give {type(data).__name__} a detach() that keeps its type, or"
                " pass data.as_subclass(Tensor)"
            )
        marked._is_param = True
        return marked

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = self.__class__(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol):
        cls = None if self.__class__ is Parameter else self.__class__
        return _rebuild_parameter, (cls, self.data, self.requires_grad, attributes_of(self))


def _detached(data, cls):
    if not hasattr(data, "detach"):
        what = type(data).__name__
        raise AttributeError(f"{what!r} object has no attribute 'detach': {cls.__name__}(data) takes a tensor as data")
    return data.detach()


def _rebuild_parameter(cls, data, requires_grad, attributes):
    """Make a Parameter again from what a pickle holds."""
    parameter = Parameter.__new__(cls or Parameter, data, requires_grad)
    if attributes:
        parameter.__dict__.update(attributes)
    return parameter


class Buffer(Tensor, metaclass=_MarkedType):
    """A tensor that is state but not learned: assigning it to a Module registers it.

    Args:
        data: its values, shared and not copied; None gives an empty tensor.
        persistent: whether it is part of the module's ``state_dict``.

    The result is an ordinary tensor with a mark, for which ``isinstance(t, Buffer)`` holds.

    >>> import plugrad as torch
    >>> class Counter(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.calls = torch.nn.Buffer(torch.zeros(1))
    >>> list(Counter().state_dict())
    ['calls']
    """

    _mark = "_is_buffer"

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = needs.op("empty").function(0)
        buffer = _detached(data, cls).requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer
