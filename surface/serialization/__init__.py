"""`save` and `load`: files in plugrad's own format, or in another one (`plugrad.formats`).

Our own is a zip file of one JSON description and one .npy member per storage. Tensors, NumPy arrays, numbers, strings
and the usual containers of them are written as data and need no pickle, so loading them can't run code, and any program
that reads JSON and .npy can read the file. Other objects (a whole Module) go into one pickle member, which `load` opens
only with `weights_only=False`, whatever the file says of itself. Tensors that share memory share it after loading. The
description lists the version of plugrad and the plugin distributions that were in use.

`load` knows a file's format by its content. A file that isn't what it should be is refused with a CheckpointError.
Content is protected by checksums, and sizes, offsets, dtypes and numbers are checked before they are used.
"""

from __future__ import annotations

import functools
import io
import operator
import os
import pickle
import typing
from collections.abc import Callable

from plugrad import absent, formats
from plugrad import device as Device
from plugrad.formats import CheckpointError
from plugrad.formats.durable import replacing
from plugrad.formats.durable import streamed as _streamed
from plugrad.serialization.background import raise_failed, save_async
from plugrad.serialization.byte_order import (
    LoadEndianness,
    get_default_load_endianness,
    set_default_load_endianness,
)
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
from plugrad.serialization.safe_globals import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from plugrad.serialization.writing import Writer

__all__ = [
    "CheckpointError", "LoadEndianness", "SourceChangeWarning", "add_safe_globals",
    "check_module_version_greater_or_equal", "clear_safe_globals", "default_restore_location", "describe",
    "get_default_load_endianness", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load", "location_tag",
    "mkdtemp", "normalize_storage_type", "safe_globals", "save", "save_async", "set_default_load_endianness",
    "storage_to_tensor_type", "validate_cuda_device",
]  # fmt: skip
FILE_LIKE = FileLike = str | os.PathLike | typing.IO[bytes]
DEFAULT_PROTOCOL = 2  # of pickles in files of PyTorch's
MAP_LOCATION = Callable | Device | str | dict[str, str] | None
__getattr__ = absent.attributes("serialization")


def save(
    obj,
    f,
    pickle_module=pickle,
    pickle_protocol=4,
    _use_new_zipfile_serialization=True,
    _disable_byteorder_record=False,
    *,
    format=None,
    max_shard_size=None,
) -> None:
    """Write an object to a file: `save(model.state_dict(), "model.pt")`.

    Args:
        obj: tensors, arrays, numbers, strings and containers of them, or anything that can be pickled.
        f: a path, written to a temporary file first so that a failure leaves the old one as it was, or an open file.
        pickle_module, pickle_protocol: for objects that are not plain data.
        _use_new_zipfile_serialization, _disable_byteorder_record: PyTorch's, without meaning here.
        format: "torch" writes a file that PyTorch loads; "safetensors" and "npz" hold dicts of tensors; others come
            from plugins, see `plugrad.formats`. None is plugrad's own.
        max_shard_size: bytes, or a text such as "5GB": with format="safetensors", what is larger goes into several
            files `NAME-00001-of-00003.safetensors` and an index of them, `NAME.safetensors.index.json`.

    Raises RuntimeError for tensors that were computed from others inside pickled objects, TypeError for what a format
    can't hold, ValueError for a format that is not there, and what pickle raises.

    >>> import io, plugrad as torch
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    raise_failed()
    if pickle_protocol is not None:
        operator.index(pickle_protocol)  # which refuses what is no int
    if max_shard_size is not None:
        if hasattr(f, "write"):
            raise ValueError("max_shard_size writes several files: pass a path, not an open file")
        formats.get(format or "plugrad").save_shards(obj, os.fspath(f), max_shard_size)
        return
    if format is None or format == "plugrad":
        writer = Writer(pickle_module, pickle_protocol)
        write = functools.partial(writer.write, header=writer.header(obj))
    else:
        write = functools.partial(formats.get(format).save, obj)
    if hasattr(f, "write"):
        write(_streamed(f))
        return
    try:
        path = os.fspath(f)
    except TypeError:
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, not {type(f).__name__}"
        ) from None
    with replacing(path) as file:
        write(file)


def load(
    f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, verify=None, format=None,
    **pickle_load_args,
):  # fmt: skip
    """Return what `save` wrote, or PyTorch's, or what a file of another format holds.

    Args:
        f: a path or an open file. Its format is known by its content: our own, PyTorch's zip files and the stream that
            it wrote before 1.6, safetensors (also the index of several such files), .npz, and those of plugins.
        map_location: where tensors go: a device, a dict from saved to wanted devices, or a function of (tensor on the
            CPU, name of the saved device) that returns a tensor, or None for the saved device.
        pickle_module: what unpickles instead of `pickle`.
        weights_only: True, the default, unpickles nothing but what `serialization.add_safe_globals` was given; False
            restores arbitrary objects, which can run any code: only for files that you trust.
        mmap: map the file's data into memory instead of reading it; needs a path. Writes don't reach the file. Its
            checksums are not looked at, since that would read all of it, unless `verify`.
        verify: whether to compare the file's checksums; None does where it is read, and not where it is mapped.
        format: name of the format, for those that do not recognise their files.
        pickle_load_args: encoding, of strings that Python 2 saved ("utf-8"; "bytes" leaves them as they are), and for
            files that you trust further arguments of the unpickler.

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
    further = {*pickle_load_args} - {"encoding"}
    if further and not trusted:
        raise TypeError(f"load() got an unexpected keyword argument {min(further)!r}: only weights_only=False takes it")
    (pickle_module or pickle).Unpickler(io.BytesIO(), **pickle_load_args)  # refuses arguments that it doesn't have
    options = formats.Options(map_location, bool(mmap), verify, trusted, pickle_module, pickle_load_args)
    with formats.opened(f) as source:
        return _format_of(source, format).load(source, options)


def describe(f, format=None) -> dict:
    """Return what a checkpoint says of itself, without loading it.

    "tensors" is what and where each tensor is. Our own format says more: "plugrad" and "plugins" are versions,
    "objects" the pickled classes.

    >>> import io, plugrad as torch
    >>> file = io.BytesIO()
    >>> torch.save([torch.ones(2)], file)
    >>> torch.serialization.describe(file)["objects"]
    []
    """
    with formats.opened(f) as source:
        return _format_of(source, format).describe(source)


def _format_of(source, name):
    return formats.recognised(source) if name is None else formats.get(name)
