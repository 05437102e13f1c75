"""Memory that begins with a line of the cache: for all arrays that NumPy makes, whatever else is done with them."""

import random
import subprocess
import sys
import textwrap

import numpy
import pytest

import plugrad as T
from plugrad import kernels, registry
from plugrad.extend import new_memory, op, register
from plugrad.testing.calls import is_random
from plugrad.testing.samples import samples_of

pytestmark = pytest.mark.skipif(kernels.level() is None, reason="no kernels in C here")
DEFAULT = "default_allocator"


def in_a_process(program):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)


def test_arrays_begin_with_a_line():
    T.ones(1)
    for size in (256, 257, 1000, 100_000, 3_000_000):
        made = [numpy.empty(size, "f"), numpy.zeros(size), numpy.arange(size) * 2.0, T.randn(size).relu().numpy()]
        assert all(array.ctypes.data % 64 == 0 for array in made)


def test_what_is_resized_keeps_its_elements():
    """Arrays that grow and shrink at random, some of them small ones whose memory another had before."""
    T.ones(1)
    draw = random.Random(0)
    arrays = [numpy.arange(draw.choice((1, 3, 100, 126, 127, 128, 129, 1000, 70_000))) for _ in range(60)]
    for _ in range(3000):
        k = draw.randrange(len(arrays))
        if draw.random() < 0.3:
            arrays[k] = numpy.arange(draw.randrange(1, 300))
            continue
        before, size = arrays[k].copy(), draw.choice((1, 2, 5, 64, 127, 128, 129, 5000, 100_000))
        arrays[k].resize(size, refcheck=False)
        shared = min(before.size, size)
        assert numpy.array_equal(arrays[k][:shared], before[:shared]) and not arrays[k][shared:].any()
        arrays[k][:] = numpy.arange(size)


def test_zeros_are_zeros_where_memory_is_used_again():
    T.ones(1)
    for size in range(1, 200):
        used = [numpy.full(size, 255, "u1") for _ in range(20)]
        del used
        assert not any(numpy.zeros(size, "u1").any() for _ in range(20))


def test_python_is_told_of_the_memory():
    done = in_a_process("""
        import tracemalloc
        tracemalloc.start()
        import numpy, plugrad
        plugrad.ones(1)
        assert numpy._core.multiarray.get_handler_name() == "plugrad_allocator"
        before = tracemalloc.get_traced_memory()[0]
        array = numpy.empty(10_000_000, "u1")
        assert 10_000_000 <= tracemalloc.get_traced_memory()[0] - before < 10_100_000
        del array
        assert abs(tracemalloc.get_traced_memory()[0] - before) < 100_000
    """)
    assert done.returncode == 0, done.stderr


def test_arrays_outlive_the_interpreter_and_pass_between_threads():
    done = in_a_process("""
        import threading, numpy
        early = [numpy.ones(5000) for _ in range(3)]
        import plugrad
        kept = [plugrad.ones(5000) for _ in range(3)]
        handed = []
        work = lambda: handed.extend((early.pop(), kept.pop(), numpy.ones(9), plugrad.ones(5000)))
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        handed.pop(0)
        assert sum(float(x.sum()) for x in handed) == 5000 + 9 + 5000
        plugrad.forgotten = handed
    """)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_checks_do_not_compare_what_nobody_has_filled():
    """Ops of ours by name, another's by what it returns once new memory is filled."""

    @op(vjp=None)
    def unfilled(xp, input):
        return new_memory(xp.empty(input.shape, input.dtype))

    unfilled.samples(lambda make: iter([make(3, requires_grad=False)]))
    records = [registry.op(name) for name in registry.ops if "empty" in name]
    assert records and all(is_random(one, sample) for one in records for sample in samples_of(one))
    register(unfilled)
    assert all(is_random(registry.op("unfilled"), sample) for sample in samples_of(registry.op("unfilled")))
    assert not any(is_random(registry.op("exp"), sample) for sample in samples_of(registry.op("exp")))


@pytest.mark.parametrize("variable", ["PLUGRAD_KEEP_MEMORY", "PLUGRAD_NATIVE"])
def test_memory_is_left_alone_where_the_user_says_so(variable, monkeypatch):
    monkeypatch.setenv(variable, "0")
    done = in_a_process("import numpy, plugrad; plugrad.ones(1); print(numpy._core.multiarray.get_handler_name())")
    assert done.stdout.strip() == DEFAULT, done.stderr
