"""Which of NVIDIA's libraries programs ask for by `torch.backends.cuda`, and which kernels of attention."""

from __future__ import annotations

import enum
import typing

from plugrad.arguments import checked


class LinalgBackend(enum.Enum):
    """A library for factorizations."""

    Default = 0
    Cusolver = 1
    Magma = 2


class BlasBackend(enum.Enum):
    """A library for products of matrices."""

    Default = 0
    Cublas = 1
    Cublaslt = 2
    Ck = 3


class SDPAParams(typing.NamedTuple):
    """The arguments of a call of scaled_dot_product_attention."""

    query: object
    key: object
    value: object
    attn_mask: object
    dropout: float
    is_causal: bool
    enable_gqa: bool = False


def _preferred(backends, used, what):
    """Return the function that is asked for one of the libraries and says which is used."""

    def preferred(backend=None):
        names = {one.name.lower(): one for one in backends}
        if isinstance(backend, str):
            if backend not in names:
                raise RuntimeError(f"Unknown input value. Choose from: {', '.join(names)}.")
            backend = names[backend]
        if backend is not None and not isinstance(backend, backends):
            raise RuntimeError("Unknown input value type.")
        if backend not in (None, used, backends.Default):
            told = f"Cannot set preferred backend to {backend.name}: plugrad computes {what} by {used.name}"
            raise RuntimeError(told)
        return used

    preferred.__doc__ = f"Return the library for {what} on CUDA.\n\nRuntimeError if another one is asked for."
    return preferred


_reductions = {"allowed": False}


@checked(enabled="bool")
def allow_fp16_bf16_reduction_math_sdp(enabled) -> None:
    """Accepted: sums of half precision are made in float32."""
    _reductions["allowed"] = enabled


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Return what was set last, False before."""
    return _reductions["allowed"]


def is_flash_attention_available() -> bool:
    """Always False: PyTorch's flash attention is not here."""
    return False


def is_ck_sdpa_available() -> bool:
    """Always False: that is of ROCm."""
    return False


def _never(way):
    def can_use(params, debug=False) -> bool:
        return False

    can_use.__doc__ = f"Always False: PyTorch's {way} attention is not here."
    return can_use


def of_cuda() -> dict:
    """Return what `torch.backends.cuda` has of these, by name."""
    preferred = {
        "preferred_linalg_library": _preferred(LinalgBackend, LinalgBackend.Cusolver, "factorizations"),
        "preferred_blas_library": _preferred(BlasBackend, BlasBackend.Cublas, "products"),
    }
    ways = {"flash": "flash", "efficient": "memory-efficient", "cudnn": "cuDNN"}
    able = {f"can_use_{name}_attention": _never(way) for name, way in ways.items()}
    functions = (
        allow_fp16_bf16_reduction_math_sdp, fp16_bf16_reduction_math_sdp_allowed, is_ck_sdpa_available,
        is_flash_attention_available,
    )  # fmt: skip
    named = {**preferred, **able, **{function.__name__: function for function in functions}, "SDPAParams": SDPAParams}
    for name, value in named.items():
        value.__name__ = value.__qualname__ = name
    return named


_fastpath = {"enabled": True}


def get_fastpath_enabled() -> bool:
    """Return what `set_fastpath_enabled` was given last, True before."""
    return _fastpath["enabled"]


@checked(value="bool")
def set_fastpath_enabled(value) -> None:
    """Accepted: layers of transformers have one way to be computed, or by `torch.compile`."""
    _fastpath["enabled"] = value
