"""Versions of the plugin contract: a plugin written for each of them, kept unchanged, goes on working."""

import pytest

from plugrad.registry import contract
from support.distribution_builder import DISTRIBUTIONS, build, op_module, output, run

GOLDEN = """
import plugrad as torch
x = torch.tensor([2.0, -1.0], requires_grad=True)
assert "CubicLoss{v}" in dir(torch.nn) and "cube{v}" in dir(torch)
torch.cube{v}(x).sum().backward()
assert x.grad.tolist() == [12, 3] and x.cube{v}().tolist() == [8, -1]
assert torch.nn.Cube{v}()(x).tolist() == [8, -1]
assert torch.nn.CubicLoss{v}(reduction="sum")(x, torch.zeros(2)).item() == 9
assert torch.nn.functional.cubic_loss{v}(x, torch.zeros(2)).item() == 4.5
optimizer = torch.optim.Sign{v}([x], lr=0.5)
scheduler = torch.optim.lr_scheduler.Halving{v}(optimizer)
optimizer.step()
scheduler.step()
assert x.tolist() == [1.5, -1.5] and optimizer.param_groups[0]["lr"] == 0.25
assert torch.nn.init.sevens{v}_(torch.empty(2)).tolist() == [7, 7]
there = torch.ones(3, device="golden{v}")
assert there.device.type == "golden{v}" and (there + there).cpu().tolist() == [2, 2, 2]
assert torch.sinc(torch.zeros(2, device="golden{v}")).cpu().tolist() == [1, 1]
assert torch.compile(torch.nn.Cube{v}(), backend="plain{v}")(x.detach()).tolist() == [3.375, -3.375]
"""


@pytest.mark.parametrize("version", range(contract.OLDEST, contract.CURRENT + 1))
def test_a_plugin_of_every_version_works(version):
    home = DISTRIBUTIONS / f"api{version}"
    output(GOLDEN.format(v=version), home)
    done = run(None, home, arguments=("-m", "plugrad.cli", f"golden{version}"))
    assert done.stdout.strip() == {1: "one", 2: "two"}[version] and done.stderr == ""


@pytest.mark.parametrize(
    "stated, outcome",
    [
        ("(1, 1)", None), ("(1, 9)", None), ("2", None), ("[2, 2]", None),
        ("(3, 4)", "written for plugin API 3 to 4, this plugrad has 1 to 2: install a newer plugrad, or"),
        ("(0, 0)", "written for plugin API 0 to 0, this plugrad has 1 to 2: install a newer plugrad-v"),
        ("(2, 1)", "plugrad_api must be a pair of versions such as (1, 2), not (2, 1)"),
        ("'>=1'", "plugrad_api must be a pair of versions such as (1, 2), not '>=1'"),
    ],
)  # fmt: skip
def test_the_range_that_a_plugin_states(tmp_path, stated, outcome):
    build(tmp_path, "plugrad-v", {"plugrad": {"v": "plugrad_v"}}, plugrad_v=op_module("v") + f"plugrad_api = {stated}")
    done = run("import plugrad; print(hasattr(plugrad, 'v'))", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(outcome is None)
    assert outcome is None and done.stderr == "" or outcome in done.stderr


def test_a_derived_loss_is_not_handed_over_twice_any_more(tmp_path):
    source = (DISTRIBUTIONS / "api1" / "plugrad_api1.py").read_text().replace("(1, 1)", "(2, 2)").replace("(app)", "()")
    points = {"plugrad": {"v": "plugrad_v"}}
    build(tmp_path, "plugrad-v", points, plugrad_v=source)
    assert "returned 'CubicLoss1', which comes with its op already" in run("import plugrad", tmp_path).stderr


def test_commands_of_third_parties_replace_none_of_ours(tmp_path):
    source = """
from plugrad.extend import hookimpl

plugrad_api = (2, 2)

def ops():
    print("not ours")

def other():
    print("other")

@hookimpl
def plugrad_cli():
    return [ops, other]
"""
    build(tmp_path, "plugrad-c", {"plugrad": {"c": "plugrad_c"}}, plugrad_c=source)
    done = run(None, tmp_path, arguments=("-m", "plugrad.cli", "other"))
    assert done.stdout == "other\n" and "the command 'ops' of plugrad-c:c is left out" in done.stderr
    assert "not ours" not in run(None, tmp_path, arguments=("-m", "plugrad.cli", "ops", "sin")).stdout
