"""Regions of a program in which ops run in a dtype that autocast chooses, and the state that they change."""

from __future__ import annotations

import functools
import warnings
from collections import abc

import numpy

import plugrad
from plugrad import Tensor
from plugrad.amp import policies
from plugrad.errors import flag
from plugrad.graph.modes import Region, mode, region

__all__ = [
    "autocast", "autocast_decorator", "autocast_decrement_nesting", "autocast_increment_nesting",
    "clear_autocast_cache", "custom_bwd", "custom_fwd", "get_autocast_dtype", "is_autocast_available",
    "is_autocast_cache_enabled", "is_autocast_enabled", "same_again", "set_autocast_cache_enabled",
    "set_autocast_dtype", "set_autocast_enabled",
]  # fmt: skip

# PyTorch's device types with their lower dtypes. Those of third parties' backends have float16.
_DTYPES = {"cpu": plugrad.bfloat16, "xla": plugrad.bfloat16, "hpu": plugrad.bfloat16} | dict.fromkeys(
    ("cuda", "xpu", "mps", "ipu", "mtia", "maia", "privateuseone"), plugrad.float16
)


class State:
    """What autocast does in a region: for which device types it is on, with which dtypes, and the casts it keeps."""

    __slots__ = ("enabled", "dtypes", "caching", "cache", "nesting")

    off = region(autocast=None)

    def __init__(self, enabled=frozenset(), dtypes=_DTYPES, caching=True, cache=None, nesting=0):
        self.enabled, self.dtypes, self.caching, self.nesting = enabled, dtypes, caching, nesting
        self.cache = {} if cache is None else cache

    def __bool__(self):
        return bool(self.enabled)

    def __call__(self, op, values, run):
        return policies.cast(self, op, values, run)

    def changed(self, device_type=None, enabled=None, dtype=None, **others):
        """Return another state with the given changes."""
        fields = {name: getattr(self, name) for name in self.__slots__} | others
        if enabled is not None:
            fields["enabled"] = self.enabled | {device_type} if enabled else self.enabled - {device_type}
        if dtype is not None:
            fields["dtypes"] = {**self.dtypes, device_type: dtype}
        return State(**fields)


def _state() -> State:
    """Return the state of this thread and place in the program."""
    return State() if mode.autocast is None else mode.autocast


def _set(*place, **others) -> State:
    """Change the state of this thread and return it; one in which nothing is set costs calls nothing."""
    state = _state().changed(*place, **others)
    is_set = state or state.nesting or not state.caching or state.dtypes != _DTYPES
    mode.autocast = state if is_set else None
    return state


def _known(device_type) -> str:
    """Return the name of a device type that autocast can be on; RuntimeError for others."""
    if not isinstance(device_type, str):
        raise TypeError(f"argument 'device_type' (position 1) must be str, not {type(device_type).__name__}")
    name, colon, number = device_type.partition(":")
    backends = plugrad.registry.backends
    known = name in _DTYPES or name in backends
    if colon and not number.isdigit() or not known and not name.replace("_", "a").isalpha():
        raise RuntimeError(f"Invalid device string: '{device_type}'; write a type, such as 'cpu'")
    if not known:
        raise RuntimeError(
            f"Expected one of {', '.join(sorted({*_DTYPES, *backends}))} device type at start of device string: "
            f"{device_type}"
        )
    return name


def is_autocast_available(device_type: str) -> bool:
    """Return whether a device type has autocast; RuntimeError if there is no such one.

    >>> import plugrad as torch
    >>> torch.amp.is_autocast_available("cpu")
    True
    """
    name = _known(device_type)
    return name in _DTYPES or not plugrad.registry.backend(name).symbolic


