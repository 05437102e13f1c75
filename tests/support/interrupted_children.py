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
    """Try `most` points of `attempt(stops)`; print how many there were, and return after how many `use()` failed.

    `attempt` asks `stops` at each of its points, by number, whether to stop there, and returns a tracer with the
    `count` of points that it passed and `where` it was stopped. It runs twice in all: a child is forked at each point,
    which stops there and goes on with `use()`, while its parent waits and goes on as if nothing had been.
    """
    reader, writer = os.pipe()
    assert in_child(lambda: os.write(writer, str(attempt(lambda number: False).count).encode())) == 0
    points = range(int(os.read(reader, 100)))
    points = set(random.Random(0).sample(points, min(len(points), most)))
    ends: list = []  # of the children so far; None in one of them

    def stops(number):
        if ends == [None] or number not in points:
            return False
        child = os.fork()
        ends[:] = [*ends, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])] if child else [None]
        return not child

    def walk():
        where = attempt(stops).where
        if ends == [None]:
            print(f"# {where}", file=sys.stderr, flush=True)
            use()
        else:
            os.write(writer, f"{len(ends)} {sum(map(bool, ends))}".encode())

    assert in_child(walk) == 0
    tried, wrong = map(int, os.read(reader, 100).split())
    print(tried)
    return wrong
