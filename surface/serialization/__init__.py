"""`save` and `load`: a zip file of one JSON description and one .npy member per storage.

Tensors, NumPy arrays, numbers, strings and the usual containers of them are written as data and need no pickle, so
loading them can't run code, and any program that reads JSON and .npy can read the file. Other objects (a whole Module)
go into one pickle member, which `load` opens only with `weights_only=False`, whatever the file says of itself. Tensors
that share memory share it after loading. The description lists the version of plugrad and the plugin distributions
that were in use.

A file that isn't what `save` wrote is refused with a CheckpointError. Content is protected by checksums, and sizes,
offsets, dtypes and numbers are checked before they are used (`description`, `archive`).
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import typing
from collections.abc import Callable

from plugrad import absent
from plugrad import device as Device
from plugrad.serialization.archive import opened
from plugrad.serialization.description import CheckpointError
from plugrad.serialization.places import (
    SourceChangeWarning,
    check_module_version_greater_or_equal,
    default_restore_location,
    get_unsafe_globals_in_checkpoint,
    location_tag,
    mkdtemp,
    normalize_storage_type,
    storage_to_tensor_type,
    validate_cuda_device,
)
from plugrad.serialization.reading import Reader
from plugrad.serialization.safe_globals import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from plugrad.serialization.safe_globals import unpickler as trusted_unpickler
from plugrad.serialization.writing import Writer

__all__ = [
    "CheckpointError", "SourceChangeWarning", "add_safe_globals", "check_module_version_greater_or_equal",
    "clear_safe_globals", "default_restore_location", "describe", "get_safe_globals",
    "get_unsafe_globals_in_checkpoint", "load", "location_tag", "mkdtemp", "normalize_storage_type", "safe_globals",
    "save", "storage_to_tensor_type", "validate_cuda_device",
]  # fmt: skip
FILE_LIKE = FileLike = str | os.PathLike | typing.IO[bytes]
MAP_LOCATION = Callable | Device | str | dict[str, str] | None
__getattr__ = absent.attributes("serialization")


def save(
    obj,
    f,
    pickle_module=pickle,
    pickle_protocol=4,
    _use_new_zipfile_serialization=True,
    _disable_byteorder_record=False,
) -> None:
    """Write an object to a file: `save(model.state_dict(), "model.pt")`.

    Args:
        obj: tensors, arrays, numbers, strings and containers of them, or anything that can be pickled.
        f: a path, written to a temporary file first so that a failure leaves the old one as it was, or an open file.
        pickle_module, pickle_protocol: for objects that are not plain data.
        _use_new_zipfile_serialization, _disable_byteorder_record: PyTorch's, without meaning here.

    Raises RuntimeError for tensors that were computed from others inside pickled objects, and what pickle raises.

    >>> import io, plugrad as torch
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    writer = Writer(pickle_module, pickle_protocol)
    header = writer.header(obj)
    if hasattr(f, "write"):
        writer.write(f, header)
        return
    try:
        path = os.fspath(f)
    except TypeError:
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, not {type(f).__name__}"
        ) from None
    path = os.path.realpath(path)  # through a link PyTorch writes to what it leads to
    random = os.urandom(6).hex()
    temporary = f"{path}.{random}.tmp" if isinstance(path, str) else b"%s.%s.tmp" % (path, random.encode())
    try:
        with open(temporary, "xb") as file:
            writer.write(file, header)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Return what `save` wrote.

    Args:
        f: a path or an open file.
        map_location: where tensors go: a device, a dict from saved to wanted devices, or a function of (tensor on the
            CPU, name of the saved device) that returns a tensor, or None for the saved device.
        pickle_module: what unpickles instead of `pickle`.
        weights_only: True, the default, unpickles nothing but what `serialization.add_safe_globals` was given; False
            restores arbitrary objects, which can run any code: only for files that you trust.
        mmap: map the file's data into memory instead of reading it; needs a path. Writes don't reach the file. Its
            checksums are not looked at, since that would read all of it.
        pickle_load_args: further arguments of the unpickler, such as encoding="latin1".

    Raises CheckpointError, which is both a pickle.UnpicklingError and a RuntimeError, for files that hold pickled
    objects when `weights_only`, are not a checkpoint, are damaged, or hold tensors of a device that is not there.
    """
    if not (weights_only is None or isinstance(weights_only, bool)):
        raise TypeError(f"weights_only must be True, False or None, not {weights_only!r}")
    trusted = weights_only is False
    if not trusted and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified: leave it out")
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a string filename in order to use mmap argument")
    unpickler = (pickle_module or pickle).Unpickler
    unpickler(io.BytesIO(), **pickle_load_args)  # refuses arguments that it doesn't have, in files without pickles too
    with opened(f) as archive:
        unpickles = unpickler if trusted else trusted_unpickler()
        return Reader(archive, mmap, map_location, unpickles, pickle_load_args).root()


def describe(f) -> dict:
    """Return what a checkpoint says of itself.

    "plugrad" and "plugins" are versions, "objects" the pickled classes, "tensors" what and where each is.

    >>> import io, plugrad as torch
    >>> file = io.BytesIO()
    >>> torch.save([torch.ones(2)], file)
    >>> torch.serialization.describe(file)["objects"]
    []
    """
    with opened(f) as archive:
        return {name: archive.header[name] for name in ("plugrad", "plugins", "objects", "tensors")}
