"""`torch.onnx`: nothing is exported here, which `is_in_onnx_export()` says."""

from __future__ import annotations

from plugrad import absent

__all__ = ["is_in_onnx_export"]
__path__ = []  # below it are modules that are not there
__getattr__ = absent.attributes("onnx")


def is_in_onnx_export() -> bool:
    """Always False."""
    return False
