"""What the tests of modules say holds in PyTorch: the same files, run with PyTorch in plugrad's place."""

import pytest

from support.distribution_builder import ROOT, run

pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["test_module", "test_module_hooks", "test_module_state", "test_containers"])
def test_with_pytorch(name):
    """All that is not marked `ours` passes."""
    file = ROOT / "tests" / "core" / f"{name}.py"
    arguments = ["-m", "pytest", "-q", "--noconftest", "-p", "support.torch_as_plugrad", "-p", "no:cacheprovider"]
    done = run(None, ROOT / "tests", arguments=[*arguments, str(file)], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert all(line.endswith("where plugrad does more than PyTorch") for line in skipped), skipped
    assert bool(skipped) == ("@ours" in file.read_text()) and " passed" in done.stdout
