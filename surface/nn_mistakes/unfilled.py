"""Memory that `Module.to_empty` made and nobody has filled since: its first read raises an error that names it.

A checkpoint does not hold buffers that are not persistent, so after meta -> to_empty -> load_state_dict they are what
was in memory before. Each tensor gets a class that sees its calls, by `__torch_function__`, until it is known to be
filled: by a call that writes to it, by a write to its storage, which the count of versions tells, or since it was given
other memory. From then on it is of its old class and takes the fast path again. Views, copies and moves of it are
watched as it is.

What is not seen: reads of the memory by its address. `numpy()` hands the memory out, so it counts as filled.
"""

from __future__ import annotations

from itertools import chain

import plugrad
from plugrad import Tensor
from plugrad._C import DisableTorchFunctionSubclass
from plugrad.nn import Parameter

# By name, since functions and methods of one name mean the same. What says nothing of values, and what hands them on:
SHAPES = {"size", "stride", "dim", "numel", "is_contiguous", "storage_offset", "is_same_size", "requires_grad_"}
SHAPES |= set("as_strided_ detach_ share_memory_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_".split())
# Methods that write without reading, if only to some elements; all others in place compute with what was there.
FILLS = set("""
    __setitem__ bernoulli_ cauchy_ copy_ exponential_ fill_ fill_diagonal_ geometric_ index_copy_ index_fill_ index_put_
    log_normal_ masked_fill_ masked_scatter_ normal_ put_ random_ resize_ resize_as_ scatter_ set_ uniform_ zero_
""".split())  # fmt: skip
COPIES = {"clone", "contiguous", "to", "type", "cpu", "cuda", "float", "double", "half", "bfloat16"}
ATTRIBUTE = "_unfilled"


class Memory:
    """Memory without values: what it is for, and how to tell that it was written; shared by all tensors in it."""

    __slots__ = ("name", "version", "storage", "filled")

    def __init__(self, name, tensor):
        self.name, self.version, self.storage, self.filled = name, tensor._version, _storage(tensor), False

    def is_filled(self, tensor) -> bool:
        """Whether a tensor that was in this memory has values by now."""
        return self.filled or tensor._version != self.version or _storage(tensor) is not self.storage

    def error(self) -> RuntimeError:
        """Return the error for a read."""
        return RuntimeError(
            f"{self.name} was never filled: to_empty() gave it memory without values, and nothing was loaded or "
            "written into it since. Load a state_dict that has it, or compute it as the module's __init__ does"
        )


