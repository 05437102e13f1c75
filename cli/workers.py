"""Processes that run checks: one that dies, or takes too long, costs no more than the check that it was at."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import signal
import time

# Spawned, not forked: a fork of a process with threads (BLAS has some) may hang.
_context = multiprocessing.get_context("spawn")


def _serve(connection, target, device) -> None:
    """Run the checks that are named, one list after the other, until it is stopped."""
    from plugrad.cli.checking import run_case
    from plugrad.testing import checks_of

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that was started by hand decides
    cases = {case.id: case for case in checks_of(target, device)}
    with contextlib.suppress(EOFError, BrokenPipeError):  # the other process was killed
        connection.send("ready")
        while True:
            for name in connection.recv():
                connection.send(run_case(cases[name]))


class Worker:
    """One process, and what it has been given: `left`, the cases without result, the first of which it is at."""

    def __init__(self, job):
        self.job, self.left, self.ready = job, [], False
        self.connection, end = _context.Pipe()
        self.process = _context.Process(target=_serve, args=(end, job.target, job.device), daemon=True)
        self.process.start()
        end.close()
        self.started = time.monotonic()

    def give(self, cases) -> None:
        """Hand a list of cases over."""
        self.left, self.started = list(cases), time.monotonic()
        with contextlib.suppress(OSError):  # it has died: the next look at it says so
            self.connection.send([case.id for case in cases])

    def receive(self) -> dict | None:
        """Return the row that has come, None for the news that it is ready; EOFError when it has died."""
        row = self.connection.recv()
        self.started = time.monotonic()
        if not self.ready:
            self.ready = True
            return None
        self.left.pop(0)
        return row

    def late(self) -> bool:
        """Whether it has been at one check for too long."""
        limit = self.job.timeout
        return bool(limit and self.left and self.ready and time.monotonic() - self.started > limit)

    def end(self) -> str:
        """Stop it; return what has become of it, in words."""
        late = self.late()
        if late or not self.process.is_alive():
            self.process.kill() if late else None
        else:
            self.process.terminate()
        self.process.join()
        code = self.process.exitcode
        if late:
            return f"it did not end within {self.job.timeout:g} seconds (--timeout)"
        named = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit status {code}"
        return f"the process that ran it died ({named})"


def run(job, shares):
    """Yield the rows of lists of cases, each list in one process; a check that ends its process gets a row, too."""
    from plugrad.cli.checking import row_of

    shares, workers = list(reversed(shares)), []
    try:
        while shares or workers:
            while shares and len(workers) < job.jobs:
                workers.append(Worker(job))
                workers[-1].give(shares.pop())
            multiprocessing.connection.wait([worker.connection for worker in workers], 0.2 if job.timeout else None)
            for worker in list(workers):
                try:
                    while worker.left and worker.connection.poll():
                        row = worker.receive()
                        if row is not None:
                            yield row
                    lost = worker.late()
                except (EOFError, OSError):
                    worker.process.join(5)
                    lost = True
                if lost:
                    workers.remove(worker)
                    if not worker.ready and worker.process.exitcode is not None:
                        raise RuntimeError(f"a process could not load what is to be checked: {worker.end()}")
                    case, *rest = worker.left
                    seconds = time.monotonic() - worker.started
                    yield row_of(case, "failed", f"{case.title}: {worker.end()}", seconds)
                    shares += [rest] if rest else []
                elif not worker.left and shares:
                    worker.give(shares.pop())
                elif not worker.left:
                    workers.remove(worker)
                    worker.end()
    finally:
        for worker in workers:
            worker.end()
