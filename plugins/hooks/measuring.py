"""Hooks that measure ops: their time, and the memory of their results."""

from __future__ import annotations

import time

from plugrad.extend import OpHook, collect, hookimpl


class _Table(OpHook):
    """Adds something up by op; `rows()` gives it, the largest first, and printing the hook shows it."""

    headings: tuple = ()

    def __init__(self, *ops):
        super().__init__(*ops)
        self.totals: dict = {}  # name -> [calls, total]

    def add(self, name, amount) -> None:
        entry = self.totals.setdefault(name, [0, 0])
        entry[0] += 1
        entry[1] += amount

    def rows(self) -> list:
        """Return (op, calls, total) of each op, the largest total first."""
        return sorted(((name, *entry) for name, entry in self.totals.items()), key=lambda row: -row[2])

    def __str__(self):
        lines = ["{:<32} {:>8} {:>14}".format(*self.headings)]
        lines += [f"{name:<32} {calls:>8} {self.shown(total):>14}" for name, calls, total in self.rows()]
        return "\n".join(lines)

    def shown(self, total) -> str:
        return str(total)


class timer(_Table):
    """Adds up the time of calls by op; backward counts under the name of its node.

    The time of a composite op holds that of the ops that it calls, which have rows of their own. Work on a device that
    computes behind the program's back counts as the time to launch it.

    >>> import plugrad as torch
    >>> with torch.op_hooks.timer() as times:
    ...     y = torch.exp(torch.ones(3)) + 1
    >>> sorted(name for name, calls, seconds in times.rows())
    ['add', 'exp', 'ones']
    """

    headings = ("op", "calls", "milliseconds")

    def __init__(self, *ops):
        super().__init__(*ops)
        self.started: list = []

    def before(self, call):
        self.started.append((call, time.perf_counter()))

    def after(self, call):
        while self.started:  # what is above the call has raised, and never came to its end
            opened, start = self.started.pop()
            if opened is call:
                self.add(call.name, time.perf_counter() - start)
                break

    def before_backward(self, node, grad_outputs):
        self.started.append((node, time.perf_counter()))

    def after_backward(self, node, grad_inputs, grad_outputs):
        if self.started and self.started[-1][0] is node:
            self.add(node.name(), time.perf_counter() - self.started.pop()[1])

    def shown(self, total):
        return f"{1000 * total:.3f}"


class memory(_Table):
    """Adds up the memory that results of ops take, by op, in bytes; views take none.

    >>> import plugrad as torch
    >>> with torch.op_hooks.memory() as bytes_of:
    ...     y = torch.ones(4, 5).exp().t()
    >>> bytes_of.rows()
    [('ones', 1, 80), ('exp', 1, 80), ('t', 1, 0)]
    """

    headings = ("op", "calls", "bytes")

    def after(self, call):
        if call.op.runs_on != "tensors" and not call.name.endswith("_"):
            results = call.result if isinstance(call.result, (list, tuple)) else (call.result,)
            fresh = [item for item in results if hasattr(item, "nbytes") and not item._is_view()]
            self.add(call.name, sum([item.nbytes for item in fresh]))


@hookimpl
def plugrad_hooks():
    return collect(OpHook, globals())
