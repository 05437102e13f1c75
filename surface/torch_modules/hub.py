"""`torch.hub`: files of pretrained models, and models of a local folder that has a `hubconf.py`."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import pathlib
import re
import shutil
import sys
import tempfile
import urllib.request
from urllib.parse import urlparse

import plugrad

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # in the name of a file that says its sum

_dir = None
_list = list


class _NoProgress:
    """What programs get for `torch.hub.tqdm` where the package tqdm is not installed: it shows nothing."""

    def __init__(self, *args, **options):
        self.n = 0

    def update(self, n):
        """Count."""
        self.n += n

    def __enter__(self):
        return self

    def __exit__(self, *error):
        """End."""

    close = set_description = __exit__


def __getattr__(name):
    if name != "tqdm":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("tqdm").tqdm if importlib.util.find_spec("tqdm") else _NoProgress


def get_dir() -> str:
    """Return the folder of downloaded files: `$TORCH_HOME/hub`.

    By default `~/.cache/torch/hub`.
    """
    if _dir is not None:
        return _dir
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(os.path.expanduser(os.environ.get("TORCH_HOME", f"{cache}/torch")), "hub")


def _get_torch_home() -> str:
    return os.path.dirname(get_dir())


def set_dir(d) -> None:
    """Set the folder of files that were downloaded."""
    global _dir
    _dir = os.path.expanduser(d)


def _hubconf(folder, source):
    """Return the module `hubconf` of a local folder."""
    if not isinstance(folder, (str, os.PathLike)):
        raise TypeError(f"torch.hub: the folder is a path, not {type(folder).__name__}: write a string")
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise NotImplementedError(
            f'torch.hub downloads no code here: clone {folder}, and pass its folder with source="local"'
        )
    path = pathlib.Path(folder) / "hubconf.py"
    if not path.is_file():
        raise FileNotFoundError(f"there is no hubconf.py in {os.fspath(folder)!r}")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.fspath(folder))  # while it is imported: its own modules are beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(os.fspath(folder))
    absent = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
    if absent:
        raise RuntimeError(f"Missing dependencies: {', '.join(absent)}")
    return module


def _entry(module, name):
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    entry = getattr(module, name, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {name} in hubconf; it has {', '.join(_names(module)) or 'none'}")
    return entry


def _names(module) -> _list:
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def load(repo_or_dir, model, *args, source="github", trust_repo=None, force_reload=False, verbose=True,
         skip_validation=False, **kwargs):  # fmt: skip
    """Return what the entry `model` of a folder's `hubconf.py` returns.

    Args:
        repo_or_dir: the folder.
        model: name of a function there, which gets `args` and `kwargs`.
        source: "local"; "github" raises NotImplementedError: code that would be run is not downloaded.
    """
    return _entry(_hubconf(repo_or_dir, source), model)(*args, **kwargs)


def list(github, force_reload=False, skip_validation=False, trust_repo=None, verbose=True, *, source="github"):
    """Return the names of the entries of a folder's `hubconf.py`.

    The arguments are those of `load`.
    """
    return _names(_hubconf(github, source))


def help(github, model, force_reload=False, skip_validation=False, trust_repo=None, *, source="github"):
    """Return the docstring of an entry; the arguments are those of `load`."""
    return _entry(_hubconf(github, source), model).__doc__


def download_url_to_file(url, dst, hash_prefix=None, progress=True) -> None:
    """Download a file; it is there whole, or not at all.

    Args:
        url: of the file.
        dst: where it is put.
        hash_prefix: the first digits of the SHA-256 sum that it must have.
        progress: whether to show a bar; one is shown on a terminal only.

    Raises RuntimeError where the sum is another one, and what `urllib` raises.
    """
    folder = os.path.dirname(os.path.expanduser(dst)) or "."
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".partial", delete=False) as file:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers={"User-Agent": "plugrad.hub"})) as source:
                with _watched(source, os.path.basename(dst), progress) as content:
                    shutil.copyfileobj(content, file)
            file.flush()
            _check_sum(file.name, hash_prefix)
            os.replace(file.name, os.path.expanduser(dst))
        except BaseException:
            os.unlink(file.name)
            raise


def _watched(source, name, progress):
    """Return a context that gives a file to read from, with a bar on stderr if that is a terminal."""
    if not progress or not sys.stderr.isatty():
        return contextlib.nullcontext(source)
    from rich.console import Console
    from rich.progress import wrap_file

    size = int(source.headers.get("Content-Length") or 0)
    return wrap_file(source, total=size, description=name, console=Console(stderr=True), transient=True)


def _check_sum(path, prefix) -> None:
    with open(path, "rb") as file:
        digits = hashlib.file_digest(file, "sha256").hexdigest()
    if not digits.startswith(prefix or ""):
        raise RuntimeError(f'invalid hash value (expected "{prefix}", got "{digits}")')


def load_state_dict_from_url(
    url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None, weights_only=True
):
    """Load the file of a URL, which is downloaded unless it is in its folder already.

    Args:
        url: of the file; its name there is the last part, unless `file_name` says another.
        model_dir: the folder, by default `checkpoints` in `get_dir()`.
        map_location: as `torch.load` takes it.
        weights_only: False runs the code that the file holds. PyTorch's default is False; nothing from the network runs
            here unless the program says so.
        check_hash: whether the file's SHA-256 sum begins as its name says: `resnet18-f37072fd.pth`.
    """
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(model_dir or os.path.join(get_dir(), "checkpoints"), name)
    if not os.path.exists(path):
        digits = HASH_REGEX.search(name) if check_hash else None
        os.makedirs(os.path.dirname(path), exist_ok=True)
        download_url_to_file(url, path, digits and digits[1], progress)
    return plugrad.load(path, map_location=map_location, weights_only=weights_only)


load_url = load_state_dict_from_url  # its name in `torch.utils.model_zoo`
