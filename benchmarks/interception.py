"""What hooks, modes and overriding classes cost where they are not used, and where they are.

Prints the time of a chain of 200 small recorded ops, forward and backward, relative to that in a fresh process, which
is measured before anything of the kind exists. Blocks alternate; the smallest of each counts.

    python benchmarks/interception.py
"""

from __future__ import annotations

import gc
import time

import plugrad as torch

OPS, ROUNDS, BLOCK = 50, 40, 10


def chain(x, w):
    y = x
    for _ in range(OPS):
        y = torch.tanh(y * w + w) - x
    y.sum().backward()


def milliseconds(program, rounds=ROUNDS) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(BLOCK):
            program()
        best = min(best, (time.perf_counter() - start) / BLOCK)
    return 1000 * best


class Kept(torch.Tensor):
    """A subclass: what ops make of it is of it."""


class Quiet(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def main():
    x, w = torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True)
    plain = lambda: chain(x, w)  # noqa: E731
    gc.disable()
    fresh = milliseconds(plain)
    kept = x.detach().as_subclass(Kept)
    kept + 1
    with torch.op_hooks.timer(), Quiet():
        plain()

    def within(manager):
        with manager:
            plain()

    rows = {"never used": plain, "after hooks, modes and a subclass were used": plain}
    rows["inside a hook on another op"] = lambda: within(torch.op_hooks.timer("conv2d"))
    rows["inside a hook on every op"] = lambda: within(torch.op_hooks.timer())
    rows["inside a function mode"] = lambda: within(Quiet())
    rows["on a tensor of a subclass"] = lambda: chain(kept, w)
    print(f"{'':<48}{'ratio':>8}")
    for name, program in rows.items():
        taken = fresh if name == "never used" else milliseconds(program, ROUNDS if program is plain else 4)
        print(f"{name:<48}{taken / fresh:>8.2f}")


if __name__ == "__main__":
    main()
