"""Other Python processes that call functions for this one; one that dies or hangs costs only the call it was at.

They are started afresh: a fork of a process with threads (BLAS has some) may hang, and `multiprocessing` would run the
program's main module again.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback

from plugrad.process_state import quiet_threads

PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from plugrad.testing.running import processes; processes.serve()"
)


class Worker:
    """Another process. `calls` are those without an answer, the first of which it is at.

    Each answer is put into the queue `answers` as (worker, answer), and (worker, None) when the process has ended.
    """

    def __init__(self, answers):
        command = [sys.executable, "-c", PROGRAM, json.dumps(sys.path)]
        # Processes share the processors: threads of BLAS would wait for those of others in the smallest calls.
        environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.answers, self.calls, self.ready = answers, [], False
        self.reader = threading.Thread(target=self._read, daemon=True)
        quiet_threads.add(self.reader)
        self.reader.start()

    def _read(self):
        try:
            pickle.load(self.process.stdout)  # that it has started
            self.started, self.ready = time.monotonic(), True
            while True:
                self.answers.put((self, pickle.load(self.process.stdout)))
        except (EOFError, pickle.UnpicklingError):  # it has ended, perhaps in the middle of an answer
            pass
        except Exception:  # an answer that can't be read here: without an end to it, somebody would wait for ever
            self.process.kill()
        self.answers.put((self, None))

    def call(self, function, *arguments) -> None:
        """Let the process call a function of a module; the answer is ("returned", value) or ("raised", text)."""
        self.calls.append((function, arguments))
        if len(self.calls) == 1:
            self.started = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # it has ended: that is its next answer
            pickle.dump((function.__module__, function.__name__, arguments), self.process.stdin)
            self.process.stdin.flush()

    def receive(self):
        """Wait for the answer to the call that it is at; None when it has ended instead."""
        try:
            _, answer = self.answers.get()
            self.answered()
        except BaseException:  # interrupted: what comes later would be taken for the next answer
            self.end()
            raise
        return answer

    def answered(self) -> tuple:
        """Take the call that was answered off the list and return it; the next one begins."""
        self.started = time.monotonic()
        return self.calls.pop(0)

    def fate(self) -> str:
        """Return how the process ended, in words."""
        code = self.process.wait()
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.reader.join()
        with contextlib.suppress(BrokenPipeError):  # what could not be sent to it
            self.process.stdin.close()
        self.process.stdout.close()


class Lost:
    """What stands in place of a value when there is none: `reason`, and after how many `seconds`."""

    def __init__(self, reason, seconds):
        self.reason, self.seconds = reason, seconds


def run(function, shares, jobs=1, timeout=None, setup=None, here=True, first=None):
    """Yield (arguments, ``function(*arguments)``) as they are finished.

    Args:
        function: of a module; what it raises ends everything.
        shares: lists of tuples of arguments; a process takes over a whole list.
        jobs: how many processes; with one, and no timeout, the calls are made in this process if `here` says so.
        timeout: seconds that a call may take. One that takes longer, or whose process dies, gives `Lost`.
        setup: (function, arguments), called first in each process; its time does not count.
        first: a `Worker` that is prepared already, and becomes one of the processes.
    """
    if here and jobs == 1 and timeout is None:
        for arguments in itertools.chain.from_iterable(shares):
            yield arguments, function(*arguments)
        return
    answers: queue.Queue = queue.Queue() if first is None else first.answers
    waiting, workers = [share for share in reversed(shares) if share], []
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                workers.append(first or Worker(answers))
                if setup is not None and first is None:
                    workers[-1].call(setup[0], *setup[1])
                first = None
                _give(workers[-1], function, waiting.pop())
            for worker, answer in _news(answers, workers, function, timeout):
                called, arguments = worker.answered()
                if isinstance(answer, Lost):
                    workers.remove(worker)
                    worker.end()
                    if called is not function or not worker.ready:
                        raise RuntimeError(f"a process could not be prepared: {answer.reason}")
                    waiting += [rest] if (rest := [arguments for _, arguments in worker.calls]) else []
                elif answer[0] == "raised":
                    raise RuntimeError(f"in another process: {answer[1]}")
                elif not worker.calls and waiting:
                    _give(worker, function, waiting.pop())
                elif not worker.calls:
                    workers.remove(worker)
                    worker.end()
                if called is function:
                    yield arguments, answer if isinstance(answer, Lost) else answer[1]
    finally:
        for worker in workers:
            worker.end()


def _give(worker, function, share) -> None:
    for arguments in share:
        worker.call(function, *arguments)


def _news(answers, workers, function, timeout):
    """Wait, and yield (worker, answer): one that has come, and `Lost` for those that have died or are late."""
    with contextlib.suppress(queue.Empty):
        worker, answer = answers.get(timeout=0.2 if timeout else None)
        if worker in workers:  # else it was ended meanwhile
            seconds = time.monotonic() - worker.started
            died = answer is None
            yield worker, Lost(f"the process that ran it died ({worker.fate()})", seconds) if died else answer
    for worker in list(workers) if timeout else ():
        seconds = time.monotonic() - worker.started
        if seconds > timeout and worker.ready and worker.calls[0][0] is function:
            yield worker, Lost(f"it did not end within {timeout:g} seconds (--timeout)", seconds)


# ---------------------------------------------------------------------------------------------------- the other side


def serve() -> None:
    """Make the calls that come on standard input, in turn, until that is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that the user started decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what plugins print is not an answer
    calls: queue.Queue = queue.Queue()

    def read():
        with contextlib.suppress(EOFError):
            while True:
                calls.put(pickle.load(sys.stdin.buffer))
        os._exit(0)  # even from within a call that never ends: nobody is waiting for it

    def send(answer):
        with contextlib.suppress(BrokenPipeError):  # nobody is there any more: `read` ends this process
            pickle.dump(answer, answers)
            answers.flush()

    reader = threading.Thread(target=read, daemon=True)
    quiet_threads.add(reader)
    reader.start()
    send(None)  # this process has started
    while True:
        send(_answer(*calls.get()))


def _answer(module, name, arguments) -> tuple:
    try:
        return "returned", getattr(importlib.import_module(module), name)(*arguments)
    except Exception:  # whatever a function raises is the caller's to see
        return "raised", traceback.format_exc()
