"""Ctrl-C, or an error, at every point of a program: it comes before the n-th of plugrad's own bytecodes."""

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
    """Counts the bytecodes that run in plugrad's files; before number `stop` it raises `error`, or sends SIGINT."""

    def __init__(self, stop=None, error=None):
        self.count, self.stop, self.where, self.error = 0, stop, None, error
        self.codes = []  # whose bytecodes were counted

    def __call__(self, frame, event, arg):
        if event == "call":
            if not _is_own(frame.f_code.co_filename):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode" and not _is_quiet(frame.f_code, frame.f_lasti):
            self._count(frame.f_code, frame.f_lineno)
        return self

    def instruction(self, code, offset):
        """Be told by `sys.monitoring` of a bytecode; DISABLE says that no more is to be told of that one."""
        if not _is_own(code.co_filename) or _is_quiet(code, offset):
            return _MONITORING.DISABLE
        return self._count(code, code.co_firstlineno)

    def _count(self, code, line):
        self.count += 1
        self.codes.append(code)
        if self.count - 1 == self.stop:
            self.where = f"{code.co_filename.removeprefix(ROOT)}:{line} {code.co_name}"
            _tell(None)
            if self.error is not None:
                raise self.error
            signal.raise_signal(signal.SIGINT)  # raises KeyboardInterrupt here, unless that is held back


def _tell(tracer) -> None:
    """Have a tracer be told of bytecodes from here on; None: nobody."""
    if _MONITORING is None:
        sys.settrace(tracer)
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


def handled(program, handler, most=400, seed=0):
    """Yield (where, result) for runs of `program()`, at a point of each of which a signal's handler is called."""
    program()
    counter = Tracer()
    run_traced(program, counter)
    assert counter.count, "the tracer saw nothing of the program"
    for point in sorted(random.Random(seed).sample(range(counter.count), min(most, counter.count))):
        tracer = Tracer(point)
        result = run_traced(program, tracer, lambda *signal: handler())
        yield tracer.where, result


def interrupted(program, prepare=lambda: None, most=400, seed=0, error=None):
    """Yield (where, prepared, whether it was interrupted) for runs of `program(prepared)`, each stopped elsewhere.

    `prepare()` makes what a run works on. All points are tried, or `most` of them, chosen at random. Instead of Ctrl-C
    an error of a class may come, such as MemoryError, which the program may also turn into another.
    """
    program(prepare())  # what is generated at the first use of an op is no part of the count
    gc.collect()  # nor is what finalizers of earlier tests' garbage run: errors in these are swallowed
    counter = Tracer()
    prepared = prepare()
    run_traced(lambda: program(prepared), counter)
    assert counter.count, "the tracer saw nothing of the program"
    points = range(counter.count)
    if counter.count > most:
        points = sorted(random.Random(seed).sample(points, most))
    reached = set()
    for point in points:
        tracer, prepared, was = Tracer(point, error), prepare(), False
        try:
            run_traced(lambda: program(prepared), tracer)  # noqa: B023 - it is called here
        except KeyboardInterrupt:
            was = True
        except Exception:
            if error is None:
                raise
            was = True
        reached.add(tracer.codes[-1])
        yield tracer.where, prepared, was
    wanted = {counter.codes[point] for point in points}  # what one run leaves must not stop the next ones early
    assert 2 * len(reached) >= len(wanted), f"{len(reached)} functions were stopped instead of {len(wanted)}: {reached}"
