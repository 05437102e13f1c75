"""Fixtures that several rooms share."""

import compileall
import contextlib
import faulthandler
import gc
import importlib.util
import itertools
import math
import os
import pathlib
import random
import sys
import time
import zlib

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

# Test processes share the processors: threads of BLAS in each would wait for each other, for milliseconds a small call.
if "PYTEST_XDIST_WORKER" in os.environ and "numpy" not in sys.modules:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Hundreds of tests start processes. With PYTHONDONTWRITEBYTECODE each of them would compile plugrad's source tree anew.
if "PYTEST_XDIST_WORKER" not in os.environ and sys.dont_write_bytecode:
    root = pathlib.Path(__file__).parents[1]
    if pathlib.Path(importlib.util.find_spec("plugrad").origin) == root / "core" / "__init__.py":
        for folder in ("cli", "core", "plugins", "surface", "testing", "tests/support"):
            compileall.compile_dir(root / folder, quiet=2)

import numpy as np

import plugrad
from plugrad import registry
from plugrad.extend import unregister
from support.fake_backend import Fake
from support.installing import installed


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collect tests; the collector of garbage looks neither meanwhile nor later at what lives until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        leave_alone()


def pytest_runtest_setup(item):
    """Seed each test by its name: what it draws is the same in whatever order and process it runs."""
    watch(item.config)
    seed = zlib.crc32(item.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)
    plugrad.manual_seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(seed)


_watched_since = -math.inf


def watch(config) -> None:
    """End a process in which a test hangs for 5 or 6 minutes, with the place of each thread.

    pytest's own timer starts and ends a thread for each test, which two busy processes wait for: 1.5 ms of each test.
    """
    global _watched_since
    if time.monotonic() > _watched_since + 60:
        _watched_since = time.monotonic()
        faulthandler.dump_traceback_later(360, exit=True, file=config.stash.get(fault_handler_stderr_fd_key, 2))


def pytest_unconfigure():
    faulthandler.cancel_dump_traceback_later()


_finished = itertools.count(1)


def pytest_runtest_logfinish(nodeid, location):
    """Every thousand tests do the same with what has come to stay, such as generated functions and their sources."""
    if next(_finished) % 1000 == 0:
        leave_alone()


def leave_alone() -> None:
    """Have the collector of garbage look no more at what there is: a full look takes longer than most tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def torch():
    """PyTorch; where it is not installed the test is skipped."""
    return pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def nothing_stays_registered():
    """Take back what a test registers for its process, so that no later one sees it, in whatever order they run."""
    before = registered()
    yield
    left = {id(entry.value): entry.value for name, entry in registered().items() if name not in before}
    for one in left.values():
        unregister(one)
    assert not registry.lock._is_owned(), "the registry's lock was left closed: threads of later tests would hang"


def registered() -> dict:
    """Return what the program itself has registered, by name."""
    session = registry.loader.plugins.get("session:main")
    return {} if session is None else dict(session.brought)


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
