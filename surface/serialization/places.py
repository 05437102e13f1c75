"""Smaller things that programs take from `torch.serialization`: where storages are, and versions of modules."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import warnings

import plugrad
from plugrad.formats import opened, recognised
from plugrad.serialization.safe_globals import get_safe_globals


class SourceChangeWarning(Warning):
    """PyTorch's warning of pickled classes with other source code; never given here."""


def location_tag(storage) -> str:
    """Return where a storage is, as files say it: "cpu", "cuda:0"..."""
    if not plugrad.is_storage(storage):
        raise RuntimeError(f"don't know how to determine data location of {plugrad.typename(storage)}")
    return str(storage.device)


def default_restore_location(storage, location):
    """Return a storage moved to a device that a file names.

    RuntimeError if it can't be there.
    """
    try:
        return storage.to(device=str(location))
    except (RuntimeError, TypeError) as error:
        raise RuntimeError(
            f"don't know how to restore data location of {plugrad.typename(storage)} (tagged with {location}): {error}"
        ) from error


def validate_cuda_device(location) -> int:
    """Return the number of a CUDA device; RuntimeError if it is not there."""
    if not plugrad.cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
            "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your "
            "storages to the CPU."
        )
    index = plugrad.device(location).index or 0
    if index >= plugrad.cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is "
            f"{plugrad.cuda.device_count()}. Please use torch.load with map_location to map your storages to an "
            "existing device."
        )
    return index


def normalize_storage_type(storage_type):
    """Return the CPU's class of storages for a name, also one of CUDA's.

    `torch.FloatStorage` for `torch.cuda.FloatStorage`.
    """
    return getattr(plugrad, storage_type.__name__)


def storage_to_tensor_type(storage):
    """Return the class such as `torch.FloatTensor` for a storage of elements."""
    home = plugrad.cuda if storage.is_cuda else plugrad
    return getattr(home, storage.pickle_storage_type().replace("Storage", "Tensor"))


def check_module_version_greater_or_equal(module, req_version_tuple, error_if_malformed=True) -> bool:
    """Whether a module's version is at least a tuple of numbers.

    Raises RuntimeError for a version that is none, or warns where that is not an error.
    """
    texts = module.__version__.split(".")
    try:
        version = tuple(type(wanted)(text) for wanted, text in zip(req_version_tuple, texts))
    except ValueError as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared"
        )
        if error_if_malformed:
            raise RuntimeError(f"{message} with tuple {req_version_tuple}") from error
        warnings.warn(f"{message} with tuple {req_version_tuple}, but continuing assuming that it fits", stacklevel=2)
        return True
    return version >= tuple(req_version_tuple)


def get_unsafe_globals_in_checkpoint(f) -> list[str]:
    """Return the classes of pickled objects in a file that are not trusted.

    It is what the file says of itself: `load` looks at each name again.
    """
    with opened(f) as source:
        listed = recognised(source).describe(source).get("objects", ())
    known = get_safe_globals()
    trusted = {one[1] if isinstance(one, tuple) else f"{one.__module__}.{one.__qualname__}" for one in known}
    return [name for name in listed if name not in trusted]


@contextlib.contextmanager
def mkdtemp():
    """Yield the path of a temporary folder, which is removed afterwards."""
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)
