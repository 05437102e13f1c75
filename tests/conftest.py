"""Fixtures that several rooms share."""

import pytest

import plugrad
from plugrad.extend import register, unregister
from support.fake_backend import Fake


@pytest.fixture(scope="session")
def fake():
    """The fake device."""
    register(Fake)
    yield plugrad.device("fake")
    unregister(Fake)
