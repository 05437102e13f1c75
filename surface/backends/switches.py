"""The switches of PyTorch's libraries: `torch.backends.cudnn`, `cuda`, `mkldnn` and the like, as modules.

They are kept, and change nothing: plugrad computes through NumPy and CuPy. `is_available()` says that the library is
not used, and `flags(...)` is the context in which programs change switches.
"""

from __future__ import annotations

import contextlib
import sys
import types

SDP = ("flash", "mem_efficient", "math", "cudnn")  # ways to compute scaled_dot_product_attention

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
        self._names = frozenset(switches)
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

    @contextlib.contextmanager
    def flags(self, **switches):
        """Set switches for a `with` block. Raises TypeError for one that there is not."""
        unknown = sorted(switches.keys() - self._names)
        if unknown:
            name = self.__name__.rpartition(".")[2]
            raise TypeError(f"{name}.flags() has no switch {unknown[0]!r}; it has {', '.join(sorted(self._names))}")
        before = {name: getattr(self, name) for name in switches}
        self.__dict__.update(switches)
        try:
            yield
        finally:
            self.__dict__.update(before)

    def set_flags(self, **switches) -> tuple:
        """Set switches that are not None; return those before, in order."""
        before = tuple(getattr(self, name) for name in switches)
        self.__dict__.update({name: value for name, value in switches.items() if value is not None})
        return before


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

    @contextlib.contextmanager
    def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
        """Set the ways for a `with` block."""
        before = dict(enabled)
        enabled.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
        try:
            yield
        finally:
            enabled.update(before)

    merged = {name: value for way in SDP for name, value in functions(way).items()}
    return {**merged, "sdp_kernel": sdp_kernel}
