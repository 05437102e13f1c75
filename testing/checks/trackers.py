"""Checks of trackers: what they offer to keep is kept without an error, step by step, and they end."""

from __future__ import annotations

import functools
import tempfile

import numpy

from plugrad.testing.checks import documents
from plugrad.trackers import Tracker

_CALLS = {
    "scalar": [("loss", 0.5, 0), ("loss", float("nan"), 1), ("a/b c", -1e300, None)],
    "histogram": [("weights", numpy.linspace(-1.0, 1.0, 50), 0), ("ones", numpy.ones(1, numpy.float32), None)],
    "image": [("grey", numpy.zeros((2, 3, 1), numpy.uint8), 0), ("colour", numpy.full((3, 2, 3), 255, numpy.uint8), 1)],
    "text": [("note", "a line\nand another, é", 0), ("empty", "", None)],
    "hparams": [({"lr": 0.1, "layers": 2, "name": "adam", "nesterov": True}, {"loss": 0.5}), ({}, {})],
}


def checks(tracker) -> dict:
    """Return the checks of a tracker by name, one for each kind of thing that it keeps."""
    cases = dict(documents.checks(tracker))
    for method, calls in _CALLS.items():
        if getattr(tracker, method) is not getattr(Tracker, method):
            cases[f"keeps {method}"] = functools.partial(_keeps, method, calls)
    return cases


def _keeps(method, calls, tracker, device):
    with tempfile.TemporaryDirectory() as folder:
        one = tracker(f"{folder}/runs/first")  # which is not there
        try:
            for arguments in calls:
                try:
                    result = getattr(one, method)(*arguments)
                except Exception as error:
                    raise AssertionError(
                        f"{tracker.name}.{method}{arguments} raises {type(error).__name__}: {error}; a training run "
                        "must not end because of a value that it keeps"
                    ) from error
                assert result is None, f"{tracker.name}.{method} returns {result!r}, and nobody takes it"
            one.flush()
        finally:
            one.close()
