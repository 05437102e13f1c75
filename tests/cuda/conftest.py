"""The tests of the CUDA backend. They run on a GPU where there is one, and by `python tests/cupy_on_cpu` without.

In an ordinary run on a machine without a GPU they are not collected: the stand-in would make one of the process.
"""

import os
import zlib

import pytest

import plugrad
from plugrad import registry
from plugrad.backends import following
from plugrad.kernels.cuda import CudaFunction

if os.environ.get("CUPY_ON_CPU"):
    import cupy_on_cpu

    cupy_on_cpu.load()
elif registry.backend("cuda").available() is not None:
    collect_ignore_glob = ["test_*.py"]

STAND_IN = "CUPY_ON_CPU" in os.environ
EVERYTHING = os.environ.get("CUPY_ON_CPU", "all") == "all"


@pytest.fixture(scope="session")
def cupy():
    return registry.backend("cuda").xp


@pytest.fixture(scope="session")
def stand_in():
    """The package of the stand-in, for tests that count what it did; skipped on a GPU."""
    if not STAND_IN:
        pytest.skip("counts and orders of threads are the stand-in's")
    return cupy_on_cpu


@pytest.fixture(scope="session")
def on_stand_in():
    """Whether there is no GPU, but the stand-in."""
    return STAND_IN


@pytest.fixture(scope="session")
def everything():
    """Whether all samples are to be tested, not a part."""
    return EVERYTHING


@pytest.fixture(autouse=True)
def _an_order_of_threads(request):
    """On the stand-in the blocks of a launch, and the threads of a block, come in another order in each test."""
    if STAND_IN:
        cupy_on_cpu.set_order(zlib.crc32(request.node.nodeid.encode()))
    yield
    if STAND_IN:
        cupy_on_cpu.set_order(0)


@pytest.fixture(autouse=True)
def _one_device():
    """No test leaves behind that ops follow the devices of their tensors."""
    yield
    if following.started():
        following.stop()


@pytest.fixture
def cuda():
    return plugrad.device("cuda")


@pytest.fixture
def launched(monkeypatch):
    """The names of the kernels that were called, and served the call, but for sums and what the backend itself has."""
    names, call = [], CudaFunction.__call__

    def counted(self, *args, **options):
        result = call(self, *args, **options)
        if result is not NotImplemented and not {"backends", "sums.cu"} & {*getattr(self.source, "parts", ())}:
            names.append(self.__name__)
        return result

    monkeypatch.setattr(CudaFunction, "__call__", counted)
    return names
