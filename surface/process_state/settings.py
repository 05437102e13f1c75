"""The settings of plugrad, and all those of a process: how each is read, told from another, and put back."""

from __future__ import annotations

import locale
import sys
import warnings

import plugrad
from plugrad import printing
from plugrad.devices.device import default_device
from plugrad.extend import choose_memory, chosen_memory
from plugrad.graph import modes
from plugrad.graph.modes import mode
from plugrad.nn import Module, conversion
from plugrad.optim import hooks as optim_hooks
from plugrad.process_state.kinds import Registered, Setting, Table, imported, same
from plugrad.process_state.of_python import OF_PYTHON
from plugrad.process_state.owners import is_common
from plugrad.tensor import random

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


def _registered(label, module, name):
    """Return a setting for a table of classes that a room keeps, where that is imported."""
    return Registered(label, lambda: getattr(imported(module), name, {}))


def _read_trusted() -> list:
    return list(getattr(imported("plugrad.serialization.safe_globals"), "_trusted", ()))


def _write_trusted(before) -> None:
    now = sys.modules["plugrad.serialization.safe_globals"]._trusted
    now[:] = before + [one for one in now if one not in before and not is_common(one)]


class _Trusted(Setting):
    """What `load` restores at its default; a plugin may trust its own classes."""

    __slots__ = ()

    def __init__(self):
        super().__init__("what load trusts (add_safe_globals)", _read_trusted, _write_trusted)

    def same(self, before, now):
        return now[: len(before)] == before and not any(map(is_common, now[len(before) :]))


def _read_validation():
    room = imported("plugrad.distributions.distribution")
    return __debug__ if room is None else room.Distribution._validate_args


def _write_validation(mode) -> None:
    sys.modules["plugrad.distributions.distribution"].Distribution._validate_args = mode


def _copied(tables, without=()) -> dict:
    """Return the hooks of tables, and of tables in these, and how they are called; leaves out tables without any."""
    copies = [(key, _copied(one, without) if isinstance(one, dict) else one) for key, one in list(tables.items())]
    return {key: one for key, one in copies if _is_kept(one) and key not in without}


def _is_kept(one) -> bool:
    return callable(one) or one is True or isinstance(one, dict) and bool(one)


def _fill(tables, before, without=()) -> None:
    """Have tables hold the hooks that they held."""
    for key, one in list(tables.items()):
        if isinstance(one, dict):
            _fill(one, before.get(key, {}), without)
        elif _is_kept(one) and key not in without:
            del tables[key]
    tables.update({key: one for key, one in before.items() if not isinstance(one, dict)})


def _of_lazy_modules() -> set:
    """Return the keys of the hook that goes with the last lazy module: when that is collected is nobody's doing."""
    hooks = Module._all_modules._forward_pre_hooks
    return {key for key, hook in list(hooks.items()) if getattr(hook, "__module__", None) == "plugrad.nn.lazy.dry_run"}


def _read_module_hooks() -> dict:
    return _copied(vars(Module._all_modules), _of_lazy_modules())


def _write_module_hooks(before) -> None:
    _fill(vars(Module._all_modules), before, _of_lazy_modules())


def _write_optimizer_hooks(before) -> None:
    for table, hooks in zip(_OF_OPTIMIZERS, before):
        _fill(table, hooks)


_OF_OPTIMIZERS = optim_hooks._global_step_pre_hooks, optim_hooks._global_step_post_hooks


def _write_ways(names) -> None:
    conversion.ways.clear()
    conversion.ways.update(names)


def _switches() -> list:
    return getattr(imported("plugrad.backends.switches"), "known", [])


def _read_switches() -> dict:
    """Return the switches that were turned, by name: others have the values that they begin with."""
    return {
        f"{one.__name__.removeprefix('plugrad.backends.')}.{name}": (one, name, vars(one)[name])
        for one in _switches()
        for name, first in one._first.items()
        if vars(one)[name] is not first
    }


def _write_switches(turned) -> None:
    for one in _switches():
        vars(one).update(one._first)
    for one, name, value in turned.values():
        vars(one)[name] = value


def _read_always() -> bool:
    return getattr(imported("plugrad.backends.warned_once"), "_always", {"mode": False})["mode"]


def _of_room(module, name, copy=None):
    """Return functions that read and write a setting of a room beside the core, as long as it is not imported."""

    def read():
        room = imported(module)
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


def _read_threads():
    """Return what `set_num_threads` was given; counting the threads each time would take too long."""
    return getattr(imported("plugrad.backends"), "_threads", {}).get("now")


def _write_threads(number) -> None:
    room = sys.modules["plugrad.backends"]
    with warnings.catch_warnings(action="ignore"):  # that NumPy's can't be set: nobody asked for it
        room.set_num_threads(number or room._threads["first"])
    room._threads["now"] = number


NUMBER_OF_THREADS = Setting("the number of threads", _read_threads, _write_threads)


def _read_deterministic():
    room = imported("plugrad.backends")
    return dict(getattr(room, "_deterministic", {})) or {"mode": False, "warn_only": False}


ALL = [
    _Modes(),
    Setting("hooks on ops of all threads", lambda: modes.installed_hooks, modes.install),
    Setting("hooks of all modules", _read_module_hooks, _write_module_hooks),
    Setting("hooks of all optimizers", lambda: list(map(dict, _OF_OPTIMIZERS)), _write_optimizer_hooks),
    Setting("the default dtype", plugrad.get_default_dtype, plugrad.set_default_dtype),
    Setting("the default device", default_device, plugrad.set_default_device),
    Table("print options", lambda: dict(printing._options), lambda options: printing._options.update(options)),
    Setting("what may fall back to the CPU", *_of_room("plugrad.backends.cpu_fallback", "_rules", list)),
    Setting("the accelerator", *_of_room("plugrad.backends.accelerators", "_accelerator")),
    Setting("how modules are converted", lambda: sorted(conversion.ways), _write_ways),
    Table("switches of torch.backends", _read_switches, _write_switches),
    Setting("whether warnings are given each time", _read_always, lambda b: plugrad.set_warn_always(b)),
    Setting("the state of random number generators", _read_generators, _write_generators, True, own=True),
    NUMBER_OF_THREADS,
    Setting("deterministic algorithms", _read_deterministic, lambda mode: plugrad.use_deterministic_algorithms(**mode)),
    Setting("what new memory holds", lambda: chosen_memory("fill"), lambda mode: choose_memory(fill=mode)),
    Setting("the order of bytes of files without one", *_of_room("plugrad.serialization.byte_order", "_default")),
    Setting("whether distributions check their arguments", _read_validation, _write_validation),
    _registered("divergences of distributions", "plugrad.distributions.kl", "_rules"),
    _registered("what trees are made of", "plugrad.utils._pytree_nodes", "SUPPORTED_NODES"),
    _Trusted(),
    *OF_PYTHON,
    Setting("the locale", lambda: locale.setlocale(locale.LC_ALL), lambda name: locale.setlocale(locale.LC_ALL, name)),
]
