"""Run the same code on plugrad and on PyTorch, in alternation, and print the ratios.

    python benchmarks/compare.py [--rounds 15] [--threads 2] [--only chain] [--ops] [--json FILE]

Each case is a function of the module (`plugrad` or `torch`) that returns the step to time. The two steps run in turn,
round after round, in one process; a row shows the median of the rounds' ratios, with the quickest time of each. Below
1 plugrad is faster. On a busy machine read the ratios, not the times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import numpy

CASES = {}
BARS = {
    "chain of 200 tiny ops, forward + backward": 0.5,
    "documents' model, step with Adam": 0.9,
    "documents' model, step with SGD": 0.9,
    "digits CNN, step with Adam": 1.0,
    "digits CNN, step with SGD": 1.0,
}


def case(name):
    """Enter a case under a name."""

    def enter(function):
        CASES[name] = function
        return function

    return enter


def _chain(T):
    w, c = T.ones(4, requires_grad=True), T.full((4,), 0.5)

    def run():
        x = w
        for _ in range(50):
            x = ((x * c) + c).tanh() - c
        return x

    return run


@case("chain of 200 tiny ops, forward + backward")
def chain(T):
    """Multiply, add, tanh and subtract on 4 elements, 50 times."""
    run, g = _chain(T), T.ones(4)
    return lambda: run().backward(g)


@case("chain of 200 multiplications, forward + backward")
def multiplications(T):
    """One op alone."""
    w, c, g = T.ones(4, requires_grad=True), T.full((4,), 0.5), T.ones(4)

    def step():
        x = w
        for _ in range(200):
            x = x * c
        x.backward(g)

    return step


@case("chain of 200 ops with numbers, forward + backward")
def numbers(T):
    """Tensors with Python numbers."""
    w, g = T.ones(4, requires_grad=True), T.ones(4)

    def step():
        x = w
        for _ in range(100):
            x = x * 1.01 + 0.5
        x.backward(g)

    return step


@case("chain of 200 tiny ops, forward under no_grad")
def inference(T):
    """Nothing is recorded."""
    run = _chain(T)

    def step():
        with T.no_grad():
            run()

    return step


def _documents_model(T, optimizer):
    random = numpy.random.default_rng(0)
    x = T.from_numpy(random.standard_normal((64, 1000)).astype("float32"))
    y = T.from_numpy(random.standard_normal((64, 10)).astype("float32"))
    model = T.nn.Sequential(T.nn.Linear(1000, 100), T.nn.ReLU(), T.nn.Linear(100, 10))
    return _step(T, model, T.nn.MSELoss(), x, y, optimizer)


def _step(T, model, loss, x, y, optimizer):
    rule = getattr(T.optim, optimizer)(model.parameters(), lr=1e-3)

    def step():
        rule.zero_grad()
        loss(model(x), y).backward()
        rule.step()

    return step


@case("documents' model, step with Adam")
def documents_adam(T):
    """64 x 1000 -> 100 -> 10, ReLU, MSE."""
    return _documents_model(T, "Adam")


@case("documents' model, step with SGD")
def documents_sgd(T):
    """64 x 1000 -> 100 -> 10, ReLU, MSE."""
    return _documents_model(T, "SGD")


def _digits(T, optimizer):
    nn = T.nn
    random = numpy.random.default_rng(0)
    x = T.from_numpy(random.random((64, 1, 8, 8)).astype("float32"))
    y = T.from_numpy(random.integers(0, 10, 64))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    return _step(T, model, nn.CrossEntropyLoss(), x, y, optimizer)


@case("digits CNN, step with Adam")
def digits_adam(T):
    """The network of examples/digits.py on a batch of 64."""
    return _digits(T, "Adam")


@case("digits CNN, step with SGD")
def digits_sgd(T):
    """The network of examples/digits.py on a batch of 64."""
    return _digits(T, "SGD")


OPS = """x.sum() | x.sum(1) | x.mean(0) | x.amax(1) | x.t() | x.reshape(20) | x[0] | x[1:3] | x[i] | x.expand(3, 4, 5)
T.cat([x, x]) | T.stack([x, x]) | x.clone() | x.detach() | x @ W | F.linear(x, W) | F.softmax(x, -1) | F.relu(x)
F.gelu(x) | x.tanh() | x ** 2 | x > 0 | T.where(x > 0, x, v) | x.clamp(0, 1) | v.zero_() | v.add_(c) | v.copy_(c)
x.chunk(2) | T.zeros(4, 5) | T.tensor([1.0, 2.0]) | T.arange(5) | T.randn(4, 5) | F.layer_norm(x, (5,))
x.std() | x.norm() | x.abs() | F.mse_loss(x, v) | x.masked_fill(v > 1, 0.0)
v.sum().item() | x.backward(v, retain_graph=True)"""


def _op_step(T, expression):
    names = {"T": T, "F": T.nn.functional, "i": T.tensor([0, 1])}
    names["x"] = T.ones(4, 5, requires_grad=True) * 1.0
    names["W"] = T.ones(5, 5, requires_grad=True) * 1.0
    names["v"], names["c"] = T.ones(4, 5), T.ones(4, 5)
    return eval(f"lambda: {expression}", names)


def timed(step, block=0.1) -> float:
    """Return the median seconds of a step in a block of steps that lasts `block` seconds.

    As long again before it, steps are not counted: the threads of the other library still spin for some milliseconds,
    and two libraries that wait for each other's threads are no measurement of either.
    """
    now, seconds = time.perf_counter, []
    start = now()
    while now() - start < block:
        step()
    count = max(1, int(0.001 / max(_once(step), 1e-7)))  # steps of a microsecond are timed a thousand at a time
    start = now()
    while now() - start < block or not seconds:
        begin = now()
        for _ in range(count):
            step()
        seconds.append((now() - begin) / count)
    return statistics.median(seconds)


def _once(step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def compare(build, rounds):
    """Return (median ratio, quickest plugrad, quickest torch) of a case."""
    import torch

    import plugrad

    ours, theirs = build(plugrad), build(torch)
    timed(ours), timed(theirs)
    pairs = [(timed(ours), timed(theirs)) for _ in range(rounds)]
    ratio = statistics.median(mine / other for mine, other in pairs)
    return ratio, min(mine for mine, _ in pairs), min(other for _, other in pairs)


def import_times(rounds):
    """Return the median seconds that a fresh process needs to import each package, less a bare process."""

    def seconds(statement):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True)
        return time.perf_counter() - start

    statements = {"": "", "plugrad": "import plugrad", "numpy": "import numpy", "torch": "import torch"}
    seconds_of = {name: [] for name in statements}
    for _ in range(rounds):
        for name, statement in statements.items():
            seconds_of[name].append(seconds(statement))
    bare = statistics.median(seconds_of.pop(""))
    return {name: statistics.median(times) - bare for name, times in seconds_of.items()}


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--ops", action="store_true", help="also time single ops on 4 x 5 elements")
    parser.add_argument("--json", help="write the rows to this file")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    import torch

    torch.set_num_threads(options.threads)
    cases = {name: build for name, build in CASES.items() if options.only in name}
    if options.ops:
        expressions = [part.strip() for line in OPS.splitlines() for part in line.split("|")]
        cases.update({e: lambda T, e=e: _op_step(T, e) for e in expressions if options.only in e})
    rows = []
    print(f"{'case':52} {'plugrad':>10} {'torch':>10} {'ratio':>7} {'bar':>6}")
    for name, build in cases.items():
        ratio, mine, other = compare(build, options.rounds)
        bar = BARS.get(name)
        rows.append({"case": name, "plugrad_s": mine, "torch_s": other, "ratio": ratio, "bar": bar})
        print(f"{name:52} {mine * 1e6:8.1f}us {other * 1e6:8.1f}us {ratio:7.2f} {bar or '':>6}", flush=True)
    if not options.only:
        seconds = import_times(max(5, options.rounds // 3))
        for other, bar in (("torch", 0.25), ("numpy", 1.8)):
            ratio = seconds["plugrad"] / seconds[other]
            rows.append({"case": f"import plugrad / import {other}", "ratio": ratio, "bar": bar})
            print(
                f"{rows[-1]['case']:52} {seconds['plugrad'] * 1e3:8.0f}ms {seconds[other] * 1e3:8.0f}ms "
                f"{ratio:7.2f} {bar:6}"
            )
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
