"""Devices and the backends behind them.

A backend is a plugin: it brings an array module, says whether it can run here, and converts to and from NumPy. The
core asks for one by name, at the first use of its device, and never looks at an array's insides itself.
"""

from __future__ import annotations

import numpy

from plugrad import registry
from plugrad.devices import dtypes
from plugrad.devices.backend import Backend
from plugrad.regions import Region, declare, elsewhere, mode
from plugrad.registry import events


def backends_room():
    """Return what stands beside the core about backends: the accelerator, and falling back to the CPU."""
    from plugrad import backends

    return backends


class device(Region):
    """Where a tensor lives: a type such as "cpu" or "cuda", and optionally a number.

    >>> import plugrad as torch
    >>> torch.device("cuda:1"), torch.device("cpu").type
    (device(type='cuda', index=1), 'cpu')
    """

    __slots__ = ("type", "index", "_backend", "_types")
    _interned: dict = {}

    def __new__(cls, type, index=None):
        known = cls._interned.get((type, index))
        if known is not None and (index is None or index.__class__ is int):  # as keys 0.0 and False are 0
            return known
        if isinstance(type, device):
            return type if index is None else cls(type.type, index)
        if isinstance(type, (int, numpy.integer)) and not isinstance(type, bool):
            if not -(1 << 63) <= type < 1 << 63:
                raise ValueError(f"Overflow when unpacking long long: a device has the number {type}")
            type, index = backends_room().accelerator(), type
        numbered = isinstance(index, (int, numpy.integer)) and not isinstance(index, bool)
        if not isinstance(type, str) or index is not None and not numbered:
            raise TypeError(f"device(): a device is a string such as 'cpu' or 'cuda:0', not {type!r}, {index!r}")
        name, colon, number = type.partition(":")
        if colon and index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
        if colon and not number.isdigit() or name not in registry.backends and not name.replace("_", "a").isalpha():
            raise RuntimeError(f"Invalid device string: '{type}'; write a type and a number, such as 'cuda:0'")
        index = int(number) if colon else index if index is None else int(index)
        if index is not None and index < 0:
            raise RuntimeError(f"Device index must not be negative, but it is {index}")
        if name not in registry.backends:
            raise RuntimeError(
                f"Expected one of {', '.join(sorted(registry.backends))} device type at start of device string: "
                f"{type}; `plugrad backends` lists the backends that are installed here{registry.hint(name)}"
            )
        self = cls._interned.get((name, index))
        if self is None:
            self = object.__new__(cls)
            self.type, self.index, self._backend, self._types = name, index, None, {}
            cls._interned[name, index] = self
        if colon:
            cls._interned[type, None] = self
        return self

    @property
    def backend(self) -> Backend:
        """The backend of this device, imported at first use; RuntimeError if it can't run."""
        if self._backend is None:
            backend = registry.backend(self.type)
            reason = registry.reason(self.type)
            if reason is not None:
                raise RuntimeError(f"device {self.type!r} can't be used here: {reason}")
            Backend._check_record(backend)  # with what it has from its constructor
            if self.index is not None and self.index >= backend.device_count():
                raise RuntimeError(
                    f"device {self} does not exist: there are {backend.device_count()} devices of type {self.type!r}"
                )
            self._backend = backend
            if self.index is not None and backend.device_count() > 1:
                backends_room().following.opened(self)
        return self._backend

    def put(self, array):
        """Return a NumPy array on this device; TypeError if it becomes another."""
        moved = self.backend.from_numpy(array, self.backend.current_device() if self.index is None else self.index)
        if not isinstance(moved, self.backend.array_type) or moved.dtype != array.dtype or moved.shape != array.shape:
            kind = getattr(moved, "dtype", type(moved).__name__)
            raise TypeError(f"device {self.type!r} made {kind} of {array.dtype}: from_numpy must keep dtype and shape")
        return moved

    def tensor_type(self, np_dtype) -> TensorType:
        """Return the interned pair of this device and an element type, a NumPy dtype."""
        ttype = self._types.get(np_dtype)
        if ttype is None:
            if self.index is None and self.backend.numbered:
                return device(self.type, self.backend.current_device()).tensor_type(np_dtype)
            ttype = self._types[np_dtype] = TensorType(self, dtypes.from_numpy(np_dtype))
        return ttype

    def __repr__(self):
        return f"device(type='{self.type}'" + ("" if self.index is None else f", index={self.index}") + ")"

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        return self is other if isinstance(other, device) else NotImplemented

    def __hash__(self):
        return hash((self.type, self.index))

    def __reduce__(self):
        return device, (self.type, self.index)

    def changes(self):
        return {"device": self}

    def __enter__(self):
        super().__enter__()
        return self


class _Integers(dict):
    """Python ints as 0-d arrays. Other numbers, 1.0 and True too, change the dtype of a result."""

    __slots__ = ()

    def get(self, value):
        if type(value) is not int:
            raise TypeError("the result is of another dtype")
        return super().get(value)