class autocast(Region):
    """Run ops in a dtype chosen for each of them; a context manager or a decorator.

    Products and convolutions run in the lower dtype, losses and the like in float32, all others in that of their
    inputs. Leave the model and its data in float32. Backward runs in the dtypes of the forward call: put it outside.

    Args:
        device_type: whose tensors are cast, such as "cuda" or "cpu".
        dtype: bfloat16 or float16; by default that of the device type, bfloat16 on the CPU and float16 elsewhere.
        enabled: False switches autocast off inside.
        cache_enabled: keep the casts of parameters until the end of the outermost region; by default as before.

    Regions may be nested. An unsupported dtype or a missing CUDA device gives a warning and no autocast. Raises
    ValueError unless `device_type` is a string, RuntimeError for an unknown one.

    >>> import plugrad as torch
    >>> model, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
    >>> with torch.autocast("cpu"):
    ...     y = model(x)
    >>> y.dtype, model.weight.dtype
    (torch.bfloat16, torch.float32)
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if dtype is not None and not isinstance(dtype, plugrad.dtype):
            raise TypeError(f"autocast(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
        flag("enabled", enabled)
        flag("cache_enabled", bool(cache_enabled) if cache_enabled is None else cache_enabled)
        name = _known(device_type)
        if not is_autocast_available(name):
            raise RuntimeError(f"unsupported scalarType: there is no autocast on {name!r}, whose tensors have no data")
        self.device, self.fast_dtype = device_type, get_autocast_dtype(name) if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._can_be_on(name)

    def _can_be_on(self, name) -> bool:
        """Whether autocast is possible here with this dtype; if not, warn."""
        if name == "cuda" and not plugrad.cuda.is_available():
            warnings.warn("CUDA is not available. Disabling autocast.", stacklevel=3)
            return False
        if name == "cuda" and self.fast_dtype is plugrad.bfloat16 and not plugrad.cuda.is_bf16_supported():
            raise RuntimeError("Current CUDA Device does not support bfloat16. Please switch dtype to float16.")
        if self.fast_dtype in (plugrad.bfloat16, plugrad.float16) or name == "cuda":
            return True
        warnings.warn(
            f"In {name.upper()} autocast, but the target dtype is not supported. Disabling autocast.\n"
            f"{name.upper()} Autocast only supports dtypes of {plugrad.bfloat16}, {plugrad.float16} currently.",
            stacklevel=3,
        )
        return False

    def changes(self):
        before = _state()
        cache = before.cache if before.nesting else {}
        return {
            "autocast": before.changed(
                _known(self.device), self._enabled, self.fast_dtype, caching=self._cache_enabled, cache=cache,
                nesting=before.nesting + 1,
            )
        }  # fmt: skip

    def __enter__(self):
        super().__enter__()
        return self

    def __call__(self, func):
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you mean to use autocast as "
                "a context manager? For example:\n    with torch.autocast(device_type=...):\n"
                "        output = model(input)"
            )
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance, func):
    """Return a function that runs in a region of autocast."""

    @functools.wraps(func)
    def decorated(*args, **kwargs):
        with autocast_instance:
            return func(*args, **kwargs)

    return decorated


def same_again():
    """Return a context in which autocast is as here and now, with casts of its own."""
    return region(autocast=None if mode.autocast is None else mode.autocast.changed(cache={}))


# ---------------------------------------------------------------------------------------------------- the state


def is_autocast_enabled(device_type="cuda") -> bool:
    """Return whether autocast is on for a device type.

    >>> import plugrad as torch
    >>> with torch.autocast("cpu"):
    ...     torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")
    (True, False)
    """
    return _known(device_type) in _state().enabled


def set_autocast_enabled(device_type, enabled=None) -> None:
    """Switch autocast on or off for a device type; of one argument, for CUDA."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    _set(_known(device_type), flag("enabled", enabled))


def get_autocast_dtype(device_type):
    """Return the lower dtype of autocast on a device type.

    >>> import plugrad as torch
    >>> torch.get_autocast_dtype("cpu")
    torch.bfloat16
    """
    return _state().dtypes.get(_known(device_type), plugrad.float16)


