"""Functions that are called once, at the end of the walk backward in which they were queued."""

from __future__ import annotations

import threading

from plugrad.autograd import roots
from plugrad.graph.modes import mode, queued

_running = threading.local()


class ExecutionEngine:
    """What PyTorch's programs know as `Variable._execution_engine`."""

    def queue_callback(self, callback) -> None:
        """Have `callback()` called at the end of the walk backward that is in progress in this thread.

        One that queues another is followed by that. What a walk has queued that ends in an error is dropped. Raises
        RuntimeError outside of backward.

        >>> import plugrad as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> engine = torch.autograd.Variable._execution_engine
        >>> hook = x.register_hook(lambda g: engine.queue_callback(lambda: print("end")))
        >>> x.sum().backward()
        end
        """
        following = getattr(_running, "callbacks", None)
        if following is not None:
            following.append(callback)
            return
        state = _walk()
        if state is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        queued[:] = [entry for entry in queued if not entry[0].closed]
        queued.append((state.ended.args[0], callback))

    def is_checkpoint_valid(self) -> bool:
        """Return whether a backward may walk a graph of its own, as one with `use_reentrant=True` does.

        That is so outside of backward, and in a walk to all leaves: one to some inputs would not know of the others.

        >>> import plugrad as torch
        >>> torch.autograd.Variable._execution_engine.is_checkpoint_valid()
        True
        """
        state = _walk()
        return state is None or any(state.modes is roots._WALKS[create, False] for create in (False, True))


def _walk():
    """Return the innermost walk of this thread, None if there is none."""
    walks = [*map(id, roots._WALKS.values())]
    return next((state for state in mode.thread.states()[:0:-1] if id(state.modes) in walks), None)


def run_queued(flag) -> None:
    """Call what was queued in the walk with a flag, which has ended."""
    _running.callbacks = [callback for walk, callback in queued if walk is flag]
    queued[:] = [entry for entry in queued if entry[0] is not flag]
    try:
        for callback in _running.callbacks:  # which grows while callbacks queue others
            callback()
    finally:
        _running.callbacks = None
