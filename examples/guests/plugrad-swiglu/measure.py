"""Time the kernels in C against the formula on NumPy, in alternation: `python measure.py`."""

import os
import statistics
import subprocess
import sys

PROGRAM = """
import sys, time
import plugrad as torch

for line in sys.stdin:
    size = int(line)
    gate, value = (torch.randn(size, requires_grad=True) for _ in range(2))
    torch.swiglu(gate, value).sum().backward()
    repeats = max(2, 400_000 // size)
    start = time.process_time()
    for _ in range(repeats):
        torch.swiglu(gate, value).sum().backward()
    print((time.process_time() - start) / repeats * 1e6, flush=True)
"""


def main():
    """Print the processor time of a forward and backward pass, and the ratio, for arrays of several sizes."""
    ways = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "PLUGRAD_NATIVE": native, "OMP_NUM_THREADS": "1"})
        for native in ("1", "0")
    ]  # fmt: skip
    print("elements   in C, us   by NumPy, us   ratio")
    for size in (100, 10_000, 1_000_000):
        rounds = []
        for _ in range(7):
            for way in ways:
                print(size, file=way.stdin, flush=True)
                rounds.append(float(way.stdout.readline()))
        times = rounds[::2], rounds[1::2]
        ratio = statistics.median(a / b for a, b in zip(*times))
        print(f"{size:8} {min(times[0]):10.1f} {min(times[1]):14.1f} {ratio:7.2f}")
    for way in ways:
        way.stdin.close()
        way.wait()


if __name__ == "__main__":
    main()
