"""`python -m torch.utils.collect_env`: what a report of a fault should say of the machine and its packages."""

from __future__ import annotations

import importlib.metadata
import locale
import os
import platform
import sys
from typing import NamedTuple

import plugrad

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main", "pretty_str"]

_PACKAGES = ("plugrad", "numpy", "scipy", "pluggy", "cupy", "ml_dtypes", "torch", "torchvision")


class SystemEnv(NamedTuple):
    """What is known of the machine, each a text; `pip_packages` has a line for each package."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    cpu_info: str
    locale: str
    pip_packages: str


def get_env_info() -> SystemEnv:
    """Return what is known of the machine."""
    return SystemEnv(
        torch_version=plugrad.__version__,
        is_debug_build="False",
        cuda_compiled_version=str(plugrad.version.cuda),
        os=f"{platform.system()} {platform.release()} ({platform.machine()})",
        libc_version="-".join(platform.libc_ver()) or "N/A",
        python_version=f"{sys.version} ({64 if sys.maxsize > 2**32 else 32}-bit runtime)",
        python_platform=platform.platform(),
        is_cuda_available=str(plugrad.cuda.is_available()),
        cpu_info=f"{platform.processor() or platform.machine()}, {os.cpu_count()} logical CPUs",
        locale=".".join(part or "" for part in locale.getlocale()),
        pip_packages="\n".join(f"{name}=={version}" for name, version in _versions()),
    )


def _versions():
    for name in _PACKAGES:
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue


def pretty_str(envinfo: SystemEnv) -> str:
    """Return it in lines."""
    names = {"torch_version": "plugrad version", "pip_packages": "Versions of relevant libraries"}
    lines = []
    for name, text in envinfo._asdict().items():
        title = names.get(name, name.replace("_", " ").capitalize())
        lines.append(f"{title}:\n{text}" if "\n" in text else f"{title}: {text}")
    return "\n".join(lines)


def get_pretty_env_info() -> str:
    """Return what is known of the machine, in lines.

    >>> import plugrad as torch
    >>> print(torch.utils.collect_env.get_pretty_env_info().partition(":")[0])
    plugrad version
    """
    return pretty_str(get_env_info())


def main() -> None:
    """Print it."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
