"""`torch.profiler` and `torch.autograd.profiler`: the time and memory of ops, forward and backward.

`profile` is a hook on ops (`plugrad.extend.OpHook`), so that what it costs is paid only while it is on. Times are those
of the CPU: work on a device that computes behind the program's back counts as the time to launch it.
"""

from __future__ import annotations

import contextlib
import enum
import gzip
import json
import os
import sys
import threading
import time

from plugrad import absent
from plugrad.extend import OpCall, OpHook, held_back
from plugrad.extend.blocks import Restoring
from plugrad.torch_modules.profiler_events import EventList, FunctionEvent

__all__ = [
    "EventList", "FunctionEvent", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile",
    "record_function", "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip

__path__ = []  # `profiler.profiler` is below it
__getattr__ = absent.attributes("profiler")

_running: list = []  # the profiles that are on, in all threads


def kineto_available() -> bool:
    """Return False: plugrad times ops itself, without PyTorch's tracing library."""
    return False


class ProfilerActivity(enum.Enum):
    """What a profile observes; here it is always the CPU."""

    CPU, XPU, MTIA, CUDA, HPU, PrivateUse1 = range(6)


class ProfilerAction(enum.Enum):
    """What a profile does in a step.

    Nothing, observe without keeping, keep, keep and then call `on_trace_ready`.
    """

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


def supported_activities() -> set:
    """Return what a profile can observe."""
    return {ProfilerActivity.CPU}


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """Return a function from the number of a step to what a profile does in it.

    Args:
        wait, warmup, active: steps of a cycle in which it does nothing, observes, and keeps what it observes.
        repeat: number of cycles; 0 means without end.
        skip_first: steps before the first cycle.
        skip_first_wait: whether the first cycle leaves its `wait` out.

    >>> plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError("Invalid profiler schedule arguments")

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle, place = divmod(step, wait + warmup + active)
        if place < wait or repeat and cycle >= repeat:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        last = place == wait + warmup + active - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """Return a function for `on_trace_ready` that writes a Chrome trace into a folder."""
    os.makedirs(dir_name, exist_ok=True)

    def handler(prof) -> None:
        name = f"{worker_name or f'plugrad_{os.getpid()}'}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


class _Observer(OpHook):
    """Notes when ops begin and end."""

    def __init__(self, profile):
        super().__init__()
        self.profile = profile

    def before(self, call):
        outer = self.profile._stack()[-1][0] if call.depth and self.profile._stack() else None
        if isinstance(outer, OpCall) and outer.name == call.name and outer.op is not call.op:
            return  # `relu`, say, that `functional.relu` hands its work on to: one call of the program, counted once
        self.profile._open(f"aten::{call.name}", call, call.args)

    def after(self, call):
        self.profile._close(call, call.result)

    def before_backward(self, node, grad_outputs):
        self.profile._open(node.name(), node, grad_outputs)

    def after_backward(self, node, grad_inputs, grad_outputs):
        self.profile._close(node, grad_inputs)


class profile(Restoring):
    """Measure the ops of a `with` block.

    Args:
        activities: of `ProfilerActivity`; only the CPU is observed.
        schedule: what to do in each step, see `schedule`; the program calls `step()` after each.
        on_trace_ready: called with the profile after the last kept step of a cycle, or at the end.
        record_shapes: whether to keep the shapes of inputs.
        profile_memory: whether to keep the bytes of results.
        with_stack: whether to keep the program's calls that lead to each; it makes everything slower.
        acc_events: whether to keep the events of all cycles.
        enabled: False makes it do nothing.

    `with_flops`, `with_modules`, `use_cuda` and the like are accepted, and add nothing.

    >>> import plugrad as torch
    >>> with torch.profiler.profile() as prof:
    ...     with torch.profiler.record_function("double"):
    ...         y = torch.ones(3) * 2
    >>> sorted((event.key, event.count) for event in prof.key_averages())
    [('aten::mul', 1), ('aten::ones', 1), ('double', 1)]
    """

    def __init__(
        self, activities=None, *, schedule=None, on_trace_ready=None, record_shapes=False, profile_memory=False,
        with_stack=False, with_flops=False, with_modules=False, experimental_config=None, acc_events=False,
        enabled=True, use_cuda=None, use_device=None, use_cpu=True, use_kineto=True, post_processing_timeout_s=None,
        execution_trace_observer=None, custom_trace_id_callback=None,
    ):  # fmt: skip
        self.enabled = activities if isinstance(activities, bool) else enabled  # autograd's profile has it first
        self.activities = {ProfilerActivity.CPU} if isinstance(activities, bool) else set(activities or ())
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.record_shapes, self.profile_memory, self.acc_events = record_shapes, profile_memory, acc_events
        self.with_stack = with_stack
        self.step_num, self._events, self._observer = 0, [], _Observer(self)
        self._here, self._observing = threading.local(), False
        self.current_action = self._planned()

    def _planned(self):
        return self.schedule(self.step_num) if self.schedule is not None else ProfilerAction.RECORD_AND_SAVE

    def _stack(self) -> list:
        if not hasattr(self._here, "stack"):
            self._here.stack = []
        return self._here.stack

    def _open(self, name, what, inputs=()):
        shapes = _shapes(inputs) if self.record_shapes else []
        calls = _calls() if self.with_stack else []
        self._stack().append((what, FunctionEvent(name, threading.get_ident(), shapes, time.perf_counter_ns(), calls)))

    def _close(self, what, result=()):
        stack, end = self._stack(), time.perf_counter_ns()
        if not any(opened is what for opened, _ in stack):  # it began before the profile
            return
        while True:  # what is above it has raised, and never came to its end
            opened, event = stack.pop()
            event.close(end)
            if stack:
                stack[-1][1].add_child(event)
            if opened is what:
                break
        if self.profile_memory:
            event.cpu_memory_usage = _bytes(result)
        if self.current_action is not ProfilerAction.WARMUP:
            self._events.append(event)

    def _observe(self, wanted) -> None:
        with held_back():
            if wanted and not self._observing:
                self._observer.install()
                _running.append(self)
            elif self._observing and not wanted:
                self._observer.remove()
                _running.remove(self)
                self._stack().clear()
            self._observing = wanted

    def _recreate_cm(self):
        return self  # whose results are asked for after a function that it decorates has run

    def begin(self):
        """Begin to observe, unless the plan is to wait."""
        if self.enabled:
            self._observe(self.current_action is not ProfilerAction.NONE)
        return self

    def end(self) -> None:
        """Observe no more, and hand over what was kept."""
        kept = self._observing and self.current_action is not ProfilerAction.WARMUP
        self._observe(False)
        if kept and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def start(self) -> None:
        """Begin; `with` does it."""
        self.__enter__()

    def stop(self) -> None:
        """End; `with` does it."""
        self.leave()

    def step(self) -> None:
        """Say that the next step of the program begins."""
        ended = self.current_action
        self.step_num += 1
        self.current_action = self._planned()
        if not self.enabled:
            return
        if ended is ProfilerAction.RECORD_AND_SAVE and self.schedule is not None:
            self._observe(False)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
            self._events = self._events if self.acc_events or self.current_action is ProfilerAction.NONE else []
        elif ended is ProfilerAction.NONE and not self.acc_events and self.current_action is not ProfilerAction.NONE:
            self._events = []
        self._observe(self.current_action is not ProfilerAction.NONE)

    def events(self) -> EventList:
        """Return what was observed, in the order in which it began."""
        return EventList(sorted(self._events, key=lambda event: event.start_ns))

    @property
    def function_events(self) -> EventList:
        """The same as `events()`."""
        return self.events()

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0) -> EventList:
        """Return sums by name, by shapes of inputs too, or by the innermost calls.

        The latter are given as their number.

        `.table()` of it is a text.
        """
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self):
        """Return the sum of everything."""
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all that was observed, in microseconds."""
        return self.events().self_cpu_time_total

    def table(self, **options) -> str:
        """Return the text of `events()`; the options are those of `EventList.table`."""
        return self.events().table(**options)

    __str__ = table

    def export_chrome_trace(self, path) -> None:
        """Write what was observed as a trace for `chrome://tracing` or Perfetto.

        A path that ends in ".gz" is compressed.
        """
        rows = [event.chrome() for event in self.events()]
        opened = gzip.open if str(path).endswith(".gz") else open
        with opened(path, "wt", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": rows}, file)

    def export_stacks(self, path, metric="self_cpu_time_total") -> None:
        """Write a line for each stack of calls, for flame graphs.

        "outer;inner;op TIME", in microseconds.

        Needs `with_stack`; `metric` is "self_cpu_time_total" or another attribute of events.
        """
        if not self.with_stack:
            raise ValueError("there are no stacks to write: begin the profile with with_stack=True")
        times: dict = {}
        for event in self.events():
            line = ";".join(call.replace(" ", "_").replace(";", ",") for call in [*event.stack[::-1], event.name])
            times[line] = times.get(line, 0) + getattr(event, metric)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{line} {int(total)}\n" for line, total in times.items() if int(total) > 0)

    def add_metadata(self, key, value) -> None:
        """Accepted: traces hold ops alone."""

    add_metadata_json = add_metadata


class record_function(contextlib.ContextDecorator):
    """A named range of a profile: a `with` block, or a function that this decorates.

    Args:
        name: said in the profile.
        args: accepted; PyTorch shows it in traces.
    """

    def __init__(self, name, args=None):
        self.name, self._opened = name, []

    def _recreate_cm(self):
        return record_function(self.name)

    def __enter__(self):
        self._opened.append((object(), tuple(_running)))
        for one in self._opened[-1][1]:
            one._open(self.name, self._opened[-1][0])
        return self

    def __exit__(self, *exception):
        what, profiles = self._opened.pop()
        for one in profiles:
            if one._observing:
                one._close(what)


def _calls() -> list[str]:
    """Return the program's own calls, "FILE(LINE): FUNCTION", the innermost first, without those in plugrad."""
    frame, calls = sys._getframe(2), []
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] != "plugrad":
            code = frame.f_code
            calls.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return calls


def _shapes(inputs) -> list:
    return [list(getattr(value, "shape", ())) for value in inputs]


def _bytes(result) -> int:
    results = result if isinstance(result, (tuple, list)) else (result,)
    return sum(item.nbytes for item in results if hasattr(item, "_is_view") and not item._is_view())


def _profiler_enabled() -> bool:
    """Return False: PyTorch's own tracer of kernels is not there, and `profile` does without it."""
    return False
