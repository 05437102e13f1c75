"""The tests of the CUDA backend. They run on a GPU where there is one, and by `python tests/cupy_on_cpu` without.

In an ordinary run on a machine without a GPU they are not collected: the stand-in would make one of the process.
"""

import os
import pathlib
import runpy
import zlib
from itertools import product

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

HERE = pathlib.Path(__file__).parent
STAND_IN = "CUPY_ON_CPU" in os.environ
EVERYTHING = os.environ.get("CUPY_ON_CPU", "all") == "all"
ORDERS = 2  # in which each kernel runs, at least: each test has one of its own
HALVES = "float16", "bfloat16"
# Not stood in for: products by cuBLAS of half precision with results in float32, between which these run.
ELSEWHERE = {" ".join(one) for one in product(["attention.cu"], ["attention_weights", "attention_slopes"], HALVES)}
launches = {}  # by kernel and type of elements, tests


@pytest.fixture(scope="session", autouse=True)
def _launches_are_noted():
    """On the stand-in, note by kernel and type of elements the tests in which it is launched."""
    compiled = CudaFunction.compiled

    def noting(self, dtype, threads):
        kernel, tests = compiled(self, dtype, threads), launches.setdefault(of_kernel(self, dtype), set())

        def launch(grid, block, arguments):
            tests.add(os.environ["PYTEST_CURRENT_TEST"].partition(" (")[0])
            return kernel(grid, block, arguments)

        return launch

    if STAND_IN:
        CudaFunction.compiled = noting
    yield
    CudaFunction.compiled = compiled


@pytest.fixture(scope="session")
def cupy():
    xp = registry.backend("cuda").xp
    if xp is None:
        pytest.skip("CuPy is not installed, nor does its stand-in run")
    return xp


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


@pytest.fixture(params=["an order", "another order"])
def two_orders(request):
    """Have a test run twice, each time with an order of threads of its own."""
    return request.param


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


# ------------------------------------------------------------------------------------- all kernels, in several orders


def of_kernel(function, dtype) -> str:
    """Return how a kernel and a type of elements are named: a file may have others of that name, by its options."""
    return " ".join([pathlib.Path(str(function.source)).name, function.__name__, *function.flags, dtype])


def rarely_launched() -> list[str]:
    """Return the kernels of ours, with their types, that ran in too few orders, and of those ELSEWHERE the others."""
    functions = runpy.run_path(str(HERE / "compiled_for_cards.py"))["functions"]()
    ours = {of_kernel(function, dtype) for function in functions for dtype in function.types}
    return sorted(one for one in ours if (len(launches.get(one, ())) < ORDERS) is not (one in ELSEWHERE))


def pytest_sessionfinish(session):
    """A run of everything in this folder fails where a kernel was not launched in several orders."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["launches"] = {name: sorted(tests)[:ORDERS] for name, tests in launches.items()}
        return
    whole = [pathlib.Path(one) for one in session.config.args] == [HERE] and not session.config.option.keyword
    session.rare = rarely_launched() if STAND_IN and whole and not session.testsfailed else []
    if session.rare:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    for name, tests in getattr(node, "workeroutput", {}).get("launches", {}).items():
        launches.setdefault(name, set()).update(tests)


def pytest_terminal_summary(terminalreporter):
    if rare := getattr(terminalreporter._session, "rare", ()):
        told = f"{len(rare)} kernels ran in fewer than {ORDERS} orders of their threads, or more and are in ELSEWHERE"
        terminalreporter.section(told)
        terminalreporter.write_line("\n".join(rare))
