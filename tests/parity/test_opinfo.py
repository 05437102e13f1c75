"""PyTorch's operator database against plugrad: each entry passes, or fails as tests/known/cpu.txt says.

Each line there is `entry category  # reason`. What is listed but passes is an error too, so the list only
shrinks. For more samples and dtypes run `python tests/parity/opinfo.py`.
"""

from __future__ import annotations

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")
    pytest.importorskip("expecttest", reason="PyTorch's operator database needs it")
    import opinfo

import opinfo_report

import plugrad
from support import known_failures

KNOWN = "cpu.txt"
DTYPES = (torch.float64, torch.float32, torch.int64)
SAMPLES = 6
PROVIDED, MISSING = opinfo.select(plugrad)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("entry", PROVIDED)
def test_entry(entry):
    report = opinfo.run_op(entry, dtypes=DTYPES, limit=SAMPLES)
    failures = {category: f"{category}: {report.messages[category]}" for category in report.failed}
    known_failures.settle(KNOWN, entry, failures)


def test_known_failures_name_entries_that_run():
    known = known_failures.read(KNOWN)
    assert not set(known) - set(PROVIDED)
    assert not set().union(*known.values()) - set(opinfo_report.CATEGORIES)
