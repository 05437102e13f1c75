"""Results kept from earlier calls: an op is called after others, and in a process in which nothing has been called.

What tells right from stale is another process: there the samples are the first that the op ever sees, so that nothing
can have been kept, by whatever key.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import warnings

import plugrad
from plugrad import registry
from plugrad.registry import loader

from .calls import Skip, agree, argument_of, described
from .op_values import _outcome
from .samples import samples_of
from .structure import to_numpy

SEED = 11  # of values that no other check calls an op with
PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from plugrad.testing import fresh; fresh.serve()"
_servers: dict = {}  # process id -> the other process that belongs to it


def earlier_calls(op, device):
    """After calls with other values of the same shapes results and gradients are those of a first call."""
    if op.provider is None or op.provider.id == "session:main":
        raise Skip("it is in no package or file that another process could load")
    asked = (op.provider.id, _file_of(op.provider), op.qualname, device, str(plugrad.get_default_dtype()))
    server = _server()
    _send(server.stdin, asked)
    found = []
    try:
        pairs = zip(samples_of(op, device=device), samples_of(op, device=device, seed=SEED), strict=True)
        for earlier, sample in pairs:
            _outcome(op, earlier)
            found.append((sample, _told(op, sample)))
    finally:
        status, answer = _receive(server)  # whatever happens here: else it would be the answer to the next question
    if status == "skip":
        raise Skip(answer)
    assert status == "done", f"in a process of its own: {answer}"
    for number, ((sample, ours), first) in enumerate(zip(found, answer, strict=True)):
        for (what, one), (_, right) in zip(ours, first, strict=True):
            told = "after a call with other values of the same shapes {what} is another than in a process of its own"
            label = f"sample {number} {sample}: {told.format(what=what)}"
            assert (one is None) == (right is None), label
            if one is not None:
                agree(one, right, label, rtol=None, atol=None)


def _told(op, sample) -> list:
    """Return pairs (what, array or None) of the results of a call, and of its gradients."""
    results, grads = _outcome(op, sample)
    named = [(f"result {i}", to_numpy(y)) for i, y in enumerate(results)]
    return named + [
        (f"the gradient of argument {argument_of(op, sample, i)!r}", None if g is None else to_numpy(g))
        for i, g in enumerate(grads)
    ]


def _file_of(plugin):
    """Return the path of a file that is checked without being installed, None for what is installed."""
    return sys.modules[plugin.value].__file__ if plugin.distribution.endswith(".py") else None


# ---------------------------------------------------------------------------------------------------- the process


def _server():
    """Return the other process, started at the first call and ended with this one."""
    server = _servers.get(os.getpid())
    if server is None or server.poll() is not None:
        command = [sys.executable, "-c", PROGRAM, json.dumps(sys.path)]
        server = _servers[os.getpid()] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        atexit.register(_end, server)
    return server


def _end(server) -> None:
    """Let a process end: it does when there is nobody to ask it any more."""
    with contextlib.suppress(BrokenPipeError):
        server.stdin.close()
    server.wait()
    server.stdout.close()


def _send(stream, value) -> None:
    with contextlib.suppress(BrokenPipeError):  # it has died: there is no answer then, and that is told
        pickle.dump(value, stream)
        stream.flush()


def _receive(server):
    try:
        return pickle.load(server.stdout)
    except EOFError:
        return "error", f"it died (exit status {server.wait()})"
    except BaseException:  # half of an answer may be left, which would be taken for the next one
        server.kill()
        raise


def serve() -> None:
    """Answer what comes on standard input, until that is closed; see `earlier_calls`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that was started by hand decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what plugins print is no answer
    waiting: queue.Queue = queue.Queue()

    def read():
        with contextlib.suppress(EOFError):
            while True:
                waiting.put(pickle.load(sys.stdin.buffer))
        os._exit(0)  # also out of an op that does not end: nobody waits for it

    threading.Thread(target=read, daemon=True).start()
    while True:
        _send(answers, _answer(*waiting.get()))


def _answer(plugin_id, file, name, device, dtype) -> tuple:
    """Return ("done", what `_told` tells of each sample), or ("skip" or "error", why not)."""
    from .targets import load_file

    try:
        if file is not None:
            load_file(file)
        plugin = loader.plugins[plugin_id]
        loader.load(plugin)
        (op,) = (op for op in registry.ops.values() if op.qualname == name and op.provider is plugin)
        plugrad.empty(1, device=device)
    except Exception as error:  # made by the program itself, such as a record or a backend in a test
        return "skip", f"another process does not find it: {described(error)}"
    plugrad.set_default_dtype(getattr(plugrad, dtype.rpartition(".")[2]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return "done", [_told(op, sample) for sample in samples_of(op, device=device, seed=SEED)]
    except NotImplementedError as error:
        return "skip", str(error)
    except Exception as error:  # whatever is raised where it should work is told
        return "error", described(error)
