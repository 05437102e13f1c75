"""Ctrl-C, or an error, at every point of a program: it comes before the n-th of plugrad's own bytecodes."""

import collections
import contextlib
import dis
import gc
import random
import signal
import sys

from support.own_files import OWN, ROOT


def _is_own(name: str) -> bool:
    # A function that was generated from an op's plan has no file: its bytecodes are plugrad's, too.
    return name.startswith((*OWN, "<plugrad"))


# Bytecodes that run nothing: CPython looks at no signal behind them, though a tracer could raise there.
_QUIET_NAMES = (
    "LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "STORE_FAST", "STORE_ATTR", "STORE_SUBSCR", "POP_TOP", "POP_JUMP_FORWARD",
    "POP_JUMP_IF", "PUSH_NULL", "COPY", "SWAP", "IS_OP", "CONTAINS_OP", "NOP", "PRECALL", "KW_NAMES", "JUMP_FORWARD",
    "BEFORE_WITH", "END_FOR",
)  # fmt: skip
_QUIET = {code for name, code in dis.opmap.items() if name.startswith(_QUIET_NAMES)}
_codes: dict = {}


def _handlers(code) -> dict:
    """Return where each bytecode's exceptions are handled, by its offset."""
    return {at: entry.target for entry in dis.Bytecode(code).exception_entries for at in range(entry.start, entry.end)}


def _is_quiet(code, offset) -> bool:
    quiet = _codes.get(code)
    if quiet is None:
        quiet = _codes[code] = {}
        handlers, before, after = _handlers(code), None, None
        for instruction in dis.get_instructions(code):
            # A signal behind the last call of a block is raised by that call, inside of the block.
            left = after is not None and handlers.get(after) != handlers.get(instruction.offset)
            quiet[instruction.offset] = before in _QUIET or left
            before, after = instruction.opcode, instruction.offset
    return quiet.get(offset, False)


# From 3.12 on, CPython tells a tracer of bytecodes only in code that was traced before; `sys.monitoring` tells of all.
_MONITORING = getattr(sys, "monitoring", None)
_TOOL = 4  # of the numbers that no debugger, profiler or coverage tool has by convention


class Tracer:
    """Notes the bytecodes that run in plugrad's files, and stops before the one whose number `stops` says yes to."""

    def __init__(self, stops=None, error=None):
        self.passed, self.stops, self.error = [], stops, error
        self.where = self.stopped = None

    def call(self, frame, event, arg):
        if not _is_own(frame.f_code.co_filename):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.opcode

    def opcode(self, frame, event, arg):
        if event == "opcode" and not _is_quiet(frame.f_code, frame.f_lasti):
            self.note(frame.f_code, frame.f_lasti, frame.f_lineno)
        return self.opcode

    def instruction(self, code, offset):
        """Be told by `sys.monitoring` of a bytecode; DISABLE says that no more is to be told of that one."""
        if not _is_own(code.co_filename) or _is_quiet(code, offset):
            return _MONITORING.DISABLE
        return self.note(code, offset, code.co_firstlineno)

    def note(self, code, offset, line):
        if self.stops is not None and self.stops(len(self.passed)):
            self.stop(code, line)
        self.passed.append((code, offset))

    def stop(self, code, line):
        """Raise the error, or send SIGINT, and be told of no more."""
        self.where, self.stopped = f"{code.co_filename.removeprefix(ROOT)}:{line} {code.co_name}", code
        _tell(None)
        if self.error is not None:
            raise self.error
        signal.raise_signal(signal.SIGINT)  # raises KeyboardInterrupt here, unless that is held back


class Stop(Tracer):
    """Stops before a bytecode that has run a number of times; is told of no other code's, which takes most time."""

    def __init__(self, code, offset, times, error=None):
        super().__init__(error=error)
        self.code, self.offset, self.times = code, offset, times

    def call(self, frame, event, arg):
        code = frame.f_code  # what is generated anew in each run is equal and another
        return super().call(frame, event, arg) if code is self.code or code == self.code else None

    def opcode(self, frame, event, arg):
        if event == "opcode" and frame.f_lasti == self.offset:
            self.note(frame.f_code, frame.f_lasti, frame.f_lineno)
        return self.opcode

    def instruction(self, code, offset):
        if offset != self.offset or not (code is self.code or code == self.code):
            return _MONITORING.DISABLE
        return self.note(code, offset, code.co_firstlineno)

    def note(self, code, offset, line):
        self.times -= 1
        if self.times < 0:
            self.stop(code, line)


