"""A virtual environment of its own that sees what is installed here: packages can be installed into it and removed."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import sysconfig

from support.distribution_builder import TIMEOUT

OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def make(folder) -> dict:
    """Make an environment in `folder`; return the variables under which its `python`, `pip` and `plugrad` are run."""
    folder = pathlib.Path(folder)
    place = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    programs = pathlib.Path(sysconfig.get_path("scripts", "venv", {"base": str(place)}))
    packages = pathlib.Path(sysconfig.get_path("purelib", "venv", {"base": str(place)}))
    # Not the folder's name alone: with `addsitedir` editable installs in it are seen, too.
    (packages / "here.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    for name, module in (("pip", "pip"), ("plugrad", "plugrad.cli")):
        (programs / name).write_text(f'#!/bin/sh\nexec {programs}/python -m {module} "$@"\n')
        (programs / name).chmod(0o755)
    foreign = ("PIP_", "PLUGRAD_", "PYTEST", "PYTHON")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    own = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "COLUMNS": "200"}
    return {**kept, **OFFLINE, **own, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


def run(command, variables, folder, status=0) -> str:
    """Run a command there; return what it prints. AssertionError unless it ends with the status."""
    done = subprocess.run(
        command, env=variables, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT
    )
    assert done.returncode == status, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout
