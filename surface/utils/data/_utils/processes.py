"""The iterator of a loader with workers: hands out indices, puts batches in order, and ends what it started."""

from __future__ import annotations

import collections
import contextlib
import itertools
import multiprocessing
import os
import signal
import time
import warnings
import weakref
from multiprocessing import connection as pipes

from plugrad.extend import held_back
from plugrad.utils.data._utils import worker
from plugrad.utils.data._utils.fetch import BaseIterator, Progress
from plugrad.utils.data._utils.segments import receive, send
from plugrad.utils.data._utils.worker import Ended, ExceptionWrapper, Resumed

GRACE = 1.0  # seconds that a worker has to end by itself


class _Worker:
    """One process, the program's end of its pipe, and whether it has more to give."""

    __slots__ = ("process", "pipe", "active", "waiting")

    def __init__(self):
        self.process = self.pipe = None
        self.active, self.waiting = True, 0

    def start(self, context, others, arguments) -> None:
        """Start the process; `others` are pipes that it must not keep open."""
        with held_back():  # Ctrl-C could come when the process is there and nobody knows of it yet
            self._start(context, others, arguments)

    def _start(self, context, others, arguments) -> None:
        self.pipe, theirs = context.Pipe()
        forks = context.get_start_method() == "fork"
        closed = [self.pipe, *others] if forks else []
        self.process = context.Process(target=worker.run, args=(theirs, closed, os.getpid(), *arguments), daemon=True)
        with warnings.catch_warnings():  # a worker never takes a lock that another thread may hold
            warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
            self.process.start()
        theirs.close()


def end(workers, owner) -> None:
    """End processes: those that don't when asked are killed. Only in the process that started them."""
    if os.getpid() == owner:  # else it is a fork's copy of the iterator
        with held_back():
            _end(workers)


def _end(workers) -> None:
    for one in workers:
        if one.pipe is not None:
            with contextlib.suppress(OSError, ValueError):
                send(one.pipe, None)
            one.pipe.close()
    limit = time.monotonic() + GRACE
    for one in workers:
        if one.process is None or one.process.pid is None:
            continue
        one.process.join(max(0.0, limit - time.monotonic()))
        if one.process.is_alive():
            one.process.terminate()
            one.process.join(GRACE)
        if one.process.is_alive():
            one.process.kill()
            one.process.join()
    workers.clear()


