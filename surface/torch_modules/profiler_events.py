"""What a profile observed: events, their sums by name, and the table that shows them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg"]


class Interval(NamedTuple):
    """A range of time, in microseconds."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return how long it is."""
        return self.end - self.start


class _Times:
    """The times of an event, or of a sum of them, as texts."""

    cpu_time_str = property(lambda self: _time(self.cpu_time), doc="The mean time of one.")
    cpu_time_total_str = property(lambda self: _time(self.cpu_time_total), doc="The time of all.")
    self_cpu_time_total_str = property(lambda self: _time(self.self_cpu_time_total), doc="The time without others.")


class FunctionEvent(_Times):
    """One range of time, in microseconds.

    A call of an op, its backward, or what `record_function` names.
    """

    def __init__(self, name, thread, input_shapes, start_ns, stack=()):
        self.stack = list(stack)
        self.name = self.key = name
        self.thread, self.input_shapes, self.start_ns, self.end_ns = thread, input_shapes, start_ns, start_ns
        self.cpu_children, self.cpu_parent, self.count, self.cpu_memory_usage = [], None, 1, 0

    def close(self, end_ns) -> None:
        """Say when it ended."""
        self.end_ns = end_ns

    def add_child(self, event) -> None:
        """Enter a range that lies in this one."""
        event.cpu_parent = self
        self.cpu_children.append(event)

    @property
    def cpu_time_total(self) -> float:
        """The time from its beginning to its end."""
        return (self.end_ns - self.start_ns) / 1000

    cpu_time = cpu_time_total

    @property
    def time_range(self) -> Interval:
        """When it began and ended, in microseconds of a clock of its own."""
        return Interval(self.start_ns / 1000, self.end_ns / 1000)

    @property
    def self_cpu_time_total(self) -> float:
        """The time that is not that of ranges in it."""
        return self.cpu_time_total - sum(event.cpu_time_total for event in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """The bytes of its results that are not those of ranges in it."""
        return max(0, self.cpu_memory_usage - sum(event.cpu_memory_usage for event in self.cpu_children))

    def chrome(self) -> dict:
        """Return the event as Chrome's traces have it."""
        return {
            "name": self.name, "ph": "X", "cat": "cpu_op", "ts": self.start_ns / 1000, "dur": self.cpu_time_total,
            "pid": 0, "tid": self.thread,
            "args": {"Input Dims": self.input_shapes} | ({"Call stack": ";".join(self.stack)} if self.stack else {}),
        }  # fmt: skip

    def __repr__(self):
        return f"<FunctionEvent name={self.name} cpu_time={_time(self.cpu_time_total)} thread={self.thread}>"


class FunctionEventAvg(_Times):
    """The sums of events of one name."""

    def __init__(self, key, input_shapes=(), stack=()):
        self.key, self.input_shapes, self.stack, self.count = key, input_shapes, list(stack), 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0

    def add(self, event) -> None:
        """Add an event, or another sum."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(event, name))

    @property
    def cpu_time(self) -> float:
        """The mean time of one, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def name(self) -> str:
        """The same as `key`."""
        return self.key

    def __repr__(self):
        return f"<FunctionEventAvg key={self.key} self_cpu_time={_time(self.self_cpu_time_total)} count={self.count}>"


_SUMS = ("count", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage")


class EventList(list):
    """A list of events, or of their sums."""

    def key_averages(self, group_by_input_shapes=False, group_by_stack_n=0) -> EventList:
        """Return sums by name, by shapes of inputs too, or by the innermost calls.

        The latter are given as their number.
        """
        sums: dict = {}
        for event in self:
            shapes, stack = event.input_shapes if group_by_input_shapes else "", event.stack[:group_by_stack_n]
            key = event.key, str(shapes), tuple(stack)
            sums.setdefault(key, FunctionEventAvg(event.key, shapes, stack)).add(event)
        return EventList(sums.values())

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all of them, each moment counted once, in microseconds."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
        max_shapes_column_width=80, header=None, top_level_events_only=False, time_unit=None,
    ) -> str:  # fmt: skip
        """Return the list as a text.

        Args:
            sort_by: an attribute of the events, such as "cpu_time_total", the largest first; or as they come.
            row_limit: the most rows; -1 for all.
            header: a line above.
            top_level_events_only: whether to leave out what lies in something else.
        """
        rows = [event for event in self if not (top_level_events_only and getattr(event, "cpu_parent", None))]
        if sort_by is not None:
            by = sort_by.replace("device_", "cpu_").replace("cuda_", "cpu_")
            rows.sort(key=lambda event: getattr(event, by), reverse=True)
        total = sum(event.self_cpu_time_total for event in self) or 1.0
        memory = any(event.cpu_memory_usage for event in self)
        shapes = any(event.input_shapes for event in self)
        titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
        stacks = max_src_column_width if any(event.stack for event in self) else 0
        titles += ["CPU Mem", "Self CPU Mem"] * memory + ["Input Shapes"] * shapes + ["Source Location"] * (stacks > 0)
        shown = rows if row_limit < 0 else rows[:row_limit]
        cells = [titles, *(_cells(event, total, memory, shapes, stacks) for event in shown)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
        widths[0] = min(widths[0], max_name_column_width)
        rule = "  ".join("-" * width for width in widths)
        text = ["  ".join(cell[:width].rjust(width) for cell, width in zip(row, widths)) for row in cells]
        lines = [*([header] if header else []), rule, text[0], rule, *text[1:], rule]
        return "\n".join([*lines, f"Self CPU time total: {_time(self.self_cpu_time_total)}", ""])

    __str__ = table


def _cells(event, total, memory, shapes, stacks) -> list[str]:
    cells = [
        event.key, f"{100 * event.self_cpu_time_total / total:.2f}%", _time(event.self_cpu_time_total),
        f"{100 * event.cpu_time_total / total:.2f}%", _time(event.cpu_time_total),
        _time(event.cpu_time_total / event.count), str(event.count),
    ]  # fmt: skip
    cells += [_memory(event.cpu_memory_usage), _memory(event.self_cpu_memory_usage)] if memory else []
    cells += [str(event.input_shapes)] if shapes else []
    return [*cells, event.stack[0][-stacks:] if event.stack else ""] if stacks else cells


def _time(microseconds) -> str:
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= factor:
            return f"{microseconds / factor:.3f}{unit}"
    return f"{microseconds:.3f}us"


def _memory(count) -> str:
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(count) >= factor:
            return f"{count / factor:.2f} {unit}"
    return f"{count} B"
