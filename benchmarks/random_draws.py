"""Draw random numbers with plugrad, PyTorch and NumPy in turn, and print the ratios of their times.

    python benchmarks/random_draws.py [--rounds 7]

A row shows plugrad's least time of the processor in microseconds, and the medians of the rounds' ratios to PyTorch's
time (one thread) and to that of NumPy's own generator over the same Mersenne Twister, which draws other numbers. Below
1 plugrad is faster. The time of the processor is that of all threads; what else runs on a busy machine is not in it.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy

import plugrad

SIZES = (10, 1000, 100_000, 1_000_000)


def draws(T, n, dtype):
    """Return the steps to time by name, with a library of PyTorch's names."""
    dtype, F = getattr(T, dtype), T.nn.functional
    x = T.ones(n, dtype=dtype)
    p = x * 0.3
    return {
        "rand": lambda: T.rand(n, dtype=dtype),
        "randn": lambda: T.randn(n, dtype=dtype),
        "uniform_": lambda: x.uniform_(-0.1, 0.1),
        "randint": lambda: T.randint(100, (n,)),
        "bernoulli": lambda: T.bernoulli(p),
        "normal_": lambda: x.normal_(1, 2),
        "exponential_": lambda: x.exponential_(),
        "geometric_": lambda: x.geometric_(0.3),
        "cauchy_": lambda: x.cauchy_(),
        "log_normal_": lambda: x.log_normal_(),
        "multinomial": lambda: T.multinomial(p, n, True),
        "dropout": lambda: F.dropout(p, 0.3, True),
        "randperm": lambda: T.randperm(n),
    }


def numpy_draws(n, dtype):
    """Return what NumPy draws instead; its Bernoulli numbers are comparisons of uniform ones."""
    source, x = numpy.random.Generator(numpy.random.MT19937(0)), numpy.ones(n, dtype)
    chances = numpy.full(n, 1 / n)
    return {
        "rand": lambda: source.random(n, dtype=dtype),
        "randn": lambda: source.standard_normal(n, dtype=dtype),
        "uniform_": lambda: source.uniform(-0.1, 0.1, n).astype(dtype, copy=False),
        "randint": lambda: source.integers(0, 100, n),
        "bernoulli": lambda: (source.random(n, dtype=dtype) < 0.3).astype(dtype),
        "normal_": lambda: source.standard_normal(n, dtype=dtype) * 2 + 1,
        "exponential_": lambda: source.standard_exponential(n, dtype=dtype),
        "geometric_": lambda: source.geometric(0.3, n).astype(dtype),
        "cauchy_": lambda: source.standard_cauchy(n).astype(dtype, copy=False),
        "log_normal_": lambda: source.lognormal(1, 2, n).astype(dtype, copy=False),
        "multinomial": lambda: source.choice(n, n, p=chances),
        "dropout": lambda: x * ((source.random(n, dtype=dtype) < 0.7) * numpy.dtype(dtype).type(1 / 0.7)),
        "randperm": lambda: source.permutation(n),
    }


def seconds(step, calls):
    """Return the time of one call."""
    start = time.process_time()
    for _ in range(calls):
        step()
    return (time.process_time() - start) / calls


def row(steps, rounds):
    """Return the quickest time of the first step, and the median of its ratios to each of the others."""
    calls = max(1, int(0.003 / max(seconds(steps[0], 1), 1e-7)))
    times = [[seconds(step, calls) for step in steps] for _ in range(rounds)]
    ratios = [statistics.median(one[0] / one[other] for one in times) for other in range(1, len(steps))]
    return min(one[0] for one in times), *ratios


def main():
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'draw':14}{'dtype':9}{'n':>10}{'us':>12}{'/ PyTorch':>11}{'/ NumPy':>10}")
    for n in SIZES:
        for dtype in ("float32", "float64"):
            ours, theirs, numpys = draws(plugrad, n, dtype), draws(torch, n, dtype), numpy_draws(n, dtype)
            for name, step in ours.items():
                quickest, torch_ratio, numpy_ratio = row((step, theirs[name], numpys[name]), arguments.rounds)
                print(f"{name:14}{dtype:9}{n:>10}{quickest * 1e6:>12.1f}{torch_ratio:>11.2f}{numpy_ratio:>10.2f}")


if __name__ == "__main__":
    main()
