"""Modes that `with` statements of staged programs enter."""

from __future__ import annotations

import functools

import plugrad
from plugrad.jit.values import Known

__all__ = ["MODES", "entered", "mode_of"]

_DEFAULTS = {"autocast": ("cpu", None, True, None), "inference_mode": (True,)}
MODES = {  # {name: how many arguments it has}
    "no_grad": (0,), "enable_grad": (0,), "set_grad_enabled": (1,), "inference_mode": (1,), "record_function": (1, 2),
    "autocast": (4,),
}  # fmt: skip
_PLACES = {
    **{name: f"plugrad.{name}" for name in MODES}, "record_function": "plugrad.profiler.record_function",
}  # fmt: skip
_NAMES = {"autocast": ("device_type", "dtype", "enabled", "cache_enabled"), "inference_mode": ("mode",),
          "set_grad_enabled": ("mode",), "record_function": ("name", "args")}  # fmt: skip
_OF_DEVICE = {"plugrad.cpu.amp.autocast": "cpu", "plugrad.cuda.amp.autocast": "cuda"}


@functools.cache
def _found(path):
    return functools.reduce(getattr, path.split(".")[1:], plugrad)


def mode_of(meant):
    """Return (name, device or None) of the mode that something known makes; None for what makes none."""
    if not isinstance(meant, Known) or meant.kind != "python":
        return None
    for name, path in _PLACES.items():
        if meant.what is _found(path):
            return name, None
    return next((("autocast", device) for path, device in _OF_DEVICE.items() if meant.what is _found(path)), None)


def entered(name, device, args, kwargs, refuse) -> list:
    """Return [the mode's name, the trees of its arguments in order]; `refuse(message)` is raised for wrong ones."""
    names = _NAMES.get(name, ())
    if device is not None:  # PyTorch's older classes, for one device each
        kwargs = {**dict(zip(("enabled", "dtype", "cache_enabled"), args)), **kwargs}
        args = [["const", device]]
    given = {**dict(zip(names, args)), **kwargs}
    if len(args) > len(names) or not {*kwargs} <= {*names}:
        raise refuse(f"{name}() takes {', '.join(names) or 'no arguments'} in a staged program")
    defaults = dict(zip(names, _DEFAULTS.get(name, ())))
    if name in ("autocast", "set_grad_enabled", "record_function") and names[0] not in given:
        raise refuse(f"{name}() needs a value for {names[0]!r}")
    last = max(map(names.index, given), default=-1) if name == "record_function" else len(names) - 1
    return [name, *[given.get(one, ["const", defaults.get(one)]) for one in names[: last + 1]]]
