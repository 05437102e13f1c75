"""`torch.distributed.rpc`, as a build of PyTorch without it has it: asked whether it is there."""

from __future__ import annotations

from plugrad import absent

__getattr__ = absent.attributes("distributed.rpc")


def is_available() -> bool:
    """Return False: plugrad computes in one process."""
    return False