class MultiProcessIterator(BaseIterator):
    """Batches of a loader, made in `num_workers` processes."""

    def __init__(self, loader, seed, given=0):
        # Not the loader itself, which keeps workers that stay: both end when the program forgets the loader.
        self.workers, self.persistent, self.iterable = [], loader.persistent_workers, loader._iterable
        self.index_sampler, self.prefetched = loader._index_sampler, max(loader.prefetch_factor, 1)
        self.timeout, self.in_order = loader.timeout, loader.in_order
        self.finish = weakref.finalize(self, end, self.workers, os.getpid())
        try:
            self._start(loader, seed)
            self._begin(given)
        except BaseException:
            self._finish()
            raise

    @property
    def _workers(self) -> list:
        """The processes, which end with the iterator."""
        return [one.process for one in self.workers]

    def _start(self, loader, seed) -> None:
        context = loader.multiprocessing_context or multiprocessing.get_context()
        options = dict(loader._fetching(), workers=loader.num_workers, init=loader.worker_init_fn)
        for number in range(loader.num_workers):
            others = [one.pipe for one in self.workers]
            self.workers.append(_Worker())
            self.workers[-1].start(context, others, (number, seed, options))
        self.running = list(self.workers)

    def _begin(self, given=0) -> None:
        """Hand out the first indices of an epoch, after those of the batches that were given before."""
        self.indices, self.progress = iter(self.index_sampler), Progress(given)
        if not self.iterable:
            collections.deque(itertools.islice(self.indices, given), maxlen=0)
        self.sent = 0  # number of the next batch to be asked for
        self.ready: dict = {}  # number of a batch -> the batch
        self.owner: dict = {}  # number of a batch that was asked for -> its worker
        self.cycle = itertools.cycle(range(len(self.workers)))
        for one in self.workers:
            one.active, one.waiting = True, 0
        for _ in range(self.prefetched * len(self.workers)):
            self._ask()

    def reset(self, given=0) -> None:
        """Begin a new epoch with the same workers."""
        try:
            for one in self.workers:
                send(one.pipe, (-1, Resumed))
            resumed: set = set()
            while len(resumed) < len(self.workers):
                one, (_, answer) = self._receive(set(self.workers) - resumed)
                if answer is Resumed:
                    resumed.add(one)
            self._begin(given)
        except BaseException:
            self._finish()
            raise

    def _finish(self) -> None:
        """End the workers; what Ctrl-C comes before is done when the iterator is gone."""
        with held_back():
            self.finish()

    def _ask(self) -> None:
        """Ask the next worker in turn for the next batch, if there are both."""
        try:
            index = next(self.indices)
        except StopIteration:
            return
        for _ in self.workers:
            one = self.workers[next(self.cycle)]
            if one.active:
                break
        else:
            return
        self.owner[self.sent] = one
        one.waiting += 1
        try:
            send(one.pipe, (self.sent, index))
        except OSError:
            raise self._gone(one) from None
        self.sent += 1

    def next_batch(self):
        if not self.workers:
            raise StopIteration
        try:
            answer = self._next()
        except BaseException as error:
            if not self.persistent or not isinstance(error, Exception):
                self._finish()  # of what a signal has cut off nothing can be continued
            raise
        if isinstance(answer, ExceptionWrapper):
            answer.reraise()  # the data set's own: who catches it goes on with the next batch
        return answer

    def _next(self):
        while True:
            number = self._number_of_next()
            if number is None:
                raise StopIteration
            while number not in self.ready:
                one, (place, answer) = self._receive({one for one in self.workers if one.waiting})
                one.waiting -= 1
                self.ready[place] = answer
                if not self.in_order:
                    number = place
            answer = self.ready.pop(number)
            one = self.owner.pop(number)
            if answer is Ended:
                one.active = False
                if not self.persistent:
                    with contextlib.suppress(OSError):
                        send(one.pipe, None)
                self._ask()
                continue
            self._ask()
            return answer

    def _number_of_next(self):
        """Return the number of the batch to give next; None at the end."""
        if not self.owner:
            return None
        if self.in_order:
            return min(self.owner)
        return next(iter(self.ready), min(self.owner))

    def _receive(self, candidates):
        """Return a worker and what it has sent, the first of `candidates` that did."""
        by_pipe = {one.pipe: one for one in candidates}
        sentinels = {one.process.sentinel: one for one in candidates}
        ready = pipes.wait([*by_pipe, *sentinels], self.timeout or None)
        if not ready:
            raise RuntimeError(
                f"DataLoader timed out after {self.timeout} seconds: no worker has sent a batch; pass a longer timeout"
            )
        for pipe in ready:
            if pipe in by_pipe:
                one = by_pipe[pipe]
                try:
                    return one, receive(pipe)
                except (EOFError, ConnectionResetError):
                    raise self._gone(one) from None
        raise self._gone(sentinels[ready[0]])

    def _gone(self, one) -> RuntimeError:
        one.process.join(GRACE)
        code = one.process.exitcode
        what = f"worker (pid(s) {one.process.pid}) exited unexpectedly, with exit code {code}"
        if code is not None and code < 0:
            what = f"worker (pid {one.process.pid}) is killed by signal: {signal.strsignal(-code)}"
        return RuntimeError(
            f"DataLoader {what}: try num_workers=0 to see an error of the data set's; a process that needs more memory "
            "than there is gets killed"
        )
