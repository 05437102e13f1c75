"""Passes over graphs: `shape_prop`."""

from plugrad import absent
from plugrad.fx.passes import shape_prop

__all__ = ["shape_prop"]

__getattr__ = absent.attributes("fx.passes")
