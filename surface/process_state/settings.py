"""The settings of a process and thread: how each is read, told from another, and put back."""

from __future__ import annotations

import _signal  # `signal` makes an enum of each number
import gc
import locale
import os
import signal
import sys
import threading
import warnings
from operator import is_

import numpy

import plugrad
from plugrad import printing
from plugrad.devices.device import default_device
from plugrad.graph import modes
from plugrad.graph.modes import mode
from plugrad.nn import Module
from plugrad.tensor import random

PLAIN = (bool, bytes, dict, float, int, list, str, tuple, type(None))


class Setting:
    """One setting: what it is called, functions to read and to write it.

    `random` says that it is a generator's state, `own` that plugrad draws from it.
    """

    __slots__ = ("label", "own", "random", "read", "write")

    def __init__(self, label, read, write, random=False, own=False):
        self.label, self.read, self.write, self.random, self.own = label, read, write, random, own

    def same(self, before, now) -> bool:
        """Whether nothing changed."""
        return same(before, now)

    def changes(self, before, now) -> list[str]:
        """Return in words what changed."""
        return [self.label]


class Chain(Setting):
    """A list that Python asks from its front; libraries may add to its end, which takes nothing from anybody."""

    __slots__ = ()

    def __init__(self, label, entries):
        super().__init__(label, lambda: self._others(entries), lambda before: self._restore(entries, before))

    def same(self, before, now):
        return len(now) >= len(before) and all(one is other for one, other in zip(before, now))

    @staticmethod
    def _others(entries):
        """Return the entries but for those of plugrad's that watch what is imported, in any thread."""
        return [one for one in entries if not type(one).__module__.startswith("plugrad.")]

    def _restore(self, entries, before):
        others = self._others(entries)
        last = max((i for i, one in enumerate(others) if any(one is known for known in before)), default=-1)
        own = [one for one in entries if not any(one is other for other in others)]
        entries[:] = own + before + others[last + 1 :]


class Table(Setting):
    """A setting that is a dict, whose changes are told by key."""

    __slots__ = ()

    def changes(self, before, now):
        changed = [key for key in {*before, *now} if key not in before or not same(before[key], now.get(key))]
        return [f"{self.label} ({', '.join(sorted(map(str, changed)))})"]


def same(before, now) -> bool:
    """Whether a setting has its value: the same object, or an equal one of Python's own kinds."""
    return before is now or (type(before) is type(now) and isinstance(before, PLAIN) and bool(before == now))


def identical(before: dict, now: dict) -> bool:
    """Whether two dicts have the same names in the same order, and for each the same object; nothing is compared."""
    return len(before) == len(now) and all(map(is_, before.values(), now.values())) and [*before] == [*now]


# ---------------------------------------------------------------------------------------------------- of plugrad


_WORDS = {  # of modes that programs know by another name than the core's
    "pausing": "the grad mode", "inference": "inference mode", "anomaly": "anomaly mode",
    "check_nan": "anomaly mode's check for NaN", "walk": "zero_safe", "saved_hooks": "hooks on saved tensors",
    "function_modes": "function modes", "dispatch_modes": "dispatch modes", "op_hooks": "hooks on ops",
    "device": "the device of a `with` block",
}  # fmt: skip


class _Modes(Setting):
    """The modes of this thread, and the regions that it is in."""

    __slots__ = ()

    def __init__(self):
        super().__init__("the modes of the thread", _read_modes, _write_modes)

    def changes(self, before, now):
        changed = [name for name in before if name != "regions" and not same(before[name], now[name])]
        left = [self.label] * (before["regions"] != now["regions"])  # a mode that a room has just declared is none
        return [_WORDS.get(name, f"the mode {name!r}") for name in changed] or left


def _read_modes():
    declared = [name for name, value in vars(type(mode)).items() if isinstance(value, property) and name != "grad"]
    return {"regions": len(mode.thread.states()), **{name: getattr(mode, name) for name in declared}}


def _write_modes(values) -> None:
    values, thread = dict(values), mode.thread
    thread.stack = thread.stack[: values.pop("regions")]  # what was entered and not left
    for name, value in values.items():
        if name == "pausing" or not same(value, getattr(mode, name)):  # how that is asked for depends on the regions
            setattr(mode, name, value)


def _read_hooks():
    """Return the hooks of all modules, by table."""
    return {name: dict(table) for name, table in vars(Module._all_modules).items() if isinstance(table, dict) and table}


def _write_hooks(tables) -> None:
    for name, table in vars(Module._all_modules).items():
        if isinstance(table, dict):
            table.clear()
            table.update(tables.get(name, {}))


def _of_room(module, name, copy=None):
    """Return functions that read and write a setting of a room beside the core, as long as it is not imported."""

    def read():
        room = sys.modules.get(module)
        value = None if room is None else getattr(room, name)
        return value if copy is None else copy(value or ())

    def write(value):
        room = sys.modules[module]
        if copy is None:
            setattr(room, name, value)
            return
        getattr(room, name)[:] = value

    return read, write


