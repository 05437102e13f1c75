"""Wrong arguments, drawn by seed: PyTorch refuses them and so do we, with an error of its type; none hangs or crashes.

For many more run `python tests/parity/misuse.py --seed N --cases 5000`.
"""

from __future__ import annotations

import collections

import pytest

pytest.importorskip("torch")
CASES = 1500
LEAST = 0.90  # of the cases; what is left is printed by the command above


@pytest.fixture(scope="module")
def judged():
    import misuse

    cases = misuse.Cases("a fixed seed")
    return cases, list(misuse.run(cases, range(CASES)))


def test_wrong_arguments_are_refused_as_in_pytorch(judged):
    cases, verdicts = judged
    counts = collections.Counter(category for _, category, _ in verdicts)
    apart = [f"{category} {cases.case(number)}: {detail}" for number, category, detail in verdicts if category in BAD]
    assert counts["held"] >= LEAST * (counts["held"] + len(apart)), "\n".join(apart)


def test_no_call_hangs_or_ends_the_process(judged):
    cases, verdicts = judged
    assert [str(cases.case(number)) for number, category, _ in verdicts if category in ("hang", "crash")] == []


BAD = ("internal", "hang", "crash", "lenient", "type", "strict", "value")
