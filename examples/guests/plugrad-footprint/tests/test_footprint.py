"""The checks that follow from what the package declares, and one that only its author can know."""

from plugrad_footprint import needed

import plugrad as torch
from plugrad.testing import conformance_tests

test_package = conformance_tests("plugrad-footprint")


def test_views_take_no_memory_and_copies_do():
    x = torch.empty(4, 5, device="footprint")
    assert needed(lambda: x.t()[1:]) == 0
    assert needed(lambda: x.t().contiguous()) == 80
    assert needed(lambda: (x @ x.t()).double()) == 4 * 4 * (4 + 8)
