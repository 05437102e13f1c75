"""Ctrl-C, or an error, at every point of a program: it comes before the n-th of plugrad's own bytecodes."""

import dis
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
    "PUSH_NULL", "COPY", "SWAP", "IS_OP", "CONTAINS_OP", "NOP", "PRECALL", "KW_NAMES", "JUMP_FORWARD", "BEFORE_WITH",
)  # fmt: skip
_QUIET = {code for name, code in dis.opmap.items() if name.startswith(_QUIET_NAMES)}
_codes: dict = {}


def _is_quiet(frame) -> bool:
    code = _codes.get(frame.f_code)
    if code is None:
        code = _codes[frame.f_code] = {}
        before = None
        for instruction in dis.get_instructions(frame.f_code):
            code[instruction.offset], before = before in _QUIET, instruction.opcode
    return code.get(frame.f_lasti, False)


class Tracer:
    """Counts the bytecodes that run in plugrad's files; before number `stop` it raises `error`, or sends SIGINT."""

    def __init__(self, stop=None, error=None):
        self.count, self.stop, self.where, self.error = 0, stop, None, error

    def __call__(self, frame, event, arg):
        if event == "call":
            if not _is_own(frame.f_code.co_filename):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode" and not _is_quiet(frame):
            if self.count == self.stop:
                self.where = f"{frame.f_code.co_filename.removeprefix(ROOT)}:{frame.f_lineno} {frame.f_code.co_name}"
                self.count += 1
                sys.settrace(None)
                if self.error is not None:
                    raise self.error
                signal.raise_signal(signal.SIGINT)  # raises KeyboardInterrupt here, unless that is held back
                return None
            self.count += 1
        return self


def run_traced(program, tracer, handler=signal.default_int_handler):
    """Run `program()` under a tracer; Ctrl-C calls a handler: one that raises KeyboardInterrupt, or another."""
    before = sys.gettrace()
    handler = signal.signal(signal.SIGINT, handler)  # a shell's job in the background ignores it
    sys.settrace(tracer)
    try:
        return program()
    finally:
        sys.settrace(before)
        signal.signal(signal.SIGINT, handler)


def handled(program, handler, most=400, seed=0):
    """Yield (where, result) for runs of `program()`, at a point of each of which a signal's handler is called."""
    program()
    counter = Tracer()
    run_traced(program, counter)
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
    counter = Tracer()
    prepared = prepare()
    run_traced(lambda: program(prepared), counter)
    points = range(counter.count)
    if counter.count > most:
        points = sorted(random.Random(seed).sample(points, most))
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
        yield tracer.where, prepared, was
