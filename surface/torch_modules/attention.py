"""`torch.nn.attention`: which of PyTorch's kernels would compute scaled_dot_product_attention; there is one here."""

from __future__ import annotations

import contextlib
import enum

from plugrad import absent
from plugrad.backends import cuda

__all__ = ["SDPBackend", "sdpa_kernel"]

__path__ = []  # `nn.attention.flex_attention` is below it
__getattr__ = absent.attributes("nn.attention")


class SDPBackend(enum.IntEnum):
    """A kernel of PyTorch's for attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_WAYS = {
    "math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION, "mem_efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}  # fmt: skip


@contextlib.contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False):
    """Set the switches of `torch.backends.cuda` for these kernels, in a `with` block.

    Attention is computed by the one kernel that is here, whichever are chosen. Raises AssertionError for what is
    neither an SDPBackend nor a list.

    >>> import plugrad as torch
    >>> from plugrad.nn.attention import SDPBackend, sdpa_kernel
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     torch.backends.cuda.flash_sdp_enabled()
    False
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    with cuda.sdp_kernel(**{f"enable_{way}": backend in chosen for way, backend in _WAYS.items()}):
        yield {}
