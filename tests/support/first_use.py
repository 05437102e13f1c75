"""Interrupt the first use of a name at many points, each in a forked child, and see that the next use is right.

A script: `python first_use.py STATEMENT` prints what went wrong, and last how many points were tried.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import plugrad as torch
from support.interrupted_children import trials
from support.interrupts import Tracer, run_traced

MOST = 60


def main(statement: str) -> int:
    code = compile(statement, "<statement>", "exec")

    def program():
        exec(code, {"torch": torch, "x": torch.tensor([0.5, 2.0], requires_grad=True)})

    def attempt(stops):
        tracer = Tracer(stops)
        try:
            run_traced(program, tracer)
        except KeyboardInterrupt:
            pass
        tracer.count = len(tracer.passed)
        return tracer

    return trials(attempt, program, MOST)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1]), 100))
