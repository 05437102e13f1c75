"""`torch.distributed`: there are no process groups here, which `is_available()` and `is_initialized()` say."""

from __future__ import annotations

import enum

from plugrad import absent

__all__ = ["GroupMember", "ReduceOp", "group", "is_available", "is_initialized", "is_torchelastic_launched"]
__path__ = []  # below it are modules that are not there
__getattr__ = absent.attributes("distributed")


def is_available() -> bool:
    """Always False."""
    return False


is_initialized = is_torchelastic_launched = is_mpi_available = is_nccl_available = is_gloo_available = is_available
is_ucc_available = is_xccl_available = is_available


class ReduceOp(enum.Enum):
    """How values of several processes would be reduced; a name that signatures have for a default."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


reduce_op = ReduceOp


class group:
    """Holds the group of all processes, which is None."""

    WORLD = None


GroupMember = group
