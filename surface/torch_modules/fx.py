"""`torch.fx`: programs run as they are written, and no graph of them is kept."""

from __future__ import annotations

from plugrad import absent

__all__ = ["is_fx_tracing", "wrap"]
__path__ = []  # below it are modules that are not there
__getattr__ = absent.attributes("fx")


def wrap(fn_or_name):
    """Return the function, or its name: it marks what a tracer takes as a whole, and there is none."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name


def is_fx_tracing() -> bool:
    """Always False."""
    return False
