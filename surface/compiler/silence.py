"""What a program prints or logs while it is captured: a captured program would not do it again."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading

from plugrad.compiler.sizes import ChangeError


class _Silent:
    """What the program writes to while it is captured: a captured program would write nothing. Others print as ever.

    There is one for good: CPython's `print` holds no reference to what it writes to, so another thread that prints
    while a capture ends would write to what is gone.
    """

    others = None

    def __init__(self, name):
        self.name = name

    def before(self):
        """Return itself, in front of what others write to now."""
        self.others = getattr(sys, self.name)
        return self

    def write(self, text):
        warns = sys._getframe(1).f_globals.get("__name__") == "warnings"  # once, as a rule
        if warns or getattr(_here, "recorder", None) is None:
            return self.others.write(text)
        raise _here.recorder.refusal("the program prints", kind=ChangeError)

    def __getattr__(self, name):
        return getattr(self.others, name)


_here = threading.local()  # `recorder`: of the capture in this thread
_silent, _silent_errors = _Silent("stdout"), _Silent("stderr")


@contextlib.contextmanager
def printing_nothing(recorder):
    """Refuse what the program of a capture prints, and records of `logging`, in this thread."""
    others = logging.getLogRecordFactory()

    def record(*args, **kwargs):
        if getattr(_here, "recorder", None) is not recorder:
            return others(*args, **kwargs)
        raise recorder.refusal("the program logs", kind=ChangeError)

    with contextlib.redirect_stdout(_silent.before()), contextlib.redirect_stderr(_silent_errors.before()):
        logging.setLogRecordFactory(record)
        _here.recorder = recorder
        try:
            yield
        finally:
            _here.recorder = None
            if logging.getLogRecordFactory() is record:
                logging.setLogRecordFactory(others)