class _Watched:
    """What the classes of unfilled tensors share."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        name = f"{name.removesuffix('_in_place')}_" if name.endswith("_in_place") else name
        target = kwargs.get("out", args[0] if args and _writes(name) else None)
        tensors = _tensors((*args, *kwargs.values()))
        read = [(tensor, memory) for tensor in tensors if tensor is not target and (memory := _memory(tensor))]
        if read and target is not None and name != "copy_":
            raise read[0][1].error()
        if target is not None and target is args[0] and name not in FILLS and (memory := _memory(target)):
            raise memory.error()
        with DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
        if not read:
            _fill(target)
        elif name == "copy_":  # of what has no values
            watch(target, read[0][1].name)
        elif not (name in SHAPES or name.endswith("_like") or name.startswith("new_")):
            try:
                _pass_on(name, *read[0], result)
            finally:
                for tensor, memory in read:  # which a call may also have written, as running averages: from nothing
                    memory.version = tensor._version
        return result

    @property
    def data(self):
        """The same memory, as unfilled as this."""
        return _join(Tensor.data.fget(self), _memory(self))

    @data.setter
    def data(self, value):
        Tensor.data.fset(self, value)
        memory = _memory(value) if isinstance(value, Tensor) else None
        _release(self) if memory is None else _join(self, memory)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memory, copied = _memory(self), Tensor.data.fget(self).clone()
            if isinstance(self, Parameter):
                copied = Parameter(copied, self.requires_grad)
            memo[id(self)] = copied if memory is None else watch(copied, memory.name)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return _readable(self).__reduce_ex__(protocol)

    def tolist(self):
        """Return the values as nested lists; RuntimeError if there are none."""
        return _readable(self).tolist()

    def item(self):
        """Return the only value; RuntimeError if there is none."""
        return _readable(self).item()

    def numpy(self, *args, **kwargs):
        """Return an array that shares the memory, which counts as filled from here on."""
        array = Tensor.numpy(self, *args, **kwargs)
        _fill(self)
        return array

    def __array__(self, *args, **kwargs):
        _fill(self)
        return self.__array__(*args, **kwargs)

    def __repr__(self, **options):
        memory = _memory(self)
        return repr(self) if memory is None else f"<{memory.name} of shape {tuple(self.shape)}, never filled>"

    __str__ = __repr__


class UnfilledTensor(_Watched, Tensor):
    """A tensor that was never filled."""


class UnfilledParameter(_Watched, Parameter):
    """A parameter that was never filled."""

    detached_type = UnfilledTensor  # so that Parameter(...) takes it: once filled, what it returns is a Parameter


CLASSES = {Tensor: UnfilledTensor, Parameter: UnfilledParameter}


def to_empty(self, *, device, recurse: bool = True):
    """Move to ``device`` without the values.

    What is then neither loaded nor written raises RuntimeError with its name when it is first read.
    """
    self._apply(lambda t: plugrad.empty_like(t, device=device), recurse=recurse)
    parameters = [("parameter", *item) for item in self.named_parameters(recurse=recurse)]
    buffers = [("buffer", *item) for item in self.named_buffers(recurse=recurse)]
    for kind, path, tensor in chain(parameters, buffers):
        watch(tensor, f"{kind} {path!r} of {type(self).__name__}")
    return self


def watch(tensor, name: str):
    """Take a tensor for unfilled until it is written; return it."""
    if not tensor.numel() or tensor.is_meta or tensor.is_inference():
        return tensor
    return _join(tensor, Memory(name, tensor))


def _join(tensor, memory):
    """Watch a tensor that is in unfilled memory, if it is of a class that can be watched; return it."""
    if memory is not None and (isinstance(tensor, _Watched) or type(tensor) in CLASSES):
        if not isinstance(tensor, _Watched):
            Tensor.as_subclass(Tensor.data.fget(tensor), UnfilledTensor)  # calls ask for such classes from here on
            tensor.__class__ = CLASSES[type(tensor)]
            tensor._type = tensor._type.variant()
        tensor.__dict__[ATTRIBUTE] = memory
    return tensor


def _memory(tensor):
    """Return the unfilled memory that a tensor is in; None, and an ordinary tensor again, if it is filled by now."""
    if not isinstance(tensor, _Watched):
        return None
    memory = tensor.__dict__[ATTRIBUTE]
    if not memory.is_filled(tensor):
        return memory
    _release(tensor)
    return None


def _release(tensor) -> None:
    if isinstance(tensor, _Watched):
        marked = tensor.__dict__.pop("_is_param", False)  # made by Parameter(unfilled tensor)
        tensor.__class__ = Parameter if marked or isinstance(tensor, UnfilledParameter) else Tensor
        tensor._type = tensor._type.plain
        del tensor.__dict__[ATTRIBUTE]


def _fill(tensor) -> None:
    if isinstance(tensor, _Watched):
        tensor.__dict__[ATTRIBUTE].filled = True
        _release(tensor)


def _readable(tensor):
    """Return a tensor that has values, so that its class is the ordinary one."""
    memory = _memory(tensor)
    if memory is not None:
        raise memory.error()
    return tensor


def _storage(tensor):
    return tensor._type.backend.storage(tensor._raw)


def _writes(name: str) -> bool:
    if name[:2] == "__":
        return name == "__setitem__" or name.startswith("__i") and name not in ("__invert__", "__index__", "__int__")
    return name.endswith("_") and name not in SHAPES


def _pass_on(name, source, memory, result) -> None:
    """Watch results that are in the memory of a tensor, or copies of it; all others were computed from nothing."""
    for one in result if isinstance(result, (tuple, list)) else (result,):
        if one is source:
            continue
        if not isinstance(one, Tensor) or not (name in COPIES or name == "detach" or one._is_view()):
            raise memory.error()
        _join(one, memory) if _storage(one) is memory.storage else watch(one, memory.name)


def _tensors(values):
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif type(value) in (list, tuple):
            yield from (item for item in value if isinstance(item, Tensor))
