"""Interrupt a piece of work at many points, each in a forked child, and see that what comes after it is right.

It imports nothing of plugrad's, so that its import can be the work.
"""

import os
import random
import sys
import traceback


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


def trials(attempt, use, most) -> int:
    """Try `most` of the points of `attempt(stop)`; print how many there were, and return after how many `use()` failed.

    `attempt` returns a tracer, with the `count` of points that it passed and `where` it was stopped.
    """
    reader, writer = os.pipe()
    assert in_child(lambda: os.write(writer, str(attempt(None).count).encode())) == 0
    points = range(int(os.read(reader, 100)))
    points = sorted(random.Random(0).sample(points, min(len(points), most)))
    wrong = 0
    for point in points:

        def interrupted(point=point):
            print(f"# {attempt(point).where}", file=sys.stderr, flush=True)
            use()

        wrong += in_child(interrupted) != 0
    print(len(points))
    return wrong