def set_autocast_dtype(device_type, dtype) -> None:
    """Set the lower dtype of autocast on a device type."""
    if not isinstance(dtype, plugrad.dtype):
        raise TypeError(
            f"set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {type(dtype).__name__}"
        )
    _set(_known(device_type), dtype=dtype)


def is_autocast_cache_enabled() -> bool:
    """Return whether the casts of parameters are kept until the region's end."""
    return _state().caching


def set_autocast_cache_enabled(enabled) -> None:
    """Choose whether the casts of parameters are kept until the region's end."""
    _set(caching=flag("enabled", enabled))


def clear_autocast_cache() -> None:
    """Forget the casts of parameters that were kept."""
    _state().cache.clear()


def autocast_increment_nesting() -> int:
    """Count one more region that holds on to the casts; return the number."""
    return _set(nesting=_state().nesting + 1).nesting


def autocast_decrement_nesting() -> int:
    """Count one region less; return the number of those that are left."""
    return _set(nesting=_state().nesting - 1).nesting


def _of_device(name, device_type):
    """Return the four older functions on the state of one device type: PyTorch has them under names of their own."""

    def is_enabled() -> bool:
        return is_autocast_enabled(device_type)

    def set_enabled(enabled) -> None:
        set_autocast_enabled(device_type, enabled)

    def get_dtype():
        return get_autocast_dtype(device_type)

    def set_dtype(dtype) -> None:
        set_autocast_dtype(device_type, dtype)

    says = ("Return whether autocast is on", "Switch autocast on or off", "Return", "Set")
    names = (f"is_autocast_{name}_enabled", f"set_autocast_{name}_enabled")
    names += (f"get_autocast_{name}_dtype", f"set_autocast_{name}_dtype")
    for function, public, does in zip((is_enabled, set_enabled, get_dtype, set_dtype), names, says):
        what = "" if "autocast" in does else " the lower dtype of autocast"
        function.__doc__ = f"{does}{what} for device type {device_type!r}; deprecated."
        function.__name__ = function.__qualname__ = public
        globals()[public] = function
        __all__.append(public)


for _name, _device_type in (("cpu", "cpu"), ("gpu", "cuda"), ("xla", "xla"), ("ipu", "ipu")):
    _of_device(_name, _device_type)


# ---------------------------------------------------------------------------------------------------- Functions


def _cast(value, device_type, dtype):
    """Return a value with the tensors in it, in lists, tuples and dicts, cast to a dtype, float64 excepted."""
    if isinstance(value, Tensor):
        return value.to(dtype) if policies.is_input(value, device_type) else value
    if isinstance(value, (str, bytes, numpy.ndarray)):
        return value
    if isinstance(value, abc.Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_cast(item, device_type, dtype) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, abc.Iterable):
        return (_cast(item, device_type, dtype) for item in value)
    return value


def _check_device_type(device_type) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """Decorate `forward` of an autograd.Function that is used in autocast.

    Args:
        fwd: the function.
        device_type: such as "cuda".
        cast_inputs: a dtype: where autocast is on, floating-point inputs are cast to it, and forward runs with
            autocast off. None runs it in the state that there is.

    Raises ValueError unless `device_type` is a string. `backward` gets `custom_bwd`.
    """
    _check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args, **kwargs):
        ctx, is_on = args[0], is_autocast_enabled(device_type)
        ctx._dtype, ctx._fwd_used_autocast = get_autocast_dtype(device_type), is_on and cast_inputs is None
        if cast_inputs is None or not is_on:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            given = [_cast(value, device_type, cast_inputs) for value in args[1:]]
            return fwd(ctx, *given, **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd=None, *, device_type):
    """Decorate `backward` of an autograd.Function: autocast is as it was in forward.

    Raises ValueError unless `device_type` is a string. `forward` needs `custom_fwd`.
    """
    _check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args, **kwargs):
        with autocast(device_type, args[0]._dtype, args[0]._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return backward
