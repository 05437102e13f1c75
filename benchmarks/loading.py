"""Loading a file of 200 MB, mapped and copied, against PyTorch and safetensors: medians of alternating rounds.

    python benchmarks/loading.py [--rounds 9] [--megabytes 200]

A ratio below 1 means that plugrad is faster. Every element of one tensor is read afterwards, outside of the time.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import tempfile
import time

import safetensors.torch
import torch

import plugrad


def timed(function):
    """Return how long a call takes, in seconds."""
    start = time.perf_counter()
    result = function()
    taken = time.perf_counter() - start
    float(next(iter(result.values())).sum())
    return taken


def compare(name, ours, theirs, rounds) -> None:
    """Print the times and their ratio."""
    pairs = [(timed(ours), timed(theirs)) for _ in range(rounds + 1)][1:]
    ratio = statistics.median(a / b for a, b in pairs)
    best = [min(times) * 1e3 for times in zip(*pairs)]
    print(f"{name:40} {best[0]:9.2f} ms {best[1]:9.2f} ms   ratio {ratio:.2f}")


def main() -> None:
    """Write the files and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=200)
    given = parser.parse_args()
    state = {f"layer{n}.weight": torch.randn(1024, 1024) for n in range(given.megabytes // 4)}
    with tempfile.TemporaryDirectory() as folder:
        pt, st = pathlib.Path(folder, "x.pt"), pathlib.Path(folder, "x.safetensors")
        torch.save(state, pt)
        safetensors.torch.save_file(state, st)
        own = pathlib.Path(folder, "x.plugrad")
        plugrad.save(plugrad.load(pt), own)
        print(f"{'':40} {'plugrad':>9}    {'theirs':>9}")
        compare("PyTorch's file, mapped", lambda: plugrad.load(pt, mmap=True), lambda: torch.load(pt, mmap=True),
                given.rounds)  # fmt: skip
        compare("PyTorch's file, read", lambda: plugrad.load(pt), lambda: torch.load(pt), given.rounds)
        compare("PyTorch's file, read unchecked", lambda: plugrad.load(pt, verify=False), lambda: torch.load(pt),
                given.rounds)  # fmt: skip
        compare("safetensors, mapped", lambda: plugrad.load(st, mmap=True), lambda: safetensors.torch.load_file(st),
                given.rounds)  # fmt: skip
        compare("our own, mapped, against PyTorch's", lambda: plugrad.load(own, mmap=True),
                lambda: torch.load(pt, mmap=True), given.rounds)  # fmt: skip


if __name__ == "__main__":
    main()
