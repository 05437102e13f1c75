"""Wrong arguments, drawn by seed: PyTorch refuses them and so do we, with an error of its type; none hangs or crashes.

For many more run `python tests/parity/misuse.py --seed N --cases 5000`, for rooms alone with `--parts rooms`.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")
CASES = {"ops table layers": 1500, "rooms": 1000}
LEAST = {"ops table layers": 0.99, "rooms": 0.98}  # of the cases; what is left is printed by the command above
BAD = ("internal", "hang", "crash", "lenient", "type", "strict", "value")


@pytest.fixture(scope="module", params=list(CASES))
def parts(request):
    return request.param


@pytest.fixture(scope="module")
def judged(parts):
    """Verdicts from a process of its own: it makes others, which one with threads must not."""
    command = [sys.executable, str(pathlib.Path(__file__).with_name("misuse.py")), "--json"]
    answer = subprocess.run(
        [*command, "--seed", "a fixed seed", "--cases", str(CASES[parts]), "--parts", *parts.split()],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("[")]  # MKL writes, too


def test_wrong_arguments_are_refused_as_in_pytorch(parts, judged):
    held = sum(category == "held" for category, _, _ in judged)
    apart = [f"{category} {case}: {detail}" for category, case, detail in judged if category in BAD]
    assert held >= LEAST[parts] * (held + len(apart)), "\n".join(apart)


def test_no_call_hangs_or_ends_the_process(parts, judged):
    assert len(judged) == CASES[parts]
    assert [case for category, case, _ in judged if category in ("hang", "crash")] == []
