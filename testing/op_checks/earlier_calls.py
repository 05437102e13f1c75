"""Results kept from earlier calls: an op is called after others, and in a process in which nothing has been called.

What tells right from stale is another process: there the samples are the first that the op ever sees, so that nothing
can have been kept, by whatever key.
"""

from __future__ import annotations

import atexit
import os
import queue
import sys
import warnings

import plugrad
from plugrad import registry
from plugrad.process_state import Contained, ProcessState
from plugrad.testing.calls import Skip, agree, described, outcome
from plugrad.testing.running.processes import Worker
from plugrad.testing.samples import samples_of
from plugrad.testing.targets import load_file
from plugrad.testing.tensors import to_numpy

SEED = 11  # of values that no other check calls an op with
_workers: dict = {}  # process id -> the other process that belongs to it


def earlier_calls(op, device):
    """After calls with other values of the same shapes results and gradients are those of a first call."""
    if op.provider is None or op.provider.id == "session:main":
        raise Skip("it is in no package or file that another process could load")
    worker = _worker()
    worker.call(_calls_there, op.provider.id, _file_of(op.provider), op.qualname, device, _name_of_default_dtype())
    after = []
    try:
        pairs = zip(samples_of(op, device=device), samples_of(op, device=device, seed=SEED), strict=True)
        for earlier, sample in pairs:
            outcome(op, earlier)
            after.append((sample, _results(op, sample)))
    finally:
        answer = worker.receive()  # whatever happens here: else it would be the answer to the next question
    for number, ((sample, ours), theirs) in enumerate(zip(after, _first(worker, answer), strict=True)):
        place, later = f"sample {number} {sample}", "after a call with other values of the same shapes"
        here, there = ([what for what, _ in named] for named in (ours, theirs))
        assert here == there, f"{place}: {later} it gives {here}, and in a process of its own {there}"
        for (what, one), (_, right) in zip(ours, theirs, strict=True):
            label = f"{place}: {later} {what} is another than in a process of its own"
            assert (one is None) == (right is None), label
            if one is not None:
                agree(one, right, label, rtol=None, atol=None)


def _results(op, sample) -> list:
    return [(what, None if t is None else to_numpy(t)) for what, t in outcome(op, sample)]


def _file_of(plugin):
    """Return the path of a file that is checked without being installed, None for what is installed."""
    return sys.modules[plugin.value].__file__ if plugin.distribution.endswith(".py") else None


def _name_of_default_dtype() -> str:
    return str(plugrad.get_default_dtype()).rpartition(".")[2]


def _worker() -> Worker:
    """Return the other process, started at the first call and ended with this one."""
    worker = _workers.get(os.getpid())
    if worker is None or worker.process.poll() is not None:
        worker = _workers[os.getpid()] = Worker(queue.Queue())
        atexit.register(worker.end)
    return worker


def _first(worker, answer) -> list:
    """Return the results of the other process; skip where it says that it can't make them."""
    status, value = ("error", f"it died ({worker.fate()})") if answer is None else answer
    if status == "returned":
        status, value = value
    if status == "skip":
        raise Skip(value)
    assert status == "done", f"in a process of its own: {value}"
    return value


# ---------------------------------------------------------------------------------------------------- the process


def _calls_there(*arguments) -> tuple:
    """Return what `_first_calls` does, in a process that is there for that alone: others tell what a plugin changes."""
    Contained.names = False
    return _first_calls(*arguments)


def _first_calls(plugin_id, file, name, device, dtype) -> tuple:
    """Return ("done", what `_results` gives for each sample), or ("skip" or "error", why not)."""
    try:
        if file is not None:
            load_file(file)
        plugin = registry.plugins[plugin_id]
        registry.load(plugin)
        (op,) = (op for op in registry.ops.values() if op.qualname == name and op.provider is plugin)
        plugrad.empty(1, device=device)
    except Exception as error:  # made by the program itself, such as a record or a backend in a test
        return "skip", f"another process does not find it: {described(error)}"
    plugrad.set_default_dtype(getattr(plugrad, dtype))
    before = ProcessState(names=False)  # else one op would be blamed for what another has changed
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return "done", [_results(op, sample) for sample in samples_of(op, device=device, seed=SEED)]
    except NotImplementedError as error:
        return "skip", str(error)
    except Exception as error:  # whatever is raised where it should work is a finding
        return "error", described(error)
    finally:
        before.repair()
