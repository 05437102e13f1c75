"""The table of PyTorch's names: each is there, different with a reason or absent with a reason, and the page is so."""

from __future__ import annotations

import pytest

from support.distribution_builder import ROOT

pytest.importorskip("torch")

from plugrad import absent
from plugrad.cli import parity


@pytest.mark.parametrize("place", parity.PLACES)
def test_every_name_has_its_place(place):
    if parity.theirs(place) is not None:
        unknown = [name for name in parity.names_of(place) if parity.state(place, name)[0] == "unknown"]
        assert not unknown, f"implement these, or say in surface/absent/reasons.txt why not: {unknown}"


def test_the_page_is_what_the_names_are():
    assert (ROOT / "docs/parity.md").read_text() == parity.page(), "python -m plugrad.cli.parity > docs/parity.md"


def test_no_pattern_is_left_over():
    names = {f"{place}.{name}".lstrip(".") for place in parity.PLACES for name in parity.names_of(place)}
    patterns = [one for one in absent.differences() if not one.endswith(".*")]
    assert not [one for one in patterns if not any(absent.fnmatch.fnmatchcase(name, one) for name in names)]
