"""What one recorded op costs in memory, besides the arrays that its formula asks for; see benchmarks/memory.py."""

import gc
import sys
import tracemalloc

import pytest

import plugrad

NODES = 2000
# From 3.12 on, CPython keeps the list of weak references before the object, with room for a dictionary beside it.
MORE = 8 if sys.version_info >= (3, 12) else 0
STEPS = {
    "x * c": (lambda x, c: x * c, 206),
    "x * 0.5": (lambda x, c: x * 0.5, 206),
    "x + c": (lambda x, c: x + c, 160),
    "-x": (lambda x, c: -x, 160),
}


def chain(step, length):
    x, c = plugrad.ones(1, requires_grad=True), plugrad.full((1,), 0.5)
    for _ in range(length):
        x = step(x, c)
    return x


@pytest.mark.parametrize("label", STEPS)
def test_bytes_of_a_node(label):
    step, bar = STEPS[label]
    chain(step, 10)  # what is made at the first call is no part of a node
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        end = chain(step, NODES)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert end.requires_grad and 100 < held / NODES <= bar + MORE
