"""`torch.__config__`: what plugrad computes with, as text."""

from __future__ import annotations

import contextlib
import io
import platform

import numpy
import scipy

import plugrad

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Return the versions of what plugrad computes with.

    >>> import plugrad as torch
    >>> torch.__config__.show().splitlines()[0].startswith("plugrad ")
    True
    """
    return "\n".join([
        f"plugrad {plugrad.__version__}, Python {platform.python_version()} on {platform.platform()}",
        f"  - NumPy {numpy.__version__}, SciPy {scipy.__version__}",
    ])  # fmt: skip


def parallel_info() -> str:
    """Return how many threads the BLAS behind NumPy may use, and which one it is."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        numpy.show_config()
    return f"plugrad.get_num_threads() : {plugrad.get_num_threads()}\n{text.getvalue()}"
