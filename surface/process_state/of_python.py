"""The settings of the process and its thread that are Python's and NumPy's."""

from __future__ import annotations

import _signal  # `signal` makes an enum of each number
import contextlib
import gc
import os
import pickle
import signal
import sys
import threading
import time
import warnings

import numpy

from plugrad.process_state.endings import Handlers, Threads
from plugrad.process_state.kinds import Chain, Setting, Table, identical, imported, is_whole, of_module, spec_of
from plugrad.process_state.of_interpreter import OF_INTERPRETER
from plugrad.process_state.output import is_alone

# ---------------------------------------------------------------------------------------------------- random numbers


# Now: a plugin may have put others in their place when these are needed.
_dumps, _loads, _clock, _sleep = pickle.dumps, pickle.loads, time.monotonic, time.sleep


def _read_numpy():
    """Return the generator behind NumPy's random functions, and its state."""
    if imported("numpy.random") is None:
        return None
    return numpy.random.get_bit_generator(), _dumps(numpy.random.get_state(legacy=False))


def _write_numpy(kept) -> None:
    if kept is not None:
        generator, state = kept
        if numpy.random.get_bit_generator() is not generator:
            numpy.random.set_bit_generator(generator)
        numpy.random.set_state(_loads(state))


def _read_python():
    random = imported("random")
    return None if random is None else random.getstate()


def _write_python(state) -> None:
    if state is not None:
        sys.modules["random"].setstate(state)


# ---------------------------------------------------------------------------------------------------- of the process


def _read_filters():
    """Return the filters of warnings that act on others' too; a library may add some for its own.

    Those are for its modules, for categories that it defines, or for messages that begin with some text.
    """
    return [one for one in warnings.filters if _is_for_all(*one)]


def _is_for_all(action, message, category, module, line) -> bool:
    if module is not None or category.__module__.partition(".")[0] not in ("builtins", "numpy", "plugrad"):
        return False
    return message is None or bool(message.match("") if hasattr(message, "match") else not message)


def _write_filters(filters) -> None:
    kept = [one for one in warnings.filters if not _is_for_all(*one) or any(one is known for known in filters)]
    kept += [one for one in filters if not any(one is known for known in kept)]
    warnings.filters[:] = kept
    warnings._filters_mutated()


FILTERS = Setting("the filters of warnings", _read_filters, _write_filters)


def _read_directory():
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return None


def _write_directory(path) -> None:
    if path is not None:
        os.chdir(path)


def _read_signals():
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: _signal.getsignal(number) for number in _SIGNALS}


def _write_signals(handlers) -> None:
    for number, handler in handlers.items():
        if handler is not None and _signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _read_mask():
    """Return the signals that this thread holds back."""
    return sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))) if hasattr(signal, "pthread_sigmask") else []


def _write_mask(numbers) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, numbers)


_FIXED = {getattr(signal, name, 0) for name in ("SIGKILL", "SIGSTOP")}
_SIGNALS = sorted(int(number) for number in signal.valid_signals() - _FIXED)


def _read_environment() -> dict:
    """Return the environment, but for what libraries tell Intel's OpenMP of themselves, such as scikit-learn."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KMP_")}


def _write_environment(values) -> None:
    for name in [name for name in _read_environment() if name not in values]:
        del os.environ[name]
    os.environ.update(values)
    if hasattr(time, "tzset"):  # C keeps the time zone that the environment had when it was last asked for
        time.tzset()


def _read_umask() -> int:
    mask = os.umask(0o77)
    os.umask(mask)
    return mask


def _read_tracing():
    return sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()


def _write_tracing(functions) -> None:
    for write, function in zip((sys.settrace, sys.setprofile, threading.settrace, threading.setprofile), functions):
        write(function)


def _read_decimals(decimal) -> dict:
    context = decimal.getcontext()
    chosen = {name: getattr(context, name) for name in _DECIMALS}
    return chosen | {"traps": tuple(sorted(signal.__name__ for signal, on in context.traps.items() if on))}


def _write_decimals(decimal, values) -> None:
    context, values = decimal.getcontext(), dict(values)
    traps = values.pop("traps")
    for name, value in values.items():
        setattr(context, name, value)
    for signal_ in context.traps:
        context.traps[signal_] = signal_.__name__ in traps


_DECIMALS = {  # what Python begins with
    "prec": 28, "rounding": "ROUND_HALF_EVEN", "Emin": -999999, "Emax": 999999, "capitals": 1, "clamp": 0,
}  # fmt: skip
_TRAPS = {"traps": ("DivisionByZero", "InvalidOperation", "Overflow")}


def _read_logging(logging) -> dict:
    """Return what decides on messages of the whole program: the root logger and plugrad's, and what is switched off."""
    loggers = [logging.root, *(one for name, one in _loggers(logging) if name.partition(".")[0] == "plugrad")]
    kept = {one.name: (one.level, one.disabled, *one.handlers, *one.filters) for one in loggers}
    kept["class of loggers"] = () if logging.getLoggerClass() is logging.Logger else (logging.getLoggerClass(),)
    factory = logging.getLogRecordFactory()
    kept["factory of records"] = () if factory is logging.LogRecord else (factory,)
    kept["names of levels"] = () if [*map(logging.getLevelName, _LEVELS)] == [*_LEVELS.values()] else (True,)
    kept["raiseExceptions"] = (not logging.raiseExceptions,)
    return {"disable": logging.root.manager.disable, **{name: value for name, value in kept.items() if any(value)}}


