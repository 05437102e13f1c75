"""Walks backward in walks backward, so many that a thread has no frames left for one more."""

from __future__ import annotations

import threading

from plugrad.graph.modes import mode, region
from plugrad.interrupts import held_back


def in_fresh_thread(function, *args, **kwargs):
    """Call a function in a thread of its own, where there are as many frames left as in the main one.

    It has the modes of the thread that waits for it, in which Ctrl-C is held back meanwhile: nobody else ends it.
    """
    outcome, modes = [], mode.thread.all()

    def run():
        with region(**modes):
            try:
                outcome.append((function(*args, **kwargs), None))
            except BaseException as error:
                outcome.append((None, error))

    thread = threading.Thread(target=run, name="plugrad: backward in backward")
    with held_back():
        thread.start()
        thread.join()
    result, error = outcome.pop()
    if error is not None:
        raise error
    return result
