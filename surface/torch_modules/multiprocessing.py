"""`torch.multiprocessing`: Python's own module, with `spawn`; tensors go to other processes as copies."""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403 - all of its names

from plugrad.torch_modules.utils import ExceptionWrapper

__all__ = [
    *multiprocessing.__all__, "ProcessRaisedException", "get_all_sharing_strategies", "get_sharing_strategy",
    "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip


class ProcessRaisedException(Exception):
    """A process that `spawn` started has raised: the message has its traceback."""


def get_all_sharing_strategies() -> set:
    """Return {'file_system'}: how tensors would be shared; they are copied."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """Return 'file_system'."""
    return "file_system"


def set_sharing_strategy(new_strategy) -> None:
    """Accept 'file_system' and 'file_descriptor': tensors are copied in either."""
    if new_strategy not in ("file_system", "file_descriptor"):
        raise AssertionError(f"unknown sharing strategy {new_strategy!r}")


def _started(fn, rank, args, errors) -> None:
    try:
        fn(rank, *args)
    except BaseException:
        errors.put((rank, ExceptionWrapper(where=f"in process {rank}")))
        raise SystemExit(1) from None


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Call `fn(rank, *args)` in as many processes, and wait for them.

    Args:
        fn: a function of a module, since the processes import it.
        args: further arguments.
        nprocs: number of processes; `rank` counts from 0.
        join: whether to wait; otherwise the processes are returned.
        daemon: whether they end with this process.
        start_method: "spawn", "fork" or "forkserver".

    Raises ProcessRaisedException with the traceback of a process that raised.
    """
    context = multiprocessing.get_context(start_method)
    errors = context.SimpleQueue()
    processes = [
        context.Process(target=_started, args=(fn, rank, args, errors), daemon=daemon) for rank in range(nprocs)
    ]
    for process in processes:
        process.start()
    if not join:
        return processes
    for process in processes:
        process.join()
    if not errors.empty():
        rank, wrapper = errors.get()
        raise ProcessRaisedException(f"\n\n-- Process {rank} terminated with the following error:\n{wrapper.exc_msg}")
    failed = [process.exitcode for process in processes if process.exitcode]
    if failed:
        raise RuntimeError(f"a process ended with exit code {failed[0]}")
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Call `fn(rank, *args)` in so many processes.

    The arguments are those of `start_processes`.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)
