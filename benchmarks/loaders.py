"""Throughput of loaders with 0, 1 and 2 workers, against PyTorch's on the same data: medians of alternating rounds.

    python benchmarks/loaders.py [--rounds 5] [--batches 60]

A ratio below 1 means that plugrad is faster. Workers stay from round to round, as in training; the first
epoch, with their start, is timed apart.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time

import numpy
import torch
from torch.utils.data import DataLoader as Theirs

import plugrad
from plugrad.utils.data import DataLoader as Ours


class Images:
    """Images that are computed, so that a worker has something to do."""

    def __init__(self, library, count, size):
        self.library, self.count, self.size = library, count, size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        image = numpy.full((3, self.size, self.size), index % 255, numpy.float32)
        image /= 255.0
        image -= 0.5
        return self.library.from_numpy(image), index % 10


def epoch(loader) -> float:
    """Return how long an epoch takes, in seconds."""
    start = time.perf_counter()
    for images, labels in loader:
        images.shape, labels.shape  # noqa: B018
    return time.perf_counter() - start


def main() -> None:
    """Time both, and print rates and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=60)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'':44} {'plugrad':>12} {'PyTorch':>12}")
    for batch, size in ((32, 32), (32, 128), (32, 224)):
        for workers in (0, 1, 2):
            make = functools.partial(dict, batch_size=batch, num_workers=workers, persistent_workers=workers > 0)
            count = given.batches * batch
            ours = Ours(Images(plugrad, count, size), **make())
            theirs = Theirs(Images(torch, count, size), **make())
            start = [epoch(loader) for loader in (ours, theirs)]  # of the workers, too
            pairs = [(epoch(ours), epoch(theirs)) for _ in range(given.rounds)]
            ratio = statistics.median(a / b for a, b in pairs)
            rates = [count / min(times) for times in zip(*pairs)]
            print(
                f"{batch} images of 3 x {size} x {size}, {workers} workers".ljust(44)
                + f" {rates[0]:9.0f}/s {rates[1]:10.0f}/s   ratio {ratio:.2f}   first epoch {start[0] / start[1]:.2f}"
            )
            del ours, theirs


if __name__ == "__main__":
    main()
