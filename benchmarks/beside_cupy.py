"""The host's time of small ops on CUDA, over that of CuPy's own call for the same.

    python benchmarks/beside_cupy.py [--rounds 9]

No card is needed: launches of the tests' stand-in for one do nothing, so that what is measured is what a program waits
for at small sizes. Each op is called in turn with CuPy's function on the same arrays, unrecorded, by the time of the
processor; of the rounds the fastest counts. Below 1 plugrad's call takes less than CuPy's.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import sys
import time

CALLS = 300
# plugrad's expression of tensors, and CuPy's of arrays, where that is another.
OPS = """
x + y | x - y | x * y | x / y | x + 2 | 2 - x | x * 0.5 | x + row | -x | abs(x) | x > y | x == y | x ** 2 | x ** 2.5
T.add(x, y) | T.exp(x) | T.log(p) | T.sqrt(p) | T.tanh(x) | T.sin(x) | T.maximum(x, y) | T.where(m, x, y)
x.sum() | x.sum(1) | x.mean() | x.max() | x.max(1)[0] ; x.max(1) | x.argmax(1) | x.var(1) ; x.var(1, ddof=1)
x.cumsum(1) | x.clamp(-1, 1) ; T.clip(x, -1, 1) | x @ y.t() ; x @ y.T | x.t() ; x.T | x[1] | x[:, 2:5] | x.reshape(-1)
x[at] | x[m] | x.gather(1, along) ; T.take_along_axis(x, along, 1) | T.cat([x, y]) ; T.concatenate([x, y])
x.to(T.float64) ; x.astype('float64') | x.clone() ; x.copy() | T.zeros_like(x) | x.add_(y) ; T.add(x, y, out=x)
x.mul_(0.5) ; T.multiply(x, 0.5, out=x) | x.floor() ; T.floor(x) | T.isnan(x)
F.relu(x) ; T.maximum(x, 0) | T.sigmoid(x) ; 1 / (1 + T.exp(-x)) | x.norm() ; T.linalg.norm(x)
"""


def load():
    """Return plugrad, and CuPy on a stand-in whose launches do nothing once `idle(True)` was called."""
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))
    import cupy_on_cpu

    cupy = cupy_on_cpu.load()
    import plugrad

    return plugrad, cupy, cupy_on_cpu.set_idle


def steps(plugrad, cupy):
    """Yield (expression, plugrad's call, CuPy's call)."""
    plugrad.manual_seed(0)
    tensors = {name: plugrad.randn(10, 100, device="cuda") for name in "xy"}
    tensors |= {"p": tensors["x"].sigmoid(), "row": plugrad.randn(100, device="cuda"), "m": tensors["x"] > 0}
    tensors["at"] = plugrad.tensor([3, 1, 4], device="cuda")
    tensors["along"] = plugrad.zeros(10, 100, dtype=plugrad.int64, device="cuda")
    arrays = {name: value._raw for name, value in tensors.items()}
    for entry in OPS.replace("\n", " | ").split(" | "):
        if entry:
            ours, _, theirs = entry.partition(" ; ")
            names = {**tensors, "T": plugrad, "F": plugrad.nn.functional}
            yield ours, eval(f"lambda: {ours}", names), eval(f"lambda: {theirs or ours}", {**arrays, "T": cupy})


def seconds(call) -> float:
    """Return the time of the processor for one call, of many."""
    start = time.thread_time()
    for _ in range(CALLS):
        call()
    return (time.thread_time() - start) / CALLS


def main() -> None:
    """Measure, and print a line for each op, slowest first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    plugrad, cupy, idle = load()
    cases, rows = list(steps(plugrad, cupy)), []
    for _, ours, theirs in cases:  # which compiles their kernels
        ours(), theirs()
    idle(True)
    for text, *calls in cases:
        if text != "x[m]":  # whose size no idle device tells
            ours, theirs = (min(times) for times in zip(*[map(seconds, calls) for _ in range(rounds)]))
            rows.append((ours / theirs, ours, theirs, text))
    for ratio, ours, theirs, text in sorted(rows, reverse=True):
        print(f"{ratio:6.2f} {ours * 1e6:8.1f} us {theirs * 1e6:8.1f} us  {text}")
    mean = math.exp(sum(math.log(row[0]) for row in rows) / len(rows))
    print(f"{mean:6.2f} geometric mean of {len(rows)}; above 2: {sum(row[0] > 2 for row in rows)}")


if __name__ == "__main__":
    main()
