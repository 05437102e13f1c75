"""PyTorch's operator database against plugrad: each entry passes, or fails as tests/known/cpu.txt says.

Each line there is `entry category  # reason`. What is listed but passes is an error too, so the list only
shrinks. For more samples and dtypes run `python tests/parity/opinfo.py`.
"""

from __future__ import annotations

import functools
import pathlib
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")
    pytest.importorskip("expecttest", reason="PyTorch's operator database needs it")
    import opinfo

import opinfo_report

import plugrad

KNOWN = pathlib.Path(__file__).parents[1] / "known" / "cpu.txt"
DTYPES = (torch.float64, torch.float32, torch.int64)
SAMPLES = 6


@functools.cache
def known_failures() -> dict[str, set[str]]:
    """Categories known to fail, by entry."""
    known: dict[str, set[str]] = {}
    for line in KNOWN.read_text().splitlines() if KNOWN.exists() else ():
        if words := line.partition("#")[0].split():
            entry, category = words
            known.setdefault(entry, set()).add(category)
    return known


PROVIDED, MISSING = opinfo.select(plugrad)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """The samples are small; PyTorch's thread pool only gets in the way."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("entry", PROVIDED)
def test_entry(entry):
    report = opinfo.run_op(entry, dtypes=DTYPES, limit=SAMPLES)
    known = known_failures().get(entry, set())
    news = [f"{category}: {report.messages[category]}" for category in report.failed if category not in known]
    assert not news, "\n".join(news)
    stale = sorted(known - set(report.failed))
    assert not stale, f"passes now, remove from {KNOWN.name}: {', '.join(stale)}"


def test_known_failures_name_entries_that_run():
    assert not set(known_failures()) - set(PROVIDED)
    assert not set().union(*known_failures().values()) - set(opinfo_report.CATEGORIES)


def test_each_known_failure_has_a_reason():
    lines = KNOWN.read_text().splitlines() if KNOWN.exists() else []
    assert not [line for line in lines if line.strip() and not line.partition("#")[2].strip()]
