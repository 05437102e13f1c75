"""What runs in a loader's worker process: it takes indices from a pipe and sends batches back through it."""

from __future__ import annotations

import dataclasses
import os
import queue
import random
import signal
import threading
import traceback
import warnings

import numpy

import plugrad
from plugrad.utils.data._utils.segments import receive, send

PARENT_LOOKED_FOR = 1.0  # seconds between looks whether the program still lives
_worker_info = None  # libraries set it to have a data set believe that it is in a worker


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a data set in a worker process can know; nothing of it can be set.

    `dataset` is the worker's own copy, which may be changed. `rng` is None and `worker_method` "multiprocessing".
    """

    id: int
    num_workers: int
    seed: int
    dataset: object
    rng: object = None
    worker_method: str | None = "multiprocessing"


def get_worker_info():
    """Return which worker process this is; None in the program's own process.

    >>> from plugrad.utils.data import get_worker_info
    >>> get_worker_info() is None
    True
    """
    return _worker_info


class ExceptionWrapper:
    """An exception of a worker, on its way to the program."""

    def __init__(self, error, where):
        self.cls, self.where = type(error), where
        self.text = "".join(traceback.format_exception(error))

    def reraise(self):
        """Raise an exception of the same class, with the worker's traceback in its text."""
        message = f"Caught {self.cls.__name__} {self.where}.\nOriginal {self.text}"
        if self.cls is KeyError:
            message = _Verbatim(message)  # which prints the repr of its text
        try:
            error = self.cls(message=message) if getattr(self.cls, "message", None) else self.cls(message)
        except Exception:
            raise RuntimeError(message) from None
        raise error


class _Verbatim(str):
    """A text whose repr is itself."""

    def __repr__(self):
        return str(self)


class Ended:
    """Says that the data set of a worker has no more items."""


class Resumed:
    """Says that a worker that stays begins anew."""


def run(connection, others, parent, number, seed, options):
    """Serve batches until the program sends None, closes the pipe or is gone.

    Args:
        connection: the worker's end of the pipe.
        others: ends of pipes that a fork has copied, to close.
        parent: the number of the program's process.
        number: which worker this is.
        seed: the seed of all workers; each adds its own number.
        options: dict of what to fetch: dataset, fetcher, batched, collate, drop_last, init, workers.
    """
    for other in others:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's, which ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    tasks: queue.SimpleQueue = queue.SimpleQueue()
    threading.Thread(target=_read, args=(connection, parent, tasks), daemon=True).start()
    error = fetcher = None
    try:
        _prepare(number, seed, options)
        fetcher = _fetcher(options)
    except Exception as raised:
        error = ExceptionWrapper(raised, f"in DataLoader worker process {number}")
    try:
        while (task := tasks.get()) is not None:
            place, index = task
            if index is Resumed:
                error = None
                send(connection, (place, Resumed))
                fetcher = _fetcher(options)
                continue
            answer = error or _answer(fetcher, index, number)
            _send_or_explain(connection, place, answer, number)
    except (BrokenPipeError, ConnectionResetError, EOFError):
        pass  # the program has gone on without this worker
    finally:
        connection.close()


def _read(connection, parent, tasks) -> None:
    """Keep the pipe empty, so that the program never waits to send; end the process when the program is gone."""
    try:
        while True:
            if connection.poll(PARENT_LOOKED_FOR):
                task = receive(connection)
                tasks.put(task)
                if task is None:
                    return
            elif os.getppid() != parent:
                os._exit(1)
    except (EOFError, OSError):
        tasks.put(None)
        if os.getppid() != parent:
            os._exit(1)


def _generate_state(base_seed, worker_id) -> list:
    """Return what a worker gives NumPy to seed it with, as in PyTorch."""
    words = worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0
    return numpy.random.SeedSequence(words).generate_state(4).tolist()


def _prepare(number, seed, options) -> None:
    global _worker_info
    with warnings.catch_warnings(action="ignore"):  # that nothing can set it
        plugrad.set_num_threads(1)
    own = seed + number
    random.seed(own)
    plugrad.manual_seed(own)
    numpy.random.seed(_generate_state(seed, number))
    _worker_info = WorkerInfo(id=number, num_workers=options["workers"], seed=own, dataset=options["dataset"])
    if options["init"] is not None:
        options["init"](number)


def _fetcher(options):
    return options["fetcher"](options["dataset"], options["batched"], options["collate"], options["drop_last"])


def _answer(fetcher, index, number):
    try:
        return fetcher.fetch(index)
    except StopIteration:
        return Ended
    except Exception as error:
        return ExceptionWrapper(error, f"in DataLoader worker process {number}")


def _send_or_explain(connection, place, answer, number) -> None:
    """Send an answer; where it can't be pickled, the error that says so."""
    try:
        send(connection, (place, answer))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:
        reason = RuntimeError(f"a batch of type {type(answer).__name__} can't be sent from a worker: {error}")
        if isinstance(answer, ExceptionWrapper):
            reason = RuntimeError(f"Caught {answer.cls.__name__} {answer.where}.\nOriginal {answer.text}")
        send(connection, (place, ExceptionWrapper(reason, f"in DataLoader worker process {number}")))
