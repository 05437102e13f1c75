"""`plugrad.backends`: falling back to the CPU, the accelerator, threads, and the switches that PyTorch programs set.

Those switches are kept, and change nothing here but for `cudnn`.
"""

from __future__ import annotations

import contextlib
import os
import warnings

from plugrad import absent, kernels
from plugrad.arguments import checked, is_int
from plugrad.backends import cpu, following, libraries  # noqa: F401 - the core asks for `following`
from plugrad.backends.accelerators import accelerator, set_accelerator
from plugrad.backends.cpu_fallback import FallbackWarning, MissingKernelError, fallback, fallbacks, no_fallback
from plugrad.backends.gathering import gathered
from plugrad.backends.switches import Cudnn, Switches, disable_global_flags, flags_frozen, of_attention
from plugrad.backends.warned_once import is_warn_always_enabled, set_warn_always, warn_once
from plugrad.extend import choose_memory

__all__ = [
    "FallbackWarning", "MissingKernelError", "accelerator", "are_deterministic_algorithms_enabled", "cpu", "cuda",
    "cudnn", "disable_global_flags", "fallback", "fallbacks", "flags_frozen", "gathered",
    "get_float32_matmul_precision",
    "get_num_threads", "is_warn_always_enabled", "mkl",
    "mkldnn", "mps", "nnpack", "no_fallback", "openmp", "opt_einsum", "set_accelerator",
    "set_float32_matmul_precision", "set_num_threads", "set_warn_always", "use_deterministic_algorithms", "warn_once",
]  # fmt: skip


_deterministic = {"mode": False, "warn_only": False}


@checked(mode="bool", warn_only="bool")
def use_deterministic_algorithms(mode, *, warn_only=False) -> None:
    """Have results depend on inputs and seeds alone on CUDA, too.

    On the CPU they do either way. On CUDA sums at places that occur more than once (`scatter_add`, `index_add`,
    gradients of `gather` and of indexing) come in the order of the index then, and of several values for one element
    the last is written; both take longer.

    While it is on, `empty` and its like are filled with NaN or the largest integer, unless
    `torch.utils.deterministic.fill_uninitialized_memory` is False.

    >>> import plugrad as torch
    >>> torch.use_deterministic_algorithms(True)
    >>> torch.empty(2)
    tensor([nan, nan])
    >>> torch.use_deterministic_algorithms(False)
    """
    _deterministic.update(mode=mode, warn_only=warn_only)
    choose_memory(deterministic=mode)


def are_deterministic_algorithms_enabled() -> bool:
    """Return what `use_deterministic_algorithms` was last told, False before."""
    return _deterministic["mode"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return which `warn_only` `use_deterministic_algorithms` was last told."""
    return _deterministic["warn_only"]


def set_float32_matmul_precision(precision) -> None:
    """Accepted: products of float32 are computed in float32, PyTorch's "highest"."""
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"precision must be 'highest', 'high' or 'medium', not {precision!r}")


def get_float32_matmul_precision() -> str:
    """Always 'highest'."""
    return "highest"


_threads: dict = {}  # what set_num_threads was given last ("now"), and how many there were before ("first")


def set_num_threads(n):
    """Set how many threads plugrad's kernels in C use, and NumPy's BLAS.

    The BLAS is told by threadpoolctl; without that this warns, and sets the first number alone.
    """
    if not is_int(n):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if not 0 < n < 1 << 31:
        raise RuntimeError(f"set_num_threads expects a positive integer, not {n}")
    _threads.setdefault("first", get_num_threads())
    _threads["now"] = int(n)
    if kernels.level() is not None:
        kernels.module().set_num_threads(int(n))
    try:
        import threadpoolctl
    except ImportError:
        told = "the BLAS of NumPy uses as many threads as before; `pip install threadpoolctl`, by which it is told"
        warnings.warn(told, stacklevel=2)
        return
    threadpoolctl.threadpool_limits(int(n))


def get_num_threads():
    """Return how many threads the BLAS behind NumPy uses.

    Without threadpoolctl that is not known: then it is the number for kernels in C, or that of processors.
    """
    with contextlib.suppress(ImportError):
        import threadpoolctl

        counts = [one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"]
        if counts:
            return max(counts)
    if kernels.level() is not None:
        return kernels.module().get_num_threads()
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


cudnn = Cudnn()
mps, mkl, openmp, xeon = Switches("mps"), Switches("mkl", verbose=None), Switches("openmp"), Switches("xeon")
mkldnn = Switches("mkldnn", enabled=False, deterministic=True, allow_tf32=False, fp32_precision="none")
nnpack, opt_einsum = Switches("nnpack"), Switches("opt_einsum", enabled=False, strategy=None)
_matmul = Switches(
    "cuda.matmul", allow_tf32=False, allow_fp16_reduced_precision_reduction=True, fp32_precision="none",
    allow_bf16_reduced_precision_reduction=True, allow_fp16_accumulation=False,
)  # fmt: skip
_plans = Switches("cuda.cufft_plan_cache", max_size=0)
cuda = Switches(
    "cuda", matmul=_matmul, cufft_plan_cache=_plans, **of_attention(), **libraries.of_cuda(),
    __getattr__=absent.attributes("backends.cuda"),
)  # fmt: skip
cusparselt, kleidiai, xnnpack = Switches("cusparselt"), Switches("kleidiai"), Switches("xnnpack", enabled=False)
mha = Switches(
    "mha", get_fastpath_enabled=libraries.get_fastpath_enabled, set_fastpath_enabled=libraries.set_fastpath_enabled
)
