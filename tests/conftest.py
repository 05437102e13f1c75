"""Fixtures that several rooms share."""

import contextlib

import pytest

import plugrad
from support.fake_backend import Fake
from support.installing import installed


@pytest.fixture(scope="session")
def torch():
    """PyTorch; where it is not installed the test is skipped."""
    return pytest.importorskip("torch")


@pytest.fixture
def install():
    """Return a function that installs a distribution of records, and returns its plugin, until the test ends."""
    with contextlib.ExitStack() as stack:
        yield lambda distribution, records: stack.enter_context(installed(distribution, **records))


@pytest.fixture(scope="module")
def fake():
    """The fake device, for the tests of one module."""
    with installed("plugrad-fake", backends=[Fake]):
        yield plugrad.device("fake")
