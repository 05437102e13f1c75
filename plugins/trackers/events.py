"""The tracker "tensorboard": event files."""

from __future__ import annotations

from plugrad.extend import collect, hookimpl
from plugrad.trackers import Tracker
from plugrad.utils.tensorboard import SummaryWriter


class Events(Tracker):
    """Write event files, which TensorBoard shows."""

    name = "tensorboard"

    def __init__(self, folder):
        super().__init__(folder)
        self._writer = SummaryWriter(folder)

    def scalar(self, tag, value, step):
        """Write a number."""
        self._writer.add_scalar(tag, value, step)

    def histogram(self, tag, values, step):
        """Write a distribution."""
        self._writer.add_histogram(tag, values, step)

    def image(self, tag, image, step):
        """Write an image."""
        self._writer.add_image(tag, image, step, dataformats="HWC")

    def text(self, tag, text, step):
        """Write a text."""
        self._writer.add_text(tag, text, step)

    def hparams(self, values, metrics):
        """Write hyperparameters and metrics, in the folder itself."""
        self._writer.add_hparams(values, metrics, run_name=".")

    def flush(self):
        """Write what waits."""
        self._writer.flush()

    def close(self):
        """Close the file."""
        self._writer.close()


@hookimpl
def plugrad_trackers():
    return collect(Tracker, globals())
