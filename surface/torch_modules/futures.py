"""`torch.futures`: results that are not there yet."""

from __future__ import annotations

import concurrent.futures
import typing

__all__ = ["Future", "collect_all", "wait_all"]

T = typing.TypeVar("T")


class Future(typing.Generic[T]):
    """A result that some thread will set, and what is to be done then.

    Args:
        devices: the devices of tensors in the result; on which it is waited for is the program's affair here.

    >>> import plugrad as torch
    >>> future = torch.futures.Future()
    >>> doubled = future.then(lambda done: 2 * done.value())
    >>> future.set_result(21)
    >>> doubled.wait()
    42
    """

    def __init__(self, *, devices=None):
        self._devices = list(devices or ())
        self._future = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether there is a result or an exception."""
        return self._future.done()

    def wait(self) -> T:
        """Return the result as soon as it is there, or raise its exception."""
        return self._future.result()

    def value(self) -> T:
        """Return the result that is there.

        Raises RuntimeError if there is none yet, or its exception.
        """
        if not self.done():
            raise RuntimeError("the future has no value yet: call wait()")
        return self._future.result()

    def then(self, callback) -> Future:
        """Return a future of `callback(self)`, called as soon as this one is done.

        An error of the callback's becomes a RuntimeError that tells of it, its cause.
        """
        after = Future(devices=self._devices)

        def run(_):
            try:
                after.set_result(callback(self))
            except Exception as error:
                told = f"Got the following error when running the callback: {type(error).__name__}: {error}"
                after.set_exception(RuntimeError(told))
                after._future.exception().__cause__ = error

        self._future.add_done_callback(run)
        return after

    def add_done_callback(self, callback) -> None:
        """Call `callback(self)` as soon as this future is done, at once if it is."""
        self._future.add_done_callback(lambda _: callback(self))

    def set_result(self, result: T) -> None:
        """Set the result, once. Raises RuntimeError the second time."""
        self._set(self._future.set_result, result)

    def set_exception(self, result: BaseException) -> None:
        """Set an exception, which `wait` and `value` raise.

        Raises AssertionError for what is none.
        """
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._set(self._future.set_exception, result)

    @staticmethod
    def _set(setter, result):
        try:
            setter(result)
        except concurrent.futures.InvalidStateError:
            raise RuntimeError("Future can only be marked completed once: it has a result or an exception") from None


def collect_all(futures: list[Future]) -> Future[list[Future]]:
    """Return a future of the list of futures, done when all of them are."""
    together = Future()
    waiting = {id(future) for future in futures}

    def settle(future):
        waiting.discard(id(future))
        if not waiting and not together.done():
            together.set_result(futures)

    if not futures:
        together.set_result(futures)
    for future in futures:
        future.add_done_callback(settle)
    return together


def wait_all(futures: list[Future]) -> list:
    """Return the results of futures once all are there.

    Or raise the first exception.
    """
    return [future.wait() for future in collect_all(futures).wait()]
