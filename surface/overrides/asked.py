"""What is no op and yet asks a class that overrides ops: properties of its tensors, and methods that return no tensor.

Such a class gets them when its first tensor is made, each in the place of Tensor's own; so other tensors, whose
properties are read all the time, pay nothing. What the class itself defines stays. Inside of `__torch_function__` they
are Tensor's own again.
"""

from __future__ import annotations

import functools

from plugrad import Tensor
from plugrad.overrides import ask_classes, is_asked
from plugrad.tensor.tensor import as_class

PROPERTIES = tuple(
    """
    H T data device dtype grad grad_fn imag is_cpu is_cuda is_leaf is_meta is_mkldnn is_mps is_nested is_quantized
    is_sparse is_sparse_csr is_xla is_xpu itemsize layout mH mT name nbytes ndim output_nr real requires_grad
    retains_grad shape volatile _base _version __cuda_array_interface__
    """.split()
)
METHODS = tuple(
    """
    __array__ __bool__ __complex__ __contains__ __deepcopy__ __dir__ __float__ __format__ __index__ __int__ __len__
    __repr__ __reversed__ data_ptr detach_ dim element_size get_device is_complex is_contiguous
    is_floating_point is_inference is_set_to is_shared is_signed item ndimension nelement numel numpy register_hook
    register_post_accumulate_grad_hook requires_grad_ retain_grad size storage storage_offset stride tolist
    untyped_storage
    """.split()
)
FROM_ROOMS = tuple(  # methods that stand in rooms, which a class need not import before it is used so
    """
    __dlpack__ __dlpack_device__ _indices _nnz _values apply_ ccol_indices coalesce col_indices const_data_ptr
    crow_indices dense_dim dim_order hpu indices ipu is_coalesced is_conj is_distributed is_neg is_nonzero is_pinned
    is_same_size map2_ map_ mtia pin_memory resize resize_as resize_as_sparse_ row_indices share_memory_ sparse_dim
    sparse_mask storage_type to_sparse values xpu
    """.split()
)
_CONVERTED = ("data",)  # the properties that are tensors, and no ops


class Converted:
    """Stands in a class that overrides nothing itself for a property of Tensor: what it gives is of the class, too."""

    def __init__(self, name):
        self.name = name

    def __get__(self, instance, owner=None):
        own = getattr(Tensor, self.name)
        if instance is None:
            return own
        return self.given(own, instance, owner) if is_asked(owner) else own.__get__(instance)

    def given(self, own, instance, owner):
        """Return what a class that is asked now gives."""
        return as_class(own.__get__(instance), owner)

    def __set__(self, instance, value):
        getattr(Tensor, self.name).__set__(instance, value)

    def __delete__(self, instance):
        getattr(Tensor, self.name).__delete__(instance)


class Asked(Converted):
    """Stands in a class for a property of Tensor; whoever reads or sets it asks the class."""

    def given(self, own, instance, owner):
        return ask_classes(own.__get__, (instance,), {})

    def __set__(self, instance, value):
        own = getattr(Tensor, self.name)
        ask_classes(own.__set__, (instance, value), {}) if is_asked(type(instance)) else own.__set__(instance, value)


class AskedMethod:
    """Stands in a class for a method of Tensor that is looked up when it is first used; whoever calls it asks."""

    def __init__(self, name):
        self.name = name

    def __get__(self, instance, owner=None):
        own = getattr(Tensor, self.name)
        if instance is None or not is_asked(owner):
            return own.__get__(instance, owner)
        return functools.wraps(own)(lambda *args, **kwargs: ask_classes(own, (instance, *args), kwargs))


def asks_for_all(value) -> bool:
    """Whether something is a tensor of a class that is asked about methods and properties, too."""
    return getattr(type(value), "_is_asked_for_all", False) and is_asked(type(value))


@functools.cache
def get_default_nowrap_functions() -> set:
    """Return the functions whose results `__torch_function__` leaves as they are.

    >>> import plugrad as torch
    >>> torch.Tensor.grad.__get__ in torch.overrides.get_default_nowrap_functions()
    True
    """
    return {Tensor._base.__get__, Tensor.grad.__get__}


def asking(name):
    """Return the method that asks the class of a tensor before it does what Tensor's does."""
    own = getattr(Tensor, name)

    @functools.wraps(own)
    def method(self, *args, **kwargs):
        if is_asked(type(self)):
            return ask_classes(own, (self, *args), kwargs)
        return own(self, *args, **kwargs)

    return method


def ask(cls) -> None:
    """Have a subclass of Tensor asked about properties and methods that are no ops, once.

    plugrad's own kinds of tensors are not: they define what differs.
    """
    if "_is_asked_for_all" in vars(cls) or cls.__module__.startswith("plugrad."):
        return
    above = cls.__mro__[: cls.__mro__.index(Tensor)]
    theirs = {name for one in above for name in vars(one)}
    overrides = getattr(cls.__torch_function__, "__func__", None) is not Tensor.__torch_function__.__func__
    cls._is_asked_for_all = overrides
    for name in (PROPERTIES if overrides else _CONVERTED):
        if name not in theirs and hasattr(getattr(Tensor, name, None), "__set__"):
            setattr(cls, name, (Asked if overrides else Converted)(name))
    for names, method in ((METHODS, asking), (FROM_ROOMS, AskedMethod)) if overrides else ():
        for name in {*names} - theirs:
            setattr(cls, name, method(name))