class TensorType:
    """A device and an element type: interned, so that one identity test compares both.

    `array_type` and `xp` are the backend's, `np` is the NumPy dtype of the elements. Tensors with something rare about
    them (a subclass with overrides) have a variant of their type: `plain` is the type itself there, and another one
    everywhere else. Being another object it fails the tests of the fast paths, which costs those nothing; `home` is
    what they compare to see whether two tensors are on one device.

    Another variant, `is_open`, has tensors that count as row-major while the order of their array is open still: some
    kernels are faster in another one. Ops that don't care hand the type on; for all others, and for whoever looks,
    `layouts.lay_out` makes the tensor what it counts as.
    """

    __slots__ = (
        "device", "dtype", "np", "xp", "functions", "array_type", "backend", "symbolic", "constants", "plain", "home",
        "rare", "locks", "is_differentiable", "is_limited", "is_half", "is_open", "_variant", "_opened",
    )  # fmt: skip

    def __init__(self, place: device, element: dtypes.dtype, plain: TensorType | None = None, is_open=False):
        self.device, self.dtype, self.np = place, element, element.numpy
        self.plain, self.home = (self, place) if plain is None else (plain, place if is_open else self)
        self.is_open, self._variant, self._opened = is_open, None, None
        self.backend = place.backend
        self.xp, self.array_type, self.symbolic = self.backend.xp, self.backend.array_type, self.backend.symbolic
        self.functions = self.backend.functions or self.xp
        self.rare = self.symbolic or self.home is self  # whether every call takes the general path
        self.locks = hasattr(self.array_type, "setflags")  # whether its arrays can be made read-only, as overlaps are
        self.is_half = dtypes.is_half(self.np)
        self.is_differentiable = element.is_floating_point or element.is_complex
        self.is_limited = element.is_complex or element in dtypes.EIGHT_BITS  # whether not every op takes it
        # Python numbers as 0-d arrays; with bool any number gives another dtype
        self.constants = None if element is dtypes.bool else _Integers() if dtypes.is_integral(self.np) else {}

    def variant(self) -> TensorType:
        """Return the variant of this type for tensors that have something rare about them."""
        if self.plain is not self:
            return self
        self._variant = self._variant or TensorType(self.device, self.dtype, self)
        return self._variant

    def opened(self) -> TensorType:
        """Return the variant of this type for tensors whose order in memory is open; a variant itself stays."""
        if self._opened is None and self.plain is self:
            self._opened = TensorType(self.device, self.dtype, self, True)
        return self._opened or self

    def constant(self, value):
        """Return a Python number in the form in which the array module computes with it fastest.

        A 0-d array, which is kept, takes NumPy half the time. 0.0 and -0.0 are one key, NaN is none: they stay numbers.
        """
        served = self.xp is numpy and value and value == value
        if self.is_half and not (served and abs(value) <= 65504 and float(self.np.type(value)) == value):
            raise ValueError("the general path rounds it, or computes with it as it is")
        if not served:
            return value
        if len(self.constants) > 256:
            self.constants.clear()
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
            raise OverflowError("int too big to convert")
        return self.constants.setdefault(value, numpy.array(value, self.np))

    def wrap(self, value):
        """Return the backend's array for what a kernel gave: NumPy gives scalars where 0-d arrays are meant."""
        return self.xp.asarray(value)

    def ones(self, shape):
        """Return a new array of ones; without data on a symbolic device."""
        if self.symbolic:
            return self.backend.empty(shape, self.np)
        return self.xp.array(1, self.np) if shape == () else self.xp.ones(shape, self.np)  # four times as fast

    def zeros(self, shape):
        """Return a new array of zeros; without data on a symbolic device."""
        return self.backend.empty(shape, self.np) if self.symbolic else self.xp.zeros(shape, self.np)

    def to(self, element: dtypes.dtype) -> TensorType:
        """Return the type with other elements on the same device."""
        return self.device.tensor_type(element.numpy)

    def __repr__(self):
        return f"TensorType({self.device}, {self.dtype})"


on_default_device: list = []  # f(is_set): whether there is a default device from now on
declare("device", None, elsewhere)
_default: device | None = None


def set_default_device(place) -> None:
    """Set the device that new tensors are made on; None sets it back to the CPU."""
    global _default
    _default = None if place is None else device(place)
    events.publish(on_default_device, _default is not None)


def default_device() -> device | None:
    """Return what `set_default_device` set, None if nothing."""
    return _default


def get_default_device() -> device:
    """Return the device that new tensors are made on.

    >>> import plugrad as torch
    >>> torch.get_default_device()
    device(type='cpu')
    """
    return mode.device or _default or device("cpu")


def resolve(place) -> device:
    """Return the device that a `device=` argument means; None is the default device."""
    return get_default_device() if place is None else device(place)


_by_array_type: dict[type, device] = {}


def device_of(array) -> device:
    """Return the device of a raw array."""
    place = _by_array_type.get(array.__class__)
    if place is None:
        for name in ("cpu", *registry.loaded_backends()):  # NumPy's arrays are known before anything was computed
            backend = registry.backend(name)
            if array.__class__ is backend.array_type or getattr(array, "home", None) == name:
                place = _by_array_type[array.__class__] = device(name)
                break
        else:
            raise TypeError(f"no backend knows arrays of type {type(array).__module__}.{type(array).__qualname__}")
    index = place.backend.owns_index(array)
    return place if index is None else device(place.type, index)


def backend_of(xp) -> Backend:
    """Return the backend whose array module is `xp`: the CPU's for NumPy, which others may have, too."""
    for name in ("cpu",) if xp is numpy else registry.loaded_backends():
        if (backend := registry.backend(name)).xp is xp:
            return backend
    raise TypeError(f"no backend that is in use has the array module {xp!r}")


def type_of(array) -> TensorType:
    """Return the tensor type of a raw array."""
    return device_of(array).tensor_type(array.dtype)


def _follow_backends(dotted) -> None:
    """Have devices, and what was asked of their backend, forget one that was replaced or taken back."""
    for place in tuple(device._interned.values()):
        if dotted == f"backends.{place.type}" and place._backend is not registry.backends.get(place.type):
            place._backend = None
            place._types.clear()


events.on_forget.append(_follow_backends)
