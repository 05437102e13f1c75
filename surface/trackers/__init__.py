"""Trackers: what keeps the numbers, texts and images of a training run, by step. A kind of plugin.

Ours are "tensorboard", which writes event files, and "jsonl", a line of JSON for each value. A package adds one by an
entry point in the group `plugrad.trackers`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy

import plugrad
from plugrad import registry

__all__ = ["Run", "Tracker", "as_array", "get", "names", "track"]


class Tracker:
    """Base of trackers. A subclass has a name and those of the methods that it can offer.

    Attributes:
        name: what `track` takes.

    Args:
        folder: of the run, where a tracker that writes files puts them.

    >>> import plugrad
    >>> class Printed(plugrad.trackers.Tracker):
    ...     name = "printed"
    ...     def scalar(self, tag, value, step):
    ...         print(f"{step}: {tag} = {value}")
    >>> with plugrad.trackers.track("runs/first", Printed) as run:
    ...     run.scalar("loss", plugrad.tensor(0.5), 1)
    1: loss = 0.5
    """

    name: ClassVar[str]

    def __init__(self, folder):
        self.folder = folder

    def scalar(self, tag: str, value: float, step: int | None) -> None:
        """Keep a number."""
        raise NotImplementedError(f"the tracker {self.name!r} keeps no numbers")

    def histogram(self, tag: str, values: numpy.ndarray, step: int | None) -> None:
        """Keep the distribution of numbers."""
        raise NotImplementedError(f"the tracker {self.name!r} keeps no histograms")

    def image(self, tag: str, image: numpy.ndarray, step: int | None) -> None:
        """Keep an image: uint8, shape (height, width, channels)."""
        raise NotImplementedError(f"the tracker {self.name!r} keeps no images")

    def text(self, tag: str, text: str, step: int | None) -> None:
        """Keep a text."""
        raise NotImplementedError(f"the tracker {self.name!r} keeps no texts")

    def hparams(self, values: dict, metrics: dict) -> None:
        """Keep the hyperparameters of the run, and what they led to."""
        raise NotImplementedError(f"the tracker {self.name!r} keeps no hyperparameters")

    def flush(self) -> None:
        """Write what waits."""

    def close(self) -> None:
        """Write what waits, and end."""


class Run:
    """What `track` returns: hands everything on to its trackers, as plain numbers and arrays. A context manager.

    Attributes:
        trackers: those that it hands everything to.
    """

    def __init__(self, trackers):
        self.trackers = list(trackers)

    def scalar(self, tag, value, step=None) -> None:
        """Keep a number, or a tensor of one element."""
        array = as_array(value)
        if array.size != 1:
            raise ValueError(f"a scalar is one number; {tag!r} has {array.size}: use histogram, or take its mean")
        self._all("scalar", tag, float(array.reshape(())), step)

    def histogram(self, tag, values, step=None) -> None:
        """Keep the distribution of a tensor's elements."""
        array = as_array(values).reshape(-1)
        if not array.size:
            raise ValueError(f"a histogram of no numbers can't be kept: {tag!r} is empty")
        self._all("histogram", tag, array, step)

    def image(self, tag, image, step=None) -> None:
        """Keep an image: (channels, height, width) or (height, width), floats from 0 to 1 or uint8."""
        array = as_array(image)
        if array.ndim not in (2, 3) or array.ndim == 3 and array.shape[0] not in (1, 2, 3, 4):
            raise ValueError(f"an image has shape (channels, height, width) or (height, width), not {array.shape}")
        array = array[None] if array.ndim == 2 else array
        self._all("image", tag, as_pixels(array.transpose(1, 2, 0)), step)

    def text(self, tag, text, step=None) -> None:
        """Keep a text."""
        self._all("text", tag, str(text), step)

    def hparams(self, values, metrics=None) -> None:
        """Keep hyperparameters, {name: number, text or bool}, and the final metrics that they led to."""
        metrics = {name: as_array(value).item() for name, value in (metrics or {}).items()}
        self._all("hparams", {name: plain(name, value) for name, value in values.items()}, metrics)

    def flush(self) -> None:
        """Write what waits."""
        self._all("flush")

    def close(self) -> None:
        """Write what waits, and end."""
        self._all("close")

    def _all(self, method, *values) -> None:
        """Call all trackers, also those after one that raises; then raise the first error."""
        errors = []
        for tracker in self.trackers:
            try:
                getattr(tracker, method)(*values)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def track(folder, *trackers) -> Run:
    """Begin to keep what a training run says of itself.

    Args:
        folder: of the run, made where it is not there.
        *trackers: names of trackers, classes or instances; "tensorboard" if there are none.

    Raises ValueError for a name that no installed tracker has.

    >>> import plugrad, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with plugrad.trackers.track(folder, "jsonl") as run:
    ...         run.scalar("loss", 0.5, step=1)
    """
    begun = []
    for one in trackers or ("tensorboard",):
        form = get(one) if isinstance(one, str) else one
        begun.append(form(folder) if isinstance(form, type) else form)
    return Run(begun)


def names() -> list[str]:
    """Return the names of the installed trackers.

    >>> import plugrad
    >>> {"jsonl", "tensorboard"} <= {*plugrad.trackers.names()}
    True
    """
    return sorted(registry.names_in("trackers"))


def get(name: str) -> type[Tracker]:
    """Return the class of the tracker of that name; ValueError, naming the installed ones, if there is none."""
    try:
        return registry.resolve(f"trackers.{name}")
    except registry.AmbiguousNameError:
        raise
    except AttributeError:
        raise ValueError(f"there is no tracker named {name!r}; installed are {', '.join(names())}") from None


def as_array(values) -> numpy.ndarray:
    """Return a tensor, array or number as an array on the CPU.

    bfloat16 and float8 become float32.
    """
    if isinstance(values, (int, float, numpy.generic, numpy.ndarray)):
        array = numpy.asarray(values)
        if array.dtype.kind in "biuf":
            return array
    tensor = values if isinstance(values, plugrad.Tensor) else plugrad.as_tensor(values)
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype.name.startswith(("bfloat", "float8")) else tensor).numpy(force=True)


def as_pixels(image) -> numpy.ndarray:
    """Return an image of floats from 0 to 1, bools or uint8 as uint8.

    What lies beyond is cut off.
    """
    if image.dtype == numpy.uint8:
        return image
    return (image * numpy.float32(255)).clip(0, 255).astype(numpy.uint8)


def plain(name, value):
    """Return a hyperparameter as a bool, number or text; ValueError, naming it, for anything else."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (plugrad.Tensor, numpy.generic, numpy.ndarray)) and as_array(value).size == 1:
        return as_array(value).item()
    raise ValueError(f"a hyperparameter is a bool, a number or a text; {name!r} is of type {type(value).__name__}")


__getattr__, __dir__ = registry.lazy_names(globals(), "trackers")