_LEVELS = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}


def _loggers(logging):
    known = list(logging.root.manager.loggerDict.items())
    return [(name, one) for name, one in known if isinstance(one, logging.Logger)]


def _write_logging(logging, values) -> None:
    logging.raiseExceptions = "raiseExceptions" not in values
    for level, name in () if "names of levels" in values else _LEVELS.items():
        logging.addLevelName(level, name)
    logging.disable(values.get("disable", 0))
    logging.setLoggerClass(*values.get("class of loggers", (logging.Logger,)))
    logging.setLogRecordFactory(*values.get("factory of records", (logging.LogRecord,)))
    for logger in [logging.root, *(one for name, one in _loggers(logging) if name.partition(".")[0] == "plugrad")]:
        level, disabled, *parts = values.get(logger.name, (30 if logger is logging.root else 0, False))
        logger.setLevel(level)
        logger.disabled = disabled
        logger.filters[:] = [part for part in parts if part in logger.filters or not hasattr(part, "emit")]
        logger.handlers[:] = [part for part in parts if hasattr(part, "emit")]


_LOOKED_FOR = "torch", "cupy", "cupyx", "scipy"  # what plugrad stands for, or imports where it is needed


def _is_planted(name, module) -> bool:
    """Whether a module came under a name by which no import would have found it."""
    spec = spec_of(module)
    return module is not None and (spec is None or spec.name != name)


class _Modules(Table):
    """What names of modules lead to; that others are imported meanwhile is no change."""

    __slots__ = ("_last",)

    def __init__(self):
        super().__init__("sys.modules", self._whole, self._restore)
        self._last = {}, {}  # the modules when they were last read, and those of them that were whole

    def same(self, before, now):
        if before is now:
            return True
        until = _clock() + 1
        while changed := self._changed(before):
            # At the end of an import a thread takes the module's name away, and enters it again as the last one.
            if all([name in sys.modules for name in changed]) or is_alone() or _clock() > until:
                return False
            _sleep(0.001)
        return True

    def changes(self, before, now):
        return [f"sys.modules ({', '.join(sorted(self._changed(before)))})"]

    def _whole(self):
        """Return the modules, without those that some thread is importing and that may fail."""
        now = dict(sys.modules)
        before, whole = self._last
        if len(before) != len(whole) or not identical(before, now):
            whole = {name: one for name, one in now.items() if is_whole(one)}
            self._last = now, whole
        return whole

    @staticmethod
    def _changed(before):
        """Return the names that lead elsewhere by now; setuptools brings a `distutils` of its own."""
        now = dict(sys.modules)
        changed = [name for name, module in before.items() if now.get(name) is not module]
        blocked = [name for name, one in now.items() if one is None and name not in before and name[:8] != "plugrad."]
        planted = [name for name in _LOOKED_FOR if name in now and name not in before and _is_planted(name, now[name])]
        return [name for name in changed + blocked + planted if name.partition(".")[0] != "distutils"]

    def _restore(self, before):
        for name in self._changed(before):
            if name in before:
                sys.modules[name] = before[name]
            else:
                del sys.modules[name]


def _read_stack():
    size = threading.stack_size()  # which sets it to what the system takes
    if size:
        threading.stack_size(size)
    return size


def _read_timers() -> list:
    """Return for each timer whether it runs, and how often it goes off."""
    if not hasattr(signal, "getitimer"):  # on Windows
        return []
    return [(left > 0, interval) for left, interval in map(signal.getitimer, _TIMERS)]


def _write_timers(states) -> None:
    for timer, (running, _) in zip(_TIMERS, states):
        if not running:  # the time that was left of one that ran is not known any more
            signal.setitimer(timer, 0)


