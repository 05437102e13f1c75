"""Interrupt the first use of a name at many points, each in a forked child, and see that the next use is right.

A script: `python first_use.py STATEMENT` prints what went wrong, and last how many points were tried.
"""

import os
import pathlib
import random
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import plugrad as torch
from support.interrupts import _run, _Tracer

MOST = 60


def in_child(work) -> int:
    """Run `work()` in a forked child; return its exit status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(statement: str) -> int:
    code = compile(statement, "<statement>", "exec")

    def program():
        exec(code, {"torch": torch, "x": torch.tensor([0.5, 2.0], requires_grad=True)})

    reader, writer = os.pipe()

    def count():
        tracer = _Tracer()
        _run(program, tracer)
        os.write(writer, str(tracer.count).encode())

    assert in_child(count) == 0
    points = range(int(os.read(reader, 100)))
    points = sorted(random.Random(0).sample(points, min(len(points), MOST)))
    wrong = 0
    for point in points:

        def interrupted(point=point):
            tracer = _Tracer(point)
            try:
                _run(program, tracer)
            except KeyboardInterrupt:
                pass
            print(f"# {tracer.where}", file=sys.stderr, flush=True)
            program()

        wrong += in_child(interrupted) != 0
    print(len(points))
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1]), 100))
