"""The time of one optimizer step, next to PyTorch's, in one process and in alternation.

Usage: python benchmarks/optim.py [NAME ...]        (default: the two steps that matter most, Adam and SGD)
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy
import torch

import plugrad

SHAPES = {
    "perceptron": [(100, 1000), (100,), (10, 100), (10,)],
    "50 of 10": [(10,)] * 50,
    "layers": [(256, 256), (256,)] * 6,
    "4 million": [(4096, 1024)],
}
OPTIONS = {"SGD": {"lr": 1e-3, "momentum": 0.9}}


def pair(name, shapes):
    """Return the step functions of both libraries, for equal parameters and gradients."""
    rng = numpy.random.default_rng(0)
    arrays = [rng.standard_normal(shape, numpy.float32) for shape in shapes]
    ours = [plugrad.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    for a, b in zip(ours, theirs, strict=True):
        grad = rng.standard_normal(tuple(b.shape), numpy.float32)
        a.grad, b.grad = plugrad.tensor(grad), torch.tensor(grad)
    options = OPTIONS.get(name, {})
    return [getattr(library, name)(p, **options).step for library, p in ((plugrad.optim, ours), (torch.optim, theirs))]


def microseconds(step, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    return (time.perf_counter() - start) / repeats * 1e6


def main(names):
    print(f"{'':12}{'':10}{'plugrad us':>12}{'torch us':>12}{'ratio':>8}   ({torch.get_num_threads()} torch threads)")
    for label, shapes in SHAPES.items():
        repeats = 5 if label == "4 million" else 50
        for name in names:
            steps = pair(name, shapes)
            for step in steps:
                microseconds(step, repeats)
            times = [[microseconds(step, repeats) for step in steps] for _ in range(25)]
            ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
            print(f"{label:12}{name:10}{ours:12.1f}{theirs:12.1f}{ours / theirs:8.2f}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["Adam", "SGD"])
