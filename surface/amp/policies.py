"""In which dtype autocast has an op computed: what the records say, and the casts that follow from it.

A record declares `autocast=` one of the policies below, or a dict of them by device type:

- "lower": all inputs in the dtype of the region, as products and convolutions can take it;
- "float32": all inputs in float32, as sums of many terms and functions with steep slopes need it;
- "set_dtype": the inputs as they are, but `dtype=float32` unless the caller asks for another;
- "promote": all inputs in the widest dtype among them;
- a dtype: all inputs in that one;
- a function that is called with the op's arguments and returns one of these or None, or raises.

Inputs are the floating-point tensors on the device, except float64. What a composite with a policy calls runs without
autocast. An op without a policy, None, takes its inputs as they come.
"""

from __future__ import annotations

import weakref

import plugrad
from plugrad import Tensor

__all__ = ["cast", "described", "is_input", "policy", "register_autocast"]


def policy(op, device_type: str):
    """Return what an op's record says about autocast on a device type; None if nothing.

    >>> import plugrad
    >>> policy(plugrad.registry.op("matmul"), "cpu")
    'lower'
    """
    declared = op.autocast
    return declared.get(device_type) if isinstance(declared, dict) else declared


def described(op, device_type: str) -> str:
    """Return the policy of an op on a device type as a word: "" if there is none, "depends" if a function decides."""
    declared = policy(op, device_type)
    return "depends" if callable(declared) else str(declared or "")


def register_autocast(op, device_type: str, policy) -> None:
    """Declare how autocast treats an op on one device type, in place of what its author said.

    Args:
        op: the record, or the op's name.
        device_type: such as "cuda".
        policy: "lower", "float32", "set_dtype", "promote", a dtype, a function, or None for none.

    Raises TypeError for anything else.
    """
    op = plugrad.registry.op(op) if isinstance(op, str) else op
    known = (None, "lower", "float32", "set_dtype", "promote")
    if policy not in known and not callable(policy) and not isinstance(policy, plugrad.dtype):
        raise TypeError(f"{policy!r} is no policy of autocast: write one of {', '.join(map(repr, known))}, or a dtype")
    before = op.autocast if isinstance(op.autocast, dict) else dict.fromkeys(("cpu", "cuda"), op.autocast)
    op.autocast = {**before, device_type: policy}


def cast(state, op, values, run):
    """Return `run(values)`, with the arguments as the op's policy wants them in the regions of `state`."""
    device = _device(values, state.enabled)
    if device is None:
        return run(values)
    wanted = policy(op, device)
    if callable(wanted):
        wanted = wanted(*values)
    if wanted is None or "out" in op.index and values[op.index["out"]] is not None:
        return run(values)
    with state.off:
        return run(_PREPARE.get(wanted, _to_dtype)(state, op, tuple(values), device, wanted))


def _device(values, enabled):
    """Return the device type of the first tensor for whose device autocast is on; None if there is none."""
    for value in values:
        for item in value if type(value) in (list, tuple) else (value,):
            if isinstance(item, Tensor) and item._type.device.type in enabled:
                return item._type.device.type
    return None


def is_input(value, device) -> bool:
    """Whether a value is a tensor that autocast may cast on a device type."""
    if not isinstance(value, Tensor) or value._type.device.type != device:
        return False
    return value.is_floating_point() and value.dtype is not plugrad.float64


def _inputs(values, device) -> list:
    items = [item for value in values for item in (value if type(value) in (list, tuple) else (value,))]
    return [item for item in items if is_input(item, device)]


def _all_to(state, values, device, dtype):
    def convert(value):
        if type(value) in (list, tuple):
            return type(value)([convert(item) for item in value])
        if not is_input(value, device) or value.dtype is dtype:
            return value
        return _cached(state, value, dtype) if dtype is state.dtypes[device] else value.to(dtype)

    return tuple([convert(value) for value in values])


def _cached(state, tensor, dtype):
    """Return a tensor in the lower dtype; that of a parameter is kept for the rest of the outermost region."""
    keeps = state.caching and tensor.dtype is plugrad.float32 and tensor.requires_grad and tensor.is_leaf
    if not keeps or tensor._is_view() or not plugrad.is_grad_enabled():
        return tensor.to(dtype)  # what is made unrecorded would later lack its history
    key, version = (id(tensor), dtype), tensor._version
    reference, seen, result = state.cache.get(key, (None, None, None))
    if reference is None or reference() is not tensor or seen != version:
        result = tensor.to(dtype)
        state.cache[key] = weakref.ref(tensor), version, result
    return result


# ---------------------------------------------------------------------------------------------------- the policies


def _lower(state, op, values, device, wanted):
    return _all_to(state, values, device, state.dtypes[device])


def _float32(state, op, values, device, wanted):
    return _all_to(state, values, device, plugrad.float32)


def _set_dtype(state, op, values, device, wanted):
    place = op.index["dtype"]
    if not is_input(values[0], device) or values[place] is not None:
        return values
    return (*values[:place], plugrad.float32, *values[place + 1 :])


def _promote(state, op, values, device, wanted):
    dtype = state.dtypes[device]
    for item in _inputs(values, device):
        if item.dtype not in (plugrad.float32, state.dtypes[device]):
            raise RuntimeError(
                f"Unexpected floating ScalarType in autocast: {op.name}() got {item.dtype} in a region of {dtype}; "
                "convert it with .float()"
            )
        dtype = plugrad.promote_types(dtype, item.dtype)
    return _all_to(state, values, device, dtype)


def _to_dtype(state, op, values, device, wanted):
    return _all_to(state, values, device, wanted)


_PREPARE = {"lower": _lower, "float32": _float32, "set_dtype": _set_dtype, "promote": _promote}
