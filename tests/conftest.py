"""Fixtures that several rooms share."""

import pytest

import plugrad
from plugrad.extend import register, unregister
from support.fake_backend import Fake


@pytest.fixture(scope="session")
def torch():
    """PyTorch; where it is not installed the test is skipped."""
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def fake():
    """The fake device, for the tests of one module."""
    register(Fake)
    yield plugrad.device("fake")
    unregister(Fake)
