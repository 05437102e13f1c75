"""`plugrad inspect` and `plugrad convert`."""

import json

import pytest
from typer.testing import CliRunner

import plugrad
from plugrad.cli import app

STATE = {"model": plugrad.nn.Linear(3, 2).state_dict(), "epoch": 3}


def run(*args):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    return result.exit_code, result.output


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.pt"
    plugrad.save(STATE, path)
    return path


def test_inspect(file, tmp_path):
    code, said = run("inspect", file)
    assert code == 0 and "model.weight" in said and "[2, 3]" in said and "float32" in said and "32 bytes" in said
    described = json.loads(run("inspect", file, "--json")[1])
    assert described["format"] == "plugrad" and [row["bytes"] for row in described["tensors"]] == [24, 8]
    (tmp_path / "bad").write_bytes(b"no")
    code, said = run("inspect", tmp_path / "bad")
    assert code == 2 and "checkpoint" in said and "Traceback" not in said
    assert run("inspect", tmp_path / "none")[0] == 2


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "pth", "plugrad"])
def test_convert(file, tmp_path, suffix):
    target = tmp_path / f"b.{suffix}"
    assert run("convert", file, target, "--entry", "model")[0] == 0
    loaded = plugrad.load(target)
    assert all(loaded[name].equal(value) for name, value in STATE["model"].items()) and len(loaded) == 2
    with plugrad.formats.opened(target) as source:
        assert plugrad.formats.recognised(source) is not None
    code, said = run("inspect", target)
    assert code == 0 and "weight" in said and "[2, 3]" in said


def test_what_can_not_be_converted(file, tmp_path):
    for args, text in [
        ((file, tmp_path / "b.safetensors"), "--entry"),
        ((file, tmp_path / "b.xyz"), "no format has the suffix"),
        ((file, tmp_path / "b.npz", "--to", "nothing"), "there is no format"),
        ((file, tmp_path / "b.npz", "--entry", "nothing"), "no entry"),
        ((tmp_path / "gone", tmp_path / "b.npz"), "can't be converted"),
    ]:
        code, said = run("convert", *args)
        assert code == 2, said
        assert text == "--entry" or text.split()[0] in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pt"]