# ---------------------------------------------------------------------------------------------------- random numbers


def _read_generators():
    """Return the state of each device's default generator, and the seed that new ones get."""
    states = {}
    random._settle()
    for key, generator in random._default.items():
        bits = getattr(generator.source, "bit_generator", None)
        states[key] = (generator, generator.source, generator.initial_seed(), getattr(bits, "state", None))
    return {"seed": random._seed, **states}


def _write_generators(states) -> None:
    states = dict(states)
    random._seed = states.pop("seed")
    for key in [key for key in random._default if key not in states]:
        del random._default[key]
    for key, (generator, source, seed, state) in states.items():
        random._default[key] = generator
        generator._seed, generator.source = seed, source
        if state is not None:
            source.bit_generator.state = state


def _read_numpy():
    if "numpy.random" not in sys.modules:
        return None
    name, key, *rest = numpy.random.get_state()
    return name, key.tobytes(), *rest


def _write_numpy(state) -> None:
    if state is not None:
        name, key, *rest = state
        numpy.random.set_state((name, numpy.frombuffer(key, numpy.uint32), *rest))


def _read_python():
    return sys.modules["random"].getstate() if "random" in sys.modules else None


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


_FIXED = {getattr(signal, name, 0) for name in ("SIGKILL", "SIGSTOP")}
_SIGNALS = sorted(int(number) for number in signal.valid_signals() - _FIXED)


def _read_environment() -> dict:
    """Return the environment, but for what libraries tell Intel's OpenMP of themselves, such as scikit-learn."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KMP_")}


def _write_environment(values) -> None:
    for name in [name for name in _read_environment() if name not in values]:
        del os.environ[name]
    os.environ.update(values)


def _read_umask() -> int:
    mask = os.umask(0o77)
    os.umask(mask)
    return mask


def _read_tracing():
    return sys.gettrace(), sys.getprofile()


def _of_module(name, read, write, default):
    """Return functions that read and write what a module of Python's keeps; `default` until it is imported."""
    return (
        lambda: read(sys.modules[name]) if name in sys.modules else default,
        lambda value: write(sys.modules[name], value),
    )


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
    return {"disable": logging.root.manager.disable, **{name: value for name, value in kept.items() if any(value)}}


def _loggers(logging):
    known = list(logging.root.manager.loggerDict.items())
    return [(name, one) for name, one in known if isinstance(one, logging.Logger)]


def _write_logging(logging, values) -> None:
    logging.disable(values.get("disable", 0))
    for logger in [logging.root, *(one for name, one in _loggers(logging) if name.partition(".")[0] == "plugrad")]:
        level, disabled, *parts = values.get(logger.name, (30 if logger is logging.root else 0, False))
        logger.setLevel(level)
        logger.disabled = disabled
        logger.filters[:] = [part for part in parts if part in logger.filters or not hasattr(part, "emit")]
        logger.handlers[:] = [part for part in parts if hasattr(part, "emit")]


def _write_tracing(functions) -> None:
    sys.settrace(functions[0])
    sys.setprofile(functions[1])


def _functions_of(module, *names):
    """Return functions that read and write what a module of Python's calls in the name of the program."""

    def write(values):
        for name, value in values.items():
            setattr(module, name, value)

    return lambda: {name: getattr(module, name) for name in names}, write


def _spec(module):
    """Return a module's `__spec__`, without asking one that is imported, or puts another in its place, when asked."""
    try:
        return object.__getattribute__(module, "__dict__").get("__spec__")
    except AttributeError:  # None, and what has no attributes
        return None


class _Modules(Table):
    """What names of modules lead to; that others are imported meanwhile is no change."""

    __slots__ = ("_last",)

    def __init__(self):
        super().__init__("sys.modules", self._whole, self._restore)
        self._last = {}, {}  # the modules when they were last read, and those of them that were whole

    def same(self, before, now):
        return before is now or not self._changed(before)

    def changes(self, before, now):
        return [f"sys.modules ({', '.join(sorted(self._changed(before)))})"]

    def _whole(self):
        """Return the modules, without those that some thread is importing and that may fail."""
        now = dict(sys.modules)
        before, whole = self._last
        if len(before) != len(whole) or not identical(before, now):
            known = [(name, one, _spec(one)) for name, one in now.items()]
            whole = {name: one for name, one, spec in known if not getattr(spec, "_initializing", False)}
            self._last = now, whole
        return whole

    @staticmethod
    def _changed(before):
        """Return the names that lead elsewhere by now; setuptools brings a `distutils` of its own."""
        now = dict(sys.modules)
        changed = [name for name, module in before.items() if now.get(name) is not module]
        blocked = [name for name, one in now.items() if one is None and name not in before and name[:8] != "plugrad."]
        return [name for name in changed + blocked if name.partition(".")[0] != "distutils"]

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


