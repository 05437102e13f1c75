"""The standard output and errors of a process: whose they are, and where they lead."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import threading
import weakref

quiet_threads: weakref.WeakSet = weakref.WeakSet()  # of plugrad's own, which neither draw nor print


def is_alone() -> bool:
    """Whether no other thread runs that could draw random numbers or print meanwhile."""
    return all([one is threading.current_thread() or one in quiet_threads for one in threading.enumerate()])


class ToStandardError:
    """Stands for `sys.stdout`: what one thread writes goes to standard error, what others write where it went."""

    def __init__(self, real):
        self.real, self.thread = real, threading.get_ident()

    def __getattr__(self, name):
        return getattr(sys.stderr if self.thread == threading.get_ident() else self.real, name)


class Files:
    """The files behind the descriptors of standard input, output and errors, which children and C code use, too.

    Where other threads run they are left alone: these may use them meanwhile.
    """

    def __init__(self):
        self.kept, self.now = {}, {}
        for number in (0, 1, 2) if is_alone() else ():
            try:
                self.kept[number] = os.dup(number)
                self.now[number] = os.fstat(number)
            except OSError:  # it was closed by the program
                continue

    def point_output_at_errors(self, stream) -> None:
        """Have the descriptor of the standard output lead where that of standard error does, if that can be."""
        if not self.kept or isinstance(stream, ToStandardError):
            return
        try:
            stream.flush()
            number = stream.fileno()
            if number in self.kept:
                os.dup2(sys.stderr.fileno(), number)
                self.now[number] = os.fstat(number)
        except (OSError, ValueError, AttributeError):  # closed, or no file
            return

    def repair(self) -> list[str]:
        """Point all of them where they led; return those that lead elsewhere, in words."""
        changed = [number for number, then in self.now.items() if not self._leads_to(number, then)]
        for number, kept in self.kept.items():
            os.dup2(kept, number)
            os.close(kept)
        return [f"the file behind descriptor {number}" for number in changed]

    def _leads_to(self, number, then) -> bool:
        try:
            return os.path.samestat(os.fstat(number), then)
        except OSError:
            return False


class Heard:
    """Keeps what C code and children of the block write to the file of the standard output; standard error gets it.

    `text` is what it was, behind the block: of a program with other threads nothing, since these may write, too. What
    Python prints goes to standard error.
    """

    def __enter__(self):
        self.text, self.kept = "", None
        if sys.stdout is None or not is_alone():
            return self
        self.stream, self.file = sys.stdout, tempfile.TemporaryFile()
        self._flush()
        try:
            self.kept = os.dup(1)
        except OSError:  # it was closed by the program
            return self
        os.dup2(self.file.fileno(), 1)
        sys.stdout = sys.stderr
        return self

    @staticmethod
    def _flush():
        sys.stdout.flush()
        if os.name == "posix":
            ctypes.CDLL(None).fflush(None)  # C's own buffers

    def __exit__(self, *error):
        if self.kept is None:
            return
        self._flush()
        sys.stdout = self.stream
        os.dup2(self.kept, 1)
        os.close(self.kept)
        with self.file:
            self.file.seek(0)
            self.text = self.file.read().decode(errors="backslashreplace")
        sys.stderr.write(self.text)
