"""The switches of PyTorch's libraries: `torch.backends.cudnn`, `cuda`, `mkldnn` and the like, as modules.

They are kept, and change nothing but for `cudnn`: plugrad computes through NumPy and CuPy. `is_available()` says
whether the library is used, and `flags(...)` is the context in which programs change switches.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types

from plugrad.extend.blocks import changed_items

SDP = ("flash", "mem_efficient", "math", "cudnn")  # ways to compute scaled_dot_product_attention

known: list = []  # all modules of switches
_frozen: set = set()  # not empty: switches are set by `flags(...)` alone


def disable_global_flags() -> None:
    """Refuse from now on what sets switches other than `flags(...)`."""
    _frozen.add("global flags")


def flags_frozen() -> bool:
    """Whether `disable_global_flags` was called."""
    return bool(_frozen)


class Switches(types.ModuleType):
    """A module of attributes that can be read and set.

    >>> import plugrad as torch
    >>> with torch.backends.cudnn.flags(benchmark=True):
    ...     torch.backends.cudnn.benchmark
    True
    >>> torch.backends.cudnn.benchmark, torch.backends.cudnn.is_available()
    (False, False)
    """

    def __init__(self, name, doc="Switches, which are kept and change nothing.", **switches):
        super().__init__(f"plugrad.backends.{name}", doc)
        self.__dict__.update(switches)
        self._names, self._first = frozenset(switches), switches
        known.append(self)
        sys.modules[self.__name__] = self

    def __setattr__(self, name, value):
        own = self.__name__.startswith("plugrad.backends.cuda")  # these have no flags()
        if _frozen and not own and name in self.__dict__.get("_names", ()):
            where = self.__name__.removeprefix("plugrad.")
            raise RuntimeError(
                f"not allowed to set torch.{where} flags after disable_global_flags; please use flags() context "
                "manager instead"
            )
        super().__setattr__(name, value)

    @staticmethod
    def is_available() -> bool:
        """Always False: plugrad computes through NumPy and CuPy."""
        return False

    is_built = is_available

    @staticmethod
    def version() -> None:
        """Return None: the library is not used."""

    def flags(self, **switches):
        """Return a context in which switches are set; TypeError for one there is not."""
        unknown = sorted(switches.keys() - self._names)
        if unknown:
            name = self.__name__.rpartition(".")[2]
            raise TypeError(f"{name}.flags() has no switch {unknown[0]!r}; it has {', '.join(sorted(self._names))}")
        return changed_items(self.__dict__, switches)

    def set_flags(self, **switches) -> tuple:
        """Set switches that are not None; return those before, in order."""
        before = tuple(getattr(self, name) for name in switches)
        self.__dict__.update({name: value for name, value in switches.items() if value is not None})
        return before


class Cudnn(Switches):
    """The switches of cuDNN, which computes on CUDA where `plugrad[cudnn]` brings it.

    `enabled` says whether it may; `benchmark` has it try its plans for a geometry, the first `benchmark_limit` of them
    (0: all), and keep the fastest; `deterministic` leaves out those whose results do not repeat; `allow_tf32` lets
    convolutions of float32 round what they multiply to ten bits, those by cuBLAS, too. As in PyTorch it is on.
    """

    def __init__(self):
        super().__init__(
            "cudnn", Cudnn.__doc__, enabled=True, benchmark=False, benchmark_limit=10, deterministic=True,
            allow_tf32=True, fp32_precision="none",
        )  # fmt: skip

    @staticmethod
    @functools.cache
    def library() -> tuple:
        """Return (NVIDIA's frontend, its versions), or (None, why there is none)."""
        try:
            module = importlib.import_module("cudnn")
            return module, f"cuDNN {module.backend_version_string()} by its frontend {module.__version__}"
        except (ImportError, OSError, AttributeError, RuntimeError) as error:
            how = "`pip install 'plugrad[cudnn]'`, or [cudnn13] for CUDA 13, brings it"
            return None, f"it can't be used ({error}); {how}"

    def is_available(self) -> bool:
        """Whether cuDNN can be used."""
        return self.library()[0] is not None

    is_built = is_available

    def version(self) -> int | None:
        """Return the version of cuDNN as one number, None where it can't be used."""
        module = self.library()[0]
        return None if module is None else module.backend_version()

    def is_acceptable(self, tensor) -> bool:
        """Whether cuDNN takes tensors such as this one."""
        half_or_single = tensor.dtype.is_floating_point and tensor.dtype.itemsize in (2, 4)
        return self.enabled and self.is_available() and tensor.device.type == "cuda" and half_or_single


def of_attention() -> dict:
    """Return the functions that choose how attention is computed; one way is there."""
    enabled = dict.fromkeys(SDP, True)

    def functions(way):
        def enable(enabled_: bool) -> None:
            enabled[way] = bool(enabled_)

        def is_enabled() -> bool:
            return enabled[way]

        enable.__doc__, is_enabled.__doc__ = "Accepted: there is one way here.", "What was set last."
        return {f"enable_{way}_sdp": enable, f"{way}_sdp_enabled": is_enabled}

    def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
        """Return a context in which the ways are set."""
        ways = {"flash": enable_flash, "math": enable_math, "mem_efficient": enable_mem_efficient}
        return changed_items(enabled, {**ways, "cudnn": enable_cudnn})

    merged = {name: value for way in SDP for name, value in functions(way).items()}
    return {**merged, "sdp_kernel": sdp_kernel}
