"""The standard output and errors of a process: whose they are, and where they lead."""

from __future__ import annotations

import os
import sys
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
