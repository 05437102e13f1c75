"""`plugrad.backends`: the switches that PyTorch programs set. They are kept, and change nothing here."""

from __future__ import annotations

import types


class _Switches(types.SimpleNamespace):
    """Attributes that can be read and set; `is_available()` says that the library behind them is not used."""

    @staticmethod
    def is_available() -> bool:
        """Always False: plugrad computes through NumPy and CuPy."""
        return False

    is_built = is_available


cudnn = _Switches(enabled=False, benchmark=False, deterministic=True, allow_tf32=False)
mps, mkl, mkldnn, openmp = _Switches(), _Switches(), _Switches(), _Switches()
cuda = _Switches(matmul=_Switches(allow_tf32=False))