def _tracers(program, most, seed, error=None):
    """Run a program once; return tracers that stop it at all of its points, or `most` of them, and these points' codes.

    Every tenth goes by the number of bytecodes, so that it also stops in what only an interrupted run leaves to do.
    """
    counter, times, points = Tracer(), collections.Counter(), []
    run_traced(program, counter)
    for code, offset in counter.passed:
        points.append((code, offset, times[code, offset]))
        times[code, offset] += 1
    assert points, "the tracer saw nothing of the program"
    chosen = range(len(points))
    if len(points) > most:
        chosen = sorted({*random.Random(seed).sample(chosen, most), chosen[-1]})  # behind the last all is done
    tracers = [Stop(*points[point], error) if n % 10 else Tracer(point.__eq__, error) for n, point in enumerate(chosen)]
    return tracers, {points[point][0] for point in chosen}


def _tell(tracer) -> None:
    """Have a tracer be told of bytecodes from here on; None: nobody."""
    if _MONITORING is None:
        sys.settrace(None if tracer is None else tracer.call)
        return
    if _MONITORING.get_tool(_TOOL) is None:
        _MONITORING.use_tool_id(_TOOL, "interrupts")
    event = _MONITORING.events.INSTRUCTION
    _MONITORING.set_events(_TOOL, 0)
    _MONITORING.register_callback(_TOOL, event, None if tracer is None else tracer.instruction)
    if tracer is not None:
        _MONITORING.restart_events()
        _MONITORING.set_events(_TOOL, event)


def run_traced(program, tracer, handler=signal.default_int_handler):
    """Run `program()` under a tracer; Ctrl-C calls a handler: one that raises KeyboardInterrupt, or another."""
    before = sys.gettrace()
    handler = signal.signal(signal.SIGINT, handler)  # a shell's job in the background ignores it
    _tell(tracer)
    try:
        return program()
    finally:
        _tell(None)
        sys.settrace(before)
        signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def _without_older_garbage():
    """Leave what earlier tests left alone meanwhile: errors in its finalizers would be swallowed.

    Collecting it would do, too, and takes long in a process with many modules.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.unfreeze()  # now all of it counts as old
    gc.set_threshold(*thresholds[:2], 1 << 30)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def handled(program, handler, most=400, seed=0):
    """Yield (where, result) for runs of `program()`, at a point of each of which a signal's handler is called."""
    program()
    for tracer in _tracers(program, most, seed)[0]:
        result = run_traced(program, tracer, lambda *signal: handler())
        yield tracer.where, result


def interrupted(program, prepare=lambda: None, most=400, seed=0, error=None):
    """Yield (where, prepared, whether it was interrupted) for runs of `program(prepared)`, each stopped elsewhere.

    `prepare()` makes what a run works on. All points are tried, or `most` of them, chosen at random. Instead of Ctrl-C
    an error of a class may come, such as MemoryError, which the program may also turn into another.
    """
    program(prepare())  # what is generated at the first use of an op is no part of the count
    with _without_older_garbage():
        prepared = prepare()
        tracers, wanted = _tracers(lambda: program(prepared), most, seed, error)
        reached = set()
        for tracer in tracers:
            prepared, was = prepare(), False
            try:
                run_traced(lambda: program(prepared), tracer)  # noqa: B023 - it is called here
            except KeyboardInterrupt:
                was = True
            except Exception:
                if error is None:
                    raise
                was = True
            reached.add(tracer.stopped)
            yield tracer.where, prepared, was
    # What one run leaves must not keep the next ones from what they are to reach.
    assert 2 * len(reached) >= len(wanted), f"{len(reached)} functions were stopped instead of {len(wanted)}: {reached}"