def _read_timer():
    """Return whether the timer of SIGALRM runs, and how often it goes off."""
    left, interval = signal.getitimer(signal.ITIMER_REAL) if hasattr(signal, "getitimer") else (0, 0)
    return left > 0, interval


def _write_timer(state) -> None:
    if not state[0]:  # the time that was left of one that ran is not known any more
        signal.setitimer(signal.ITIMER_REAL, 0)


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


def _read_threads():
    """Return what `set_num_threads` was given; counting the threads each time would take too long."""
    return getattr(sys.modules.get("plugrad.backends"), "_threads", {}).get("now")


def _write_threads(number) -> None:
    room = sys.modules["plugrad.backends"]
    room.set_num_threads(number or room._threads["first"])
    room._threads["now"] = number


def _read_deterministic():
    room = sys.modules.get("plugrad.backends")
    return dict(getattr(room, "_deterministic", {})) or {"mode": False, "warn_only": False}


def _write_path(entries) -> None:
    sys.path[:] = entries


def _read_collector():
    return gc.isenabled(), gc.get_threshold()


def _write_collector(state) -> None:
    (gc.enable if state[0] else gc.disable)()
    gc.set_threshold(*state[1])


ALL = [
    _Modes(),
    Setting("hooks on ops of all threads", lambda: modes.installed_hooks, modes.install),
    Setting("hooks of all modules", _read_hooks, _write_hooks),
    Setting("the default dtype", plugrad.get_default_dtype, plugrad.set_default_dtype),
    Setting("the default device", default_device, plugrad.set_default_device),
    Table("print options", lambda: dict(printing._options), lambda options: printing._options.update(options)),
    Setting("what may fall back to the CPU", *_of_room("plugrad.backends.cpu_fallback", "_rules", list)),
    Setting("the accelerator", *_of_room("plugrad.backends.accelerators", "_accelerator")),
    Setting("the state of random number generators", _read_generators, _write_generators, True, own=True),
    Setting("the state of NumPy's random numbers", _read_numpy, _write_numpy, random=True),
    Setting("the state of Python's random numbers", _read_python, _write_python, random=True),
    Table("NumPy's error state", numpy.geterr, lambda state: numpy.seterr(**state)),
    Table("NumPy's print options", numpy.get_printoptions, lambda options: numpy.set_printoptions(**options)),
    Setting("NumPy's error callback", numpy.geterrcall, numpy.seterrcall),
    Setting("NumPy's buffer size", numpy.getbufsize, numpy.setbufsize),
    Setting("the filters of warnings", _read_filters, _write_filters),
    Setting("the working directory", _read_directory, _write_directory),
    Table("signal handlers", _read_signals, _write_signals),
    Setting("the garbage collector", _read_collector, _write_collector),
    Setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    Setting("the limit of digits", sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    Setting("the timer of alarms", _read_timer, _write_timer),
    Setting("the size of threads' stacks", _read_stack, threading.stack_size),
    Table("the limits of resources", _read_limits, _write_limits),
    Table("the environment", _read_environment, _write_environment),
    Setting("the mask of new files' modes", _read_umask, os.umask),
    Setting("the interval at which threads switch", sys.getswitchinterval, sys.setswitchinterval),
    Setting("tracing or profiling", _read_tracing, _write_tracing),
    Table("sys", *_functions_of(sys, "excepthook", "displayhook", "unraisablehook", "breakpointhook", "stdin")),
    Table("threading", *_functions_of(threading, "excepthook")),
    Table("warnings", *_functions_of(warnings, "showwarning", "formatwarning")),
    Table(
        "how decimal numbers are computed", *_of_module("decimal", _read_decimals, _write_decimals, _DECIMALS | _TRAPS)
    ),
    Table("loggers", *_of_module("logging", _read_logging, _write_logging, {"disable": 0, "root": (30, False)})),
    Setting(
        "the default timeout of sockets",
        *_of_module(
            "socket", lambda room: room.getdefaulttimeout(), lambda room, now: room.setdefaulttimeout(now), None
        ),
    ),
    Setting(
        "the start method of processes",
        *_of_module(
            "multiprocessing",
            lambda room: room.get_start_method(allow_none=True),
            lambda room, now: room.set_start_method(now, force=True),
            None,
        ),
    ),
    Setting("the locale", lambda: locale.setlocale(locale.LC_ALL), lambda name: locale.setlocale(locale.LC_ALL, name)),
    Setting("the number of threads", _read_threads, _write_threads),
    Setting(
        "deterministic algorithms", _read_deterministic, lambda mode: plugrad.use_deterministic_algorithms(**mode)
    ),
    _Modules(),
    Setting("sys.path", lambda: list(sys.path), _write_path),
    Chain("sys.meta_path", sys.meta_path),
    Chain("sys.path_hooks", sys.path_hooks),
]
