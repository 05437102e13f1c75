"""`torch.onnx.symbolic_helper`: what libraries write around the functions that say how their ops would be exported."""

from __future__ import annotations

from plugrad import absent

__all__ = ["parse_args"]
__getattr__ = absent.attributes("onnx.symbolic_helper")


def parse_args(*arg_descriptors):
    """Return a decorator that gives the function back: none of them is called, since nothing is exported."""
    return lambda fn: fn