_TIMERS = [getattr(signal, name) for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF") if hasattr(signal, name)]


def _read_limits() -> dict:
    try:
        import resource
    except ImportError:  # on Windows
        return {}
    names = sorted([name for name in vars(resource) if name.startswith("RLIMIT_")], reverse=True)
    kinds = {getattr(resource, name): name for name in names}  # some have two names
    return {name: resource.getrlimit(number) for number, name in kinds.items()}


def _write_limits(limits) -> None:
    import resource

    for name, (soft, _) in limits.items():
        number = getattr(resource, name)
        now, hard = resource.getrlimit(number)
        if now != soft:
            resource.setrlimit(number, (min(soft, hard) if hard >= 0 else soft, hard))


def _read_temporary(tempfile):
    """Return the folder of temporary files, None for one that Python finds itself when it is first asked."""
    return None if tempfile.tempdir in tempfile._candidate_tempdir_list() else tempfile.tempdir


def _write_temporary(tempfile, folder) -> None:
    tempfile.tempdir = folder


def _read_blocking() -> dict:
    """Return for standard input, output and errors whether reading and writing waits."""
    known = {}
    for number in (0, 1, 2) if hasattr(os, "get_blocking") else ():
        with contextlib.suppress(OSError):  # it was closed
            known[number] = os.get_blocking(number)
    return known


def _write_blocking(known) -> None:
    for number, blocks in known.items():
        with contextlib.suppress(OSError):
            os.set_blocking(number, blocks)


_CHOSEN = "encoding", "errors", "line_buffering", "write_through"


def _read_streams() -> dict:
    """Return how those write that are text files still: a program may have closed, detached or replaced them."""
    known = {}
    for name in ("__stdout__", "__stderr__"):
        with contextlib.suppress(AttributeError, ValueError):
            known[name] = {one: getattr(getattr(sys, name), one) for one in _CHOSEN}
    return known


def _write_streams(chosen) -> None:
    for name, values in chosen.items():
        with contextlib.suppress(AttributeError, ValueError):
            getattr(sys, name).reconfigure(**values)


def _write_path(entries) -> None:
    sys.path[:] = entries


def _write_arguments(words) -> None:
    sys.argv[:] = words


def _read_coroutines():
    return sys.get_asyncgen_hooks(), sys.get_coroutine_origin_tracking_depth()


def _write_coroutines(state) -> None:
    sys.set_asyncgen_hooks(*state[0])
    sys.set_coroutine_origin_tracking_depth(state[1])


# Whether objects are frozen. To find out takes a walk over all that are, so once there are some none are sought again,
# and that somebody thaws what the program had frozen goes unnoticed.
_frozen = False


def _read_collector():
    global _frozen
    _frozen = _frozen or gc.get_freeze_count() > 0
    return gc.isenabled(), gc.get_threshold(), gc.get_debug(), _frozen


def _write_collector(state) -> None:
    global _frozen
    if _frozen and not state[3]:
        gc.unfreeze()
        _frozen = False
    (gc.enable if state[0] else gc.disable)()
    gc.set_threshold(*state[1])
    gc.set_debug(state[2])


_DLOPEN = getattr(sys, "getdlopenflags", int), getattr(sys, "setdlopenflags", None)  # not on Windows

OF_PYTHON = [
    Threads(),
    Handlers(),
    Setting("the state of NumPy's random numbers", _read_numpy, _write_numpy, random=True),
    Setting("the state of Python's random numbers", _read_python, _write_python, random=True),
    Table("NumPy's error state", numpy.geterr, lambda state: numpy.seterr(**state)),
    Table("NumPy's print options", numpy.get_printoptions, lambda options: numpy.set_printoptions(**options)),
    Setting("NumPy's error callback", numpy.geterrcall, numpy.seterrcall),
    Setting("NumPy's buffer size", numpy.getbufsize, numpy.setbufsize),
    FILTERS,
    Setting("the working directory", _read_directory, _write_directory),
    Table("signal handlers", _read_signals, _write_signals),
    Setting("which signals are held back", _read_mask, _write_mask),
    Table("how standard output and errors are written", _read_streams, _write_streams),
    Setting("whether standard files wait", _read_blocking, _write_blocking),
    Setting("the garbage collector", _read_collector, _write_collector),
    Setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    Setting("the limit of digits", sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    Setting("the timer of alarms", _read_timers, _write_timers),
    Setting("how libraries are loaded (sys.setdlopenflags)", *_DLOPEN),
    Setting("the size of threads' stacks", _read_stack, threading.stack_size),
    Table("the limits of resources", _read_limits, _write_limits),
    Table("the environment", _read_environment, _write_environment),
    Setting("the mask of new files' modes", _read_umask, os.umask),
    Setting("the interval at which threads switch", sys.getswitchinterval, sys.setswitchinterval),
    Setting("tracing or profiling", _read_tracing, _write_tracing),
    Setting("how coroutines are watched", _read_coroutines, _write_coroutines),
    Setting("the folder of temporary files", *of_module("tempfile", _read_temporary, _write_temporary, None)),
    Setting("sys.argv", lambda: list(getattr(sys, "argv", ())), _write_arguments),
    Table(
        "how decimal numbers are computed", *of_module("decimal", _read_decimals, _write_decimals, _DECIMALS | _TRAPS)
    ),
    Table("loggers", *of_module("logging", _read_logging, _write_logging, {"disable": 0, "root": (30, False)})),
    Setting(
        "the default timeout of sockets",
        *of_module(
            "socket", lambda room: room.getdefaulttimeout(), lambda room, now: room.setdefaulttimeout(now), None
        ),
    ),
    Setting(
        "the start method of processes",
        *of_module(
            "multiprocessing",
            lambda room: room.get_start_method(allow_none=True),
            lambda room, now: room.set_start_method(now, force=True),
            None,
        ),
    ),
    *OF_INTERPRETER,
    _Modules(),
    Setting("sys.path", lambda: list(sys.path), _write_path),
    Chain("sys.meta_path", sys.meta_path),
    Chain("sys.path_hooks", sys.path_hooks),
]
