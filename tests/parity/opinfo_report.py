"""Bookkeeping of the parity checks: what passed, failed and was skipped, and why; time limits."""

from __future__ import annotations

import contextlib
import signal
import time

from opinfo_compare import Mismatch
from opinfo_convert import Unconvertible

CATEGORIES = (
    "value",
    "dtype",
    "view",
    "grad",
    "gradgrad",
    "method",
    "inplace",
    "name",
    "error",
    "errclass",
    "refused",
    "setup",
    "timeout",
)


class TimeLimit(BaseException):
    """Raised by the alarm; not an Exception, so that no handler on the way swallows it."""


@contextlib.contextmanager
def time_limit(seconds: float):
    """Interrupt the block with TimeLimit after `seconds` of the processor, or twelve times as long by the clock."""
    begun, latest = time.process_time(), time.monotonic() + 12 * seconds

    def expire(signum, frame):
        if time.process_time() - begun >= seconds or time.monotonic() >= latest:
            raise TimeLimit(f"took longer than {seconds:g} s")
        signal.setitimer(signal.ITIMER_REAL, seconds)  # other processes had the processor

    previous = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


class Report:
    """What became of the samples of one op: how many checks passed, failed and were skipped, and why."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.samples = 0
        self.clean = 0
        self.passed: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self.messages: dict[str, str] = {}
        self.skipped: dict[str, int] = {}

    def passes(self, category: str) -> None:
        self.passed[category] = self.passed.get(category, 0) + 1

    def fails(self, category: str, message: str) -> None:
        self.failed[category] = self.failed.get(category, 0) + 1
        self.messages.setdefault(category, message)

    def skips(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def as_dict(self) -> dict:
        return {name: getattr(self, name) for name in vars(self)}


class Guard:
    """Books the outcome of the steps of one check; a failed step does not keep the next from running."""

    def __init__(self, report: Report, category: str, prefix: str) -> None:
        self.report = report
        self.category = category
        self.prefix = prefix
        self.failed: set[str] = set()

    @contextlib.contextmanager
    def step(self, category: str):
        self.category = category
        try:
            yield
        except (Unconvertible, TorchRaises):
            raise
        except Exception as error:
            self.fails(error)
        else:
            self.report.passes(category)

    def fails(self, error: Exception) -> None:
        self.failed.add(self.category)
        if isinstance(error, Mismatch):
            self.report.fails(error.category, self.prefix + str(error))
        elif isinstance(error, NotImplementedError):
            self.report.fails("refused", f"{self.prefix}{self.category}: {brief(error)}")
        else:
            self.report.fails(self.category, f"{self.prefix}{type(error).__name__}: {brief(error)}")


class TorchRaises(Exception):
    """PyTorch itself refuses the sample."""


def reference(compute):
    """Run a step of PyTorch's side; its errors are no failure of the target."""
    try:
        return compute()
    except Unconvertible:
        raise
    except Exception as error:
        raise TorchRaises(f"{type(error).__name__}: {brief(error)}") from error


def brief(error: BaseException, width: int = 160) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= width else text[: width - 3] + "..."
