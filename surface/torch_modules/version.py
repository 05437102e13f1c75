"""What was built: `torch.version`, as programs print and compare it."""

from __future__ import annotations

from plugrad.torch_modules.torch_version import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

# Versions of what PyTorch was built with; plugrad computes through CuPy, which is asked for its own.
cuda = hip = rocm = xpu = None
debug = False
git_version = "unknown"
