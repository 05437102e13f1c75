"""`plugrad inspect` and `plugrad convert`."""

import contextlib
import json
import os
import pty
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import plugrad
from plugrad.cli import app
from support.distribution_builder import TIMEOUT

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


@pytest.mark.parametrize("suffix", [".plugrad", ".pt", ".safetensors", ".npz"])
def test_convert_shows_its_progress_on_a_terminal_only(tmp_path, suffix):
    source, target = tmp_path / "big.plugrad", tmp_path / f"out{suffix}"
    plugrad.save({f"w{n}": plugrad.full((1 << 18,), n) for n in range(8)}, source)
    command = [sys.executable, "-m", "plugrad.cli", "convert", str(source), str(target)]
    quiet = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert (quiet.returncode, quiet.stderr) == (0, "") and target.name in quiet.stdout
    whole = plugrad.load(target)
    target.unlink()
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"}) as shown:
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError):  # the terminal's end, where nobody writes any more
            while part := os.read(ours, 4096):
                text += part
        assert shown.wait(TIMEOUT) == 0
    os.close(ours)
    assert f"writing out{suffix}".encode() in text and b"MB" in text
    again = plugrad.load(target)
    assert all(plugrad.equal(whole[name], again[name]) for name in whole) and len(whole) == 8


@pytest.mark.parametrize("suffix", [".plugrad", ".pt", ".npz"])
def test_convert_refuses_what_is_damaged(tmp_path, suffix):
    """A flipped bit of a tensor must not get a right checksum in the other file."""
    source, target = tmp_path / f"source{suffix}", tmp_path / "target.safetensors"
    plugrad.save({"w": plugrad.full((5000,), 2.0)}, source, format={".pt": "torch"}.get(suffix, suffix[1:]))
    data = bytearray(source.read_bytes())
    data[len(data) // 2] ^= 1
    source.write_bytes(data)
    target.write_bytes(b"what was there")
    code, said = run("convert", source, target)
    assert code == 2 and "checksum" in said, said
    assert target.read_bytes() == b"what was there" and len(list(tmp_path.iterdir())) == 2
