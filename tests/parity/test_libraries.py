"""Libraries from PyPI that import torch compute under `plugrad run` what they compute with PyTorch."""

import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

PROGRAM = pathlib.Path(__file__).parent / "library_programs" / "run.py"
LIBRARIES = ("einops", "torchinfo", "torchmetrics", "torchviz", "skorch", "torchdiffeq", "safetensors", "transformers")
# The others compute in float32. Solvers choose their steps: PyTorch's own results of dopri8 move by 6e-5 of their size
# when the start moves by one unit in its last place.
TOLERANCES = {"skorch": 1e-3, "torchdiffeq": 1e-4}


def results(*command):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300, env={**environment, "COLUMNS": "200"}
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def differences(ours, theirs, tolerance, where=""):
    """Yield where two results of a program differ."""
    if type(ours) is type(theirs) and isinstance(ours, (list, dict)) and len(ours) == len(theirs):
        keys = range(len(ours)) if isinstance(ours, list) else theirs
        for key in keys:
            yield from differences(ours[key], theirs[key], tolerance, f"{where}[{key!r}]")
    elif isinstance(theirs, float) and isinstance(ours, float):
        both_nan = math.isnan(ours) and math.isnan(theirs)
        if not (both_nan or math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=tolerance)):
            yield f"{where}: {ours} and not {theirs}"
    elif ours != theirs:
        yield f"{where}: {ours} and not {theirs}"


def test_libraries_compute_what_they_compute_with_pytorch():
    present = [name for name in LIBRARIES if importlib.util.find_spec(name) is not None]
    absent = [name for name in LIBRARIES if name not in present]
    if not present:
        pytest.skip("pip install 'plugrad[libraries]' brings the libraries")
    ours = results("-m", "plugrad", "run", PROGRAM, *present)
    theirs = results(PROGRAM, *present)
    assert (ours.pop("torch"), theirs.pop("torch")) == ("plugrad", "torch")
    broken = {name: value["error"] for name, value in theirs.items() if isinstance(value, dict) and "error" in value}
    assert not broken  # with PyTorch itself
    for name in present:
        error = ours[name].get("error") if isinstance(ours[name], dict) else None
        assert error is None, f"{name}:\n{error}"
        assert not [*differences(ours[name], theirs[name], TOLERANCES.get(name, 2e-5))], name
    if absent:
        pytest.skip(f"the rest agrees; absent: {', '.join(absent)}")


def test_differences_are_noticed():
    assert [*differences([1.0, {"a": "x"}], [1.0 + 1e-9, {"a": "x"}], 1e-6)] == []
    assert len([*differences([1.0, {"a": "x"}, [1]], [1.1, {"a": "y"}, [1, 2]], 1e-6)]) == 3
