"""The tracker "jsonl": a line of JSON for each value, which any program reads."""

from __future__ import annotations

import json
import math
import os
import time

import numpy

from plugrad.extend import collect, hookimpl
from plugrad.trackers import Tracker


class JsonLines(Tracker):
    """Write lines of JSON to `metrics.jsonl` in the run's folder.

    Each has "time" in seconds since the epoch, "kind", "tag", "step" and "value". What is not finite is a text,
    "nan", "inf" or "-inf", which JSON has no number for. Images are not kept.
    """

    name = "jsonl"

    def __init__(self, folder):
        super().__init__(folder)
        os.makedirs(folder, exist_ok=True)
        self._file = open(os.path.join(folder, "metrics.jsonl"), "a", encoding="utf-8", buffering=1)  # line by line

    def _line(self, kind, tag, step, value):
        line = {"time": time.time(), "kind": kind, "tag": tag, "step": step, "value": value}
        self._file.write(f"{json.dumps(line, allow_nan=False)}\n")

    def scalar(self, tag, value, step):
        """Write a number."""
        self._line("scalar", tag, step, _number(value))

    def histogram(self, tag, values, step):
        """Write how many of the finite values lie in each of 30 parts of their range, and its bounds."""
        there = values[numpy.isfinite(values)]
        counts, bounds = numpy.histogram(there, 30)
        value = {"counts": counts.tolist(), "bounds": bounds.tolist(), "not_finite": values.size - there.size}
        self._line("histogram", tag, step, value)

    def text(self, tag, text, step):
        """Write a text."""
        self._line("text", tag, step, text)

    def hparams(self, values, metrics):
        """Write hyperparameters and metrics."""
        both = ({name: _number(value) for name, value in group.items()} for group in (values, metrics))
        self._line("hparams", "", None, dict(zip(("values", "metrics"), both)))

    def flush(self):
        """Bring the lines to the file."""
        self._file.flush()

    def close(self):
        """Close the file."""
        self._file.close()


def _number(value):
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@hookimpl
def plugrad_trackers():
    return collect(Tracker, globals())
