"""Stubs: those that are shipped are those of the registry, and type checkers see with them what users write."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

from support.distribution_builder import ROOT, build, command, op_module, output, refusal, run

RIGHT = """
import plugrad as torch
import plugrad.nn.functional as F
from plugrad import Tensor, nn, optim


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 2)
        self.rest = nn.Sequential(nn.ReLU(), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.rest(self.first(x)))


net = Net()
optimizer = optim.Adam(net.parameters(), lr=0.1)
schedule = optim.lr_scheduler.StepLR(optimizer, 3)
x = torch.ones(2, 4, requires_grad=True)
y: Tensor = net(x).tanh() + 2 * x.sum(dim=1, keepdim=True) - x[:, :2] / 3
loss: Tensor = F.cross_entropy(y, torch.tensor([0, 1]), reduction="mean")
loss.backward()
optimizer.step()
schedule.step()
values, indices = x.max(dim=1)
both: Tensor = values + indices + x.max()
parts: tuple[Tensor, ...] = torch.split(x, 1)
output, (hidden, cell) = nn.LSTM(4, 2)(x)
weight: Tensor = nn.Linear(4, 2)(x) @ hidden
with torch.no_grad():
    x.add_(1).clamp_(min=0.0)
small: Tensor = torch.stack([x, x]).to(torch.float64).reshape(-1, 2)
rows: int = len(x.shape)
same: bool = torch.equal(x, small)
ours: Tensor = torch.stranger(x) + x.stranger()
first, second, third = torch.meshgrid(values, values, values, indexing="ij")
sizes: Tensor = torch.zeros(size=(2, 3), dtype=torch.float64) + torch.ones(2, 3) + torch.randn((2, 3))
bits: Tensor = x.view(2, -1) + x.view(size=(2, 4)) + x.view(dtype=torch.int32)
"""
WRONG = {
    "F.relu(x, inplase=True)": "inplase",
    "nn.Linear(4, 2, bia=True)": "bia",
    "optim.Adam(net.parameters(), learning_rate=0.1)": "learning_rate",
    "x.sum(dims=1)": "dims",
    'F.conv2d(x, x, stride="2")': "stride|Literal",
    "torch.stack(3)": "stack|Literal",
    "x.relu().no_such_method()": "no_such_method",
    "torch.zeros(2, dtyp=torch.float64)": "zeros|overload",
    "x.reshape(2, siz=2)": "reshape|overload",
    "torch.stranger(x, other=1)": "other",
    "nn.Linear(4, 2)(x, x)": "call|positional",
}


def test_the_shipped_stubs_are_those_of_the_registry():
    printed = output("import json\nfrom plugrad.testing import stubs\nprint(json.dumps(stubs.tree(own=True)))")
    shipped = {file.relative_to(ROOT / "stubs").as_posix(): file.read_text() for file in ROOT.glob("stubs/**/*.pyi")}
    assert json.loads(printed) == shipped, "write them anew: python -m plugrad.testing.stubs stubs"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The folder of a program that uses a stranger's op, too, with stubs that `plugrad stubs` wrote."""
    folder, site = tmp_path_factory.mktemp("program"), tmp_path_factory.mktemp("site")
    promised = {"plugrad.ops": {"stranger": "stranger_module"}}
    build(site, "plugrad-stranger", promised, stranger_module=op_module("stranger"))
    done = run(None, site, arguments=["-m", "plugrad.cli", "stubs"], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"typings.plugrad: \d\d files\n", done.stdout), done.stdout
    (folder / "right.py").write_text(RIGHT)
    wrong = "\n".join(WRONG)
    (folder / "wrong.py").write_text(f"{RIGHT}\n{wrong}\n")
    (folder / "mypy.ini").write_text("[mypy]\nmypy_path = typings\nstrict = True\n")
    settings = {"typeCheckingMode": "strict", "reportMissingModuleSource": "none"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    return folder


def complaints(program, files, *command):
    """Return for each file the lines in which a type checker finds an error, and what it said."""
    done = subprocess.run([sys.executable, "-m", *command, *files], cwd=program, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    told = [re.findall(rf"{file}:(\d+):.*?error: (.*)", done.stdout) for file in files]
    assert (done.returncode == 0) == (not any(told)), done.stdout + done.stderr
    lines = [(program / file).read_text().splitlines() for file in files]
    return [[(own[int(line) - 1], text) for line, text in found] for own, found in zip(lines, told, strict=True)]


@pytest.mark.parametrize("command", [("mypy", "--cache-dir=/dev/null"), ("basedpyright",)], ids=["mypy", "pyright"])
def test_type_checkers_see_what_programs_write(program, command):
    pytest.importorskip(command[0])
    right, wrong = complaints(program, ["right.py", "wrong.py"], *command)  # in one run: most of it reads the stubs
    assert right == []
    told = dict(wrong)
    assert told.keys() == WRONG.keys()
    assert [line for line, text in told.items() if not re.search(WRONG[line], text)] == []
    assert pathlib.Path(program, "typings", "plugrad", "nn", "functional", "__init__.pyi").is_file()


def test_a_plugin_that_fails_and_names_that_several_bring_are_left_out(tmp_path):
    for name in ("first", "second"):
        entries = {"plugrad.ops": {"both": f"plugin_{name}", name: f"plugin_{name}"}}
        source = op_module("both").partition("@hookimpl")[0] + op_module(name)
        build(tmp_path / name, f"plugrad-{name}", entries, **{f"plugin_{name}": source})
    build(tmp_path / "third", "plugrad-third", {"plugrad.ops": {"third": "plugin_third"}}, plugin_third="1 / 0")
    paths = [tmp_path / name for name in ("first", "second", "third")]
    command("stubs", str(tmp_path / "typings"), paths=paths)
    text = (tmp_path / "typings" / "plugrad" / "__init__.pyi").read_text()
    assert "def first(" in text and "def second(" in text and "def both(" not in text and "third" not in text


def test_stubs_do_not_stand_before_the_package(tmp_path):
    assert "would stand before plugrad itself" in refusal("stubs", ".", cwd=tmp_path)
