"""Print how many bytes one recorded op costs, besides the arrays that its formula asks for.

    python benchmarks/memory.py [--nodes 10000] [--json FILE]

A chain of tiny ops is recorded while `tracemalloc` counts: the node with its edges, its tuple of saved values and its
place in time. Where the formula saves a result the array is counted too, and shown apart. The bar is that of the first
row; nothing but the graph may grow there.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tracemalloc

import plugrad

BAR = 206  # bytes

CASES = {
    "x * c": lambda x, c: x * c,
    "x * 0.5": lambda x, c: x * 0.5,
    "x + c": lambda x, c: x + c,
    "-x": lambda x, c: -x,
    "x.sum(0, keepdim=True)": lambda x, c: x.sum(0, keepdim=True),
    "x.reshape(1)": lambda x, c: x.reshape(1),
    "x.tanh(), which saves its result": lambda x, c: x.tanh(),
}


def bytes_per_node(step, nodes: int) -> float:
    """Return the bytes that a chain of calls of `step` holds for each of them."""
    x, c = plugrad.ones(1, requires_grad=True), plugrad.full((1,), 0.5)
    _chain(step, x, c, 10)  # what is made at the first call is no part of a node
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    end = _chain(step, x, c, nodes)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert end.requires_grad
    return held / nodes


def _chain(step, x, c, length):
    for _ in range(length):
        x = step(x, c)
    return x


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--json")
    options = parser.parse_args()
    sizes = {name: bytes_per_node(step, options.nodes) for name, step in CASES.items()}
    for name, count in sizes.items():
        print(f"{name:<36} {count:7.1f} bytes")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(sizes, file)
    first = sizes["x * c"]
    print(f"bar: {BAR} bytes for x * c: {'kept' if first <= BAR else 'BROKEN'}")
    return int(first > BAR)


if __name__ == "__main__":
    sys.exit(main())
