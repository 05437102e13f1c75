"""Pythons that leave something out: docstrings, assert statements, metadata."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import plugrad

ROOT = pathlib.Path(__file__).parents[2]

TRAINING = """
import io, pkgutil, importlib
import plugrad as torch
import plugrad.cli, plugrad.plugins, plugrad.testing

for package in (torch, torch.plugins, torch.testing, torch.cli):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
for space in (torch, torch.nn, torch.nn.functional, torch.nn.init, torch.optim, torch.linalg, torch.fft, torch.special):
    for name in dir(space):
        getattr(space, name)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
x = torch.randn(16, 3)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
file = io.BytesIO()
torch.save(model.state_dict(), file)
file.seek(0)
model.load_state_dict(torch.load(file))
print(losses[-1] < losses[0] / 4, torch.relu.__name__, bool(torch.relu.__doc__))
"""


def run(*arguments, code=0, folder=None, **variables):
    """Run Python in a folder, with arguments and variables; return what it printed."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_without_docstrings():
    """All modules are imported, all names of the public namespaces are made, and a model learns."""
    assert run("-OO", "-c", TRAINING).split() == ["True", "relu", "False"]
    assert run("-O", "-c", TRAINING).split() == ["True", "relu", "True"]


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["ops", "softmax"], "log_softmax"), (["ops", "show", "relu"], "relu"), (["plugins"], "ops-softmax"),
        (["layers"], "nn.Linear"), (["why", "relu"], "functional_relu"), (["gradcheck", "sigmoid"], "passed"),
        (["check", "relu", "--list"], "gradient"), (["--help"], "gradcheck"),
    ],
)  # fmt: skip
def test_commands_without_docstrings(arguments, expected):
    assert expected in run("-OO", "-m", "plugrad.cli", *arguments, COLUMNS="200")


def test_checks_need_assert_statements():
    """Without them every check would pass."""
    for flags, variables in ((["-O"], {}), ([], {"PYTHONOPTIMIZE": "1"})):
        said = run(*flags, "-m", "plugrad.cli", "check", "relu", code=2, COLUMNS="200", **variables)
        assert "without -O" in said
    said = run("-O", "-c", "from plugrad import testing; testing.checks_of('relu')[0]()", code=1)
    assert "RuntimeError" in said and "without -O" in said


def test_without_metadata(tmp_path):
    """The packages alone, as tools that bundle programs copy them."""
    (tmp_path / "plugrad").symlink_to(pathlib.Path(plugrad.__file__).parent)
    for package in ("numpy", "pluggy"):
        place = pathlib.Path(sys.modules[package].__file__).parent
        (tmp_path / package).symlink_to(place)
        for beside in place.parent.glob(f"{package}.libs"):
            (tmp_path / beside.name).symlink_to(beside)
    said = run("-S", "-c", "import plugrad", code=1, folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert "ImportError: plugrad is there but not installed" in said and "pip install -e ." in said


def test_metadata_of_another_version(tmp_path):
    """A source tree that was updated after `pip install -e .`: its metadata list what is gone."""
    folder = tmp_path / "plugrad-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugrad\nVersion: 0.1.0\n")
    (folder / "entry_points.txt").write_text("[plugrad]\nops-gone = plugrad.plugins.ops.gone\n")
    said = run("-c", "import plugrad", code=1, PYTHONPATH=str(tmp_path))
    assert "plugrad.plugins.ops.gone, which is not there" in said and "pip install -e ." in said


FIRST = {
    "load": "torch.load(FOLDER / 'tensor.pt')",
    "load a state": "torch.nn.Linear(2, 2).load_state_dict(torch.load(FOLDER / 'state.pt'))",
    "unpickle": "pickle.loads((FOLDER / 'tensor.pickle').read_bytes())",
    "unpickle a module": "pickle.loads((FOLDER / 'module.pickle').read_bytes())",
    "from_raw": "plugrad.extend.from_raw(numpy.ones(2))",
    "from_numpy": "torch.from_numpy(numpy.ones(2))",
    "from_dlpack": "torch.from_dlpack(numpy.ones(2))",
    "formulas": "plugrad.extend.F.exp(torch.ones(1))",
    "random state": "torch.set_rng_state(torch.get_rng_state())",
    "data": "next(iter(torch.utils.data.DataLoader([numpy.ones(2)])))",
}
SAVING = """
import pathlib, pickle, sys
import plugrad as torch
folder, x, model = pathlib.Path(sys.argv[1]), torch.ones(2, requires_grad=True), torch.nn.Linear(2, 2)
torch.save(x, folder / "tensor.pt")
torch.save(model.state_dict(), folder / "state.pt")
(folder / "tensor.pickle").write_bytes(pickle.dumps(x))
(folder / "module.pickle").write_bytes(pickle.dumps(model))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    subprocess.run([sys.executable, "-c", SAVING, folder], check=True)
    return folder


@pytest.mark.parametrize("use", FIRST)
def test_anything_may_be_the_first_use_in_a_process(saved, use):
    """NumPy's arrays are known before anything was computed."""
    head = f"import pathlib, pickle, numpy, plugrad.extend, plugrad as torch; FOLDER = pathlib.Path({str(saved)!r})"
    done = subprocess.run([sys.executable, "-c", f"{head}; {FIRST[use]}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
